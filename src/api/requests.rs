//! Parking, reading, waiting, withdrawing.

use std::convert::Infallible;
use std::time::Duration;

use async_trait::async_trait;
use axum::Json;
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::api::auth::Caller;
use crate::api::json::{OptionalJson, StrictJson};
use crate::api::problem::Problem;
use crate::api::{Api, wait};
use crate::clock::Timestamp;
use crate::decisions::{
    self, Deadline, NewRequest, OpenError, Opened, Opening, Policy, Ruling, open,
};
use crate::ids::{AgentId, RequestId};
use crate::requests::check::{Invalid, check};
use crate::requests::status::Status;
use crate::requests::{Choice, Content, Kind, Request, Risk, Tool, sha256_hex};
use crate::store::requests::{Filter, IdempotencyKey};
use crate::store::{self, StoreError, Tx, Write};
use crate::wire::{self, RequestResource};

/// Seconds that a request may wait at most.
const LONGEST: u64 = 604_800;
/// Seconds that a call may be held at most.
const LONGEST_WAIT: u64 = 120;
/// Characters of the agent's own names at most.
const NAME_CHARS: usize = 256;
/// Bytes of the agent's notes at most.
const METADATA_BYTES: usize = 16 * 1024;

/// What an agent asks.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateRequest {
    /// `tool_approval` or `question`.
    kind: String,
    /// One line, at most 300 characters; a question needs it.
    title: Option<String>,
    /// The agent's own words, at most 20,000 characters; shown as unverified.
    body: Option<String>,
    /// The call to be approved; a tool approval needs it.
    tool: Option<CreateTool>,
    /// 2 to 25 answers to choose from.
    #[serde(default)]
    options: Vec<CreateOption>,
    /// Whether the person may answer in their own words. Default: if there are
    /// no options.
    allow_text: Option<bool>,
    /// Any text that names the agent's conversation.
    session: Option<String>,
    /// Any text that names the agent's run.
    run: Option<String>,
    /// The name of whoever decides.
    guardian: Option<String>,
    /// `low`, `medium` (default) or `high`.
    risk: Option<String>,
    /// Seconds until it expires: 1 to 604,800.
    expires_in: Option<u64>,
    /// When it expires instead, RFC 3339 with a zone.
    expires_at: Option<String>,
    /// Where to tell the outcome.
    callback_url: Option<String>,
    /// The id of a pending request that this one replaces.
    supersedes: Option<String>,
    /// The agent's own notes, an object of at most 16 KiB.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
}

/// A call to be approved.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CreateTool {
    /// The tool, at most 128 characters.
    name: String,
    /// What it is called with, at most 128 KiB.
    #[serde(default)]
    #[schema(value_type = Object)]
    input: Value,
}

/// An answer to choose.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CreateOption {
    /// At most 64 characters, unique.
    id: String,
    /// At most 300 characters, unique.
    label: String,
}

impl CreateRequest {
    fn into_new(self, api: &Api) -> Result<NewRequest, Invalid> {
        let kind = self.kind.parse::<Kind>().map_err(|()| {
            Invalid::new("invalid_field", "/kind", "it must be tool_approval or question")
        })?;
        let risk = match self.risk.as_deref() {
            None => Risk::Medium,
            Some(word) => word.parse().map_err(|()| {
                Invalid::new("invalid_field", "/risk", "it must be low, medium or high")
            })?,
        };
        let content = Content {
            kind,
            title: self.title,
            body: self.body,
            tool: self.tool.map(|t| Tool { name: t.name, input: t.input }),
            allow_text: self
                .allow_text
                .unwrap_or(kind == Kind::Question && self.options.is_empty()),
            options: self
                .options
                .into_iter()
                .map(|o| Choice { id: o.id, label: o.label })
                .collect(),
        };
        check(&content)?;
        for (pointer, name) in [("/session", &self.session), ("/run", &self.run)] {
            if name
                .as_ref()
                .is_some_and(|n| n.is_empty() || n.contains('\0') || n.chars().count() > NAME_CHARS)
            {
                let detail = format!("it must have 1 to {NAME_CHARS} characters");
                return Err(Invalid::new("invalid_field", pointer, detail));
            }
        }
        let metadata = self.metadata.unwrap_or_else(|| Value::Object(serde_json::Map::new()));
        if !metadata.is_object() || metadata.to_string().len() > METADATA_BYTES {
            let detail = format!("it must be an object of at most {METADATA_BYTES} bytes");
            return Err(Invalid::new("invalid_field", "/metadata", detail));
        }
        if let Some(url) = &self.callback_url {
            api.fence.check(url).map_err(|why| {
                Invalid::new("invalid_callback_url", "/callback_url", why.to_string())
            })?;
        }
        let supersedes = self.supersedes.map(|id| id.parse()).transpose().map_err(|_| {
            Invalid::new("unknown_request", "/supersedes", "it is no id of a request")
        })?;
        Ok(NewRequest {
            content,
            session: self.session,
            run: self.run,
            guardian: self.guardian,
            risk,
            deadline: deadline(self.expires_in, self.expires_at.as_deref(), api)?,
            callback_url: self.callback_url,
            supersedes,
            metadata,
        })
    }
}

