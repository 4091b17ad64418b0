//! Decisions: the only ways in which a request changes.
//!
//! [`decide`] is the one primitive for every surface. Like [`open()`], [`cancel`]
//! and [`expire`] it runs in the caller's transaction, together with everything
//! that must be true with it: the audit row, what the cards have to show, what
//! is owed to the agent. First writer wins; the loser is told who won.

mod attempt;
pub mod authority;
mod open;

pub use attempt::{Actor, Attempt, Means, Policy, Ruling, Verdict};
pub use open::{Deadline, NewRequest, OpenError, Opened, Opening, open, prepare_delivery};

use crate::decisions::authority::Objection;
use crate::display::make_safe;
use crate::ids::RequestId;
use crate::requests::status::{Status, TransitionError};
use crate::requests::{Content, Outcome, Request};
use crate::resolvers;
use crate::store::requests::Closing;
use crate::store::{self, StoreError, Tx, audit, deliveries};

/// UTF-16 code units that every surface shows whole; a longer text has to be
/// shown whole somewhere before it can be approved. The smallest capacity of a
/// channel is 2,400.
pub const WHOLE_UNITS: usize = 2_000;
/// Those that a page shows, where no card stands yet.
const PAGE_UNITS: usize = 4_000;

/// Decides a request, if `actor` may and nobody was first.
///
/// Safe to repeat: the second call finds the first one's decision and changes
/// nothing. Losing and refused attempts leave an audit row.
///
/// # Errors
///
/// [`StoreError`]: nothing is decided unless the enclosing transaction commits.
pub async fn decide(
    tx: &mut Tx,
    actor: &Actor,
    attempt: &Attempt,
    policy: Policy,
) -> Result<Ruling, StoreError> {
    let Some(request) = store::requests::find(tx, attempt.request).await? else {
        return Ok(Ruling::NotFound);
    };
    if request.guardian != actor.principal {
        note(tx, "decision.refused", &request, actor, attempt);
        return Ok(Ruling::NotPermitted);
    }
    if request.shown.guardian_is_gone {
        note(tx, "decision.refused", &request, actor, attempt);
        return Ok(Ruling::NotDecidable(request));
    }
    let now = tx.now();
    let after = request.status.after(attempt.verdict.transition(), request.deadline, now);
    let status = match after {
        Ok(status) => status,
        Err(error) => return Ok(lost(tx, request, actor, attempt, error)),
    };
    let is_changed = attempt.revision.is_some_and(|shown| shown != request.revision);
    let fits = if is_changed {
        Err(Objection::Changed)
    } else {
        authority::check(&request, actor, attempt, policy)
    };
    if let Err(objection) = fits {
        return Ok(Ruling::WrongAction(request, objection));
    }

    let (answer, reason) = match &attempt.verdict {
        Verdict::Answer(answer) => (Some(answer), None),
        Verdict::Deny { reason } => (None, reason.as_deref()),
        Verdict::Approve | Verdict::Skip => (None, None),
    };
    let closing = Closing {
        id: request.id,
        revision: request.revision,
        status,
        answer,
        reason,
        by: actor.principal,
        binding: actor.binding,
        channel: &actor.channel,
        at: now,
    };
    if !store::requests::close(tx, &closing).await? {
        return beaten(tx, &request, actor, attempt).await;
    }
    audit::insert(
        tx,
        &audit::Event {
            kind: status_event(status),
            request: Some(request.id),
            agent: Some(request.agent),
            actor: Some(&actor.name),
            channel: Some(&actor.channel),
            before: Some(Status::Pending.as_str()),
            after: Some(status.as_str()),
            detail: Some(attempt.means.word()),
        },
    );
    let outcome = Outcome {
        answer: answer.cloned(),
        reason: reason.map(str::to_owned),
        decided_by: Some(actor.principal),
        decided_by_name: Some(actor.name.clone()),
        channel: Some(actor.channel.clone()),
        at: now,
    };
    let version = request.version + 1;
    let decided = Request { status, version, outcome: Some(outcome), ..request };
    follow_through(tx, &decided).await?;
    Ok(Ruling::Applied(decided))
}

