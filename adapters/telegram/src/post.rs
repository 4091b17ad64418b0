//! Messages and edits, in the forms that the server takes.

use std::time::Duration;

use sayso_channel::{Address, Card, MessageRef, Receipt, SendError};
use serde::Deserialize;
use teloxide::payloads::{
    EditMessageText, EditMessageTextSetters as _, SendMessage, SendMessageSetters as _,
};
use teloxide::types::{ChatId, LinkPreviewOptions, MessageId, ThreadId};

use crate::Telegram;
use crate::api::Fault;
use crate::pace::What;
use crate::refusal::Refusal;
use crate::render::{self, BUDGET, Message, Whole};

/// What is read of a message that we posted.
#[derive(Deserialize)]
struct Posted {
    message_id: i64,
    chat: PostedIn,
    #[serde(default)]
    message_thread_id: Option<i32>,
}

#[derive(Deserialize)]
struct PostedIn {
    id: i64,
}

/// A chat, and a topic in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) chat: i64,
    pub(crate) topic: Option<i32>,
}

impl Target {
    pub(crate) fn parse(address: &Address) -> Option<Self> {
        let (chat, topic) = match address.0.split_once(':') {
            Some((chat, topic)) => (chat, Some(topic.parse().ok()?)),
            None => (address.0.as_str(), None),
        };
        Some(Self { chat: chat.parse().ok()?, topic })
    }

    fn address(self) -> Address {
        Address(match self.topic {
            Some(topic) => format!("{}:{topic}", self.chat),
            None => self.chat.to_string(),
        })
    }
}

impl Telegram {
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

    pub(crate) fn trouble(&self, chat: i64, fault: Fault) -> Trouble {
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
    pub(crate) async fn post_card(&self, to: Target, card: &Card) -> Result<Receipt, SendError> {
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

    /// Edits a card; where its text no longer fits on one message and it is still
    /// open, posts it anew.
    pub(crate) async fn update_card(
        &self,
        to: Target,
        id: i32,
        card: &Card,
    ) -> Result<Receipt, SendError> {
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
            Ok(()) => {
                let message = MessageRef { address: to.address(), id: id.to_string() };
                Ok(Receipt { message, left_behind: None })
            }
            Err(Trouble::TooLong) => self.replace_by_whole(to, id, card).await,
            // An edit changes nothing the second time: what may have been lost is
            // simply done again.
            Err(Trouble::Final(SendError::Unknown { reason })) => {
                Err(SendError::Retry { after: Duration::from_secs(1), reason })
            }
            Err(trouble) => Err(trouble.into_error()),
        }
    }

    /// Posts one of several messages that belong together, so waits for the turn
    /// of each.
    pub(crate) async fn post_patiently(
        &self,
        to: Target,
        message: &Message,
    ) -> Result<(), SendError> {
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
pub(crate) enum Trouble {
    /// There is nothing to change about it.
    Final(SendError),
    TooLong,
    Markup(String),
    NoTopic(String),
    Moved(i64),
}

impl Trouble {
    pub(crate) fn into_error(self) -> SendError {
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

pub(crate) fn send_error(fault: Fault) -> SendError {
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
    // A topic may have been lost on the way.
    let topic = asked.topic.and(posted.message_thread_id);
    let address = Target { chat: posted.chat.id, topic }.address();
    let message = MessageRef { address, id: posted.message_id.to_string() };
    Receipt { message, left_behind: None }
}

pub(crate) fn no_such_place() -> SendError {
    SendError::Unreachable { reason: "this is no Telegram chat".to_owned() }
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
