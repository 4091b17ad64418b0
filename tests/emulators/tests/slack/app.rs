//! The app under test: as plain as it can be.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use sayso_emulators::slack::{Credentials, Workspace};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

pub(crate) async fn start() -> Workspace {
    Workspace::start(Credentials::default()).await
}

/// A workspace that tries again at once.
pub(crate) async fn start_impatient() -> Workspace {
    let slack = start().await;
    slack.retries_after([Duration::from_millis(20); 3]);
    slack
}

async fn call_as(slack: &Workspace, token: &str, method: &str, body: &Value) -> Value {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = client
        .post(slack.api_url().join(method).unwrap())
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json; charset=utf-8")
        .body(body.to_string())
        .send()
        .await
        .unwrap();
    serde_json::from_str(&answer.text().await.unwrap()).unwrap()
}

pub(crate) async fn call(slack: &Workspace, method: &str, body: Value) -> Value {
    call_as(slack, "xoxb-stand-in", method, &body).await
}

/// Posts to a person's conversation with the bot; the whole answer.
pub(crate) async fn post(slack: &Workspace, user: &str, body: Value) -> Value {
    let mut body = body;
    body["channel"] = slack.dm(user).into();
    call(slack, "chat.postMessage", body).await
}

/// Two buttons, as a card has them.
pub(crate) fn card() -> Value {
    let button = |label: &str| {
        json!({
            "type": "button", "text": { "type": "plain_text", "text": label },
            "action_id": label, "value": format!("token-{label}"),
        })
    };
    json!([
        { "type": "section", "text": { "type": "mrkdwn", "text": "Deploy?" } },
        { "type": "actions", "elements": [button("approve"), button("deny")] },
    ])
}

pub(crate) struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

pub(crate) async fn socket_url(slack: &Workspace) -> String {
    let answer = call_as(slack, "xapp-stand-in", "apps.connections.open", &json!({})).await;
    answer["url"].as_str().unwrap().to_owned()
}

impl Socket {
    /// Opens a connection and takes the greeting.
    pub(crate) async fn open(slack: &Workspace) -> Self {
        let mut socket = Self::at(&socket_url(slack).await).await.unwrap();
        assert_eq!(socket.next().await["type"], "hello");
        socket
    }

    pub(crate) async fn at(url: &str) -> Result<Self, Error> {
        connect_async(url).await.map(|(stream, _)| Self(stream))
    }

    /// The next frame with text in it.
    pub(crate) async fn next(&mut self) -> Value {
        let next = async {
            loop {
                match self.0.next().await {
                    Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    other => return json!({ "ended": format!("{other:?}") }),
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(10), next).await.unwrap()
    }

    pub(crate) async fn ack(&mut self, envelope: &Value, payload: Option<Value>) {
        let mut frame = json!({ "envelope_id": envelope["envelope_id"] });
        if let Some(payload) = payload {
            frame["payload"] = payload;
        }
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }
}