fn deadline(
    expires_in: Option<u64>,
    expires_at: Option<&str>,
    api: &Api,
) -> Result<Option<Deadline>, Invalid> {
    match (expires_in, expires_at) {
        (Some(_), Some(_)) => {
            let detail = "expires_in and expires_at exclude each other";
            Err(Invalid::new("invalid_field", "/expires_at", detail))
        }
        (Some(seconds), None) if (1..=LONGEST).contains(&seconds) => {
            Ok(Some(Deadline::In(Duration::from_secs(seconds))))
        }
        (Some(_), None) => {
            let detail = format!("it must be 1 to {LONGEST} seconds");
            Err(Invalid::new("invalid_field", "/expires_in", detail))
        }
        (None, Some(text)) => {
            let now = api.store.clock().now();
            let latest = now.plus(Duration::from_secs(LONGEST));
            Timestamp::parse(text)
                .filter(|at| *at > now && *at <= latest)
                .map(|at| Some(Deadline::At(at)))
                .ok_or_else(|| {
                    let detail = "it must be RFC 3339 with a zone, in the future, within 7 days";
                    Invalid::new("invalid_field", "/expires_at", detail)
                })
        }
        (None, None) => Ok(None),
    }
}

/// Opens a request.
pub struct Open {
    /// What and for whom.
    pub opening: Opening,
    /// What the operator allows.
    pub policy: Policy,
}

#[async_trait]
impl Write for Open {
    type Out = Result<Opened, OpenError>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Out, StoreError> {
        open(tx, &self.opening, self.policy).await
    }
}

/// Parks a request.
#[utoipa::path(
    post, path = "/v1/requests", tag = "requests",
    request_body = CreateRequest,
    params(
        ("Idempotency-Key" = Option<String>, Header,
         description = "The same key and body give the same request and answer"),
        ("Prefer" = Option<String>, Header,
         description = "`wait=30` holds the call for the decision, at most 120 seconds"),
    ),
    responses(
        (status = 201, description = "Parked; `Location` names it", body = RequestResource),
        (status = 200, description = "An identical request waits already, or it is settled",
         body = RequestResource),
        (status = 202, description = "Still open when the wait was over", body = RequestResource),
        (status = 422, description = "It can't be asked like this", body = Problem),
        (status = 429, description = "The guardian has too many open requests", body = Problem),
    ),
    security(("agent" = [])),
)]
pub async fn create_request(
    State(api): State<Api>,
    Caller(agent): Caller,
    headers: HeaderMap,
    body: StrictJson<CreateRequest>,
) -> Result<Response, Problem> {
    let idempotency = idempotency_key(&headers, body.digest)?;
    let wait = prefer_wait(&headers);
    let id = agent.id;
    // A call that was made before is answered as before, even if what it asks
    // for could not be asked any more.
    let opened = if let Some(request) = replayed(&api, id, idempotency.as_ref()).await? {
        Opened::Replayed(request)
    } else {
        if api.store.is_disk_full() {
            let detail = "the disk is full; what is left is for decisions";
            let status = StatusCode::INSUFFICIENT_STORAGE;
            return Err(Problem::new(status, "disk_full", detail).later(60));
        }
        let new = body.value.into_new(&api)?;
        let opening = Opening { agent, new, idempotency };
        let opened = api.store.write(Open { opening, policy: api.policy }).await?;
        opened.map_err(|error| Problem::of_open(&error))?
    };
    let is_same = matches!(opened, Opened::Same(_));
    let request = opened.into_request();
    let location = format!("/v1/requests/{}", request.id);

    let (status, request) = match wait {
        Some(seconds) => {
            let request = wait::until_ended(&api, request.id, id, seconds).await?;
            let is_ended = request.status.is_final();
            (if is_ended { StatusCode::OK } else { StatusCode::ACCEPTED }, request)
        }
        None if is_same => (StatusCode::OK, request),
        None => (StatusCode::CREATED, request),
    };
    let resource = Box::pin(resource_of(&api, &request)).await?;
    let mut response = (status, Json(resource)).into_response();
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok(response)
}

async fn resource_of(api: &Api, request: &Request) -> Result<RequestResource, StoreError> {
    wire::read(&mut api.store.read().await?, request).await
}

