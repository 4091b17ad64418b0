//! Counting and cutting text by what a reader sees as one character.

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

/// Cuts `text` to about `limit` characters (Unicode scalar values) by leaving
/// out the middle; `None` when all of it fits. Never cuts inside a grapheme
/// cluster: a cluster that doesn't fit is left out as a whole.
pub fn head_and_tail(text: &str, limit: usize) -> Option<HeadAndTail> {
    let total = text.chars().count();
    if total <= limit {
        return None;
    }
    let head_budget = limit.div_ceil(2);
    let head = take(text.graphemes(true), head_budget);
    let rest = text.get(head.len()..).unwrap_or_default();
    let reversed: Vec<&str> = {
        let mut budget = limit / 2;
        rest.graphemes(true)
            .rev()
            .take_while(|g| {
                let chars = g.chars().count();
                let fits = chars <= budget;
                budget = budget.saturating_sub(chars);
                fits
            })
            .collect()
    };
    let tail: String = reversed.into_iter().rev().collect();
    let hidden_chars = total - head.chars().count() - tail.chars().count();
    Some(HeadAndTail { head, hidden_chars, tail })
}

/// The beginning of `text`, at most `limit` characters including the ellipsis
/// that marks a cut.
pub fn shorten(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let mut short = take(text.graphemes(true), limit.saturating_sub(1));
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

fn take<'a>(graphemes: impl Iterator<Item = &'a str>, budget: usize) -> String {
    let mut left = budget;
    graphemes
        .take_while(|g| {
            let chars = g.chars().count();
            let fits = chars <= left;
            left = left.saturating_sub(chars);
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
}
