//! Telegram: cards in private chats, presses, reactions and words.
//!
//! * [`api`] and [`refusal`]: calls, and what the server's refusals mean;
//! * [`inbound`]: stored update → fact, pure;
//! * [`render`]: card → message, pure;
//! * [`pace`]: how often something may be sent;
//! * [`poll`] and [`webhook`]: updates are stored first and confirmed then.

mod api;
mod inbound;
mod pace;
mod poll;
mod refusal;
mod render;
mod webhook;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sayso_channel::text::{Unit, split_in};
use sayso_channel::{
    Address, Capacity, Card, Channel, Health, Inbound, Inbox, Manner, MessageRef, RawInbound,
    Receipt, SendError, TapRef, Unreadable,
};
use serde::Deserialize;
use teloxide::payloads::{
    AnswerCallbackQuery, AnswerCallbackQuerySetters as _, EditMessageText,
    EditMessageTextSetters as _, SendMessage, SendMessageSetters as _,
};
use teloxide::types::{CallbackQueryId, ChatId, LinkPreviewOptions, MessageId, ThreadId};
use tokio::sync::OnceCell;
use url::Url;

use crate::api::{Api, Fault, PATIENCE, Token};
use crate::inbound::Receiver;
use crate::pace::{Pace, What};
use crate::refusal::Refusal;
use crate::render::{BUDGET, EXACT_UNITS, Message, Whole};

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
}

/// What is read of a message that we posted.
#[derive(Deserialize)]
struct Posted {
    message_id: i64,
    chat: PostedIn,
    #[serde(default)]
    message_thread_id: Option<i64>,
}

#[derive(Deserialize)]
struct PostedIn {
    id: i64,
}

/// A chat, and a topic in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Target {
    chat: i64,
    topic: Option<i32>,
}

impl Target {
    fn parse(address: &Address) -> Option<Self> {
        let (chat, topic) = match address.0.split_once(':') {
            Some((chat, topic)) => (chat, Some(topic.parse().ok()?)),
            None => (address.0.as_str(), None),
        };
        Some(Self { chat: chat.parse().ok()?, topic })
    }
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
                let me: Me = self.call(&teloxide::payloads::GetMe::new()).await?;
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

    /// Posts a message, in its turn.
    async fn post(&self, to: Target, message: &Message, what: What) -> Result<Receipt, Trouble> {
        self.turn(to.chat, what).await?;
        let mut call = SendMessage::new(ChatId(to.chat), message.text.clone())
            .entities(message.entities.clone())
            .link_preview_options(no_preview())
            // A card is what somebody has to look at; words come after something
            // that they did themselves.
            .disable_notification(what == What::Words);
        if let Some(topic) = to.topic {
            call = call.message_thread_id(ThreadId(MessageId(topic)));
        }
        if let Some(markup) = message.markup() {
            call = call.reply_markup(markup);
        }
        let posted: Posted =
            self.call(&call).await.map_err(|fault| self.trouble(to.chat, fault))?;
        Ok(receipt(&posted, to))
    }

    async fn edit(&self, to: Target, id: i32, message: &Message) -> Result<(), Trouble> {
        self.turn(to.chat, What::Edit).await?;
        let mut call = EditMessageText::new(ChatId(to.chat), MessageId(id), message.text.clone())
            .entities(message.entities.clone())
            .link_preview_options(no_preview());
        if let Some(markup) = message.markup() {
            call = call.reply_markup(markup);
        }
        let edited: Result<serde::de::IgnoredAny, Fault> = self.call(&call).await;
        match edited {
            Ok(_) | Err(Fault::Refused { refusal: Refusal::NotModified, .. }) => Ok(()),
            Err(fault) => Err(self.trouble(to.chat, fault)),
        }
    }

    async fn turn(&self, chat: i64, what: What) -> Result<(), Trouble> {
        let turn = self.shared.pace.turn(chat, what).await;
        turn.map_err(|after| Trouble::Final(SendError::Busy { after }))
    }

    fn trouble(&self, chat: i64, fault: Fault) -> Trouble {
        match fault {
            Fault::Refused { refusal: Refusal::TooLong, .. } => Trouble::TooLong,
            Fault::Refused { refusal: Refusal::Markup, words } => Trouble::Markup(words),
            Fault::Refused { refusal: Refusal::NoTopic, words } => Trouble::NoTopic(words),
            Fault::Moved(to) => Trouble::Moved(to),
            Fault::Wait(after) => {
                self.shared.pace.pause(chat, after);
                Trouble::Final(SendError::Busy { after })
            }
            other => Trouble::Final(send_error(other)),
        }
    }

