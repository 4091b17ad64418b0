//! What the server holds.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value};

use crate::telegram::record;

/// A call that a bot made.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The method, as the documentation spells it.
    pub method: String,
    /// What it was called with.
    pub parameters: Map<String, Value>,
}

/// A message as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// Its id in its chat.
    pub id: i64,
    /// Who wrote it.
    pub from: i64,
    /// The text.
    pub text: String,
    /// How parts of it look.
    pub entities: Vec<Value>,
    /// The buttons by row: label and data.
    pub buttons: Vec<Vec<(String, String)>>,
    /// The topic it stands in.
    pub topic: Option<i64>,
    /// The message that it replies to.
    pub reply_to: Option<i64>,
    /// How often it was edited.
    pub edits: usize,
    /// The text of a file that came with it.
    pub file: Option<String>,
}

/// How a press was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The press.
    pub id: String,
    /// The words.
    pub text: String,
    /// Whether they stay until they are dismissed.
    pub is_alert: bool,
}

/// A refusal in the server's form.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) code: u16,
    pub(super) words: String,
    pub(super) parameters: Option<Value>,
}

impl Refusal {
    pub(super) fn new(code: u16, words: &str) -> Self {
        Self { code, words: words.to_owned(), parameters: None }
    }
}

#[derive(Default)]
pub(super) struct Webhook {
    pub(super) url: String,
    pub(super) secret: String,
    pub(super) last_error: Option<String>,
}

#[derive(Default)]
pub(super) struct Chat {
    /// `private`, `group`, `supergroup`.
    pub(super) kind: String,
    pub(super) messages: BTreeMap<i64, Shown>,
    /// Where it has moved.
    pub(super) moved_to: Option<i64>,
    /// Topics that take messages.
    pub(super) topics: HashSet<i64>,
    /// The words with which the bot is refused there, if it is.
    pub(super) refusal: Option<(u16, String)>,
    /// Whether the bot is told everything there.
    pub(super) is_bot_administrator: bool,
}

#[derive(Default)]
pub(super) struct World {
    pub(super) calls: Vec<Call>,
    pub(super) chats: HashMap<i64, Chat>,
    pub(super) updates: Vec<(i64, Value)>,
    pub(super) last_update: i64,
    pub(super) last_message: i64,
    pub(super) last_press: i64,
    /// Presses that were not answered yet.
    pub(super) open_presses: HashSet<String>,
    pub(super) answered: Vec<Answered>,
    pub(super) webhook: Webhook,
    pub(super) allowed: Option<Vec<String>>,
    /// How often each update was given out.
    pub(super) served: HashMap<i64, usize>,
    /// The number of the newest poll; an older one that still waits is ended.
    pub(super) poll: u64,
}

impl World {
    /// Puts an update in the queue, if the bot wants its kind.
    pub(super) fn push(&mut self, kind: &str, content: Value) -> i64 {
        self.last_update += 1;
        let number = self.last_update;
        // By default reactions are left out.
        let is_wanted = match &self.allowed {
            Some(allowed) if !allowed.is_empty() => allowed.iter().any(|name| name == kind),
            _ => !["message_reaction", "message_reaction_count", "chat_member"].contains(&kind),
        };
        if is_wanted {
            self.enqueue(number, kind, content, false);
        }
        number
    }

    /// Puts an update in the queue, whatever the bot wants.
    pub(super) fn force(&mut self, kind: &str, content: Value) -> i64 {
        self.last_update += 1;
        self.enqueue(self.last_update, kind, content, true);
        self.last_update
    }

    fn enqueue(&mut self, number: i64, kind: &str, content: Value, is_forced: bool) {
        let mut update = Map::new();
        update.insert("update_id".to_owned(), number.into());
        update.insert(kind.to_owned(), content);
        let update = Value::Object(update);
        record::note("update", kind, &update, is_forced);
        self.updates.push((number, update));
    }

    pub(super) fn next_message(&mut self) -> i64 {
        self.last_message += 1;
        self.last_message
    }
}
