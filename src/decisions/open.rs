//! Opening a request: every check, then one transaction.

use serde_json::Value;

use crate::clock::Timestamp;
use crate::decisions::{Policy, Ruling, cancel, fits_everywhere};
use crate::ids::{DeliveryId, PrincipalId, RequestId};
use crate::people::{Agent, Binding};
use crate::requests::code::Code;
use crate::requests::status::Status;
use crate::requests::{Content, Kind, Request, Risk, Shown};
use crate::store::deliveries::{Delivery, State};
use crate::store::requests::IdempotencyKey;
use crate::store::{self, StoreError, Tx, audit};

/// How often a free code is looked for.
const CODE_TRIES: u32 = 64;

/// What an agent asks, already checked by itself.
#[derive(Debug, Clone, PartialEq)]
pub struct NewRequest {
    /// What is shown.
    pub content: Content,
    /// The agent's conversation.
    pub session: Option<String>,
    /// The agent's run.
    pub run: Option<String>,
    /// The name of the guardian, if the agent says.
    pub guardian: Option<String>,
    /// How much harm a wrong yes can do.
    pub risk: Risk,
    /// Until when a decision is of use; `None` for what the policy says.
    pub deadline: Option<Deadline>,
    /// Where to tell the outcome.
    pub callback_url: Option<String>,
    /// The request that this one replaces.
    pub supersedes: Option<RequestId>,
    /// The agent's own notes.
    pub metadata: Value,
}

/// Until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deadline {
    /// So long from now.
    In(std::time::Duration),
    /// At this instant.
    At(Timestamp),
}

/// Everything that opening takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Opening {
    /// Who asks.
    pub agent: Agent,
    /// What.
    pub new: NewRequest,
    /// How a retry is recognised.
    pub idempotency: Option<IdempotencyKey>,
}

/// A request that is open, or was.
#[derive(Debug, Clone, PartialEq)]
pub enum Opened {
    /// It is new.
    New(Request),
    /// The same thing was asked already and still waits.
    Same(Request),
    /// The same call was made already.
    Replayed(Request),
}

impl Opened {
    /// The request.
    pub fn into_request(self) -> Request {
        match self {
            Self::New(request) | Self::Same(request) | Self::Replayed(request) => request,
        }
    }
}

/// Why a request was not opened; nothing was written.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum OpenError {
    /// Nobody is there to decide it.
    #[error("there is no guardian to decide this")]
    NoGuardian,
    /// The guardian that it names is unknown.
    #[error("there is no such guardian")]
    UnknownGuardian,
    /// The guardian has too many live requests.
    #[error("the guardian has {limit} open requests, which is the limit")]
    TooManyOpen {
        /// The limit.
        limit: u32,
    },
    /// The idempotency key came before with another body.
    #[error("the idempotency key was used before with another body")]
    IdempotencyMismatch,
    /// The request to replace is not one of this agent's.
    #[error("the request to replace does not exist")]
    SupersedesUnknown,
    /// The request to replace has ended.
    #[error("the request to replace has already ended")]
    SupersedesEnded(Box<Request>),
    /// The deadline lies in the past by the time it would be stored.
    #[error("the deadline has already passed")]
    DeadlinePassed,
    /// No code is free.
    #[error("no request code is free")]
    NoCode,
}

/// Opens a request, or finds the one that the same call or the same question
/// opened before.
///
/// # Errors
///
/// [`StoreError`]: nothing is opened unless the enclosing transaction commits.
/// The inner [`OpenError`] says what is wrong with the request.
pub async fn open(
    tx: &mut Tx,
    opening: &Opening,
    policy: Policy,
) -> Result<Result<Opened, OpenError>, StoreError> {
    let Opening { agent, new, idempotency } = opening;
    store::requests::wait_turn(tx, &agent.id.to_string()).await?;
    if let Some(idempotency) = idempotency
        && let Some((request, body_hash)) =
            store::requests::find_by_key(tx, agent.id, &idempotency.key).await?
    {
        return Ok(if body_hash == idempotency.body_hash {
            Ok(Opened::Replayed(request))
        } else {
            Err(OpenError::IdempotencyMismatch)
        });
    }
    let (guardian, guardian_name) = match guardian_for(tx, agent, new).await? {
        Ok(found) => found,
        Err(error) => return Ok(Err(error)),
    };
    store::requests::wait_turn(tx, &guardian.to_string()).await?;
    let now = tx.now();
    let deadline = deadline(new, policy, now);
    if deadline <= now {
        return Ok(Err(OpenError::DeadlinePassed));
    }
    if let Err(error) = check_replaced(tx, agent, new).await? {
        return Ok(Err(error));
    }
    let Some(code) = free_code(tx).await? else { return Ok(Err(OpenError::NoCode)) };

    let request = Request {
        id: RequestId::new(),
        code,
        status: Status::Pending,
        revision: 1,
        version: 1,
        agent: agent.id,
        agent_name: agent.name.clone(),
        session: new.session.clone(),
        run: new.run.clone(),
        guardian,
        guardian_name,
        digest: new.content.digest(),
        content: new.content.clone(),
        risk: new.risk,
        callback_url: new.callback_url.clone(),
        metadata: new.metadata.clone(),
        supersedes: new.supersedes,
        superseded_by: None,
        asked: 1,
        created_at: now,
        deadline,
        outcome: None,
        shown: Shown::default(),
    };
    if new.supersedes.is_none()
        && let Some(same) = store::requests::find_same(tx, &request).await?
    {
        store::requests::count_asking(tx, same.id).await?;
        if let Some(idempotency) = idempotency {
            store::requests::remember_key(tx, agent.id, idempotency, same.id).await?;
        }
        note(tx, "request.asked_again", &same);
        return Ok(Ok(Opened::Same(same)));
    }
    let limit = policy.max_open;
    let replaced = i64::from(new.supersedes.is_some());
    if store::requests::count_open(tx, guardian).await? - replaced >= i64::from(limit) {
        return Ok(Err(OpenError::TooManyOpen { limit }));
    }

    if let Some(old) = new.supersedes {
        match cancel(tx, old, "superseded", &agent.name, Some(request.id)).await? {
            Ruling::Applied(_) => {}
            // Somebody decided it a moment ago.
            Ruling::AlreadyDecided(old) | Ruling::Expired(old) => {
                return Ok(Err(OpenError::SupersedesEnded(Box::new(old))));
            }
            _ => return Ok(Err(OpenError::SupersedesUnknown)),
        }
    }
    write(tx, &request, idempotency.as_ref()).await?;
    Ok(Ok(Opened::New(request)))
}

