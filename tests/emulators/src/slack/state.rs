//! What the workspace holds.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::slack::delivery::{Delivery, Order, Outgoing, RequestUrls};
use crate::slack::{APP_ID, BOT_ID, BOT_USER, TEAM_ID};

/// A call that a bot made.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The method.
    pub method: String,
    /// What it was called with, without the token.
    pub parameters: Map<String, Value>,
}

/// Somebody, or something, with an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// `U…`, in organisations also `W…`.
    pub id: String,
    /// The handle.
    pub name: String,
    /// Whether it is an app's account.
    pub is_bot: bool,
    /// Whether the account was closed.
    pub is_deleted: bool,
    /// The workspace that it belongs to.
    pub team: String,
}

/// What a conversation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Two who write to each other.
    Im,
    /// More than two, without a name.
    Mpim,
    /// A channel that everybody finds.
    Public,
    /// A channel for its members.
    Private,
}

impl Kind {
    /// The word that events carry.
    pub(super) fn channel_type(self) -> &'static str {
        match self {
            Self::Im => "im",
            Self::Mpim => "mpim",
            Self::Public => "channel",
            Self::Private => "group",
        }
    }
}

/// A message as it stands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shown {
    /// Its id in its conversation.
    pub ts: String,
    /// The thread that it stands in; a thread's first message has its own.
    pub thread_ts: Option<String>,
    /// Who wrote it; empty for a message that has no account.
    pub user: String,
    /// The bot that wrote it.
    pub bot_id: Option<String>,
    /// What sort of message it is, when it is no ordinary one.
    pub subtype: Option<String>,
    /// The text as it went over the wire.
    pub text: String,
    /// The blocks, with the ids that Slack fills in.
    pub blocks: Vec<Value>,
    /// The old kind of blocks.
    pub attachments: Vec<Value>,
    /// Data that people don't see.
    pub metadata: Option<Value>,
    /// Names of reactions, and who gave them.
    pub reactions: Vec<(String, Vec<String>)>,
    /// The files that came with it.
    pub files: Vec<Value>,
    /// How often it was changed.
    pub edits: usize,
    /// The mark that a change leaves.
    pub(super) edited: Option<Value>,
    /// What only some senders' messages have.
    pub(super) extra: Map<String, Value>,
}

/// A button or another control as a person finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Button {
    /// What stands on it.
    pub label: String,
    /// Its name for the app.
    pub action_id: String,
    /// What it carries.
    pub value: String,
}

/// A message that one person sees, until they reload.
#[derive(Debug, Clone, PartialEq)]
pub struct Ephemeral {
    /// Where.
    pub channel: String,
    /// Who sees it.
    pub user: String,
    /// What.
    pub shown: Shown,
}

/// A dialog that is open, or was.
#[derive(Debug, Clone, PartialEq)]
pub struct Modal {
    /// Its id.
    pub id: String,
    /// Whose screen it is on.
    pub user: String,
    /// What it shows, as the API gives it.
    pub view: Value,
    /// Whether it is still there.
    pub is_open: bool,
    /// What the app found wrong with the input, by block.
    pub errors: Map<String, Value>,
    /// Whether the last submission got no proper answer, which people see.
    pub is_in_trouble: bool,
}

/// A file that was uploaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What is in it.
    pub content: Vec<u8>,
    /// Where it was shared.
    pub shared_in: Option<String>,
    pub(super) length: usize,
    pub(super) title: String,
    pub(super) is_received: bool,
    pub(super) is_complete: bool,
}

/// A refusal in the server's form.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) error: String,
    /// Explanations, without their level.
    pub(super) messages: Vec<String>,
    /// Further fields of the answer.
    pub(super) more: Map<String, Value>,
    /// To be tried again after so many seconds.
    pub(super) retry_after: Option<u64>,
}

impl Refusal {
    pub(super) fn new(error: &str) -> Self {
        Self { error: error.to_owned(), messages: vec![], more: Map::new(), retry_after: None }
    }

