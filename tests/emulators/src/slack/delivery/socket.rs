//! Socket Mode.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::slack::delivery::{Outcome, Outgoing, Route, conclude};
use crate::slack::state::{Connection, Pending};
use crate::slack::{APP_ID, Shared, record};

/// How many connections an app may have.
const MOST: usize = 10;
const HOST: &str = "applink-stand-in";

/// What a connection is to do next.
#[derive(Debug, Clone)]
pub(in crate::slack) enum Order {
    /// Send this.
    Frame(String),
    /// Send these bytes.
    Bytes(Vec<u8>),
    /// Say that it ends, for this reason, and end it after so long.
    Disconnect(String, Duration),
    /// Close it as one should.
    Close,
    /// Be gone without a word.
    Drop,
    /// Stay open and do nothing any more.
    Ghost,
}

/// Takes a connection for a ticket that was not used yet.
pub(in crate::slack) async fn open_link(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<Map<String, Value>>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let ticket = query.get("ticket").and_then(Value::as_str).unwrap_or_default();
    if !shared.world().tickets.remove(ticket) {
        return (StatusCode::FORBIDDEN, "invalid_ticket").into_response();
    }
    let is_short = query.get("debug_reconnects").and_then(Value::as_str) == Some("true");
    upgrade.on_upgrade(move |socket| serve(shared, socket, if is_short { 360 } else { 18_060 }))
}

async fn serve(shared: Arc<Shared>, mut socket: WebSocket, lives: u64) {
    let (orders, mut inbox) = mpsc::unbounded_channel();
    let (number, count) = {
        let mut world = shared.world();
        let number = world.next_number();
        let count = world.connections.len() + 1;
        if count <= MOST {
            world.connections.push_back(Connection { number, orders });
        }
        (number, count)
    };
    if count > MOST {
        _ = send(&mut socket, disconnect("too_many_websockets")).await;
        _ = socket.send(Message::Close(None)).await;
        return;
    }
    let hello = json!({
        "type": "hello", "num_connections": count,
        "debug_info": {
            "host": HOST, "started": "2025-10-09 08:53:20.000", "build_number": 1,
            "approximate_connection_time": lives,
        },
        "connection_info": { "app_id": APP_ID },
    });
    record::note("frame", "hello", &hello, false);
    _ = send(&mut socket, hello.to_string()).await;
    shared.touch();
    attend(&shared, &mut socket, number, &mut inbox).await;
    shared.world().connections.retain(|connection| connection.number != number);
    shared.touch();
}

fn disconnect(reason: &str) -> String {
    let frame = json!({ "type": "disconnect", "reason": reason, "debug_info": { "host": HOST } });
    record::note("frame", "disconnect", &frame, false);
    frame.to_string()
}

async fn send(socket: &mut WebSocket, frame: String) -> bool {
    socket.send(Message::Text(frame.into())).await.is_ok()
}