/// Takes a request back, for its agent or for the operator.
///
/// # Errors
///
/// [`StoreError`]: nothing is cancelled unless the enclosing transaction
/// commits.
pub async fn cancel(
    tx: &mut Tx,
    id: RequestId,
    reason: &str,
    actor: &str,
    superseded_by: Option<RequestId>,
) -> Result<Ruling, StoreError> {
    if !store::requests::cancel(tx, id, reason, superseded_by).await? {
        let request = store::requests::find(tx, id).await?;
        return Ok(request.map_or(Ruling::NotFound, |r| match r.status {
            Status::Expired => Ruling::Expired(r),
            _ => Ruling::AlreadyDecided(r),
        }));
    }
    let Some(request) = store::requests::find(tx, id).await? else { return Ok(Ruling::NotFound) };
    follow_through(tx, &request).await?;
    audit::insert(
        tx,
        &audit::Event {
            kind: status_event(Status::Cancelled),
            request: Some(id),
            agent: Some(request.agent),
            actor: Some(actor),
            before: Some(Status::Pending.as_str()),
            after: Some(Status::Cancelled.as_str()),
            detail: Some(reason),
            ..audit::Event::default()
        },
    );
    Ok(Ruling::Applied(request))
}

/// Expires what is past its deadline, at most 500; how many.
///
/// # Errors
///
/// [`StoreError`]: nothing expires unless the enclosing transaction commits.
pub async fn expire(tx: &mut Tx) -> Result<usize, StoreError> {
    let expired = store::requests::expire_due(tx).await?;
    for id in &expired {
        let Some(request) = store::requests::find(tx, *id).await? else { continue };
        follow_through(tx, &request).await?;
        audit::insert(
            tx,
            &audit::Event {
                kind: status_event(Status::Expired),
                request: Some(*id),
                agent: Some(request.agent),
                before: Some(Status::Pending.as_str()),
                after: Some(Status::Expired.as_str()),
                ..audit::Event::default()
            },
        );
    }
    Ok(expired.len())
}

/// Notes that the guardian opened the whole text of a request's card at the place
/// where they are.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn reveal(tx: &mut Tx, request: &Request, actor: &Actor) -> Result<(), StoreError> {
    if !deliveries::mark_opened(tx, request.id, actor.binding).await? {
        return Ok(());
    }
    store::requests::bump_version(tx, request.id).await?;
    deliveries::want(tx, request.id);
    audit::insert(
        tx,
        &audit::Event {
            kind: "delivery.opened",
            request: Some(request.id),
            agent: Some(request.agent),
            actor: Some(&actor.name),
            channel: Some(&actor.channel),
            ..audit::Event::default()
        },
    );
    Ok(())
}

/// Whether a person who acts in `channel` could see all of it. A message with
/// the whole text counts, and a page with it that was seen; to somebody at a
/// page, or at the operator's keyboard beside it, also one that stands there now.
/// A text that every surface shows whole always counts.
pub fn was_shown_whole(request: &Request, channel: &str) -> bool {
    let is_at_a_page = matches!(channel, "console" | "cli");
    let shown = request.shown;
    if shown.whole > 0 || (is_at_a_page && shown.whole_pages > 0) {
        return true;
    }
    let limit = if is_at_a_page && shown.cards == 0 { PAGE_UNITS } else { WHOLE_UNITS };
    fits(&request.content, limit)
}

/// Whether every surface can show this content whole.
pub fn fits_everywhere(content: &Content) -> bool {
    fits(content, WHOLE_UNITS)
}

