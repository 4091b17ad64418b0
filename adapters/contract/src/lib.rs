//! The port between the gateway and the places where people talk.
//!
//! An adapter renders a [`Card`], transports it and reports *facts*: this
//! button was pressed by that account on this message, this text was written in
//! that place. It understands nothing and decides nothing. For that reason no
//! word in this crate stands for what a card is about, for the person behind
//! an account or for what an answer means: an adapter cannot use what it
//! cannot name.
//!
//! * [`card`]: what is shown. Plain text in reading order, ordered actions with
//!   opaque tokens. A closed card is just another card.
//! * [`event`]: what comes in, raw first, then normalised.
//! * [`channel`]: what a channel must do ([`Channel`]), where its input goes
//!   ([`Inbox`]).
//! * [`desk`]: the second, read-only port for a channel that draws whole pages
//!   instead of messages ([`Desk`]).
//! * [`fit`]: making a card fit.
//! * [`pace`]: taking turns.
//! * [`text`]: counting and cutting text without breaking a character.

pub mod card;
pub mod channel;
pub mod desk;
pub mod event;
pub mod fit;
pub mod pace;
pub mod text;

pub use card::{Action, ActionToken, Block, Card, Emphasis, Fact, TokenError, Tone};
pub use channel::{
    Accepted, Address, Capacity, Channel, Health, Inbox, InboxError, Manner, MessageRef, Receipt,
    SendError, TapRef,
};
pub use desk::{Desk, DeskError, Item, ItemView, Remark, Visitor};
pub use event::{Account, Event, Inbound, Place, Privacy, RawInbound, Unreadable};
