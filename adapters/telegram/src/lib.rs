//! Telegram: cards in private chats, presses, reactions and words.
//!
//! * [`api`] and [`refusal`]: calls, and what the server's refusals mean;
//! * [`update`] and [`inbound`]: what is stored of an update, and the fact it is,
//!   pure;
//! * [`render`]: card → message, pure;
//! * [`post`]: messages and edits, in the forms that the server takes;
//! * [`pace`]: how often something may be sent;
//! * [`poll`] and [`webhook`]: updates are stored first and confirmed then.

mod api;
mod inbound;
mod pace;
mod poll;
mod post;
mod refusal;
mod render;
mod update;
mod webhook;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use sayso_channel::text::{Unit, split_in};
use sayso_channel::{
    Address, Capacity, Card, Channel, Health, Inbound, Inbox, Manner, MessageRef, RawInbound,
    Receipt, SendError, TapRef, Unreadable,
};
use serde::Deserialize;
use teloxide::payloads::{
    AnswerCallbackQuery, AnswerCallbackQuerySetters as _, GetChatMember, GetMe,
};
use teloxide::types::{CallbackQueryId, ChatId, UserId};
use tokio::sync::OnceCell;
use url::Url;

use crate::api::{Api, Fault, PATIENCE, Token};
use crate::pace::Pace;
use crate::post::{Target, no_such_place, send_error};
use crate::refusal::Refusal;
use crate::render::{BUDGET, EXACT_UNITS, Message};
use crate::update::Receiver;

/// The channel's name.
pub const NAME: &str = "telegram";
/// Where the webhook is served.
pub const WEBHOOK_PATH: &str = "/telegram/webhook";
/// Characters of the sentence that answers a press.
const TAP_UNITS: usize = 200;

/// How updates come.
#[derive(Clone)]
pub enum Mode {
    /// We ask for them.
    Poll,
    /// Telegram calls us.
    Webhook {
        /// The whole address of [`WEBHOOK_PATH`], as Telegram reaches it.
        url: Url,
        /// The secret that Telegram sends with each call: 16 to 256 letters,
        /// digits, dashes or underscores.
        secret: String,
    },
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poll => f.write_str("Poll"),
            Self::Webhook { url, .. } => write!(f, "Webhook({url})"),
        }
    }
}

/// The settings can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SetupError(String);

/// The channel.
#[derive(Clone)]
pub struct Telegram {
    shared: Arc<Shared>,
}

struct Shared {
    api: Arc<Api>,
    mode: Mode,
    pace: Pace,
    receiver: OnceCell<Receiver>,
}

/// What is read of the server's account of the bot.
#[derive(Deserialize)]
struct Me {
    #[serde(default)]
    username: String,
    /// Whether the bot reads what is said in groups besides commands and what is
    /// said to it.
    #[serde(default)]
    can_read_all_group_messages: bool,
}

/// What is read of the bot's place in a group.
#[derive(Deserialize)]
struct Member {
    status: String,
}

impl Telegram {
    /// The channel of the bot with this token, through the server at `api_url`.
    ///
    /// # Errors
    ///
    /// In words for the operator; nothing was called.
    pub fn new(token: &str, api_url: Url, mode: Mode) -> Result<Self, SetupError> {
        let token = Token::parse(token.trim()).ok_or_else(|| {
            SetupError("telegram.token: a token looks like 123456789:AAExample".to_owned())
        })?;
        if let Mode::Webhook { secret, .. } = &mode {
            webhook::check_secret(secret)?;
        }
        let api = Api::new(token, api_url);
        let (pace, receiver) = (Pace::default(), OnceCell::new());
        Ok(Self { shared: Arc::new(Shared { api, mode, pace, receiver }) })
    }

    /// The id of the bot, under which its reading is noted.
    pub fn receiver(&self) -> &str {
        self.shared.api.bot()
    }

    /// A link that opens the bot and sends it `/start` with this word; nothing
    /// when the server can't be asked for the bot's name.
    pub async fn link(&self, word: &str) -> Option<String> {
        let receiver = self.receiver_of().await.ok()?;
        Some(format!("https://t.me/{}?start={word}", receiver.username))
    }

    /// The route of the webhook; nothing when updates are polled.
    pub fn routes(&self, inbox: Arc<dyn Inbox>) -> Option<axum::Router> {
        match &self.shared.mode {
            Mode::Poll => None,
            Mode::Webhook { secret, .. } => Some(webhook::routes(self.clone(), inbox, secret)),
        }
    }