/// Does what is ordered and hears what the app says, until one of them ends it.
async fn attend(
    shared: &Arc<Shared>,
    socket: &mut WebSocket,
    number: u64,
    inbox: &mut mpsc::UnboundedReceiver<Order>,
) {
    let mut ends_at: Option<Instant> = None;
    let every = shared.world().settings.ping_every;
    let mut ping_at = Instant::now() + every;
    loop {
        let ended = async {
            match ends_at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        // Every branch may be dropped half-way: a channel's `recv`, a stream's
        // `next` and a timer lose nothing.
        let is_alive = tokio::select! {
            order = inbox.recv() => match order {
                Some(Order::Frame(frame)) => send(socket, frame).await,
                Some(Order::Bytes(bytes)) => {
                    socket.send(Message::Binary(bytes.into())).await.is_ok()
                }
                Some(Order::Disconnect(reason, after)) => {
                    ends_at = Some(Instant::now() + after);
                    send(socket, disconnect(&reason)).await
                }
                Some(Order::Close) => close(socket).await,
                Some(Order::Ghost) => haunt(inbox).await,
                Some(Order::Drop) | None => false,
            },
            frame = socket.recv() => match frame {
                Some(Ok(Message::Text(text))) => {
                    hear(shared, number, text.as_str());
                    true
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => false,
                Some(Ok(_)) => true,
            },
            () = ended => close(socket).await,
            () = tokio::time::sleep_until(ping_at) => {
                ping_at += every;
                socket.send(Message::Ping(format!("Ping from {HOST}").into())).await.is_ok()
            }
        };
        if !is_alive {
            return;
        }
    }
}

async fn close(socket: &mut WebSocket) -> bool {
    _ = socket.send(Message::Close(None)).await;
    false
}

/// Reads nothing and says nothing, until the connection is dropped.
async fn haunt(inbox: &mut mpsc::UnboundedReceiver<Order>) -> bool {
    while let Some(order) = inbox.recv().await {
        if matches!(order, Order::Drop) {
            break;
        }
    }
    false
}

/// Takes an acknowledgement; anything else is no concern of Slack's.
fn hear(shared: &Arc<Shared>, number: u64, text: &str) {
    let Ok(frame) = serde_json::from_str::<Value>(text) else { return };
    record::note("frame", "ack", &frame, false);
    let Some(envelope) = frame["envelope_id"].as_str() else { return };
    {
        let mut world = shared.world();
        world.acked.push(envelope.to_owned());
        let is_ours = world.pending.get(envelope).is_some_and(|p| p.connection == number);
        if is_ours && let Some(pending) = world.pending.remove(envelope) {
            // Too late is only recorded.
            _ = pending.acked.send(frame.get("payload").cloned());
        }
    }
    shared.touch();
}

/// Gives something to one of the open connections and waits for its word.
pub(super) fn give(shared: &Arc<Shared>, outgoing: Outgoing) {
    let started = Instant::now();
    let (index, given, within) = {
        let mut world = shared.world();
        let index = world.log(&outgoing);
        let within = world.settings.ack_within;
        let number = world.next_number();
        let envelope = format!("{number:08x}-5a75-4e00-8000-{number:012x}");
        let mut given = None;
        // One that is gone and not cleared away yet counts as none.
        for _ in 0..world.connections.len() {
            let Some(connection) = world.connections.pop_front() else { break };
            let frame = envelope_frame(&outgoing, &envelope);
            let number = connection.number;
            let is_sent = connection.orders.send(Order::Frame(frame)).is_ok();
            world.connections.push_back(connection);
            if is_sent {
                let (acked, answer) = oneshot::channel();
                world.pending.insert(envelope.clone(), Pending { connection: number, acked });
                world.deliveries[index].envelope_id = Some(envelope.clone());
                world.deliveries[index].connection = Some(number);
                given = Some((envelope, answer));
                break;
            }
        }
        (index, given, within)
    };
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        let Some((envelope, answer)) = given else {
            conclude(&shared, outgoing, index, Outcome::Unreachable, Some("connection_failed"));
            return;
        };
        if let Ok(Ok(payload)) = tokio::time::timeout(within, answer).await {
            {
                let mut world = shared.world();
                world.deliveries[index].answer = payload;
                world.deliveries[index].took = Some(started.elapsed());
            }
            conclude(&shared, outgoing, index, Outcome::Taken, None);
        } else {
            shared.world().pending.remove(&envelope);
            conclude(&shared, outgoing, index, Outcome::TimedOut, Some("timeout"));
        }
    });
}

fn envelope_frame(outgoing: &Outgoing, id: &str) -> String {
    let kind = outgoing.payload["type"].as_str().unwrap_or_default();
    let takes_answer = match outgoing.route {
        Route::Events => false,
        Route::Commands => true,
        Route::Interactive => ["view_submission", "block_suggestion"].contains(&kind),
    };
    let mut envelope = json!({
        "envelope_id": id, "type": outgoing.route.envelope_type(), "payload": outgoing.payload,
        "accepts_response_payload": takes_answer,
    });
    if outgoing.route == Route::Events {
        envelope["retry_attempt"] = outgoing.attempt.into();
        envelope["retry_reason"] = outgoing.reason.into();
    }
    record::note("frame", outgoing.route.envelope_type(), &envelope, outgoing.is_forced);
    envelope.to_string()
}
