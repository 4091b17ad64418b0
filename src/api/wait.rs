//! Waiting for the end of a request.

use std::time::Duration;

use axum::http::StatusCode;
use tokio::time::Instant;

use crate::api::Api;
use crate::api::problem::Problem;
use crate::ids::{AgentId, RequestId};
use crate::requests::Request;
use crate::store;
use crate::store::dialect::Dialect;

/// How often a wait looks without a hint. On PostgreSQL a hint can be held back
/// by a long transaction of somebody else.
fn look_every(dialect: Dialect) -> Duration {
    match dialect {
        Dialect::Sqlite => Duration::from_secs(15),
        Dialect::Postgres => Duration::from_secs(1),
    }
}

/// The request once it has ended, or as it stands after `seconds` or when the
/// process stops.
///
/// # Errors
///
/// A [`Problem`] when it is none of the agent's, or when too many calls wait.
pub async fn until_ended(
    api: &Api,
    id: RequestId,
    agent: AgentId,
    seconds: u64,
) -> Result<Request, Problem> {
    // What a look needs is put on the heap and freed before the wait: ten
    // thousand waits hold little more than their connections.
    {
        let request = Box::pin(read(api, id, agent)).await?;
        if seconds == 0 || request.status.is_final() {
            return Ok(request);
        }
    }
    let Some(wait) = api.wakeups.request(id) else {
        let detail = "too many calls are waiting";
        return Err(
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_waits", detail).later(2)
        );
    };
    let until = Instant::now() + Duration::from_secs(seconds);
    loop {
        // Registered first, then read, then awaited: no end can slip through.
        let hint = wait.hint();
        tokio::pin!(hint);
        hint.as_mut().enable();
        {
            let request = Box::pin(read(api, id, agent)).await?;
            if request.status.is_final() || Instant::now() >= until {
                return Ok(request);
            }
        }
        tokio::select! {
            () = hint => {}
            () = tokio::time::sleep_until(until) => {}
            () = tokio::time::sleep(look_every(api.store.dialect())) => {}
            () = api.lifecycle.stopping() => return Box::pin(read(api, id, agent)).await,
        }
    }
}

async fn read(api: &Api, id: RequestId, agent: AgentId) -> Result<Request, Problem> {
    let found = store::requests::find(&mut api.store.read().await?, id).await?;
    found.filter(|request| request.agent == agent).ok_or_else(Problem::not_found)
}
