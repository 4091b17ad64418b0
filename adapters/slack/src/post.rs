//! Messages and edits, in the forms that the server takes.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sayso_channel::{Address, Card, MessageRef, Receipt, SendError};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use slack_morphism::SlackMessageContent;
use slack_morphism::prelude::{SlackApiChatPostMessageRequest, SlackApiChatUpdateRequest};

use crate::Slack;
use crate::api::Fault;
use crate::pace::{What, method};
use crate::refusal::Refusal;
use crate::render::{self, BUDGET, EDITED_WORDS, Message, POSTED_WORDS, Whole};

/// A conversation, and a thread in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) realm: String,
    pub(crate) channel: String,
    pub(crate) thread: Option<String>,
}

impl Target {
    pub(crate) fn parse(address: &Address) -> Option<Self> {
        let mut parts = address.0.split(':');
        let (realm, channel, thread) = (parts.next()?, parts.next()?, parts.next());
        if realm.is_empty() || channel.is_empty() || parts.next().is_some() {
            return None;
        }
        let (realm, channel) = (realm.to_owned(), channel.to_owned());
        Some(Self { realm, channel, thread: thread.map(str::to_owned) })
    }

    fn address(&self) -> Address {
        Address(match &self.thread {
            Some(thread) => format!("{}:{}:{thread}", self.realm, self.channel),
            None => format!("{}:{}", self.realm, self.channel),
        })
    }
}

/// What is read of a message that we posted.
#[derive(Deserialize)]
struct Posted {
    channel: String,
    ts: String,
}

#[derive(Deserialize)]
struct Opened {
    channel: OpenedChannel,
}

#[derive(Deserialize)]
struct OpenedChannel {
    id: String,
}

#[derive(Deserialize)]
struct Ticket {
    upload_url: String,
    file_id: String,
}

/// Why a message was not taken as it was.
pub(crate) enum Trouble {
    /// There is nothing to change about it.
    Final(SendError),
    /// It is too long, or its form is refused.
    Form(String),
}

impl Trouble {
    pub(crate) fn into_error(self) -> SendError {
        match self {
            Self::Final(error) => error,
            Self::Form(reason) => SendError::Rejected { reason },
        }
    }
}

/// Whose whole text stands in the thread of their card already.
#[derive(Default)]
pub(crate) struct Told(Mutex<HashSet<u64>>);

impl Told {
    fn key(target: &Target, message: &str, card: &Card) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&target.channel, message).hash(&mut hasher);
        for passage in sayso_channel::fit::passages(card, sayso_channel::text::Unit::Chars, 240) {
            passage.text.hash(&mut hasher);
        }
        hasher.finish()
    }

    fn has(&self, key: u64) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&key)
    }

    fn add(&self, key: u64) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() > 10_000 {
            told.clear();
        }
        told.insert(key);
    }
}

impl Slack {
    /// The conversation with a person, opened if need be: people have ids of
    /// their own, and nothing can be posted to those.
    pub(crate) async fn opened(&self, to: &Address) -> Result<Target, SendError> {
        let target = Target::parse(to).ok_or_else(no_such_place)?;
        let Some(user) = target.channel.strip_prefix('@') else { return Ok(target) };
        let opened: Opened =
            self.form("conversations.open", &[("users", user)]).await.map_err(send_error)?;
        let channel = opened.channel.id;
        self.shared.kinds.learn(&channel, sayso_channel::Privacy::Private);
        Ok(Target { channel, ..target })
    }

    /// Posts a message, in its turn.
    async fn post(&self, to: &Target, message: &Message, what: What) -> Result<Posted, Trouble> {
        self.turn(to, what).await?;
        let mut call =
            SlackApiChatPostMessageRequest::new(to.channel.clone().into(), content(message))
                .with_unfurl_links(false)
                .with_unfurl_media(false);
        call.thread_ts = to.thread.clone().map(Into::into);
        let mut call = serde_json::to_value(&call).unwrap_or_default();
        if let Some(fields) = call.as_object_mut().filter(|_| message.blocks.is_empty()) {
            // Words alone are shown as they are: nothing in them is bold, a list or
            // a link.
            fields.insert("mrkdwn".to_owned(), false.into());
            fields.insert("parse".to_owned(), "none".into());
        }
        self.call(method(what), &call).await.map_err(|fault| self.trouble(what, fault))
    }