async fn replayed(
    api: &Api,
    agent: AgentId,
    idempotency: Option<&IdempotencyKey>,
) -> Result<Option<Request>, Problem> {
    let Some(idempotency) = idempotency else { return Ok(None) };
    let mut tx = api.store.read().await?;
    let found = store::requests::find_by_key(&mut tx, agent, &idempotency.key).await?;
    match found {
        Some((_, hash)) if hash != idempotency.body_hash => {
            Err(Problem::of_open(&OpenError::IdempotencyMismatch))
        }
        Some((request, _)) => Ok(Some(request)),
        None => Ok(None),
    }
}

#[expect(clippy::result_large_err, reason = "the error is the answer and is sent at once")]
fn idempotency_key(
    headers: &HeaderMap,
    body_hash: String,
) -> Result<Option<IdempotencyKey>, Problem> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    let key = value.to_str().unwrap_or_default();
    if !(1..=255).contains(&key.len()) {
        let detail = "the Idempotency-Key must be 1 to 255 printable characters";
        return Err(Problem::new(StatusCode::BAD_REQUEST, "invalid_idempotency_key", detail));
    }
    Ok(Some(IdempotencyKey { key: key.to_owned(), body_hash }))
}

/// The seconds of `Prefer: wait=30` (RFC 7240).
fn prefer_wait(headers: &HeaderMap) -> Option<u64> {
    headers
        .get_all("prefer")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split([',', ';']))
        .find_map(|part| {
            let (name, value) = part.split_once('=')?;
            let value = value.trim().trim_matches('"');
            name.trim().eq_ignore_ascii_case("wait").then(|| value.parse().ok())?
        })
        .map(|seconds: u64| seconds.min(LONGEST_WAIT))
}

/// How a request is read.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct ReadParams {
    /// Seconds to hold the call until the request has ended, at most 120. A wait
    /// that ends is not an expiry: the request is pending still.
    wait: Option<u64>,
}

/// What the headers of a reading call wish; a waiting call keeps this and not
/// the headers.
pub struct Wishes {
    wait: Option<u64>,
    known: Vec<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for Wishes {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let known = parts
            .headers
            .get_all(header::IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(|known| known.trim().trim_start_matches("W/").to_owned())
            .collect();
        Ok(Self { wait: prefer_wait(&parts.headers), known })
    }
}

/// Reads a request, and waits for its end if asked.
#[utoipa::path(
    get, path = "/v1/requests/{id}", tag = "requests",
    params(("id" = String, Path), ReadParams),
    responses(
        (status = 200, description = "As it stands; `ETag` names this state",
         body = RequestResource),
        (status = 304, description = "As it was for `If-None-Match`"),
        (status = 404, description = "None of this agent's", body = Problem),
    ),
    security(("agent" = [])),
)]
pub async fn get_request(
    State(api): State<Api>,
    Caller(agent): Caller,
    Path(id): Path<String>,
    params: Result<Query<ReadParams>, axum::extract::rejection::QueryRejection>,
    wishes: Wishes,
) -> Result<Response, Problem> {
    let Query(params) = params.map_err(|error| bad_query(&error))?;
    let agent = agent.id;
    let id: RequestId = id.parse().map_err(|_| Problem::not_found())?;
    let seconds = params.wait.or(wishes.wait).unwrap_or(0).min(LONGEST_WAIT);
    let request = wait::until_ended(&api, id, agent, seconds).await?;
    let resource = Box::pin(resource_of(&api, &request)).await?;
    let body = serde_json::to_vec(&resource).unwrap_or_default();
    let etag = format!("\"{}\"", sha256_hex(&body).get(..16).unwrap_or_default());
    let is_known = wishes.known.contains(&etag);
    let etag = HeaderValue::from_str(&etag).unwrap_or(HeaderValue::from_static("\"\""));
    if is_known {
        return Ok((StatusCode::NOT_MODIFIED, [(header::ETAG, etag)]).into_response());
    }
    Ok(([(header::ETAG, etag)], Json(resource)).into_response())
}

/// Which requests are listed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct ListParams {
    /// Only those in this status.
    status: Option<String>,
    /// Only those of this conversation.
    session: Option<String>,
    /// Only those of this run.
    run: Option<String>,
    /// At most so many, 1 to 100; default 50.
    limit: Option<i64>,
    /// Where the page before this one ended.
    cursor: Option<String>,
}

/// A page of requests.
#[derive(Debug, Serialize, ToSchema)]
pub struct RequestList {
    /// Oldest first.
    pub requests: Vec<RequestResource>,
    /// Where the next page begins; nothing on the last one.
    pub next_cursor: Option<String>,
}

