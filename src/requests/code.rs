//! Codes: what a person types to name a request.
//!
//! Six characters, letter and digit in turn, the last one a check digit:
//! `K7M2Q9`. No I, L, O, 0 and 1, which look like each other; the alternation
//! keeps words of ordinary prose from being codes. A code addresses a request,
//! it never authorises anybody.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use rand::RngExt;
use unicode_normalization::UnicodeNormalization;

const LETTERS: &[u8; 23] = b"ABCDEFGHJKMNPQRSTUVWXYZ";
const DIGITS: &[u8; 8] = b"23456789";

/// The short name of a request, unique among the live ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code([u8; 6]);

/// A text is no code: wrong shape or wrong check digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a code")]
pub struct CodeError;

impl Code {
    /// One of about 780,000, at random.
    pub fn random() -> Self {
        let mut rng = rand::rng();
        let mut pick = |from: &'static [u8]| {
            from.get(rng.random_range(0..from.len())).copied().unwrap_or_default()
        };
        let (a, b, c, d, e) =
            (pick(LETTERS), pick(DIGITS), pick(LETTERS), pick(DIGITS), pick(LETTERS));
        Self([a, b, c, d, e, check([a, b, c, d, e])])
    }

    /// The bytes of every word in `text` that looks like a code, also one whose
    /// check digit is wrong: somebody mistyped.
    pub fn find_lookalikes(text: &str) -> Vec<Range<usize>> {
        words(text)
            .filter(|(word, _)| {
                word.len() == 6
                    && word.bytes().enumerate().all(|(i, b)| {
                        if i % 2 == 0 { b.is_ascii_alphabetic() } else { b.is_ascii_digit() }
                    })
            })
            .map(|(_, span)| span)
            .collect()
    }

    /// Every code in `text` and the bytes where it stands, in the order of
    /// appearance, whatever is around it; case and character width don't
    /// matter. Letters of other scripts that look alike are other letters.
    pub fn find_all(text: &str) -> Vec<(Self, Range<usize>)> {
        words(text).filter_map(|(word, span)| Some((word.parse().ok()?, span))).collect()
    }

    /// The code as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl FromStr for Code {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<Self, CodeError> {
        let bytes: [u8; 6] =
            text.to_ascii_uppercase().as_bytes().try_into().map_err(|_| CodeError)?;
        let [a, b, c, d, e, f] = bytes;
        let has_shape = [a, c, e].iter().all(|x| LETTERS.contains(x))
            && [b, d, f].iter().all(|x| DIGITS.contains(x));
        if has_shape && f == check([a, b, c, d, e]) { Ok(Self(bytes)) } else { Err(CodeError) }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The words of `text`, letters and digits only, of normal width, with the bytes
/// where each stands; of a long word only the beginning.
fn words(text: &str) -> impl Iterator<Item = (String, Range<usize>)> {
    let mut start = None;
    text.char_indices().chain([(text.len(), ' ')]).filter_map(move |(at, c)| {
        match (c.is_alphanumeric(), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                start = None;
                let word = text.get(from..at).unwrap_or_default();
                return Some((word.nfkc().take(7).collect(), from..at));
            }
            (true, Some(_)) | (false, None) => {}
        }
        None
    })
}

/// The digit that makes the weighted sum a multiple of eight. The weights are
/// odd, so one mistyped digit and two swapped neighbours of a kind show.
fn check(first_five: [u8; 5]) -> u8 {
    let value = |byte: u8| {
        let place = LETTERS.iter().chain(DIGITS).position(|x| *x == byte).unwrap_or_default();
        if place < LETTERS.len() { place } else { place - LETTERS.len() }
    };
    let sum: usize =
        first_five.iter().zip([1, 3, 5, 7, 3]).map(|(byte, weight)| value(*byte) * weight).sum();
    DIGITS.get((8 - sum % 8) % 8).copied().unwrap_or(b'2')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_whatever_its_case_width_and_surroundings() {
        let code = Code::random();
        let plain = code.to_string();
        let lower = plain.to_lowercase();
        let wide: String =
            plain.chars().map(|c| char::from_u32(c as u32 + 0xFEE0).unwrap()).collect();
        for text in [
            plain.clone(),
            format!("{lower} approve"),
            format!("approve #{plain}."),
            format!("**`{plain}`**: yes"),
            format!("\"{plain}—approve\""),
            format!("{plain}\u{a0}\u{a0}approve"),
            wide,
        ] {
            let found: Vec<Code> = Code::find_all(&text).into_iter().map(|(c, _)| c).collect();
            assert_eq!(found, [code], "{text}");
        }
    }

    #[test]
    fn words_look_alikes_and_mistyped_digits_are_no_codes() {
        let code = Code::random().to_string();
        let glued = format!("{code}x");
        let wrong: String = DIGITS
            .iter()
            .map(|d| format!("{}{} ", code.get(..5).unwrap(), char::from(*d)))
            .filter(|c| c.trim() != code)
            .collect();
        for text in ["facade decade 123456 approve", &glued, &wrong, "\u{410}2\u{412}3\u{421}4"] {
            assert_eq!(Code::find_all(text), [], "{text}");
        }
    }

    #[test]
    fn no_code_has_look_alikes_or_is_all_digits() {
        for _ in 0..5_000 {
            let code = Code::random().to_string();
            assert!(!code.contains(['I', 'L', 'O', '0', '1']), "{code}");
            assert!(code.chars().enumerate().all(|(i, c)| c.is_ascii_digit() == (i % 2 == 1)));
            assert!(code.parse::<Code>().is_ok());
        }
    }
}
