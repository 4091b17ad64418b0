//! HTTP for agents, and the pages of operation.

pub mod auth;
pub mod events;
pub mod json;
pub mod ops;
pub mod problem;
pub mod requests;
pub mod server;
pub mod wait;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

use crate::api::problem::Problem;
use crate::decisions::Policy;
use crate::jobs::fence::Fence;
use crate::lifecycle::Lifecycle;
use crate::store::Store;
use crate::telemetry::Metrics;
use crate::wakeups::Wakeups;

/// What handlers work with.
#[derive(Clone)]
pub struct Api {
    /// The database.
    pub store: Store,
    /// Hints.
    pub wakeups: Wakeups,
    /// What the operator allows.
    pub policy: Policy,
    /// Which addresses may be called.
    pub fence: Fence,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The life of the process.
    pub lifecycle: Lifecycle,
    /// Host names by which the server may be called: with a port that port only,
    /// without one any.
    pub hosts: Arc<[String]>,
}

#[derive(OpenApi)]
#[openapi(
    info(title = "Sayso", description = "Nothing runs without your say-so."),
    paths(
        requests::create::create_request,
        requests::list_requests,
        requests::get_request,
        requests::cancel_request,
        requests::decide_request,
        events::follow_events,
    ),
    components(schemas(problem::Problem)),
    modifiers(&Security),
)]
struct Document;

struct Security;

impl utoipa::Modify for Security {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        if let Some(components) = &mut document.components {
            components.add_security_scheme("agent", SecurityScheme::Http(scheme));
        }
    }
}

/// The `OpenAPI` document.
pub fn openapi() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

/// Every route of the API, with `pages` beside it, behind the guard of host
/// names.
pub fn router(api: Api, pages: Option<Router>) -> Router {
    let routes = Router::new()
        .route("/v1/requests", post(requests::create_request).get(requests::list_requests))
        .route("/v1/requests/{id}", get(requests::get_request))
        .route("/v1/requests/{id}/cancel", post(requests::cancel_request))
        .route("/v1/requests/{id}/decision", post(requests::decide_request))
        .route("/v1/events", get(events::follow_events))
        .route("/openapi.json", get(ops::openapi_document))
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .with_state(api.clone());
    let routes = match pages {
        Some(pages) => routes.merge(pages),
        None => routes,
    };
    // Probes call by whatever address they know; these pages hold no data.
    let probes = Router::new()
        .route("/livez", get(ops::livez))
        .route("/readyz", get(ops::readyz))
        .route("/metrics", get(ops::metrics))
        .with_state(api.clone());
    routes.layer(middleware::from_fn_with_state(api, guard_host)).merge(probes)
}

async fn no_such_route() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "not_found", "there is no such route")
}

async fn no_such_method() -> Problem {
    let status = StatusCode::METHOD_NOT_ALLOWED;
    Problem::new(status, "method_not_allowed", "this route has no such method")
}

/// A name that is not ours may be an attacker's that leads to this address.
async fn guard_host(State(api): State<Api>, request: Request, next: Next) -> Response {
    let host = request
        .headers()
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .map(str::to_ascii_lowercase)
        .or_else(|| request.uri().authority().map(|a| a.as_str().to_ascii_lowercase()));
    let is_ours = host.is_some_and(|host| {
        let bare = host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name);
        api.hosts.iter().any(|ours| *ours == host || ours == bare)
    });
    if is_ours {
        return next.run(request).await;
    }
    let detail = "this server is not called by that name; see server.public_url and \
                  server.allowed_hosts";
    Problem::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", detail).into_response()
}
