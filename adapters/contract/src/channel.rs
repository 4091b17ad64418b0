//! What a channel must do, and where its input goes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::card::Card;
use crate::event::{Inbound, RawInbound, Unreadable};

/// A conversation on a platform, as the platform addresses it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address(pub String);

/// A message we posted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MessageRef {
    /// The conversation it stands in.
    pub address: Address,
    /// The platform's id of it, unique in the conversation.
    pub id: String,
}

/// The platform's word that it has a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The message, where it really stands (a platform may move it).
    pub message: MessageRef,
    /// A message that the new one replaces and that still stands as it was.
    pub left_behind: Option<String>,
}

/// A press of a button that waits for its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TapRef {
    /// The raw input that reported it.
    pub raw: RawInbound,
}

/// How a sentence is shown to whoever pressed a button.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// It goes by itself.
    Passing,
    /// It stays until they have seen it.
    Staying,
}

/// Why a message could not be sent, as what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Nothing was sent: it is not its turn for so long. Nothing is wrong.
    #[error("it is not its turn yet")]
    Busy {
        /// How long to wait at least.
        after: Duration,
    },
    /// Nothing was sent; it may be tried again after the given time.
    #[error("not now: {reason}")]
    Retry {
        /// How long to wait at least.
        after: Duration,
        /// Why, in words for the operator.
        reason: String,
    },
    /// It may or may not have been sent; nobody can say.
    #[error("it is not known whether the message arrived: {reason}")]
    Unknown {
        /// What happened, in words for the operator.
        reason: String,
    },
    /// The conversation can't take messages now. Nothing was sent.
    #[error("the place can't be reached: {reason}")]
    Unreachable {
        /// Why and what to do, in words for the operator.
        reason: String,
    },
    /// The message to change is no longer there. Nothing was changed.
    #[error("the message is gone")]
    Gone,
    /// The platform refuses this content. Nothing was sent.
    #[error("the platform refused the message: {reason}")]
    Rejected {
        /// Its words.
        reason: String,
    },
}

/// What a channel can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// UTF-16 code units of exact text and of items that certainly fit on one
    /// card, whatever else stands on it.
    pub exact_units: usize,
    /// Whether words to a person are posted as messages; a channel that draws
    /// pages shows them there.
    pub speaks: bool,
}

/// How a channel is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Whether it works.
    pub is_up: bool,
    /// One line for the operator: what works, or what is wrong and the remedy.
    pub detail: String,
}

/// Where a channel puts what it received.
#[async_trait]
pub trait Inbox: Send + Sync {
    /// Stores `raw`. Returns after the commit; only then may the channel tell
    /// its platform that the input arrived.
    ///
    /// # Errors
    ///
    /// [`InboxError`]: nothing is stored for certain, the platform must send it
    /// again.
    async fn accept(&self, channel: &str, raw: RawInbound) -> Result<Accepted, InboxError>;

    /// Stores several items and where reading goes on after them, all or nothing,
    /// and notes that reading works.
    ///
    /// # Errors
    ///
    /// [`InboxError`]: none of it is stored for certain; read the same again.
    async fn accept_all(
        &self,
        channel: &str,
        receiver: &str,
        items: Vec<RawInbound>,
        position: i64,
    ) -> Result<(), InboxError>;

    /// Where reading goes on, as [`Inbox::accept_all`] stored it last; `None`
    /// when that is unknown or too long ago to mean anything.
    ///
    /// # Errors
    ///
    /// [`InboxError`] when the store can't say.
    async fn position(&self, channel: &str, receiver: &str) -> Result<Option<i64>, InboxError>;

    /// Takes or keeps, for `span`, the right to be the only reader; whether the
    /// caller has it. It ends early when the process stops.
    ///
    /// # Errors
    ///
    /// [`InboxError`] when the store can't say; then nobody has it.
    async fn be_only_reader(
        &self,
        channel: &str,
        receiver: &str,
        span: Duration,
    ) -> Result<bool, InboxError>;

    /// Notes, for the operator, that reading works, or what is wrong with it and
    /// the remedy.
    async fn report(&self, channel: &str, receiver: &str, trouble: Option<&str>);

    /// Waits until the stored input was dealt with, and gives the words meant
    /// for the person, if there are any. `None` too when it takes longer than
    /// a page should wait; the input is then dealt with later.
    async fn outcome(&self, accepted: &Accepted) -> Option<String>;
}

/// Input that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// The id under which it is stored.
    pub id: String,
    /// Whether it was there before.
    pub is_duplicate: bool,
}

/// The input could not be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the input could not be stored")]
pub struct InboxError;

/// A platform that can show cards.
///
/// Implementations render and transport. Who may press what, what an answer
/// means and what happens next is the gateway's.
#[async_trait]
pub trait Channel: Send + Sync {
    /// The channel's name: a short lower-case word, the same for ever.
    fn name(&self) -> &'static str;

    /// What fits.
    fn capacity(&self) -> Capacity;

    /// Reads stored input. Pure.
    ///
    /// # Errors
    ///
    /// [`Unreadable`]: the input is kept for the operator and skipped.
    fn read(&self, raw: &RawInbound) -> Result<Inbound, Unreadable>;

    /// Posts `card` as a new message. `key` is the same when the same post is
    /// tried again: where a platform lets us name a message or attach a note to
    /// it, it gets this name.
    ///
    /// # Errors
    ///
    /// See [`SendError`]: nothing was posted, except for
    /// [`SendError::Unknown`].
    async fn send(&self, to: &Address, card: &Card, key: &str) -> Result<Receipt, SendError>;

    /// Replaces what `message` shows. Replacing by the same content is `Ok`.
    ///
    /// # Errors
    ///
    /// See [`SendError`].
    async fn update(&self, message: &MessageRef, card: &Card) -> Result<Receipt, SendError>;

    /// Posts plain words.
    ///
    /// # Errors
    ///
    /// See [`SendError`].
    async fn say(&self, to: &Address, text: &str) -> Result<(), SendError>;

    /// Answers a press of a button with one sentence, for the presser alone.
    ///
    /// # Errors
    ///
    /// See [`SendError`]; nothing depends on it.
    async fn answer_tap(&self, tap: &TapRef, text: &str, manner: Manner) -> Result<(), SendError>;

    /// Receives input and gives it to `inbox` until the future is dropped.
    async fn listen(&self, inbox: Arc<dyn Inbox>);

    /// Asks the platform what doesn't work for us at a place where others read
    /// too, in words for the operator; nothing when all does.
    ///
    /// # Errors
    ///
    /// [`SendError::Unreachable`] when nothing can be written there; any other
    /// when it could not be found out.
    async fn look_at(&self, _place: &Address) -> Result<Option<String>, SendError> {
        Ok(None)
    }

    /// Asks the platform whether everything is in place.
    async fn probe(&self) -> Health;
}
