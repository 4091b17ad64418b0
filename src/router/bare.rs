//! Stages: words alone. They decide only when exactly one open request in this
//! very conversation can be meant, and never when it is not clear which.

use crate::decisions::{Actor, Means, Verdict};
use crate::requests::{Kind, Request};
use crate::router::intent::Intent;
use crate::router::reading::{self, Lean};
use crate::router::{Outcome, address, wording};
use crate::store::{self, StoreError, Tx};

/// Where words were said.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conversation<'a> {
    pub(super) channel: &'a str,
    pub(super) address: &'a str,
}

/// An edited or forwarded text decides nothing, and says so if it looks as if it
/// was meant to.
pub(super) fn secondhand(text: &str) -> Intent {
    let reading = reading::read(text);
    if reading.lean.is_none() && crate::requests::code::Code::find_all(text).is_empty() {
        return Intent::Nothing;
    }
    let words = "Edited and forwarded messages decide nothing; send it as a new message.";
    Intent::Say(Outcome::Clarify, words.to_owned())
}

pub(super) async fn read(
    tx: &mut Tx,
    actor: &Actor,
    place: Conversation<'_>,
    text: &str,
) -> Result<Intent, StoreError> {
    let candidates =
        store::requests::list_live_at(tx, actor.principal, place.channel, place.address).await?;
    if candidates.is_empty() {
        return elsewhere(tx, actor, text).await;
    }
    let all = candidates.clone();
    let intent = among(candidates, text);
    // One that is just being posted makes words ambiguous, but nobody can have
    // meant it alone: it may not be there yet.
    if let Intent::Decide { request, .. } = &intent
        && !store::deliveries::stands_at(tx, *request, place.channel, place.address).await?
    {
        return Ok(Intent::Pass(Some(wording::hint(&all))));
    }
    Ok(intent)
}

/// Nothing waits here. Words that would decide are told where they could.
async fn elsewhere(tx: &mut Tx, actor: &Actor, text: &str) -> Result<Intent, StoreError> {
    let reading = reading::read(text);
    let is_decision = reading.is_clean_yes() || reading.is_clean_no();
    if !is_decision || store::requests::count_open(tx, actor.principal).await? == 0 {
        return Ok(Intent::Pass(None));
    }
    let hint = "Nothing waits for you in this conversation; your open requests stand elsewhere.";
    Ok(Intent::Pass(Some(hint.to_owned())))
}

/// What words mean among the requests that wait here. Pure.
fn among(mut candidates: Vec<Request>, text: &str) -> Intent {
    if candidates.len() == 1 {
        let only = candidates.remove(0);
        return match only.content.kind {
            Kind::Question => answer(only, text),
            Kind::ToolApproval => approval(only, text),
            Kind::AccessRequest => access(only, text),
        };
    }
    if let Some(intent) = access_among(&candidates, text) {
        return intent;
    }
    let reading = reading::read(text);
    let questions = candidates.iter().filter(|r| r.content.kind == Kind::Question).count();
    let picks = candidates.iter().any(|r| address::names_option(r, text))
        || (questions > 1 && address::is_skip(text));
    if reading.lean.is_some_and(|lean| lean != Lean::Mixed && reading.clean) || picks {
        return Intent::Disambiguate(candidates);
    }
    let is_open_question = |r: &&Request| {
        r.content.kind == Kind::Question && r.content.options.is_empty() && r.content.allow_text
    };
    let mut open_questions = candidates.iter().filter(is_open_question);
    match (open_questions.next(), open_questions.next()) {
        // A reply that leans one way may be meant for any of them.
        (Some(_), None) if reading.lean.is_some() => Intent::Disambiguate(candidates),
        (Some(question), None) => answer(question.clone(), text),
        _ => Intent::Pass(Some(wording::hint(&candidates))),
    }
}

fn answer(request: Request, text: &str) -> Intent {
    match address::answer(&request, text) {
        Some(verdict) => Intent::Decide { request: request.id, verdict, means: Means::BareText },
        None => Intent::Pass(Some(wording::hint(std::slice::from_ref(&request)))),
    }
}

fn approval(request: Request, text: &str) -> Intent {
    let reading = reading::read(text);
    let verdict = if reading.is_clean_yes() {
        Verdict::Approve
    } else if reading.is_clean_no() {
        Verdict::Deny { reason: None }
    } else {
        return Intent::Pass(Some(wording::hint(std::slice::from_ref(&request))));
    };
    Intent::Decide { request: request.id, verdict, means: Means::BareText }
}

fn access(request: Request, text: &str) -> Intent {
    match address::access_verb(text) {
        Some(verdict) => Intent::Decide { request: request.id, verdict, means: Means::BareText },
        None => Intent::Pass(Some(wording::hint(std::slice::from_ref(&request)))),
    }
}

/// A verb that only access requests take means the only one there is.
fn access_among(candidates: &[Request], text: &str) -> Option<Intent> {
    let is_yes_or_no = reading::read(text).lean.is_some();
    let verdict = address::access_verb(text).filter(|_| !is_yes_or_no)?;
    let mut access = candidates.iter().filter(|r| r.content.kind == Kind::AccessRequest);
    match (access.next(), access.next()) {
        (Some(only), None) => {
            Some(Intent::Decide { request: only.id, verdict, means: Means::BareText })
        }
        (Some(_), Some(_)) => Some(Intent::Disambiguate(candidates.to_vec())),
        (None, _) => None,
    }
}
