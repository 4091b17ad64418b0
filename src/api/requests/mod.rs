//! Parking, reading, waiting, withdrawing.

pub(super) mod create;

use std::convert::Infallible;

use async_trait::async_trait;
use axum::Json;
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
pub use create::{CreateRequest, Open, create_request};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::api::auth::Caller;
use crate::api::json::OptionalJson;
use crate::api::problem::Problem;
use crate::api::{Api, wait};
use crate::decisions::{self, Ruling};
use crate::ids::{AgentId, RequestId};
use crate::requests::check::Invalid;
use crate::requests::status::Status;
use crate::requests::{Request, sha256_hex};
use crate::store::requests::Filter;
use crate::store::{self, StoreError, Tx, Write};
use crate::wire::{self, RequestResource};

/// Seconds that a call may be held at most.
const LONGEST_WAIT: u64 = 120;

async fn resource_of(api: &Api, request: &Request) -> Result<RequestResource, StoreError> {
    wire::read(&mut api.store.read().await?, request).await
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
