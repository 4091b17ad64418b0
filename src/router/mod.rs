//! The reply router: what a person did → a decision, an answer, or nothing of
//! ours.
//!
//! ```text
//! reaction → tap → code → reply to a card → asked reason → bare answer → bare words → not ours
//! ```
//!
//! An account that belongs to nobody gets no further than [`stranger`].
//!
//! One file a stage. A stage only says what the person *means* ([`Intent`]);
//! [`route`] carries it out by the primitive, in one transaction with the
//! reading of what is open and with the end of the inbox item. So nothing can
//! come between, and a crash repeats the routing, not the effect.

mod address;
mod bare;
mod intent;
mod prompt;
mod reaction;
pub mod reading;
mod stranger;
mod tap;
mod voice;

use async_trait::async_trait;
use sayso_channel::{Event, Inbound, Privacy};

use crate::decisions::{self, Actor, Attempt, Means, Policy, Ruling, Verdict};
use crate::ids::{InboxId, RequestId};
use crate::requests::Request;
use crate::requests::action::Callback;
use crate::requests::status::Status;
use crate::router::intent::Intent;
use crate::store::inbox::{Fate, Item};
use crate::store::strangers::Account;
use crate::store::{self, StoreError, Tx, Write};
use crate::wording;

/// What became of something that a person did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is the decision.
    Applied,
    /// Another was first, or the request was taken back.
    AlreadyDecided,
    /// The deadline has passed.
    Expired,
    /// Not theirs to decide.
    NotPermitted,
    /// Nobody can decide it, through our fault.
    NotDecidable,
    /// Not decided like that.
    WrongAction,
    /// No such request, or none of theirs.
    NotFound,
    /// It names a request and doesn't say what.
    Clarify,
    /// It could mean several.
    Disambiguate,
    /// It is not ours; it goes to the agent.
    Passed,
}

impl Outcome {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::AlreadyDecided => "already_decided",
            Self::Expired => "expired",
            Self::NotPermitted => "not_permitted",
            Self::NotDecidable => "not_decidable",
            Self::WrongAction => "wrong_action",
            Self::NotFound => "not_found",
            Self::Clarify => "clarify",
            Self::Disambiguate => "disambiguate",
            Self::Passed => "passed",
        }
    }
}

/// What became of it, which request it was about, and what to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routed {
    /// What became of it.
    pub outcome: Outcome,
    /// The request.
    pub request: Option<RequestId>,
    /// How the request stands now.
    pub status: Option<Status>,
    /// The words for the person.
    pub reply: Option<String>,
    /// Whether they have to be at hand while the person answers.
    pub is_needed: bool,
    /// Whether it came from somebody we know.
    pub is_known: bool,
    /// Whether the whole text is to be shown now.
    pub reveals: bool,
}

impl Routed {
    fn new(outcome: Outcome, request: Option<&Request>, reply: Option<String>) -> Self {
        let (id, status) = (request.map(|r| r.id), request.map(|r| r.status));
        Self {
            outcome,
            request: id,
            status,
            reply,
            is_needed: false,
            is_known: true,
            reveals: false,
        }
    }

    /// Nothing came of it, without a request.
    pub fn refused(outcome: Outcome, reply: Option<String>) -> Self {
        Self::new(outcome, None, reply)
    }

    /// Not ours, nothing to say.
    fn passed() -> Self {
        Self::new(Outcome::Passed, None, None)
    }
}

impl From<Ruling> for Routed {
    fn from(ruling: Ruling) -> Self {
        let reply = Some(wording::ruling(&ruling));
        match ruling {
            Ruling::Applied(request) => Self::new(Outcome::Applied, Some(&request), reply),
            Ruling::AlreadyDecided(request) => {
                Self::new(Outcome::AlreadyDecided, Some(&request), reply)
            }
            Ruling::Expired(request) => Self::new(Outcome::Expired, Some(&request), reply),
            Ruling::NotPermitted => Self::new(Outcome::NotPermitted, None, reply),
            Ruling::NotDecidable(request) => {
                Self::new(Outcome::NotDecidable, Some(&request), reply)
            }
            Ruling::WrongAction(request, _) => {
                Self::new(Outcome::WrongAction, Some(&request), reply)
            }
            Ruling::NotFound => Self::new(Outcome::NotFound, None, reply),
        }
    }
}

