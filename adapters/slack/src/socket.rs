//! Socket Mode: a connection that we open, over which payloads come and are
//! acknowledged once they are stored.
//!
//! Every connection gets a fresh address. When the platform announces that it
//! will close one, the next is opened before the old one goes. A connection over
//! which nothing comes, not even an answer to our own pings, is given up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use sayso_channel::Inbox;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::api::{Fault, Token};
use crate::envelope::{Route, text};
use crate::{NAME, Slack, words};

/// How often we ask whether the other side is there.
const PING: Duration = Duration::from_secs(15);
/// After so long without a frame the connection counts as dead.
const DEAD: Duration = Duration::from_secs(75);
/// How long opening a connection, or its greeting, may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often it is noted that the connection works.
const REPORT: Duration = Duration::from_mins(1);
/// A connection that did not last so long was a failure.
const LASTING: Duration = Duration::from_secs(30);
/// How long a connection may go on after its end was announced.
const FAREWELL: Duration = Duration::from_secs(30);
/// The longest pause after failures.
const LONGEST: Duration = Duration::from_secs(30);
/// To somebody who types the command and nothing else.
const USAGE: &str = "Type the code of a request and what you decide, like \
     `/sayso A1B2C3 approve`.";

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

#[derive(Deserialize)]
struct Opened {
    url: String,
}

/// One frame of the platform.
#[derive(Deserialize)]
struct Envelope {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, rename = "envelope_id")]
    id: Option<String>,
    #[serde(default)]
    payload: Value,
    #[serde(default)]
    num_connections: Option<u64>,
    #[serde(default)]
    reason: Option<String>,
}

/// What a connection says of itself to whoever keeps connections open.
enum Sign {
    /// It was greeted; so many are open for the app.
    Greeted(u64),
    /// It will be closed, or nobody should count on it any more.
    Retires,
    /// Too many are open for the app.
    Crowded,
    /// The app may not connect this way.
    Forbidden,
}

/// How a connection ended.
enum End {
    /// Its end was announced, or the other side closed it in order.
    Orderly,
    /// It broke or fell silent.
    Lost(&'static str),
}

/// Keeps a connection open until it is dropped.
pub(crate) async fn run(slack: &Slack, inbox: &Arc<dyn Inbox>, app_token: &Token) {
    let receiver = loop {
        match slack.me().await {
            Ok(me) => break me.realm().to_owned(),
            Err(fault) => {
                tracing::warn!(reason = words(&fault), "Slack: who we are could not be found out");
                tokio::time::sleep(LONGEST).await;
            }
        }
    };
    let mut keeper = Keeper {
        slack: slack.clone(),
        inbox: Arc::clone(inbox),
        receiver,
        connections: JoinSet::new(),
        current: None,
        opened: 0,
        failures: 0,
        trouble: None,
    };
    keeper.keep(app_token).await;
}

struct Keeper {
    slack: Slack,
    inbox: Arc<dyn Inbox>,
    receiver: String,
    connections: JoinSet<(u64, End)>,
    /// The connection that is counted on; others are on their way out.
    current: Option<Current>,
    /// How many were opened.
    opened: u64,
    failures: u32,
    /// What the operator should know although the connection works.
    trouble: Option<String>,
}

#[derive(Clone, Copy)]
struct Current {
    number: u64,
    since: Instant,
    is_greeted: bool,
}

impl Keeper {
    async fn keep(&mut self, app_token: &Token) {
        let (signs, mut signed) = mpsc::channel(16);
        let mut report = tokio::time::interval(REPORT);
        report.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            if self.current.is_none() && !self.open(app_token, &signs).await {
                // Nothing helps before the operator has done something.
                std::future::pending::<()>().await;
            }
            tokio::select! {
                Some(ended) = self.connections.join_next() => {
                    let Ok((number, end)) = ended else { continue };
                    if let End::Lost(why) = end {
                        tracing::info!("Slack: a connection was lost: {why}");
                    }
                    self.count_on_no_longer(number);
                }
                Some((number, sign)) = signed.recv() => match sign {
                    Sign::Greeted(open) => self.greeted(number, open).await,
                    Sign::Retires => self.count_on_no_longer(number),
                    Sign::Crowded => {
                        self.failures = self.failures.max(3);
                        let why = "too many connections are open for this app; another program \
                                   uses its token";
                        tracing::warn!("Slack: {why}");
                        self.report(Some(why)).await;
                        self.count_on_no_longer(number);
                    }
                    Sign::Forbidden => {
                        let why = "Socket Mode is switched off for the app; switch it on in the \
                                   app's settings and start Sayso again";
                        tracing::error!("Slack: {why}");
                        self.report(Some(why)).await;
                        std::future::pending::<()>().await;
                    }
                },
                _ = report.tick() => {
                    if self.current.is_some_and(|current| current.is_greeted) {
                        self.report(self.trouble.as_deref()).await;
                    }
                }
            }
        }
    }