    async fn edit(&self, to: &Target, id: &str, message: &Message) -> Result<(), Trouble> {
        self.turn(to, What::Edit).await?;
        let call = SlackApiChatUpdateRequest::new(
            to.channel.clone().into(),
            content(message),
            id.to_owned().into(),
        );
        let mut call = serde_json::to_value(&call).unwrap_or_default();
        if let Some(fields) = call.as_object_mut().filter(|_| message.blocks.is_empty()) {
            // Without it those that stand there may stay.
            fields.insert("blocks".to_owned(), json!([]));
        }
        let edited: Result<IgnoredAny, Fault> = self.call(method(What::Edit), &call).await;
        edited.map(|_| ()).map_err(|fault| self.trouble(What::Edit, fault))
    }

    async fn turn(&self, to: &Target, what: What) -> Result<(), Trouble> {
        let turn = self.shared.pace.turn(&to.channel, what).await;
        turn.map_err(|after| Trouble::Final(SendError::Busy { after }))
    }

    fn trouble(&self, what: What, fault: Fault) -> Trouble {
        match fault {
            Fault::Refused { refusal: Refusal::Form, words } => Trouble::Form(words),
            Fault::Wait(after) => {
                self.shared.pace.pause(what, after);
                Trouble::Final(SendError::Busy { after })
            }
            other => Trouble::Final(send_error(other)),
        }
    }

    /// Posts a card: whole on one message; or with its whole text before it; or,
    /// where nothing can be pressed any more, cut.
    pub(crate) async fn post_card(&self, to: &Target, card: &Card) -> Result<Receipt, SendError> {
        let is_open = !card.actions.is_empty();
        let mut posted = Err(refused_in_every_form());
        // Whatever the platform has against its form, in words it goes.
        for message in whole_forms(card) {
            posted = self.post(to, &message, What::Card).await;
            if !matches!(posted, Err(Trouble::Form(_))) {
                break;
            }
        }
        let posted = match posted {
            Err(Trouble::Form(_)) if is_open => {
                self.post_texts(to, card).await?;
                self.post_cut(to, &shown_above(card)).await
            }
            Err(Trouble::Form(_)) => self.post_cut(to, card).await,
            posted => posted,
        };
        posted.map(|posted| receipt(to, posted)).map_err(Trouble::into_error)
    }

    async fn post_cut(&self, to: &Target, card: &Card) -> Result<Posted, Trouble> {
        for message in shorter_and_shorter(card, POSTED_WORDS) {
            match self.post(to, &message, What::Card).await {
                Err(Trouble::Form(_)) => {}
                posted => return posted,
            }
        }
        Err(refused_in_every_form())
    }

    /// Edits a card; where its text does not fit on one message and it is still
    /// open, the whole text is posted in its thread first.
    pub(crate) async fn update_card(
        &self,
        to: &Target,
        id: &str,
        card: &Card,
    ) -> Result<Receipt, SendError> {
        let is_open = !card.actions.is_empty();
        // Not in words alone: those of an edit may look different from the text.
        let edited = match render::whole_card(card) {
            Some(message) => self.edit(to, id, &message).await,
            None => Err(refused_in_every_form()),
        };
        let edited = match edited {
            Err(Trouble::Form(_)) if is_open => {
                let key = Told::key(to, id, card);
                if !self.shared.told.has(key) {
                    let thread = Target { thread: Some(id.to_owned()), ..to.clone() };
                    self.post_texts(&thread, card).await?;
                    self.shared.told.add(key);
                }
                self.edit_cut(to, id, &shown_in_thread(card)).await
            }
            Err(Trouble::Form(_)) => self.edit_cut(to, id, card).await,
            edited => edited,
        };
        match edited {
            Ok(()) => {
                let message = MessageRef { address: to.address(), id: id.to_owned() };
                Ok(Receipt { message, left_behind: None })
            }
            // An edit changes nothing the second time: what may have been lost is
            // simply done again.
            Err(Trouble::Final(SendError::Unknown { reason })) => {
                Err(SendError::Retry { after: Duration::from_secs(1), reason })
            }
            // Buttons of a card that has ended must go, whatever the platform says.
            Err(Trouble::Final(SendError::Rejected { reason }) | Trouble::Form(reason))
                if !is_open =>
            {
                Err(SendError::Retry { after: Duration::from_mins(1), reason })
            }
            Err(trouble) => Err(trouble.into_error()),
        }
    }

    async fn edit_cut(&self, to: &Target, id: &str, card: &Card) -> Result<(), Trouble> {
        for message in shorter_and_shorter(card, EDITED_WORDS) {
            match self.edit(to, id, &message).await {
                Err(Trouble::Form(_)) => {}
                edited => return edited,
            }
        }
        Err(refused_in_every_form())
    }

