//! What happens to an agent's requests, as server-sent events that can be taken
//! up again where they were left.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream::{self, Stream};

use crate::api::Api;
use crate::api::auth::Caller;
use crate::api::problem::Problem;
use crate::ids::AgentId;
use crate::requests::status::Status;
use crate::store::audit::{Cursor, News};
use crate::store::{self, StoreError, audit};
use crate::wakeups::Wait;
use crate::wire;

/// How often news are looked for without a hint.
const LOOK: Duration = Duration::from_secs(15);

/// Follows what happens to the agent's requests.
#[utoipa::path(
    get, path = "/v1/events", tag = "events",
    params(("Last-Event-ID" = Option<String>, Header,
            description = "The id of the last event seen; everything after it is sent again")),
    responses((status = 200, content_type = "text/event-stream",
               description = "`request.created`, `request.settled` and `request.delivered`, each \
                              with the request as it stands")),
    security(("agent" = [])),
)]
pub async fn follow_events(
    State(api): State<Api>,
    Caller(agent): Caller,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let cursor = match last {
        Some(id) => id.parse().map_err(|()| {
            let detail = "the Last-Event-ID is none of ours";
            Problem::new(StatusCode::BAD_REQUEST, "invalid_last_event_id", detail)
        })?,
        None => audit::feed_end(&mut api.store.read().await?).await?,
    };
    let Some(wait) = api.wakeups.agent(agent.id) else {
        let detail = "too many calls are waiting";
        return Err(
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_waits", detail).later(2)
        );
    };
    let follower = Follower { api, agent: agent.id, cursor, wait, queue: Vec::new() };
    let sse = Sse::new(events(follower))
        .keep_alive(KeepAlive::new().interval(Duration::from_secs(15)).text("still here"));
    let buffering = HeaderName::from_static("x-accel-buffering");
    Ok(([(buffering, HeaderValue::from_static("no"))], sse).into_response())
}

struct Follower {
    api: Api,
    agent: AgentId,
    cursor: Cursor,
    wait: Wait<AgentId>,
    /// What is to be sent, last first.
    queue: Vec<Event>,
}

fn events(follower: Follower) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((Ok(event), follower))
    })
}

impl Follower {
    /// The next event; nothing when the process stops or the database fails:
    /// the client comes back with the last id it saw.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.queue.pop() {
                return Some(event);
            }
            // Registered before it is looked for; a hint in between is kept.
            let hint = self.wait.hint();
            tokio::pin!(hint);
            hint.as_mut().enable();
            match Box::pin(read(&self.api, self.agent, self.cursor)).await {
                Ok((cursor, events)) => {
                    self.cursor = cursor;
                    self.queue = events;
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "An event stream was ended");
                    return None;
                }
            }
            if !self.queue.is_empty() {
                continue;
            }
            tokio::select! {
                () = hint => {}
                () = tokio::time::sleep(LOOK) => {}
                () = self.api.lifecycle.stopping() => return None,
            }
        }
    }
}

async fn read(
    api: &Api,
    agent: AgentId,
    after: Cursor,
) -> Result<(Cursor, Vec<Event>), StoreError> {
    let mut tx = api.store.read().await?;
    let news = audit::feed(&mut tx, after, Some(agent)).await?;
    let cursor = news.last().map_or(after, News::cursor);
    let mut events = Vec::new();
    for item in &news {
        let Some(kind) = kind_of(&item.kind) else { continue };
        let id = item.request.as_deref().and_then(|id| id.parse().ok());
        let Some(id) = id else { continue };
        let Some(request) = store::requests::find(&mut tx, id).await? else { continue };
        let resource = wire::read(&mut tx, &request).await?;
        let data = serde_json::to_string(&resource).unwrap_or_default();
        events.push(Event::default().id(item.cursor().to_string()).event(kind).data(data));
    }
    events.reverse();
    Ok((cursor, events))
}

fn kind_of(kind: &str) -> Option<&'static str> {
    match kind {
        "request.created" => Some("request.created"),
        "delivery.sent" | "delivery.failed" | "delivery.seen" | "request.undeliverable" => {
            Some("request.delivered")
        }
        other => {
            let status = other.strip_prefix("request.")?.parse::<Status>().ok()?;
            status.is_final().then_some("request.settled")
        }
    }
}