/// Measured as it is drawn, with keys and options, and rather too long than too
/// short: as JSON a text is at least as long as by itself.
fn fits(content: &Content, limit: usize) -> bool {
    let tool = content.tool.as_ref();
    let input = tool.and_then(|tool| serde_json::to_string_pretty(&tool.input).ok());
    let labels = content.options.iter().map(|option| option.label.as_str());
    let texts: Vec<&str> = [
        input.as_deref(),
        content.body.as_deref(),
        content.title.as_deref(),
        tool.map(|tool| tool.name.as_str()),
    ]
    .into_iter()
    .flatten()
    .chain(labels)
    .collect();
    // A character that is spelt out takes ten.
    if texts.iter().map(|text| text.len() + 8).sum::<usize>() * 10 <= limit {
        return true;
    }
    let drawn = |text: &&str| make_safe(text).text.encode_utf16().count() + 8;
    texts.iter().map(drawn).sum::<usize>() <= limit
}

/// What must be true with every end: cards show it, the agent is owed it.
async fn follow_through(tx: &mut Tx, request: &Request) -> Result<(), StoreError> {
    deliveries::want(tx, request.id);
    if let Some((channel, address)) = request.origin()
        && store::places::is_open(tx, channel, address).await?
    {
        store::jobs::enqueue(tx, store::jobs::TELL_PLACE, request.id, "").await?;
    }
    for owed in resolvers::of(request.content.kind).owed(request) {
        store::jobs::enqueue(tx, owed.kind, request.id, &owed.payload).await?;
    }
    Ok(())
}

fn lost(
    tx: &mut Tx,
    request: Request,
    actor: &Actor,
    attempt: &Attempt,
    error: TransitionError,
) -> Ruling {
    let is_late = matches!(error, TransitionError::TooLate) || request.status == Status::Expired;
    let kind = if is_late { "decision.late" } else { "decision.lost" };
    note(tx, kind, &request, actor, attempt);
    if is_late { Ruling::Expired(request) } else { Ruling::AlreadyDecided(request) }
}

/// The compare-and-set matched nothing: somebody was first, or what was true
/// when the request was read is no longer.
async fn beaten(
    tx: &mut Tx,
    request: &Request,
    actor: &Actor,
    attempt: &Attempt,
) -> Result<Ruling, StoreError> {
    let Some(current) = store::requests::find(tx, request.id).await? else {
        return Ok(Ruling::NotFound);
    };
    if current.status.is_final() {
        let error = TransitionError::Final(current.status);
        return Ok(lost(tx, current, actor, attempt, error));
    }
    if current.revision != request.revision {
        return Ok(Ruling::WrongAction(current, Objection::Changed));
    }
    if current.deadline <= tx.now() {
        return Ok(lost(tx, current, actor, attempt, TransitionError::TooLate));
    }
    note(tx, "decision.refused", &current, actor, attempt);
    Ok(Ruling::NotPermitted)
}

fn note(tx: &mut Tx, kind: &str, request: &Request, actor: &Actor, attempt: &Attempt) {
    let detail = format!("{} by {}", attempt.verdict.word(), attempt.means.word());
    audit::insert(
        tx,
        &audit::Event {
            kind,
            request: Some(request.id),
            agent: Some(request.agent),
            actor: Some(&actor.name),
            channel: Some(&actor.channel),
            before: Some(request.status.as_str()),
            after: Some(request.status.as_str()),
            detail: Some(&detail),
        },
    );
}

/// The audit kind of reaching a status.
pub fn status_event(status: Status) -> &'static str {
    match status {
        Status::Pending => "request.created",
        Status::Approved => "request.approved",
        Status::Denied => "request.denied",
        Status::Answered => "request.answered",
        Status::Skipped => "request.skipped",
        Status::Expired => "request.expired",
        Status::Cancelled => "request.cancelled",
    }
}

/// The proof that a request was approved by its guardian. Only this module makes
/// one, and only from a stored decision; whatever runs something dangerous asks
/// for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Approved {
    request: Request,
}

impl Approved {
    /// The proof, if `request` is one that a person has approved.
    pub fn of(request: Request) -> Option<Self> {
        let has_decider = request.outcome.as_ref().is_some_and(|o| o.decided_by.is_some());
        let is_intact = request.content.digest() == request.digest;
        (request.status == Status::Approved && has_decider && is_intact).then_some(Self { request })
    }

    /// What was shown and approved.
    pub fn content(&self) -> &Content {
        &self.request.content
    }
}