    pub(super) fn explained(error: &str, messages: Vec<String>) -> Self {
        Self { messages, ..Self::new(error) }
    }
}

pub(super) struct Place {
    pub(super) id: String,
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) members: BTreeSet<String>,
    pub(super) is_archived: bool,
    /// Whether another organisation takes part.
    pub(super) is_ext_shared: bool,
    pub(super) created: u64,
    pub(super) messages: BTreeMap<String, Shown>,
}

impl Place {
    /// Whether the bot may know that it exists.
    pub(super) fn is_visible(&self) -> bool {
        self.kind == Kind::Public || self.has_bot()
    }

    pub(super) fn has_bot(&self) -> bool {
        self.members.contains(BOT_USER)
    }
}

/// What may be done with a trigger once, for a short time.
pub(super) struct Trigger {
    pub(super) until: Instant,
    pub(super) user: String,
    pub(super) is_used: bool,
    /// The modal in which it came about.
    pub(super) view: Option<String>,
}

/// An address for answers to one interaction.
pub(super) struct Hook {
    pub(super) until: Instant,
    pub(super) uses: usize,
    pub(super) channel: String,
    pub(super) user: String,
    /// The message that was pressed on.
    pub(super) on: Option<String>,
}

pub(super) struct Connection {
    pub(super) number: u64,
    pub(super) orders: mpsc::UnboundedSender<Order>,
}

/// An envelope that nobody acknowledged yet.
pub(super) struct Pending {
    pub(super) connection: u64,
    pub(super) acked: oneshot::Sender<Option<Value>>,
}

/// How a bot's change marks the message in the event about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EditMark {
    /// With who and when, if the text changed.
    #[default]
    Whole,
    /// Without who.
    WithoutUser,
    /// Not at all.
    Missing,
}

/// Spans and switches.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub(super) struct Settings {
    pub(super) enterprise: Option<String>,
    pub(super) is_org_wide: bool,
    pub(super) ack_within: Duration,
    pub(super) retry_after: [Duration; 3],
    pub(super) trigger_lives: Duration,
    pub(super) hook_lives: Duration,
    pub(super) ping_every: Duration,
    pub(super) warns_before: Duration,
    pub(super) enforces_rates: bool,
    pub(super) names_item_user: bool,
    pub(super) mention_first: bool,
    pub(super) edit_mark: EditMark,
    pub(super) skew: i64,
    /// What requests are signed with instead of the app's own secret.
    pub(super) wrong_secret: Option<String>,
    pub(super) urls: Option<RequestUrls>,
    /// What every call is refused with, if the account or token is no good.
    pub(super) account_refusal: Option<String>,
    pub(super) scopes: BTreeSet<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            enterprise: None,
            is_org_wide: false,
            ack_within: Duration::from_secs(3),
            retry_after: [1, 60, 300].map(Duration::from_secs),
            trigger_lives: Duration::from_secs(3),
            hook_lives: Duration::from_mins(30),
            ping_every: Duration::from_secs(10),
            warns_before: Duration::from_secs(10),
            enforces_rates: false,
            names_item_user: true,
            mention_first: false,
            edit_mark: EditMark::Whole,
            skew: 0,
            wrong_secret: None,
            urls: None,
            account_refusal: None,
            scopes: super::web::ALL_SCOPES.iter().map(|scope| (*scope).to_owned()).collect(),
        }
    }
}