    /// Posts a card: whole on one message, or with its whole text before it, or,
    /// where nothing can be pressed any more, cut.
    async fn post_card(&self, to: Target, card: &Card) -> Result<Receipt, SendError> {
        let is_open = !card.actions.is_empty();
        match render::whole_card(card) {
            Some(message) => match self.post_form(to, message).await {
                Err(Trouble::TooLong) if is_open => self.post_whole(to, card).await,
                Err(Trouble::TooLong) => self.post_cut(to, card).await,
                posted => posted.map_err(Trouble::into_error),
            },
            None if is_open => self.post_whole(to, card).await,
            None => self.post_cut(to, card).await,
        }
    }

    /// Posts a card of whose long texts the middle is left out.
    async fn post_cut(&self, to: Target, card: &Card) -> Result<Receipt, SendError> {
        match self.post_form(to, render::cut_card(card, BUDGET)).await {
            Err(Trouble::TooLong) => {
                let shorter = render::cut_card(card, BUDGET / 2);
                self.post_form(to, shorter).await.map_err(Trouble::into_error)
            }
            posted => posted.map_err(Trouble::into_error),
        }
    }

    /// Posts a message, and once more where the answer says what to change that
    /// leaves the words as they are: without formatting, without buttons, in the
    /// chat that the group has become.
    async fn post_form(&self, mut to: Target, mut message: Message) -> Result<Receipt, Trouble> {
        for _ in 0..3 {
            match self.post(to, &message, What::Card).await {
                Err(Trouble::Markup(words)) => message = plainer(message, words)?,
                Err(Trouble::Moved(chat)) => to.chat = chat,
                posted => return posted,
            }
        }
        Err(refused_in_every_form())
    }

    async fn edit_form(&self, to: Target, id: i32, mut message: Message) -> Result<(), Trouble> {
        for _ in 0..3 {
            match self.edit(to, id, &message).await {
                Err(Trouble::Markup(words)) => message = plainer(message, words)?,
                edited => return edited,
            }
        }
        Err(refused_in_every_form())
    }

    /// Posts every text of the card in full, then the card itself below it.
    async fn post_whole(&self, to: Target, card: &Card) -> Result<Receipt, SendError> {
        match render::texts(card) {
            Whole::Messages(messages) => {
                for message in &messages {
                    self.post_patiently(to, message).await?;
                }
            }
            Whole::File(text) => {
                let name = format!("{}.txt", card.reference);
                let caption = format!("The whole text of {}", card.reference);
                self.turn(to.chat, What::Card).await.map_err(Trouble::into_error)?;
                let sent: Result<Posted, Fault> =
                    self.shared.api.send_file(to.chat, &name, text, &caption).await;
                sent.map_err(|fault| self.trouble(to.chat, fault).into_error())?;
            }
        }
        let mut card = card.clone();
        "The whole text stands above.".clone_into(&mut card.status);
        self.post_cut(to, &card).await
    }

    /// Posts the whole text and the card again below it; the message that stood
    /// there loses its buttons.
    async fn replace_by_whole(
        &self,
        to: Target,
        id: i32,
        card: &Card,
    ) -> Result<Receipt, SendError> {
        let mut receipt = self.post_whole(to, card).await?;
        let mut old = card.clone();
        old.actions.clear();
        old.fallback.clear();
        "Shown in full below.".clone_into(&mut old.status);
        // If this fails, both lead to the same decision; in any case the old one
        // shows the end too.
        let _ = self.edit_form(to, id, render::cut_card(&old, BUDGET)).await;
        receipt.left_behind = Some(id.to_string());
        Ok(receipt)
    }

    /// Posts one of several messages that belong together, so waits for the turn
    /// of each.
    async fn post_patiently(&self, to: Target, message: &Message) -> Result<(), SendError> {
        let mut tries = 0;
        loop {
            match self.post(to, message, What::Words).await {
                Ok(_) => return Ok(()),
                Err(Trouble::Final(SendError::Busy { after }))
                    if tries < 5 && after < Duration::from_secs(5) =>
                {
                    tries += 1;
                    tokio::time::sleep(after).await;
                }
                Err(trouble) => return Err(trouble.into_error()),
            }
        }
    }
}

/// Why a message was not taken as it was.
enum Trouble {
    /// There is nothing to change about it.
    Final(SendError),
    TooLong,
    Markup(String),
    NoTopic(String),
    Moved(i64),
}

