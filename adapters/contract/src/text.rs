//! Counting and cutting text by what a reader sees as one character; writing
//! instants.

use std::time::{SystemTime, UNIX_EPOCH};

use unicode_segmentation::UnicodeSegmentation;

/// A text with its middle left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadAndTail {
    /// The beginning.
    pub head: String,
    /// How many characters (Unicode scalar values) were left out.
    pub hidden_chars: usize,
    /// The end.
    pub tail: String,
}

/// How a platform counts text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Unicode scalar values.
    Chars,
    /// UTF-16 code units.
    Utf16,
}

impl Unit {
    /// How long `text` is.
    pub fn len(self, text: &str) -> usize {
        match self {
            Self::Chars => text.chars().count(),
            Self::Utf16 => text.encode_utf16().count(),
        }
    }
}

/// Cuts `text` to at most `limit` characters (Unicode scalar values) by leaving
/// out the middle; `None` when all of it fits. Never cuts inside a grapheme
/// cluster: a cluster that doesn't fit is left out as a whole.
pub fn head_and_tail(text: &str, limit: usize) -> Option<HeadAndTail> {
    head_and_tail_in(Unit::Chars, text, limit)
}

/// The same, with a limit in `unit`.
pub fn head_and_tail_in(unit: Unit, text: &str, limit: usize) -> Option<HeadAndTail> {
    if unit.len(text) <= limit {
        return None;
    }
    let head = take(unit, text.graphemes(true), limit.div_ceil(2));
    let rest = text.get(head.len()..).unwrap_or_default();
    let kept = take(unit, rest.graphemes(true).rev(), limit / 2).len();
    let tail = rest.get(rest.len() - kept..).unwrap_or_default().to_owned();
    let hidden_chars = text.chars().count() - head.chars().count() - tail.chars().count();
    Some(HeadAndTail { head, hidden_chars, tail })
}

/// The beginning of `text`, at most `limit` characters including the ellipsis
/// that marks a cut.
pub fn shorten(text: &str, limit: usize) -> String {
    shorten_in(Unit::Chars, text, limit)
}

/// The same, with a limit in `unit`.
pub fn shorten_in(unit: Unit, text: &str, limit: usize) -> String {
    if unit.len(text) <= limit {
        return text.to_owned();
    }
    let mut short = take(unit, text.graphemes(true), limit.saturating_sub(1));
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

/// `text` in pieces of at most `limit` in `unit`, cut at the end of a line or a
/// word where one is near, never inside a grapheme cluster (one that is longer
/// than a whole piece is cut between its characters). Together the pieces are
/// the text.
pub fn split_in(unit: Unit, text: &str, limit: usize) -> Vec<String> {
    let limit = limit.max(2);
    let mut pieces = Vec::new();
    let mut rest = text;
    while unit.len(rest) > limit {
        let fits = take(unit, rest.graphemes(true), limit).len();
        let fits = if fits == 0 { take_chars(unit, rest, limit) } else { fits };
        let whole = rest.get(..fits).unwrap_or_default();
        // Not so early that a piece is nearly empty.
        let near = |end: &usize| *end > fits / 2;
        let at = whole
            .rfind('\n')
            .or_else(|| whole.rfind(' ').filter(near))
            .map(|at| at + 1)
            .filter(near)
            .unwrap_or(fits);
        let (piece, after) = rest.split_at(at);
        pieces.push(piece.to_owned());
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(rest.to_owned());
    }
    pieces
}

fn take_chars(unit: Unit, text: &str, limit: usize) -> usize {
    let mut used = 0;
    text.char_indices()
        .find(|(_, c)| {
            used += match unit {
                Unit::Chars => 1,
                Unit::Utf16 => c.len_utf16(),
            };
            used > limit
        })
        .map_or(text.len(), |(at, _)| at)
}

/// `2026-11-30 20:15:00 UTC`, by the usual arithmetic of days since 1970.
pub fn utc(at: SystemTime) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// `4,812`: a number as it is read.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// As many of the clusters as fit, from the beginning of what is given.
fn take<'a>(unit: Unit, graphemes: impl Iterator<Item = &'a str>, budget: usize) -> String {
    let mut left = budget;
    graphemes
        .take_while(|g| {
            let length = unit.len(g);
            let fits = length <= left;
            left = left.saturating_sub(length);
            fits
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_fits_is_left_alone() {
        assert_eq!(head_and_tail("abc", 3), None);
        assert_eq!(shorten("abc", 3), "abc");
    }

    #[test]
    fn the_middle_goes_and_is_counted() {
        let cut = head_and_tail("abcdefghij", 4).unwrap();
        assert_eq!((cut.head.as_str(), cut.hidden_chars, cut.tail.as_str()), ("ab", 6, "ij"));
    }

    #[test]
    fn no_cluster_is_ever_broken() {
        let family = "👨‍👩‍👧‍👦".repeat(50);
        for limit in 0..60 {
            let cut = head_and_tail(&family, limit).unwrap();
            for part in [&cut.head, &cut.tail] {
                assert!(part.graphemes(true).all(|g| g == "👨‍👩‍👧‍👦"), "{limit}");
            }
            let kept = cut.head.chars().count() + cut.tail.chars().count();
            assert!(kept <= limit);
            assert_eq!(kept + cut.hidden_chars, family.chars().count());
        }
    }

    #[test]
    fn instants_are_written_in_utc() {
        let at = |seconds| utc(UNIX_EPOCH + std::time::Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(at(1_709_164_799), "2024-02-28 23:59:59 UTC");
        assert_eq!(at(1_709_164_800), "2024-02-29 00:00:00 UTC");
        assert_eq!(at(1_796_076_900), "2026-11-30 22:15:00 UTC");
    }

    #[test]
    fn pieces_are_the_text_again_and_none_is_too_long() {
        let text = format!("{}\n{} {}", "🎩".repeat(30), "word ".repeat(20), "👨‍👩‍👧‍👦".repeat(9));
        for unit in [Unit::Chars, Unit::Utf16] {
            for limit in 2..80 {
                let pieces = split_in(unit, &text, limit);
                assert_eq!(pieces.concat(), text);
                assert!(pieces.iter().all(|p| !p.is_empty() && unit.len(p) <= limit), "{limit}");
            }
        }
        assert_eq!(split_in(Unit::Chars, "one two three", 8), ["one two ", "three"]);
    }

    #[test]
    fn a_limit_in_utf_16_counts_a_hat_twice() {
        let hats = "🎩".repeat(10);
        assert_eq!(head_and_tail_in(Unit::Utf16, &hats, 20), None);
        let cut = head_and_tail_in(Unit::Utf16, &hats, 8).unwrap();
        assert_eq!((cut.head.as_str(), cut.hidden_chars, cut.tail.as_str()), ("🎩🎩", 6, "🎩🎩"));
        assert_eq!(shorten_in(Unit::Utf16, &hats, 5), "🎩🎩…");
    }
}
