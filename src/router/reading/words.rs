//! Text as words and marks, with the bytes where each stands.

use std::borrow::Cow;
use std::ops::Range;

use unicode_normalization::UnicodeNormalization;

/// One word or one mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token<'a> {
    /// Lower-case, of normal width, with straight apostrophes. A word holds
    /// letters, digits and inner apostrophes or hyphens; anything else that can
    /// be seen is a token of its own.
    pub text: Cow<'a, str>,
    /// Where it stands.
    pub span: Range<usize>,
    /// Whether it is a word.
    pub is_word: bool,
}

/// Cuts `text` into tokens. Blanks, emphasis marks (`* _ ~` and the backtick),
/// skin tones and variation selectors are left out.
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut chars = text.char_indices().peekable();
    let mut word: Option<Range<usize>> = None;
    while let Some((at, c)) = chars.next() {
        let end = at + c.len_utf8();
        let next_is_letter = chars.peek().is_some_and(|(_, n)| n.is_alphanumeric());
        let joins = is_joint(c) && next_is_letter;
        match &mut word {
            Some(span) if c.is_alphanumeric() || joins => span.end = end,
            None if c.is_alphanumeric() => word = Some(at..end),
            _ => {
                if let Some(span) = word.take() {
                    tokens.push(token(text, span, true));
                }
                if !is_left_out(c) {
                    tokens.push(token(text, at..end, false));
                }
            }
        }
    }
    if let Some(span) = word {
        tokens.push(token(text, span, true));
    }
    tokens
}

fn is_joint(c: char) -> bool {
    matches!(c, '\'' | '’' | '‘' | 'ʼ' | '＇' | '-' | '‐' | '‑')
}

fn is_left_out(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '*' | '_' | '~' | '`' | '\u{fe0e}' | '\u{fe0f}' | '\u{20e3}')
        || ('\u{1f3fb}'..='\u{1f3ff}').contains(&c)
}

fn token(text: &str, span: Range<usize>, is_word: bool) -> Token<'_> {
    let raw = text.get(span.clone()).unwrap_or_default();
    let is_plain = raw.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase());
    let text = if is_plain {
        Cow::Borrowed(raw)
    } else {
        let folded = raw.nfkc().flat_map(char::to_lowercase).map(|c| match c {
            '’' | '‘' | 'ʼ' => '\'',
            '‐' | '‑' => '-',
            other => other,
        });
        Cow::Owned(folded.collect())
    };
    Token { text, span, is_word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_marks_and_emoji_are_told_apart() {
        let text = "**Let’s** do it, 👍🏽 Ｙｅｓ yes-ish!";
        let seen: Vec<_> = tokens(text).into_iter().map(|t| t.text.into_owned()).collect();
        assert_eq!(seen, ["let's", "do", "it", ",", "👍", "yes", "yes-ish", "!"]);
    }
}