async fn write(
    tx: &mut Tx,
    request: &Request,
    idempotency: Option<&IdempotencyKey>,
) -> Result<(), StoreError> {
    if let Some(session) = &request.session {
        store::requests::touch_session(tx, request.agent, session).await?;
    }
    store::requests::insert(tx, request).await?;
    if let Some(idempotency) = idempotency {
        store::requests::remember_key(tx, request.agent, idempotency, request.id).await?;
    }
    prepare_deliveries(tx, request).await?;
    note(tx, "request.created", request);
    store::jobs::enqueue(tx, store::jobs::BROADCAST, request.id, "").await
}

fn deadline(new: &NewRequest, policy: Policy, now: Timestamp) -> Timestamp {
    match new.deadline {
        Some(Deadline::In(span)) => now.plus(span),
        Some(Deadline::At(at)) => at,
        None if new.content.kind == Kind::Question => now.plus(policy.question_ttl),
        None => now.plus(policy.ttl),
    }
}

/// Whether the request to replace is one that can be.
async fn check_replaced(
    tx: &mut Tx,
    agent: &Agent,
    new: &NewRequest,
) -> Result<Result<(), OpenError>, StoreError> {
    let Some(id) = new.supersedes else { return Ok(Ok(())) };
    let old = store::requests::find(tx, id).await?.filter(|old| old.agent == agent.id);
    Ok(match old {
        None => Err(OpenError::SupersedesUnknown),
        Some(old) if old.status.is_final() || old.deadline <= tx.now() => {
            Err(OpenError::SupersedesEnded(Box::new(old)))
        }
        Some(_) => Ok(()),
    })
}

/// A row for each account of the guardian, from the moment the request exists:
/// an answer can't come before the card it answers. The broadcaster says which
/// of them can be made.
async fn prepare_deliveries(tx: &mut Tx, request: &Request) -> Result<(), StoreError> {
    for binding in store::people::bindings_of(tx, request.guardian).await? {
        prepare_delivery(tx, request, &binding).await?;
    }
    Ok(())
}

/// Writes the row of one card; the broadcaster says whether it can be made.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn prepare_delivery(
    tx: &mut Tx,
    request: &Request,
    binding: &Binding,
) -> Result<(), StoreError> {
    let delivery = Delivery {
        id: DeliveryId::new(),
        request: request.id,
        binding: binding.id,
        channel: binding.channel.clone(),
        address: binding.address.clone().unwrap_or_default(),
        message: None,
        state: State::Queued,
        // Nothing is to be done before it was routed.
        shown_version: request.version,
        desired_version: request.version,
        is_whole: fits_everywhere(&request.content),
        sent_at: None,
        seen_at: None,
        opened_at: None,
        detail: None,
        attempts: 0,
        fence: 0,
    };
    store::deliveries::insert(tx, &delivery).await
}

fn note(tx: &mut Tx, kind: &str, request: &Request) {
    audit::insert(
        tx,
        &audit::Event {
            kind,
            request: Some(request.id),
            agent: Some(request.agent),
            actor: Some(&request.agent_name),
            after: Some(request.status.as_str()),
            detail: Some(&request.digest),
            ..audit::Event::default()
        },
    );
}

/// Who decides: whom the request names, else whom the agent has, else the only
/// one there is, else `owner`.
async fn guardian_for(
    tx: &mut Tx,
    agent: &Agent,
    new: &NewRequest,
) -> Result<Result<(PrincipalId, String), OpenError>, StoreError> {
    if let Some(name) = &new.guardian {
        let found = store::people::find_by_name(tx, name).await?;
        return Ok(found.map(|p| (p.id, p.name)).ok_or(OpenError::UnknownGuardian));
    }
    if let Some(id) = agent.guardian {
        let found = store::people::find(tx, id).await?;
        return Ok(found.map(|p| (p.id, p.name)).ok_or(OpenError::NoGuardian));
    }
    let everybody = store::people::list(tx).await?;
    let found = match everybody.as_slice() {
        [only] => Some(only),
        several => several.iter().find(|p| p.name == "owner"),
    };
    Ok(found.map(|p| (p.id, p.name.clone())).ok_or(OpenError::NoGuardian))
}

async fn free_code(tx: &mut Tx) -> Result<Option<Code>, StoreError> {
    for _ in 0..CODE_TRIES {
        let code = Code::random();
        if !store::requests::is_code_taken(tx, code).await? {
            return Ok(Some(code));
        }
    }
    Ok(None)
}