/// How an item that is routed came to be stored.
#[derive(Debug, Clone)]
pub enum Arrival {
    /// It was stored before.
    Stored(InboxId),
    /// It is stored together with what comes of it.
    New(Item),
}

/// Routes one inbound item; it is then stored as dealt with.
#[derive(Debug, Clone)]
pub struct Route {
    /// The item.
    pub arrival: Arrival,
    /// The channel that reported it.
    pub channel: String,
    /// What it reported.
    pub inbound: Inbound,
    /// What the operator allows.
    pub policy: Policy,
    /// Whether words to a person are posted there as messages.
    pub speaks: bool,
}

#[async_trait]
impl Write for Route {
    type Out = Routed;

    fn reads(&self) -> Option<RequestId> {
        match &self.inbound.event {
            Event::Tap { token, .. } => token.as_str().parse::<Callback>().ok().map(|c| c.request),
            Event::Reaction { .. }
            | Event::Text { .. }
            | Event::Reach { .. }
            | Event::Moved { .. }
            | Event::Ignored => None,
        }
    }

    async fn run(&self, tx: &mut Tx) -> Result<Routed, StoreError> {
        let Self { channel, inbound, policy, speaks, .. } = self;
        if let Arrival::New(item) = &self.arrival {
            // Of one conversation one at a time, whichever process it came to.
            store::requests::wait_turn(tx, &item.lane).await?;
        }
        let routed = route(tx, channel, inbound, *policy, *speaks).await?;
        let fate = Fate {
            outcome: routed.outcome.as_str().to_owned(),
            reply: routed.reply.clone(),
            request: routed.request.map(|id| id.to_string()),
        };
        let is_first = match &self.arrival {
            Arrival::Stored(id) => store::inbox::finish(tx, *id, &fate).await?,
            Arrival::New(item) => store::inbox::insert_done(tx, item, &fate).await?,
        };
        if !is_first {
            return Err(StoreError::AlreadyDone);
        }
        if self.speaks {
            voice::owe(tx, &self.channel, &self.inbound, &routed).await?;
        }
        Ok(routed)
    }
}