    /// Posts every text of the card in full.
    async fn post_texts(&self, to: &Target, card: &Card) -> Result<(), SendError> {
        match render::texts(card) {
            Whole::Messages(messages) => {
                for message in &messages {
                    self.post_patiently(to, message).await?;
                }
                Ok(())
            }
            Whole::File(text) => self.post_file(to, &card.reference, text).await,
        }
    }

    async fn post_file(&self, to: &Target, name: &str, text: String) -> Result<(), SendError> {
        let (file, length) = (format!("{name}.txt"), text.len().to_string());
        let fields = [("filename", file.as_str()), ("length", length.as_str())];
        let ticket: Ticket =
            self.form("files.getUploadURLExternal", &fields).await.map_err(send_error)?;
        self.shared.api.upload(&ticket.upload_url, text.into_bytes()).await.map_err(send_error)?;
        let mut done = json!({
            "files": [{ "id": ticket.file_id, "title": format!("The whole text of {name}") }],
            "channel_id": to.channel,
        });
        if let (Some(thread), Some(fields)) = (&to.thread, done.as_object_mut()) {
            fields.insert("thread_ts".to_owned(), thread.as_str().into());
        }
        let shared: Result<Value, Fault> = self.call("files.completeUploadExternal", &done).await;
        shared.map(|_| ()).map_err(send_error)
    }

    /// Posts one of several messages that belong together, so waits for the turn
    /// of each.
    pub(crate) async fn post_patiently(
        &self,
        to: &Target,
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

/// The forms of a new card that leave nothing out. One that is too long for a card
/// is not put into words instead: so many are folded.
fn whole_forms(card: &Card) -> Vec<Message> {
    match render::whole_card(card) {
        Some(message) => {
            std::iter::once(message).chain(render::whole_words(card, POSTED_WORDS)).collect()
        }
        None => Vec::new(),
    }
}

/// The forms of a card that may be cut, each shorter than the one before, the
/// last in words alone.
fn shorter_and_shorter(card: &Card, words: usize) -> [Message; 3] {
    [
        render::cut_card(card, BUDGET),
        render::cut_card(card, BUDGET / 4),
        render::cut_words(card, words),
    ]
}

fn shown_above(card: &Card) -> Card {
    Card { status: "The whole text stands above.".to_owned(), ..card.clone() }
}

fn shown_in_thread(card: &Card) -> Card {
    Card { status: "The whole text stands in the thread.".to_owned(), ..card.clone() }
}

fn content(message: &Message) -> SlackMessageContent {
    let content = SlackMessageContent::new().with_text(message.text.clone());
    if message.blocks.is_empty() { content } else { content.with_blocks(message.blocks.clone()) }
}

/// Where the message really stands.
fn receipt(to: &Target, posted: Posted) -> Receipt {
    let place = Target { channel: posted.channel, ..to.clone() };
    let message = MessageRef { address: place.address(), id: posted.ts };
    Receipt { message, left_behind: None }
}

pub(crate) fn send_error(fault: Fault) -> SendError {
    match fault {
        Fault::NotSent(reason) => SendError::Retry { after: Duration::from_secs(1), reason },
        Fault::Lost(reason) => SendError::Unknown { reason },
        Fault::Wait(after) => SendError::Busy { after },
        Fault::Refused { refusal, words } => match (refusal, refusal.remedy()) {
            (Refusal::Gone, _) => SendError::Gone,
            (Refusal::Server, _) => SendError::Unknown { reason: format!("Slack says {words}") },
            // The operator has to do something; until then it is worth trying.
            (_, remedy) if refusal.is_for_the_operator() => {
                let reason = remedy.map_or_else(|| format!("Slack says {words}"), str::to_owned);
                SendError::Retry { after: Duration::from_mins(1), reason }
            }
            (_, Some(remedy)) => SendError::Unreachable { reason: remedy.to_owned() },
            (_, None) => SendError::Rejected { reason: words },
        },
    }
}

fn refused_in_every_form() -> Trouble {
    Trouble::Form("Slack refused every form of it".to_owned())
}

pub(crate) fn no_such_place() -> SendError {
    SendError::Unreachable { reason: "this is no Slack conversation".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_workspace_a_conversation_and_perhaps_a_thread() {
        let parse = |text: &str| Target::parse(&Address(text.to_owned()));
        let found = parse("T1:D1").unwrap();
        assert_eq!((found.channel.as_str(), found.thread.as_deref()), ("D1", None));
        let found = parse("E1:C1:17.0001").unwrap();
        assert_eq!((found.realm.as_str(), found.thread.as_deref()), ("E1", Some("17.0001")));
        assert_eq!(found.address().0, "E1:C1:17.0001");
        for bad in ["", "T1", "T1:", ":D1", "T1:D1:1:2"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