    /// Who we are; asked once.
    async fn receiver_of(&self) -> Result<&Receiver, Fault> {
        self.shared
            .receiver
            .get_or_try_init(|| async {
                let me: Me = self.call(&GetMe::new()).await?;
                Ok(Receiver { id: self.receiver().to_owned(), username: me.username })
            })
            .await
    }

    async fn call<P, T>(&self, payload: &P) -> Result<T, Fault>
    where
        P: teloxide::requests::Payload + serde::Serialize + Sync,
        T: serde::de::DeserializeOwned,
    {
        self.shared.api.call(payload, PATIENCE).await
    }
}

#[async_trait]
impl Channel for Telegram {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capacity(&self) -> Capacity {
        Capacity { exact_units: EXACT_UNITS, speaks: true }
    }

    fn read(&self, raw: &RawInbound) -> Result<Inbound, Unreadable> {
        inbound::read(raw)
    }

    async fn send(&self, to: &Address, card: &Card, _: &str) -> Result<Receipt, SendError> {
        let to = Target::parse(to).ok_or_else(no_such_place)?;
        self.post_card(to, card).await
    }

    async fn update(&self, message: &MessageRef, card: &Card) -> Result<Receipt, SendError> {
        let to = Target::parse(&message.address).ok_or_else(no_such_place)?;
        let id: i32 = message.id.parse().map_err(|_| SendError::Gone)?;
        self.update_card(to, id, card).await
    }

    async fn say(&self, to: &Address, text: &str) -> Result<(), SendError> {
        let to = Target::parse(to).ok_or_else(no_such_place)?;
        for (index, piece) in split_in(Unit::Utf16, text, BUDGET).into_iter().enumerate() {
            let message = Message { text: piece, ..Message::default() };
            let posted = self.post_patiently(to, &message).await;
            posted.map_err(|error| match error {
                // Its beginning stands there already.
                SendError::Busy { .. } | SendError::Retry { .. } if index > 0 => {
                    SendError::Unknown { reason: error.to_string() }
                }
                error => error,
            })?;
        }
        Ok(())
    }

    async fn answer_tap(&self, tap: &TapRef, text: &str, manner: Manner) -> Result<(), SendError> {
        let Some(id) = inbound::press_id(&tap.raw) else { return Ok(()) };
        let text = sayso_channel::text::shorten_in(Unit::Utf16, text, TAP_UNITS);
        let call = AnswerCallbackQuery::new(CallbackQueryId(id))
            .text(text)
            .show_alert(manner == Manner::Staying);
        let answered: Result<serde::de::IgnoredAny, Fault> = self.call(&call).await;
        answered.map(|_| ()).map_err(send_error)
    }

    async fn listen(&self, inbox: Arc<dyn Inbox>) {
        match &self.shared.mode {
            Mode::Poll => poll::run(self, inbox.as_ref()).await,
            Mode::Webhook { url, secret } => webhook::run(self, inbox.as_ref(), url, secret).await,
        }
    }

    async fn look_at(&self, place: &Address) -> Result<Option<String>, SendError> {
        let to = Target::parse(place).ok_or_else(no_such_place)?;
        let bot = self.receiver().parse().map_err(|_| no_such_place())?;
        let member = GetChatMember::new(ChatId(to.chat), UserId(bot));
        let trouble = |fault| self.trouble(to.chat, fault).into_error();
        let member: Member = self.call(&member).await.map_err(trouble)?;
        match member.status.as_str() {
            // Administrators are told everything, whatever the bot's privacy.
            "administrator" | "creator" => Ok(None),
            "left" | "kicked" => {
                Err(send_error(Fault::Refused { refusal: Refusal::NotIn, words: member.status }))
            }
            _ => {
                let me: Me = self.call(&GetMe::new()).await.map_err(trouble)?;
                let heard = if me.can_read_all_group_messages {
                    "reactions don't arrive there"
                } else {
                    "reactions don't arrive there, nor words that are no reply to the bot and \
                     don't name it"
                };
                Ok(Some(format!("{heard}; make the bot an administrator if they should")))
            }
        }
    }

    async fn probe(&self) -> Health {
        let health = |is_up, detail: String| Health { is_up, detail };
        let me: Result<Me, Fault> = self.call(&GetMe::new()).await;
        match me {
            Ok(me) => health(true, format!("the bot is @{}", me.username)),
            Err(Fault::Refused { refusal, words }) => {
                health(false, refusal.remedy().map_or(words, str::to_owned))
            }
            Err(fault) => health(false, fault.to_string()),
        }
    }
}
