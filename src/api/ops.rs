//! Pages for whoever operates the gateway.

use std::time::Duration;

use async_trait::async_trait;
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::api::Api;
use crate::api::problem::Problem;
use crate::store::{self, StoreError, Tx, Write};
use crate::telemetry::Levels;

/// How long the database may take to be ready.
const PATIENCE: Duration = Duration::from_secs(1);
/// Waiting writes from which on the gateway takes nothing more.
const FULL: usize = 800;

/// The `OpenAPI` 3.1 document, made from the code.
pub async fn openapi_document() -> Json<utoipa::openapi::OpenApi> {
    Json(crate::api::openapi())
}

/// Whether the process lives.
pub async fn livez() -> &'static str {
    "ok\n"
}

struct Probe;

#[async_trait]
impl Write for Probe {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        store::leases::raise_high_water(tx).await
    }
}

/// Whether the gateway can take requests.
pub async fn readyz(State(api): State<Api>) -> Result<&'static str, Problem> {
    let not_ready =
        |detail: &str| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", detail).later(1);
    if api.lifecycle.is_stopping() {
        return Err(not_ready("the gateway is stopping"));
    }
    if api.store.is_disk_full() {
        return Err(not_ready("the disk is full"));
    }
    if api.store.queued_writes() > FULL {
        return Err(not_ready("too many writes are waiting"));
    }
    match tokio::time::timeout(PATIENCE, api.store.write(Probe)).await {
        Ok(Ok(())) => Ok("ok\n"),
        Ok(Err(_)) => Err(not_ready("the database can't be written")),
        Err(_) => Err(not_ready("the database takes too long")),
    }
}

/// The metrics for Prometheus.
pub async fn metrics(State(api): State<Api>) -> Result<Response, Problem> {
    let mut tx = api.store.read().await?;
    let (deliveries, delivery_lag) = store::deliveries::backlog(&mut tx).await?;
    let (inbox, inbox_lag, poison) = store::inbox::backlog(&mut tx).await?;
    let (notices, notice_lag) = store::notices::backlog(&mut tx).await?;
    let (jobs, job_lag) = store::jobs::backlog(&mut tx).await?;
    let now = tx.now();
    let readers = store::readers::list(&mut tx).await?;
    let platforms = readers.into_iter().map(|reader| {
        let is_up = reader.trouble_at(now).is_none();
        (reader.channel, is_up)
    });
    let writes = i64::try_from(api.store.queued_writes()).unwrap_or(i64::MAX);
    let levels = Levels {
        pending: store::requests::count_pending(&mut tx).await?,
        queues: vec![
            ("deliveries", deliveries, delivery_lag),
            ("inbox", inbox, inbox_lag),
            ("inbox_poison", poison, 0),
            ("jobs", jobs, job_lag),
            ("notices", notices, notice_lag),
            ("writes", writes, 0),
        ],
        waits: api.wakeups.waits(),
        platforms: platforms.collect(),
    };
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], api.metrics.render(&levels)).into_response())
}