    /// Another connection is to be opened in the place of this one, if it was counted
    /// on. One that did not last was a failure.
    fn count_on_no_longer(&mut self, number: u64) {
        let Some(current) = self.current.filter(|current| current.number == number) else {
            return;
        };
        let has_lasted = current.is_greeted && current.since.elapsed() > LASTING;
        self.failures = if has_lasted { 0 } else { self.failures + 1 };
        self.current = None;
    }

    async fn report(&self, trouble: Option<&str>) {
        self.inbox.report(NAME, &self.receiver, trouble).await;
    }

    async fn greeted(&mut self, number: u64, open: u64) {
        if let Some(current) = self.current.as_mut().filter(|current| current.number == number) {
            current.is_greeted = true;
        }
        let ours = u64::try_from(self.connections.len()).unwrap_or(u64::MAX);
        // Each payload goes to one of them: what the others get is lost to us.
        self.trouble = (open > ours).then(|| {
            format!(
                "{open} connections are open for this app, of which {ours} is ours; another \
                 program, or a connection that was lost, takes a part of what people do"
            )
        });
        if let Some(trouble) = &self.trouble {
            tracing::warn!("Slack: {trouble}");
        }
        self.report(self.trouble.as_deref()).await;
    }

    /// Opens the next connection, however long that takes; `false` when it can't
    /// be before the operator has done something.
    async fn open(&mut self, app_token: &Token, signs: &mpsc::Sender<(u64, Sign)>) -> bool {
        loop {
            if self.failures > 0 {
                tokio::time::sleep(pause(self.failures)).await;
            }
            let fault = match self.connect(app_token).await {
                Ok(socket) => {
                    self.opened += 1;
                    let number = self.opened;
                    let connection = Connection {
                        number,
                        slack: self.slack.clone(),
                        inbox: Arc::clone(&self.inbox),
                        signs: signs.clone(),
                    };
                    self.connections.spawn(async move { (number, connection.run(socket).await) });
                    let since = Instant::now();
                    self.current = Some(Current { number, since, is_greeted: false });
                    return true;
                }
                Err(fault) => fault,
            };
            self.failures += 1;
            let is_final = match &fault {
                Fault::Refused { refusal, .. } => refusal.is_for_the_operator(),
                _ => false,
            };
            let why = format!("Socket Mode: {}", words(&fault).replace("bot_token", "app_token"));
            tracing::warn!("Slack: {why}");
            self.report(Some(&why)).await;
            if is_final {
                tracing::error!("Slack: giving up until Sayso is started again");
                return false;
            }
            if let Fault::Wait(span) = fault {
                tokio::time::sleep(span).await;
            }
        }
    }

    /// Connects to a fresh address.
    async fn connect(&self, app_token: &Token) -> Result<Socket, Fault> {
        let opened: Opened =
            self.slack.shared.api.post("apps.connections.open", app_token, &json!({})).await?;
        let failed = || Fault::NotSent("the connection did not come about".to_owned());
        let connecting = tokio_tungstenite::connect_async(&opened.url);
        let connected = tokio::time::timeout(PATIENCE, connecting).await.map_err(|_| failed())?;
        connected.map(|(socket, _)| socket).map_err(|_| failed())
    }
}

/// One, two, four … seconds, never twice the same.
fn pause(failures: u32) -> Duration {
    let span = Duration::from_secs(1 << failures.saturating_sub(1).min(5)).min(LONGEST);
    span.mul_f64(rand::random_range(0.8..1.2))
}

struct Connection {
    number: u64,
    slack: Slack,
    inbox: Arc<dyn Inbox>,
    signs: mpsc::Sender<(u64, Sign)>,
}

impl Connection {
    async fn run(self, socket: Socket) -> End {
        let mut running = JoinSet::new();
        let end = self.converse(socket, &mut running).await;
        // A click comes once: what is under way is stored, also when nobody can be
        // told any more.
        while running.join_next().await.is_some() {}
        end
    }

