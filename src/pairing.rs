//! Pairing codes: eight characters that the operator hands to a person, who
//! sends them to the bot. They work once, for ten minutes.

use std::time::Duration;

use rand::RngExt as _;

use crate::secrets;

/// How long a code can be used.
pub const LIFE: Duration = Duration::from_mins(10);
/// Letters and digits without those that look like each other.
const ALPHABET: &[u8; 31] = b"ABCDEFGHJKMNPQRSTUVWXYZ23456789";
const LENGTH: usize = 8;

/// A new code, as it is shown: `ABCD-EFGH`; about 39 random bits.
pub fn random() -> String {
    let mut rng = rand::rng();
    let mut pick = || ALPHABET.get(rng.random_range(0..ALPHABET.len())).copied().unwrap_or(b'A');
    let code: String = (0..LENGTH).map(|_| char::from(pick())).collect();
    let (first, second) = code.split_at(LENGTH / 2);
    format!("{first}-{second}")
}

/// The code in a text that is nothing else, as it is shown; case, spaces and the
/// dash don't matter.
pub fn read(text: &str) -> Option<String> {
    let code: String = text
        .chars()
        .filter(|c| !c.is_whitespace() && *c != '-')
        .map(|c| c.to_ascii_uppercase())
        .collect();
    let is_code = code.len() == LENGTH && code.bytes().all(|b| ALPHABET.contains(&b));
    let (first, second) = code.split_at_checked(LENGTH / 2)?;
    is_code.then(|| format!("{first}-{second}"))
}

/// What is stored of a code.
pub fn hash(code: &str) -> String {
    secrets::hash(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_read_however_it_is_typed() {
        let code = random();
        for typed in [code.clone(), code.to_lowercase(), code.replace('-', ""), format!(" {code} ")]
        {
            assert_eq!(read(&typed).as_deref(), Some(code.as_str()), "{typed:?}");
        }
        for other in ["", "hello", "ABCD-EFG", "ABCD-EFGHJ", "ABCD-EFG0", "äBCD-EFGH", "yes please"]
        {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