pub(super) struct World {
    pub(super) settings: Settings,
    /// Where the server listens.
    pub(super) address: String,
    pub(super) calls: Vec<Call>,
    pub(super) users: BTreeMap<String, User>,
    pub(super) places: BTreeMap<String, Place>,
    pub(super) ephemerals: Vec<Ephemeral>,
    pub(super) modals: Vec<Modal>,
    pub(super) uploads: Vec<Upload>,
    pub(super) statuses: Vec<(String, String, String)>,
    pub(super) triggers: HashMap<String, Trigger>,
    pub(super) hooks: HashMap<String, Hook>,
    /// What people chose in messages, by person, message and control.
    pub(super) choices: HashMap<String, Value>,
    pub(super) tickets: BTreeSet<String>,
    pub(super) connections: VecDeque<Connection>,
    pub(super) pending: HashMap<String, Pending>,
    pub(super) acked: Vec<String>,
    pub(super) deliveries: Vec<Delivery>,
    /// What is kept back until a test lets it go.
    pub(super) held: Option<Vec<Outgoing>>,
    pub(super) queue: mpsc::UnboundedSender<Outgoing>,
    pub(super) rates: HashMap<String, VecDeque<Instant>>,
    /// The second that timestamps began with.
    pub(super) base: u64,
    clock: u64,
    numbers: u64,
}

impl World {
    pub(super) fn new(address: String, queue: mpsc::UnboundedSender<Outgoing>) -> Self {
        let bot = User {
            id: BOT_USER.to_owned(),
            name: "sayso".to_owned(),
            is_bot: true,
            is_deleted: false,
            team: TEAM_ID.to_owned(),
        };
        Self {
            settings: Settings::default(),
            address,
            calls: Vec::new(),
            users: BTreeMap::from([(bot.id.clone(), bot)]),
            places: BTreeMap::new(),
            ephemerals: Vec::new(),
            modals: Vec::new(),
            uploads: Vec::new(),
            statuses: Vec::new(),
            triggers: HashMap::new(),
            hooks: HashMap::new(),
            choices: HashMap::new(),
            tickets: BTreeSet::new(),
            connections: VecDeque::new(),
            pending: HashMap::new(),
            acked: Vec::new(),
            deliveries: Vec::new(),
            held: None,
            queue,
            rates: HashMap::new(),
            base: 1_760_000_000,
            clock: 0,
            numbers: 0,
        }
    }

    /// The next timestamp, later than every other.
    pub(super) fn next_ts(&mut self) -> String {
        self.clock += 1;
        let micros = self.clock * 100 % 1_000_000;
        format!("{}.{micros:06}", self.base + self.clock)
    }

    /// The second that it is by the workspace's own clock.
    pub(super) fn now(&self) -> u64 {
        self.base + self.clock
    }

    /// A number that was not given out before, also not by an earlier run that
    /// began at another second.
    pub(super) fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.base % 1_000_000_000 * 1_000 + self.numbers
    }

    /// A fresh id that begins so.
    pub(super) fn next_id(&mut self, prefix: &str) -> String {
        let number = self.next_number();
        format!("{prefix}0{number:09X}")
    }

    /// Finds the direct conversation between two, or begins it.
    pub(super) fn im(&mut self, one: &str, other: &str) -> String {
        let both: BTreeSet<String> = [one, other].map(str::to_owned).into();
        let known = self.places.values().find(|p| p.kind == Kind::Im && p.members == both);
        if let Some(known) = known {
            return known.id.clone();
        }
        let person = if one == BOT_USER { other } else { one };
        let tail = person.get(1..).unwrap_or_default();
        let id = if both.contains(BOT_USER) { format!("D{tail}") } else { self.next_id("D") };
        self.add_place(&id, Kind::Im, "", both);
        id
    }

    pub(super) fn add_place(
        &mut self,
        id: &str,
        kind: Kind,
        name: &str,
        members: BTreeSet<String>,
    ) {
        let place = Place {
            id: id.to_owned(),
            kind,
            name: name.to_owned(),
            members,
            is_archived: false,
            is_ext_shared: false,
            created: self.now(),
            messages: BTreeMap::new(),
        };
        self.places.insert(id.to_owned(), place);
    }

    /// A message of the bot's, not posted yet.
    pub(super) fn bots_own(&mut self) -> Shown {
        Shown {
            ts: self.next_ts(),
            user: BOT_USER.to_owned(),
            bot_id: Some(BOT_ID.to_owned()),
            extra: Map::from_iter([("app_id".to_owned(), APP_ID.into())]),
            ..Shown::default()
        }
    }
}
