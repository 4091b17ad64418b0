//! Parking a request.

use std::time::Duration;

use async_trait::async_trait;
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::api::auth::Caller;
use crate::api::json::StrictJson;
use crate::api::problem::Problem;
use crate::api::requests::{prefer_wait, resource_of};
use crate::api::{Api, wait};
use crate::clock::Timestamp;
use crate::decisions::{Deadline, NewRequest, OpenError, Opened, Opening, Policy, open};
use crate::ids::AgentId;
use crate::requests::check::{Invalid, check};
use crate::requests::{Choice, Content, Kind, Request, Risk, Tool};
use crate::store::requests::IdempotencyKey;
use crate::store::{self, StoreError, Tx, Write};
use crate::wire::RequestResource;

/// Seconds that a request may wait at most.
const LONGEST: u64 = 604_800;
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
