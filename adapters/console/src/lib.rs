//! The local web console: a channel like the others.
//!
//! Other channels are sent messages and keep them; a page asks the gateway what
//! stands at its address and draws that. So posting a card means no more than
//! making sure that somebody will look, and editing one means nothing at all.
//! What is pressed or typed goes into the inbox like everything else.
//!
//! * [`Console`]: the channel, and the routes of its pages.
//! * `pages`: handlers. Every action is an HTML form that works without script.
//! * `guard`: who may load and post what.
//! * `view`: the HTML.
//! * `wire`: what a form becomes on its way through the inbox.

mod guard;
mod pages;
mod view;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sayso_channel::{
    Address, Capacity, Card, Channel, Desk, Health, Inbound, Inbox, Manner, MessageRef, RawInbound,
    Receipt, SendError, TapRef, Unreadable,
};

/// UTF-16 code units of exact text that a card shows at once. A page could show
/// more, but nobody reads more before they press a button.
pub const EXACT_UNITS: usize = 4_000;

/// The channel's name.
pub const NAME: &str = "console";

/// The web console.
#[derive(Clone)]
pub struct Console {
    desk: Arc<dyn Desk>,
    inbox: Arc<dyn Inbox>,
    is_encrypted: bool,
}

impl Console {
    /// A console that reads from `desk` and writes to `inbox`. `is_encrypted`
    /// says that people reach it by https only.
    pub fn new(desk: Arc<dyn Desk>, inbox: Arc<dyn Inbox>, is_encrypted: bool) -> Self {
        Self { desk, inbox, is_encrypted }
    }

    /// What typing `text` into the console of an account would store; for a
    /// command that types in somebody's place. `key` makes it one input.
    pub fn typed(account: &str, address: &str, key: &str, text: &str) -> RawInbound {
        let what = wire::What::Text { text: text.to_owned(), reply_to: None };
        wire::raw(account, address, key, what)
    }

    /// Reads stored input.
    ///
    /// # Errors
    ///
    /// [`Unreadable`] for bytes that no form of ours becomes.
    pub fn read_raw(raw: &RawInbound) -> Result<Inbound, Unreadable> {
        wire::read(&raw.body)
    }

    /// The pages, all below `/console`.
    pub fn routes(&self) -> axum::Router {
        pages::routes(self.clone())
    }
}

#[async_trait]
impl Channel for Console {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capacity(&self) -> Capacity {
        Capacity { exact_units: EXACT_UNITS, speaks: false }
    }

    fn read(&self, raw: &RawInbound) -> Result<Inbound, Unreadable> {
        Self::read_raw(raw)
    }

    async fn send(&self, to: &Address, _: &Card, key: &str) -> Result<Receipt, SendError> {
        match self.desk.is_attended(to).await {
            Ok(true) => {
                let message = MessageRef { address: to.clone(), id: key.to_owned() };
                Ok(Receipt { message, left_behind: None })
            }
            Ok(false) => {
                let reason = "nobody has had the console open within 24 hours; open it with the \
                              link of `sayso console link`";
                Err(SendError::Unreachable { reason: reason.to_owned() })
            }
            Err(error) => {
                let after = Duration::from_secs(1);
                Err(SendError::Retry { after, reason: error.to_string() })
            }
        }
    }

    async fn update(&self, message: &MessageRef, _: &Card) -> Result<Receipt, SendError> {
        Ok(Receipt { message: message.clone(), left_behind: None })
    }

    async fn say(&self, _: &Address, _: &str) -> Result<(), SendError> {
        let reason = "a page shows what is stored; it takes no loose words".to_owned();
        Err(SendError::Rejected { reason })
    }

    async fn answer_tap(&self, _: &TapRef, _: &str, _: Manner) -> Result<(), SendError> {
        // The page that posted the form waits for the words itself.
        Ok(())
    }

    async fn listen(&self, _: Arc<dyn Inbox>) {
        // Input arrives by the routes.
        std::future::pending::<()>().await;
    }

    async fn probe(&self) -> Health {
        Health { is_up: true, detail: "the web console is on".to_owned() }
    }
}
