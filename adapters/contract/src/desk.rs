//! The second, small port: reading, for a channel that draws whole pages.
//!
//! A chat platform keeps what it was sent. A page has no such memory: it asks
//! the gateway what stands at its address now, so that it shows the same after
//! a restart.

use std::time::SystemTime;

use async_trait::async_trait;

use crate::card::Card;
use crate::channel::Address;

/// Somebody who is logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Visitor {
    /// The account, as [`crate::event::Account::id`] of what they send.
    pub account: String,
    /// The name to greet them by.
    pub name: String,
    /// Where their cards stand.
    pub address: Address,
    /// A value that every form of theirs must carry.
    pub form_key: String,
}

/// One card at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The message id under which it stands.
    pub message: String,
    /// Since when.
    pub at: SystemTime,
    /// When it ended, if it did.
    pub ended_at: Option<SystemTime>,
    /// What it shows now.
    pub card: Card,
}

/// Something that happened to an item, or was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// When.
    pub at: SystemTime,
    /// What, in words.
    pub text: String,
}

/// An item with its story.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemView {
    /// The item.
    pub item: Item,
    /// What happened to it, oldest first.
    pub trail: Vec<Remark>,
}

/// The gateway could not answer; nothing changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the gateway can't answer now")]
pub struct DeskError;

/// What pages read. Nothing here changes what a card is about.
#[async_trait]
pub trait Desk: Send + Sync {
    /// Exchanges a one-time link for a session; `None` when the link is
    /// unknown, used or too old.
    async fn log_in(&self, link: &str) -> Result<Option<String>, DeskError>;

    /// Who the session belongs to; `None` when it ended.
    async fn visitor(&self, session: &str) -> Result<Option<Visitor>, DeskError>;

    /// Ends the session.
    async fn log_out(&self, session: &str) -> Result<(), DeskError>;

    /// Says that the visitor looks at a page now.
    async fn present(&self, visitor: &Visitor) -> Result<(), DeskError>;

    /// Whether somebody looks at pages of this address, or did lately.
    async fn is_attended(&self, at: &Address) -> Result<bool, DeskError>;

    /// The words meant for the visitor in answer to what they sent, if it was
    /// dealt with.
    async fn reply(&self, visitor: &Visitor, accepted: &str) -> Result<Option<String>, DeskError>;

    /// What is wrong elsewhere and should be known where somebody looks: one
    /// sentence each.
    async fn troubles(&self) -> Result<Vec<String>, DeskError>;

    /// The cards that wait, oldest first, at most `limit`, and how many there
    /// are in all.
    async fn waiting(&self, at: &Address, limit: u32) -> Result<(Vec<Item>, u64), DeskError>;

    /// The cards that ended, newest first, at most `limit`, before the given
    /// message.
    async fn ended(
        &self,
        at: &Address,
        before: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Item>, DeskError>;

    /// One card with its story.
    async fn item(&self, at: &Address, message: &str) -> Result<Option<ItemView>, DeskError>;

    /// Waits until something at the address may have changed since `seen`, and
    /// gives the value to pass next time; `seen` itself after about a minute
    /// without a change, `None` when the gateway stops. Without `seen` it returns
    /// at once.
    async fn changed(&self, at: &Address, seen: Option<u64>) -> Option<u64>;
}