    async fn converse(&self, socket: Socket, running: &mut JoinSet<()>) -> End {
        let (mut sink, mut frames) = socket.split();
        // Not bounded: whoever puts something in it is who takes it out. There are
        // as many as the other side waits for.
        let (acks, mut acked) = mpsc::unbounded_channel::<Frame>();
        let mut ping = tokio::time::interval(PING);
        ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut last = Instant::now();
        let opened = Instant::now();
        let (mut is_greeted, mut retired) = (false, None::<Instant>);
        loop {
            tokio::select! {
                frame = frames.next() => {
                    last = Instant::now();
                    match frame {
                        Some(Ok(Frame::Text(text))) => {
                            match self.take(text.as_str(), &acks, running).await {
                                Some(Sign::Retires | Sign::Crowded) if retired.is_some() => {}
                                Some(sign) => {
                                    if matches!(sign, Sign::Retires | Sign::Crowded) {
                                        retired = Some(Instant::now());
                                    }
                                    is_greeted |= matches!(sign, Sign::Greeted(_));
                                    if self.signs.send((self.number, sign)).await.is_err() {
                                        return End::Orderly;
                                    }
                                }
                                None => {}
                            }
                        }
                        Some(Ok(Frame::Close(_))) | None => return End::Orderly,
                        // Pings are answered by the library.
                        Some(Ok(_)) => {}
                        Some(Err(_)) => return End::Lost("it broke off"),
                    }
                }
                Some(ack) = acked.recv() => {
                    if sink.send(ack).await.is_err() {
                        return End::Lost("it broke off");
                    }
                }
                Some(_) = running.join_next() => {}
                _ = ping.tick() => {
                    if retired.is_some_and(|since| since.elapsed() > FAREWELL) {
                        let _ = sink.close().await;
                        return End::Orderly;
                    }
                    if !is_greeted && opened.elapsed() > PATIENCE {
                        return End::Lost("it was not greeted");
                    }
                    if last.elapsed() > DEAD {
                        return End::Lost("nothing came for over a minute");
                    }
                    if sink.send(Frame::Ping(Vec::new().into())).await.is_err() {
                        return End::Lost("it broke off");
                    }
                }
            }
        }
    }

    /// Takes one frame. What happened in a conversation is taken in order; clicks
    /// wait for nothing else.
    async fn take(
        &self,
        frame: &str,
        acks: &mpsc::UnboundedSender<Frame>,
        running: &mut JoinSet<()>,
    ) -> Option<Sign> {
        let Ok(envelope) = serde_json::from_str::<Envelope>(frame) else {
            tracing::warn!("Slack sent a frame that can't be read; it is skipped");
            return None;
        };
        let route = match envelope.kind.as_str() {
            "hello" => return Some(Sign::Greeted(envelope.num_connections.unwrap_or(1))),
            "disconnect" => {
                return Some(match envelope.reason.as_deref() {
                    Some("link_disabled") => Sign::Forbidden,
                    Some("too_many_websockets") => Sign::Crowded,
                    _ => Sign::Retires,
                });
            }
            "events_api" => Route::EventsApi,
            "interactive" => Route::Interactive,
            "slash_commands" => Route::SlashCommands,
            kind => {
                tracing::debug!("Slack sent a frame of an unknown kind, {kind}; it is skipped");
                let id = envelope.id?;
                let _ = acks.send(ack(&id, None));
                return None;
            }
        };
        let id = envelope.id?;
        let (slack, inbox, acks) = (self.slack.clone(), Arc::clone(&self.inbox), acks.clone());
        let payload = envelope.payload;
        let taking = async move {
            let usage = usage(route, &payload);
            // Without an acknowledgement it comes again.
            if slack.take(inbox.as_ref(), route, payload).await.is_ok() {
                // If the connection is gone by then, it comes again and is known.
                let _ = acks.send(ack(&id, usage));
            }
        };
        if route == Route::EventsApi {
            taking.await;
        } else {
            running.spawn(taking);
        }
        None
    }
}

/// What is said at once to a command without words.
pub(crate) fn usage(route: Route, payload: &Value) -> Option<Value> {
    let is_empty = text(payload, "/text").is_none_or(|words| words.trim().is_empty());
    (route == Route::SlashCommands && is_empty)
        .then(|| json!({ "response_type": "ephemeral", "text": USAGE }))
}

fn ack(id: &str, payload: Option<Value>) -> Frame {
    let ack = match payload {
        None => json!({ "envelope_id": id }),
        Some(payload) => json!({ "envelope_id": id, "payload": payload }),
    };
    Frame::Text(ack.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_at_half_a_minute() {
        assert!(pause(1) <= Duration::from_millis(1_200));
        assert!(pause(4) >= Duration::from_millis(6_400));
        assert!(pause(40) <= Duration::from_secs(36));
    }

    #[test]
    fn a_command_without_words_is_told_how_it_goes() {
        assert!(usage(Route::SlashCommands, &json!({ "text": " " })).is_some());
        assert!(usage(Route::SlashCommands, &json!({ "text": "A1B2C3 approve" })).is_none());
        assert!(usage(Route::EventsApi, &json!({})).is_none());
    }
}