impl Trouble {
    fn into_error(self) -> SendError {
        match self {
            Self::Final(error) => error,
            Self::TooLong => SendError::Rejected { reason: "the message is too long".to_owned() },
            Self::Markup(words) => SendError::Rejected { reason: words },
            Self::NoTopic(words) => SendError::Unreachable { reason: words },
            Self::Moved(to) => {
                SendError::Unreachable { reason: format!("the group has moved to {to}") }
            }
        }
    }
}

fn send_error(fault: Fault) -> SendError {
    match fault {
        Fault::NotSent(words) => SendError::Retry { after: Duration::from_secs(1), reason: words },
        Fault::Lost(reason) => SendError::Unknown { reason },
        Fault::Wait(after) => SendError::Busy { after },
        Fault::Moved(_) => SendError::Unreachable { reason: fault.to_string() },
        Fault::Refused { refusal, words } => match (refusal, refusal.remedy()) {
            (Refusal::Gone, _) => SendError::Gone,
            // The operator has to do something; until then it is worth trying.
            (Refusal::Token, Some(remedy)) => {
                SendError::Retry { after: Duration::from_mins(1), reason: remedy.to_owned() }
            }
            (_, Some(remedy)) => SendError::Unreachable { reason: remedy.to_owned() },
            (_, None) => SendError::Rejected { reason: words },
        },
    }
}

/// Without formatting; if there is none, without buttons: the words say how to
/// answer without them.
fn plainer(mut message: Message, words: String) -> Result<Message, Trouble> {
    if !message.entities.is_empty() {
        message.entities.clear();
    } else if message.keyboard.is_empty() {
        return Err(Trouble::Final(SendError::Rejected { reason: words }));
    } else {
        message.keyboard.clear();
    }
    Ok(message)
}

fn refused_in_every_form() -> Trouble {
    let reason = "Telegram refused every form of it".to_owned();
    Trouble::Final(SendError::Rejected { reason })
}

fn no_preview() -> LinkPreviewOptions {
    LinkPreviewOptions {
        is_disabled: true,
        url: None,
        prefer_small_media: false,
        prefer_large_media: false,
        show_above_text: false,
    }
}

/// Where the message really stands.
fn receipt(posted: &Posted, asked: Target) -> Receipt {
    let address = match (asked.topic, posted.message_thread_id) {
        (Some(_), Some(topic)) => format!("{}:{topic}", posted.chat.id),
        _ => posted.chat.id.to_string(),
    };
    let address = Address(address);
    let message = MessageRef { address, id: posted.message_id.to_string() };
    Receipt { message, left_behind: None }
}

fn no_such_place() -> SendError {
    SendError::Unreachable { reason: "this is no Telegram chat".to_owned() }
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
        let edited = match render::whole_card(card) {
            Some(whole) => self.edit_form(to, id, whole).await,
            None => Err(Trouble::TooLong),
        };
        let edited = match edited {
            Err(Trouble::TooLong) if card.actions.is_empty() => {
                match self.edit_form(to, id, render::cut_card(card, BUDGET)).await {
                    Err(Trouble::TooLong) => {
                        self.edit_form(to, id, render::cut_card(card, BUDGET / 2)).await
                    }
                    edited => edited,
                }
            }
            edited => edited,
        };
        match edited {
            Ok(()) => Ok(Receipt { message: message.clone(), left_behind: None }),
            Err(Trouble::TooLong) => self.replace_by_whole(to, id, card).await,
            // An edit changes nothing the second time: what may have been lost is
            // simply done again.
            Err(Trouble::Final(SendError::Unknown { reason })) => {
                Err(SendError::Retry { after: Duration::from_secs(1), reason })
            }
            Err(trouble) => Err(trouble.into_error()),
        }
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

    async fn probe(&self) -> Health {
        let health = |is_up, detail: String| Health { is_up, detail };
        let me: Result<Me, Fault> = self.call(&teloxide::payloads::GetMe::new()).await;
        match me {
            Ok(me) => health(true, format!("the bot is @{}", me.username)),
            Err(Fault::Refused { refusal, words }) => {
                health(false, refusal.remedy().map_or(words, str::to_owned))
            }
            Err(fault) => health(false, fault.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_chat_and_perhaps_a_topic() {
        let parse = |text: &str| Target::parse(&Address(text.to_owned()));
        assert_eq!(parse("700001"), Some(Target { chat: 700_001, topic: None }));
        assert_eq!(parse("-1009:12"), Some(Target { chat: -1_009, topic: Some(12) }));
        for bad in ["", "ada", "1:x", ":1"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
