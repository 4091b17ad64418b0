//! How what happens reaches the app: through sockets or by signed requests, and
//! again when nobody said that it arrived.

mod http;
mod socket;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;

pub(super) use http::verify_url;
pub use http::{RequestUrls, sign};
pub(super) use socket::{Order, open_link};

use crate::slack::Shared;
use crate::slack::people::settle;
use crate::slack::record;
use crate::slack::state::World;

/// What is delivered, and with it where to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Something happened in the workspace.
    Events,
    /// Somebody pressed, chose, submitted or closed.
    Interactive,
    /// Somebody gave a slash command.
    Commands,
}

impl Route {
    /// The word on an envelope.
    pub(super) fn envelope_type(self) -> &'static str {
        match self {
            Self::Events => "events_api",
            Self::Interactive => "interactive",
            Self::Commands => "slash_commands",
        }
    }
}

/// How a delivery went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nobody answered yet.
    Waiting,
    /// It was taken in time.
    Taken,
    /// Nobody took it in time.
    TimedOut,
    /// There was nobody to give it to.
    Unreachable,
    /// The answer was no yes.
    Refused,
}

/// One attempt to deliver something.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// What was delivered.
    pub route: Route,
    /// The payload.
    pub payload: Value,
    /// Its id, if it is an event.
    pub event_id: Option<String>,
    /// 0 for the first attempt.
    pub attempt: usize,
    /// Why it is tried again.
    pub reason: String,
    /// The envelope, through a socket.
    pub envelope_id: Option<String>,
    /// The connection that got it.
    pub connection: Option<u64>,
    /// How it went.
    pub outcome: Outcome,
    /// The status of the answer, over HTTP.
    pub status: Option<u16>,
    /// What came back with the answer.
    pub answer: Option<Value>,
    /// How long the answer took.
    pub took: Option<Duration>,
}

/// What an answer means, beyond that it came.
#[derive(Debug, Clone)]
pub(super) enum After {
    Nothing,
    /// It may say what becomes of the modal.
    Submission {
        view: String,
    },
    /// It may be shown to who gave the command.
    Command {
        channel: String,
        user: String,
    },
}

/// Something to be delivered.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    pub(super) route: Route,
    pub(super) payload: Value,
    pub(super) after: After,
    pub(super) attempt: usize,
    pub(super) reason: &'static str,
    pub(super) is_forced: bool,
}

impl Outgoing {
    pub(super) fn first(route: Route, payload: Value, after: After, is_forced: bool) -> Self {
        Self { route, payload, after, attempt: 0, reason: "", is_forced }
    }

    fn event_id(&self) -> Option<String> {
        self.payload["event_id"].as_str().map(str::to_owned)
    }
}

impl World {
    /// Puts something on its way, or aside if everything is kept back.
    pub(super) fn send(&mut self, outgoing: Outgoing) {
        if let Some(held) = &mut self.held {
            held.push(outgoing);
        } else {
            // Nobody receives any more only when the server ends.
            _ = self.queue.send(outgoing);
        }
    }

    /// Writes an attempt down; its place in the list.
    fn log(&mut self, outgoing: &Outgoing) -> usize {
        let kind = outgoing.route.envelope_type();
        let word = match outgoing.route {
            Route::Events => outgoing.payload["event"]["type"].as_str(),
            Route::Interactive => outgoing.payload["type"].as_str(),
            Route::Commands => outgoing.payload["command"].as_str(),
        };
        record::note(kind, word.unwrap_or_default(), &outgoing.payload, outgoing.is_forced);
        self.deliveries.push(Delivery {
            route: outgoing.route,
            payload: outgoing.payload.clone(),
            event_id: outgoing.event_id(),
            attempt: outgoing.attempt,
            reason: outgoing.reason.to_owned(),
            envelope_id: None,
            connection: None,
            outcome: Outcome::Waiting,
            status: None,
            answer: None,
            took: None,
        });
        self.deliveries.len() - 1
    }
}

/// Delivers in the order in which things happened.
pub(super) async fn run(shared: Arc<Shared>, mut queue: mpsc::UnboundedReceiver<Outgoing>) {
    while let Some(outgoing) = queue.recv().await {
        let urls = shared.world().settings.urls.clone();
        match urls {
            None => socket::give(&shared, outgoing),
            Some(urls) => {
                let attempt = tokio::spawn(http::give(Arc::clone(&shared), urls, outgoing));
                // The next one does not wait for an app that takes its time.
                _ = tokio::time::timeout(Duration::from_millis(50), attempt).await;
            }
        }
        shared.touch();
    }
}

/// Notes how an attempt went, acts on the answer, and sees to the next attempt,
/// if there is a reason for one.
fn conclude(
    shared: &Arc<Shared>,
    outgoing: Outgoing,
    index: usize,
    outcome: Outcome,
    again: Option<&'static str>,
) {
    let is_taken = outcome == Outcome::Taken;
    let wait = {
        let mut world = shared.world();
        world.deliveries[index].outcome = outcome;
        let answer = world.deliveries[index].answer.clone().filter(|_| is_taken);
        settle(&mut world, &outgoing.after, answer.as_ref(), is_taken);
        let spans = world.settings.retry_after;
        spans.get(outgoing.attempt).copied()
    };
    shared.touch();
    let (Some(wait), Some(reason)) = (wait, again.filter(|_| outgoing.route == Route::Events))
    else {
        return;
    };
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        tokio::time::sleep(wait).await;
        let again = Outgoing { attempt: outgoing.attempt + 1, reason, ..outgoing };
        shared.world().send(again);
    });
}
