//! A Bot API server for one bot.
//!
//! Rules, numbers and words are the official server's (10.0, Bot API 10.3).
//! What it does besides, and the real one does not: [`Fault`]s on demand.

mod methods;
mod people;
mod record;
mod state;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use url::Url;

pub use people::{BOT_ID, BOT_NAME};
pub use state::{Answered, Call, Shown};
use state::{Refusal, World};

/// Something that goes wrong with the next calls of a method.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The server answers this instead, and does nothing.
    Answer {
        /// The HTTP status.
        status: u16,
        /// The body.
        body: String,
    },
    /// The server does what was asked and breaks off before it says so.
    CutAfter,
    /// The server breaks off at once.
    CutBefore,
    /// The server does what was asked and answers so much later.
    Slow(Duration),
}

impl Fault {
    /// The server asks to wait.
    pub fn flood(seconds: u64) -> Self {
        Self::refusal(
            429,
            &format!("Too Many Requests: retry after {seconds}"),
            &json!({ "retry_after": seconds }),
        )
    }

    /// The server refuses with these words.
    pub fn refusal(code: u16, words: &str, parameters: &Value) -> Self {
        let mut body = json!({ "ok": false, "error_code": code, "description": words });
        if !parameters.is_null() {
            body["parameters"] = parameters.clone();
        }
        Self::Answer { status: code, body: body.to_string() }
    }

    /// The proxy in front of the server is in trouble.
    pub fn bad_gateway() -> Self {
        let body = "<html><head><title>502 Bad Gateway</title></head></html>";
        Self::Answer { status: 502, body: body.to_owned() }
    }
}

/// A running server.
#[derive(Clone)]
pub struct BotApi {
    shared: Arc<Shared>,
    /// Where it listens.
    pub url: Url,
}

struct Shared {
    token: String,
    world: Mutex<World>,
    faults: Mutex<Vec<(String, VecDeque<Fault>)>>,
    /// Changes with every update and every poll.
    changed: watch::Sender<u64>,
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    fn next_fault(&self, method: &str) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, queue) = faults.iter_mut().find(|(of, _)| of == method)?;
        queue.pop_front()
    }
}

impl BotApi {
    /// Starts a server for the bot with this token.
    pub async fn start(token: &str) -> Self {
        Self::start_at(token, 0).await
    }

    /// The same on a port of this machine.
    pub async fn start_at(token: &str, port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let url = Url::parse(&format!("http://{address}")).expect("a URL");
        let shared = Arc::new(Shared {
            token: token.to_owned(),
            world: Mutex::new(World::default()),
            faults: Mutex::new(Vec::new()),
            changed: watch::Sender::new(0),
        });
        let routes = Router::new()
            .route("/{bot}/{method}", any(call))
            .with_state(Arc::clone(&shared))
            .merge(people::routes(Arc::clone(&shared)));
        let server = axum::serve(listener, routes);
        tokio::spawn(async move { server.await });
        tokio::spawn(people::deliver_to_webhook(Arc::clone(&shared)));
        Self { shared, url }
    }

    /// Lets the next calls of a method go wrong, one fault a call.
    pub fn fail(&self, method: &str, faults: impl IntoIterator<Item = Fault>) {
        let mut all = self.shared.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let queue: VecDeque<Fault> = faults.into_iter().collect();
        all.retain(|(of, _)| of != method);
        all.push((method.to_owned(), queue));
    }
}

/// Takes one call, in any of the forms that the real server takes.
async fn call(
    State(shared): State<Arc<Shared>>,
    Path((bot, method)): Path<(String, String)>,
    Query(query): Query<Map<String, Value>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if bot != format!("bot{}", shared.token) {
        return refuse(&Refusal::new(401, "Unauthorized"));
    }
    let method = methods::canonical(&method);
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let Some(parameters) = parameters(query, kind, &body) else {
        return refuse(&Refusal::new(400, "Bad Request: can't parse the parameters"));
    };
    let fault = shared.next_fault(&method);
    record::note("call", &method, &Value::Object(parameters.clone()), false);
    shared.world().calls.push(Call { method: method.clone(), parameters: parameters.clone() });
    match &fault {
        Some(Fault::Answer { status, body }) => return raw(*status, body.clone()),
        Some(Fault::CutBefore) => return cut(),
        _ => {}
    }
    let result = methods::run(&shared, &method, &parameters).await;
    match fault {
        Some(Fault::CutAfter) => return cut(),
        Some(Fault::Slow(span)) => tokio::time::sleep(span).await,
        _ => {}
    }
    match result {
        Ok(result) => {
            record::note("result", &method, &result, false);
            raw(200, json!({ "ok": true, "result": result }).to_string())
        }
        Err(refusal) => refuse(&refusal),
    }
}

fn parameters(query: Map<String, Value>, kind: &str, body: &Bytes) -> Option<Map<String, Value>> {
    let mut all = query;
    if body.is_empty() {
        return Some(all);
    }
    if kind.starts_with("application/json") {
        let Value::Object(more) = serde_json::from_slice(body).ok()? else { return None };
        all.extend(more);
    } else if kind.starts_with("multipart/form-data") {
        all.extend(multipart(kind, body)?);
    } else {
        let pairs = url::form_urlencoded::parse(body);
        all.extend(pairs.map(|(key, value)| (key.into_owned(), Value::String(value.into_owned()))));
    }
    Some(all)
}

/// The parts of a form; a file is its text.
fn multipart(kind: &str, body: &[u8]) -> Option<Map<String, Value>> {
    let boundary = kind.split("boundary=").nth(1)?.trim_matches('"');
    let text = String::from_utf8_lossy(body);
    let mut parts = Map::new();
    for part in text.split(&format!("--{boundary}")) {
        let Some((head, content)) = part.split_once("\r\n\r\n") else { continue };
        let name = head.split("name=\"").nth(1)?.split('"').next()?;
        let content = content.strip_suffix("\r\n").unwrap_or(content);
        parts.insert(name.to_owned(), Value::String(content.to_owned()));
    }
    Some(parts)
}

fn raw(status: u16, body: String) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = if body.starts_with('{') { "application/json" } else { "text/html" };
    (status, [(header::CONTENT_TYPE, kind)], body).into_response()
}

fn refuse(refusal: &Refusal) -> Response {
    let mut body = json!({
        "ok": false, "error_code": refusal.code, "description": refusal.words,
    });
    if let Some(parameters) = &refusal.parameters {
        body["parameters"] = parameters.clone();
    }
    raw(refusal.code, body.to_string())
}

/// An answer that breaks off in its middle.
fn cut() -> Response {
    let broken = axum::body::Body::from_stream(Broken);
    (StatusCode::OK, [(header::CONTENT_LENGTH, "1000")], broken).into_response()
}

struct Broken;

impl futures_core::Stream for Broken {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(Some(Err(std::io::Error::other("cut"))))
    }
}