/// Lists the agent's own requests.
#[utoipa::path(
    get, path = "/v1/requests", tag = "requests",
    params(ListParams),
    responses((status = 200, body = RequestList)),
    security(("agent" = [])),
)]
pub async fn list_requests(
    State(api): State<Api>,
    Caller(agent): Caller,
    params: Result<Query<ListParams>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<RequestList>, Problem> {
    let Query(params) = params.map_err(|error| bad_query(&error))?;
    let bad = |field: &str, detail: &str| {
        let status = StatusCode::BAD_REQUEST;
        Problem::new(status, "invalid_query", format!("{field}: {detail}"))
    };
    let status = params.status.as_deref().map(str::parse::<Status>).transpose();
    let limit = params.limit.unwrap_or(50);
    if !(1..=100).contains(&limit) {
        return Err(bad("limit", "it must be 1 to 100"));
    }
    let filter = Filter {
        agent: Some(agent.id),
        status: status.map_err(|()| bad("status", "there is no such status"))?,
        session: params.session,
        run: params.run,
        after: params
            .cursor
            .map(|cursor| cursor.parse())
            .transpose()
            .map_err(|_| bad("cursor", "it is none of ours"))?,
        limit: limit + 1,
    };
    let mut tx = api.store.read().await?;
    let mut requests = store::requests::list(&mut tx, &filter).await?;
    let has_more = requests.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    requests.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let next_cursor = requests.last().filter(|_| has_more).map(|r| r.id.to_string());
    let mut resources = Vec::with_capacity(requests.len());
    for request in &requests {
        resources.push(wire::read(&mut tx, request).await?);
    }
    Ok(Json(RequestList { requests: resources, next_cursor }))
}

fn bad_query(error: &axum::extract::rejection::QueryRejection) -> Problem {
    let text = error.body_text();
    let text = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
    Problem::new(StatusCode::BAD_REQUEST, "invalid_query", text)
}

/// Why a request is withdrawn.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelRequest {
    /// For the guardian, at most 300 characters.
    reason: Option<String>,
}

struct Cancel {
    id: RequestId,
    agent: AgentId,
    agent_name: String,
    reason: String,
}

#[async_trait]
impl Write for Cancel {
    type Out = Ruling;

    async fn run(&self, tx: &mut Tx) -> Result<Ruling, StoreError> {
        let found = store::requests::find(tx, self.id).await?;
        if found.is_none_or(|request| request.agent != self.agent) {
            return Ok(Ruling::NotFound);
        }
        decisions::cancel(tx, self.id, &self.reason, &self.agent_name, None).await
    }
}

/// Withdraws a request.
#[utoipa::path(
    post, path = "/v1/requests/{id}/cancel", tag = "requests",
    params(("id" = String, Path)),
    request_body = CancelRequest,
    responses(
        (status = 200, description = "Withdrawn", body = RequestResource),
        (status = 404, description = "None of this agent's", body = Problem),
        (status = 409, description = "It has ended already; `outcome` says how", body = Problem),
    ),
    security(("agent" = [])),
)]
pub async fn cancel_request(
    State(api): State<Api>,
    Caller(agent): Caller,
    Path(id): Path<String>,
    OptionalJson(body): OptionalJson<CancelRequest>,
) -> Result<Json<RequestResource>, Problem> {
    let id: RequestId = id.parse().map_err(|_| Problem::not_found())?;
    let reason = body.reason.unwrap_or_else(|| "withdrawn by the agent".to_owned());
    if reason.contains('\0') {
        return Err(Invalid::new("invalid_field", "/reason", "a text can't hold U+0000").into());
    }
    if reason.chars().count() > 300 {
        return Err(Invalid::new("too_long", "/reason", "at most 300 characters").into());
    }
    let cancel = Cancel { id, agent: agent.id, agent_name: agent.name, reason };
    let (request, is_applied) = match api.store.write(cancel).await? {
        Ruling::Applied(request) => (request, true),
        Ruling::AlreadyDecided(request) | Ruling::Expired(request) => (request, false),
        _ => return Err(Problem::not_found()),
    };
    let resource = wire::read(&mut api.store.read().await?, &request).await?;
    if is_applied { Ok(Json(resource)) } else { Err(Problem::ended(resource)) }
}

/// No agent decides.
#[utoipa::path(
    post, path = "/v1/requests/{id}/decision", tag = "requests",
    params(("id" = String, Path)),
    responses((status = 403, description = "Agents can't decide", body = Problem)),
    security(("agent" = [])),
)]
pub async fn decide_request(
    State(api): State<Api>,
    Caller(agent): Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let id: RequestId = id.parse().map_err(|_| Problem::not_found())?;
    let found: Option<Request> = store::requests::find(&mut api.store.read().await?, id).await?;
    if found.is_none_or(|request| request.agent != agent.id) {
        return Err(Problem::not_found());
    }
    let detail = "only the guardian decides; a key of an agent never does";
    Err(Problem::new(StatusCode::FORBIDDEN, "agents_cannot_decide", detail))
}
