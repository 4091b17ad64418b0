//! Which of the offered options does a text pick?
//!
//! Exactly one ordinal among words that carry no other meaning. An unknown word
//! makes it no pick: rather a question too many than the wrong answer.

use crate::router::reading::words::tokens;

/// Words that may stand around the ordinal.
const FILLERS: &[&str] = &[
    "a",
    "an",
    "the",
    "one",
    "that",
    "this",
    "it",
    "is",
    "just",
    "go",
    "going",
    "with",
    "for",
    "take",
    "pick",
    "choose",
    "select",
    "use",
    "read",
    "open",
    "show",
    "me",
    "please",
    "pls",
    "i",
    "want",
    "need",
    "like",
    "d",
    "ll",
    "lets",
    "let",
    "s",
    "us",
    "ok",
    "okay",
    "yes",
    "yeah",
    "sure",
    "then",
    "number",
    "num",
    "option",
    "choice",
    "item",
    "email",
    "mail",
    "message",
    "result",
    "entry",
    "tell",
    "more",
    "about",
    "detail",
    "details",
    "explain",
    "from",
    "your",
    "list",
    "of",
    "those",
    "these",
    "news",
    "article",
    "story",
    "link",
    "on",
    "into",
    "to",
    "can",
    "you",
    "what",
    "do",
    "know",
    "give",
    "dig",
    "expand",
    "elaborate",
    "summarize",
    "summarise",
    "summary",
    "headline",
];

const ORDINALS: &[&str] = &[
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
];

const CARDINALS: &[&str] =
    &["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

/// Words before a cardinal that make it an ordinal.
const NUMBERED: &[&str] = &["option", "number", "num", "item", "choice"];

/// The option, from 0, that `text` picks out of `count`; `None` when it picks
/// none or more than one.
pub fn pick(text: &str, count: usize) -> Option<usize> {
    if text.len() > 400 {
        return None;
    }
    let words = words(text);
    let is_polite = |w: &String| matches!(w.as_str(), "please" | "pls" | "yes" | "ok" | "okay");
    let lone: Vec<&String> = words.iter().filter(|w| !is_polite(w)).collect();
    if let [only] = lone.as_slice()
        && let Some(index) = CARDINALS.iter().position(|c| c == only)
    {
        return (index < count).then_some(index);
    }

    let mut found: Option<usize> = None;
    let mut previous = "";
    let mut index = 0;
    while let Some(word) = words.get(index) {
        let next = words.get(index + 1).map_or("", String::as_str);
        match ordinal(word, previous, count) {
            Some(_) if found.is_some() => return None,
            Some(_) if next == "more" && !is_more_about(&words, index + 2) => return None,
            Some(value) => found = Some(value),
            None if !FILLERS.contains(&word.as_str()) => return None,
            // "what is 2" asks; "what about 2" picks.
            None if word == "what" && matches!(next, "is" | "s") => return None,
            None => {}
        }
        previous = word;
        index += 1;
    }
    found.filter(|value| (1..=count).contains(value)).map(|value| value - 1)
}

/// "3 more" is a quantity, "3 more details" is the third and more of it.
fn is_more_about(words: &[String], at: usize) -> bool {
    words.get(at).is_some_and(|w| matches!(w.as_str(), "details" | "detail" | "about" | "on"))
}

fn ordinal(word: &str, previous: &str, count: usize) -> Option<usize> {
    if matches!(word, "last" | "bottom") {
        return Some(count);
    }
    if let Some(index) = ORDINALS.iter().position(|o| *o == word) {
        return Some(index + 1);
    }
    if NUMBERED.contains(&previous)
        && let Some(index) = CARDINALS.iter().position(|c| *c == word)
    {
        return Some(index + 1);
    }
    let digits = ["st", "nd", "rd", "th"]
        .iter()
        .find_map(|suffix| word.strip_suffix(suffix))
        .unwrap_or(word);
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    // Too large a number is out of range like any other.
    is_number.then(|| digits.parse().unwrap_or(usize::MAX))
}

/// Lower-case words, apostrophes and hyphens apart, a lone ordinal suffix put
/// back on its number, "no." read as number.
fn words(text: &str) -> Vec<String> {
    let tokens = tokens(text);
    let mut words: Vec<String> = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        if !token.is_word {
            // Letters and symbols of any other kind may carry meaning.
            if token.text.chars().any(|c| !c.is_ascii_punctuation()) && !is_mark(&token.text) {
                words.push(token.text.clone().into_owned());
            }
            continue;
        }
        for part in token.text.split(['\'', '-']) {
            let is_suffix = matches!(part, "st" | "nd" | "rd" | "th");
            if let Some(last) = words.last_mut()
                && is_suffix
                && last.bytes().all(|b| b.is_ascii_digit())
            {
                last.push_str(part);
                continue;
            }
            let has_dot = tokens.get(index + 1).is_some_and(|t| t.text == ".");
            let word = if part == "no" && has_dot { "number" } else { part };
            words.push(word.to_owned());
        }
    }
    words
}

fn is_mark(text: &str) -> bool {
    matches!(text, "–" | "—" | "…" | "’" | "‘" | "“" | "”" | "🙂" | "🙏" | "👍")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_pick_is_always_one_of_the_options(text in "(?s).{0,100}", count in 0_usize..30) {
            if let Some(index) = pick(&text, count) {
                prop_assert!(index < count);
            }
        }
    }
}