/// Finds out what a person means and carries it out. `speaks` is
/// [`Route::speaks`].
///
/// # Errors
///
/// [`StoreError`]: nothing happened unless the enclosing transaction commits.
pub async fn route(
    tx: &mut Tx,
    channel: &str,
    inbound: &Inbound,
    policy: Policy,
    speaks: bool,
) -> Result<Routed, StoreError> {
    let account = &inbound.actor;
    let is_tap = matches!(inbound.event, Event::Tap { .. });
    let address = inbound.place.address.as_str();
    if let Event::Moved { from } = &inbound.event {
        store::people::move_address(tx, channel, from, address).await?;
        return Ok(Routed::passed());
    }
    let is_private = inbound.place.privacy == Privacy::Private;
    if let Event::Reach { is_open, reason } = &inbound.event
        && !is_private
    {
        // Whoever did it: it is so.
        let why = (!is_open).then_some(reason.as_str());
        store::places::set_closed(tx, channel, address, why).await?;
    }
    let found = store::people::find_by_account(tx, channel, &account.realm, &account.id).await?;
    let Some((binding, person)) = found.filter(|_| !account.is_automated) else {
        // Nobody we know. A press wants an answer; the rest is not for us.
        if is_tap {
            return Ok(Routed::from(Ruling::NotPermitted));
        }
        let met = stranger::meet(tx, channel, inbound, speaks).await?;
        return Ok(Routed { is_known: false, ..met });
    };
    if let Event::Reach { is_open: false, reason } = &inbound.event {
        if is_private {
            store::people::set_trouble(tx, binding.id, reason).await?;
        }
        return Ok(Routed::passed());
    }
    if !is_private && !address.is_empty() && inbound.event != Event::Ignored {
        store::places::see(tx, channel, address).await?;
    }
    // Where somebody talks to us alone is where they are reached.
    if is_private && binding.address.as_deref() != Some(address) && !address.is_empty() {
        store::people::set_address(tx, binding.id, address).await?;
    }
    // A page says itself when somebody looks at it.
    if is_private && speaks {
        store::people::see(tx, &binding).await?;
    }
    let actor = Actor {
        principal: person.id,
        name: person.name,
        binding: Some(binding.id),
        channel: channel.to_owned(),
    };
    // No database text can hold it, and nobody can type it.
    let clean = |text: &str| text.replace('\0', "\u{fffd}");
    let intent = match &inbound.event {
        Event::Reaction { emoji, message } => {
            reaction::read(tx, channel, address, emoji, message).await?
        }
        Event::Tap { token, text, message } => {
            if let (Some(message), Ok(Callback { request, .. })) =
                (message, token.as_str().parse::<Callback>())
                && is_private
                && speaks
            {
                store::deliveries::adopt(tx, request, channel, address, message).await?;
            }
            tap::read(tx, token, text.as_deref().map(clean).as_deref()).await?
        }
        Event::Text { is_secondhand: true, text, .. } => bare::secondhand(text),
        Event::Text { text, reply_to, .. } => {
            let text = clean(text);
            if stranger::is_start(&text) {
                let words = wording::known(&actor.name);
                return Ok(Routed::new(Outcome::Passed, None, Some(words)));
            }
            let place = bare::Conversation { channel, address };
            // A command is its words.
            let words = text.strip_prefix('/').unwrap_or(&text);
            let account = Account { channel, realm: &account.realm, id: &account.id };
            read_text(tx, &actor, account, place, words, reply_to.as_deref()).await?
        }
        Event::Reach { .. } | Event::Moved { .. } | Event::Ignored => Intent::Nothing,
    };
    let routed = carry_out(tx, &actor, intent, policy).await?;
    if let Some(request) = routed.request.filter(|_| routed.is_needed && is_private)
        && speaks
    {
        store::prompts::ask(tx, channel, address, request).await?;
    }
    Ok(routed)
}

/// The stages for text, in order.
async fn read_text(
    tx: &mut Tx,
    actor: &Actor,
    account: Account<'_>,
    place: bare::Conversation<'_>,
    text: &str,
    reply_to: Option<&str>,
) -> Result<Intent, StoreError> {
    if let Some(intent) = address::by_code(tx, actor, account, text).await? {
        return Ok(intent);
    }
    let mut is_about_another = false;
    if let Some(message) = reply_to {
        let card = store::requests::find_by_message(tx, place.channel, place.address, message);
        if let Some(request) = card.await? {
            return Ok(address::about(request, text, Means::Quote));
        }
        is_about_another = true;
    }
    if let Some(intent) = prompt::read(tx, actor, place, text).await? {
        return Ok(intent);
    }
    let intent = bare::read(tx, actor, place, text).await?;
    if is_about_another && matches!(intent, Intent::Decide { .. }) {
        // A reply to something else is no word about what happens to wait here.
        let (channel, address) = (place.channel, place.address);
        let live = store::requests::list_live_at(tx, actor.principal, channel, address).await?;
        return Ok(Intent::Pass(Some(wording::hint(&live))));
    }
    Ok(intent)
}

