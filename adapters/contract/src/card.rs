//! What is shown: a channel-neutral picture, built once by the gateway.
//!
//! Every text in a card is plain text that is already safe to show; an adapter
//! escapes it for its platform and changes nothing else.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

/// The opaque text a platform hands back when a button is pressed.
///
/// 1 to 64 bytes of printable ASCII, so that it fits the smallest limit of any
/// platform (the callback data of a Telegram button) without encoding.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ActionToken(String);

/// Why a text is no [`ActionToken`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an action token is 1 to 64 bytes of printable ASCII")]
pub struct TokenError;

impl ActionToken {
    /// The token as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ActionToken {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let fits = (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
        if fits { Ok(Self(text.to_owned())) } else { Err(TokenError) }
    }
}

impl fmt::Display for ActionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How much an action should stand out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emphasis {
    /// The way forward.
    Primary,
    /// One of several equals.
    Secondary,
    /// Refuses or removes something.
    Destructive,
}

/// One thing a person can press.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// What comes back when it is pressed.
    pub token: ActionToken,
    /// The words on it. May be longer than a platform's button takes; the full
    /// text then also stands in the card.
    pub label: String,
    /// How it should look.
    pub emphasis: Emphasis,
    /// When set, pressing it asks for a text first, with these words.
    pub asks_for: Option<String>,
    /// Which of the card's items it chooses, if it chooses one; from 0.
    pub item: Option<usize>,
}

/// The mood of a card, for a colour or a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Waits for somebody.
    Open,
    /// Ended with a yes.
    Positive,
    /// Ended with a no.
    Negative,
    /// Ended in another way.
    Neutral,
}

/// A short labelled value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// What it is.
    pub label: String,
    /// The value, one line.
    pub value: String,
}

/// One part of a card, in reading order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// Text that must be shown exactly, in a fixed-width font.
    Exact {
        /// What the text is.
        label: String,
        /// The text; may have several lines.
        text: String,
    },
    /// Words of somebody else, to be set apart from ours.
    Quote {
        /// Whose words.
        label: String,
        /// The words.
        text: String,
    },
    /// Numbered items, starting at 1.
    Items(Vec<String>),
    /// Something the reader must not miss.
    Warning(String),
    /// Short labelled values.
    Facts(Vec<Fact>),
}

/// A picture of something that people look at and may press.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// One line that says what this is.
    pub title: String,
    /// How it stands, one line: what it waits for, or how it ended.
    pub status: String,
    /// The mood that goes with `status`.
    pub tone: Tone,
    /// The parts, in reading order.
    pub blocks: Vec<Block>,
    /// What can be pressed, in order; empty on a closed card.
    pub actions: Vec<Action>,
    /// When set, a text given in reply to this card means something, and these
    /// words ask for it.
    pub invites_reply: Option<String>,
    /// When it stops waiting, if it waits.
    pub expires_at: Option<SystemTime>,
    /// The short reference that people can type.
    pub reference: String,
    /// The exact words that answer the card where nothing can be pressed; empty
    /// on a closed card.
    pub fallback: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_at_most_64_bytes_of_printable_ascii() {
        assert!("a".repeat(64).parse::<ActionToken>().is_ok());
        for bad in ["", &"a".repeat(65), "a b", "é", "a\n"] {
            assert_eq!(bad.parse::<ActionToken>(), Err(TokenError), "{bad:?}");
        }
    }
}
