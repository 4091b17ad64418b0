//! A Slack workspace with one app in it.
//!
//! The app calls the Web API and is told what happens, through Socket Mode or by
//! signed requests; rules, numbers and words are the real server's. What it does
//! besides, and the real one does not: [`Fault`]s on demand, and spans that a
//! test may shorten.

mod blocks;
mod delivery;
mod happenings;
mod knobs;
mod people;
mod record;
mod shapes;
mod state;
mod web;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{any, post};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use url::Url;

pub use delivery::{Delivery, Outcome, RequestUrls, Route, sign};
use state::World;
pub use state::{Button, Call, EditMark, Ephemeral, Kind, Modal, Shown, Upload, User};

/// The workspace.
pub const TEAM_ID: &str = "T0001";
/// The part of the workspace's address that is its own.
pub const DOMAIN: &str = "sayso-test";
/// The app.
pub const APP_ID: &str = "A0001";
/// The account that the app writes under.
pub const BOT_USER: &str = "U0BOT";
/// The same as a bot.
pub const BOT_ID: &str = "B0BOT";

/// Something that goes wrong with the next calls of a method.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The server answers this instead, and does nothing.
    Answer {
        /// The HTTP status.
        status: u16,
        /// The body.
        body: String,
        /// The seconds in `Retry-After`.
        retry_after: Option<u64>,
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
        let body = json!({ "ok": false, "error": "ratelimited" }).to_string();
        Self::Answer { status: 429, body, retry_after: Some(seconds) }
    }

    /// The server refuses with this word.
    pub fn refusal(error: &str) -> Self {
        let body = json!({ "ok": false, "error": error }).to_string();
        Self::Answer { status: 200, body, retry_after: None }
    }

    /// The proxy in front of the server is in trouble.
    pub fn bad_gateway() -> Self {
        let body = "<html><head><title>502 Bad Gateway</title></head></html>";
        Self::Answer { status: 502, body: body.to_owned(), retry_after: None }
    }
}

/// What the app proves itself with, and Slack itself to the app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// For the Web API.
    pub bot_token: String,
    /// For opening connections.
    pub app_token: String,
    /// What requests to the app are signed with.
    pub signing_secret: String,
}

impl Default for Credentials {
    fn default() -> Self {
        Self {
            bot_token: "xoxb-stand-in".to_owned(),
            app_token: "xapp-stand-in".to_owned(),
            signing_secret: "stand-in".to_owned(),
        }
    }
}

/// A running workspace.
#[derive(Clone)]
pub struct Workspace {
    shared: Arc<Shared>,
    /// Where it listens.
    pub url: Url,
}

struct Shared {
    credentials: Credentials,
    base: Url,
    world: Mutex<World>,
    faults: Mutex<Vec<(String, VecDeque<Fault>)>>,
    /// Changes with everything that happens.
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

impl Workspace {
    /// Starts a workspace whose app has these credentials.
    pub async fn start(credentials: Credentials) -> Self {
        Self::start_at(credentials, 0).await
    }

    /// The same on a port of this machine.
    pub async fn start_at(credentials: Credentials, port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let url = Url::parse(&format!("http://{address}")).expect("a URL");
        let (queue, deliveries) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            credentials,
            base: url.clone(),
            world: Mutex::new(World::new(url.to_string(), queue)),
            faults: Mutex::new(Vec::new()),
            changed: watch::Sender::new(0),
        });
        let routes = Router::new()
            .route("/api/{method}", any(web::call))
            .route("/link/", any(delivery::open_link))
            .route("/upload/v1/{id}", post(web::receive))
            .layer(DefaultBodyLimit::max(64 << 20))
            .with_state(Arc::clone(&shared))
            .merge(people::routes(Arc::clone(&shared)));
        let server = axum::serve(listener, routes);
        tokio::spawn(async move { server.await });
        tokio::spawn(delivery::run(Arc::clone(&shared), deliveries));
        Self { shared, url }
    }

    /// The address that methods are appended to.
    pub fn api_url(&self) -> Url {
        self.url.join("api/").expect("a URL")
    }

    /// Lets the next calls of a method go wrong, one fault a call.
    pub fn fail(&self, method: &str, faults: impl IntoIterator<Item = Fault>) {
        let mut all = self.shared.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let queue: VecDeque<Fault> = faults.into_iter().collect();
        all.retain(|(of, _)| of != method);
        all.push((method.to_owned(), queue));
    }

    fn with<T>(&self, act: impl FnOnce(&mut World) -> T) -> T {
        let result = act(&mut self.shared.world());
        self.shared.touch();
        result
    }
}
