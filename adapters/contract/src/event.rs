//! What comes in: raw bytes first, stored as they are, then read into facts.

use crate::card::ActionToken;

/// Raw input, exactly as the platform sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawInbound {
    /// Which of our accounts on the platform received it (a bot's id).
    pub receiver: String,
    /// What makes it the same item when the platform sends it again.
    pub dedup_key: String,
    /// The conversation whose items must be handled in order.
    pub lane: String,
    /// The bytes.
    pub body: Vec<u8>,
}

/// Somebody on a platform, by ids that never change hands.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Account {
    /// The workspace or organisation the id belongs to; empty where the
    /// platform has only one.
    pub realm: String,
    /// The platform's immutable id.
    pub id: String,
    /// Whether this is certainly not a human being acting under their own
    /// name: a bot, an anonymous administrator, a channel posting as itself.
    pub is_automated: bool,
}

/// How private a place is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privacy {
    /// Only the account and we can read it.
    Private,
    /// Others can read it, or we can't tell.
    Shared,
}

/// Where something happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The conversation, as an address that can be written to.
    pub address: String,
    /// Who can read it.
    pub privacy: Privacy,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A button was pressed.
    Tap {
        /// The token of the button.
        token: ActionToken,
        /// The message the button stands on, if the platform said so.
        message: Option<String>,
        /// A text given together with the press.
        text: Option<String>,
    },
    /// A reaction was added.
    Reaction {
        /// The emoji itself or its short name, as the platform writes it; several
        /// that were added together are separated by spaces.
        emoji: String,
        /// The message it was put on.
        message: String,
    },
    /// Something was written.
    Text {
        /// The text.
        text: String,
        /// The message it replies to, if any.
        reply_to: Option<String>,
        /// Whether it is an earlier message changed, or somebody else's passed on.
        is_secondhand: bool,
    },
    /// We can write there now, or can't any more.
    Reach {
        /// Whether we can.
        is_open: bool,
        /// Why not, in words for the operator.
        reason: String,
    },
    /// The conversation has a new address; the place is the new one.
    Moved {
        /// The address it had.
        from: String,
    },
    /// Nothing that anybody has to act on.
    Ignored,
}

/// A fact reported by a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inbound {
    /// Who did it.
    pub actor: Account,
    /// Where.
    pub place: Place,
    /// What.
    pub event: Event,
}

/// The bytes could not be read as anything this channel knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unreadable input: {0}")]
pub struct Unreadable(pub String);