async fn carry_out(
    tx: &mut Tx,
    actor: &Actor,
    intent: Intent,
    policy: Policy,
) -> Result<Routed, StoreError> {
    match intent {
        Intent::Decide { request, verdict, means } => {
            let attempt = Attempt { request, revision: None, verdict, means };
            let ruling = decisions::decide(tx, actor, &attempt, policy).await?;
            told(tx, ruling).await
        }
        Intent::Reveal(request) => {
            if request.guardian != actor.principal {
                return Ok(Routed::from(Ruling::NotPermitted));
            }
            if request.status.is_final() {
                return told(tx, ended(request)).await;
            }
            let is_whole = decisions::was_shown_whole(&request, &actor.channel);
            decisions::reveal(tx, &request, actor).await?;
            let reply = wording::revealed(&request, is_whole);
            let routed = Routed::new(Outcome::Clarify, Some(&request), Some(reply));
            Ok(Routed { reveals: true, ..routed })
        }
        Intent::Clarify(request) => {
            if request.guardian != actor.principal {
                return Ok(Routed::from(Ruling::NotFound));
            }
            if request.status.is_final() || request.deadline <= tx.now() {
                return told(tx, ended(request)).await;
            }
            let reply = wording::clarify(&request);
            Ok(Routed::new(Outcome::Clarify, Some(&request), Some(reply)))
        }
        Intent::AskReason(request) => {
            if request.guardian != actor.principal {
                return Ok(Routed::from(Ruling::NotPermitted));
            }
            if request.status.is_final() || request.deadline <= tx.now() {
                return told(tx, ended(request)).await;
            }
            let reply = Some(wording::ask_reason(&request));
            let routed = Routed::new(Outcome::Clarify, Some(&request), reply);
            Ok(Routed { is_needed: true, ..routed })
        }
        Intent::Disambiguate(candidates) => {
            let reply = wording::disambiguate(&candidates);
            Ok(Routed::new(Outcome::Disambiguate, None, Some(reply)))
        }
        Intent::Say(outcome, reply) => Ok(Routed::new(outcome, None, Some(reply))),
        Intent::Pass(hint) => Ok(Routed::new(Outcome::Passed, None, hint)),
        Intent::Unread => Ok(Routed::new(Outcome::NotFound, None, None)),
        Intent::Nothing => Ok(Routed::passed()),
    }
}

/// What the person is told; of a request that was replaced, also the one that
/// stands in its place.
async fn told(tx: &mut Tx, ruling: Ruling) -> Result<Routed, StoreError> {
    let mut newest = match &ruling {
        Ruling::AlreadyDecided(old) => old.superseded_by,
        _ => None,
    };
    let mut routed = Routed::from(ruling);
    while let Some(id) = newest {
        let Some(request) = store::requests::find(tx, id).await? else { break };
        newest = request.superseded_by;
        if newest.is_none() && !request.status.is_final() {
            routed.reply = Some(wording::replaced(&request));
        }
    }
    Ok(routed)
}

fn ended(request: Request) -> Ruling {
    match request.status {
        Status::Pending | Status::Expired => Ruling::Expired(request),
        _ => Ruling::AlreadyDecided(request),
    }
}

/// The operator decides at the keyboard in the name of a guardian.
#[derive(Debug, Clone)]
pub struct DecideAtKeyboard {
    /// The request.
    pub request: RequestId,
    /// In whose name.
    pub actor: Actor,
    /// What.
    pub verdict: Verdict,
    /// What the operator allows.
    pub policy: Policy,
}

#[async_trait]
impl Write for DecideAtKeyboard {
    type Out = Routed;

    fn reads(&self) -> Option<RequestId> {
        Some(self.request)
    }

    async fn run(&self, tx: &mut Tx) -> Result<Routed, StoreError> {
        let attempt = Attempt {
            request: self.request,
            revision: None,
            verdict: self.verdict.clone(),
            means: Means::Keyboard,
        };
        let ruling = decisions::decide(tx, &self.actor, &attempt, self.policy).await?;
        told(tx, ruling).await
    }
}
