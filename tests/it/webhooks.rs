//! How an agent is told by its callback.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::support::{Database, Gateway};

#[derive(Clone, Default)]
struct Receiver {
    calls: Arc<Mutex<Vec<(HeaderMap, String)>>>,
    answers: Arc<Mutex<Vec<StatusCode>>>,
}

impl Receiver {
    async fn start(answers: &[StatusCode]) -> (Self, String) {
        let receiver = Self::default();
        receiver.answers.lock().await.extend(answers.iter().rev());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let routes = Router::new().fallback(Self::take).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        (receiver, url)
    }

    async fn take(State(receiver): State<Self>, headers: HeaderMap, body: String) -> StatusCode {
        receiver.calls.lock().await.push((headers, body));
        receiver.answers.lock().await.pop().unwrap_or(StatusCode::OK)
    }

    async fn calls(&self, count: usize) -> Vec<(HeaderMap, String)> {
        let wait = async {
            loop {
                let calls = self.calls.lock().await;
                if calls.len() >= count {
                    return calls.clone();
                }
                drop(calls);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), wait).await.expect("called in time")
    }
}

async fn park_and_cancel(gateway: &Gateway, url: &str) -> Value {
    let parked = gateway.park(json!({
        "kind": "tool_approval", "tool": { "name": "x", "input": 1 }, "callback_url": url,
    }));
    let parked = parked.await;
    let path = format!("/v1/requests/{}/cancel", parked["id"].as_str().unwrap());
    gateway.post(&path, &json!({})).await;
    parked
}

const INSIDE: [(&str, &str); 1] = [("SAYSO_WEBHOOKS__ALLOW_NETS", "127.0.0.0/8")];

#[rstest]
#[tokio::test]
async fn an_agent_is_told_with_a_signature_that_it_can_check(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let (receiver, url) = Receiver::start(&[]).await;
    let Some(gateway) = Gateway::start_with(database, &INSIDE).await else { return };
    let parked = park_and_cancel(&gateway, &url).await;

    let (headers, body) = receiver.calls(1).await.remove(0);

    let event: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(event["type"], "request.settled");
    assert_eq!(event["data"]["id"], parked["id"]);
    assert_eq!(event["data"]["status"], "cancelled");
    let header = |name: &str| headers[name].to_str().unwrap();
    let key = STANDARD.decode(gateway.webhook_secret.strip_prefix("whsec_").unwrap()).unwrap();
    let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&key).unwrap();
    let signed = format!("{}.{}.{body}", header("webhook-id"), header("webhook-timestamp"));
    mac.update(signed.as_bytes());
    let expected = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    assert_eq!(header("webhook-signature"), expected);
}

#[rstest]
#[tokio::test]
async fn a_call_that_fails_is_repeated_with_the_same_id_also_after_a_restart(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let busy = StatusCode::SERVICE_UNAVAILABLE;
    let (receiver, url) = Receiver::start(&[busy, StatusCode::FOUND]).await;
    let Some(mut gateway) = Gateway::start_with(database, &INSIDE).await else { return };
    park_and_cancel(&gateway, &url).await;
    receiver.calls(1).await;
    gateway.store().clock().advance(Duration::from_mins(2));
    receiver.calls(2).await;
    let later = gateway.store().clock().offset();
    gateway.restart().await;
    gateway.store().clock().advance(Duration::from_micros(later.try_into().unwrap()));
    gateway.store().clock().advance(Duration::from_mins(10));

    let calls = receiver.calls(3).await;

    let ids: Vec<_> = calls.iter().map(|(headers, _)| headers["webhook-id"].clone()).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(receiver.calls.lock().await.len(), 3, "told once it has been told");
}

#[tokio::test]
async fn a_receiver_that_is_gone_is_not_called_again() {
    let (receiver, url) = Receiver::start(&[StatusCode::GONE]).await;
    let gateway = Gateway::start_with(Database::Sqlite, &INSIDE).await.unwrap();
    let parked = park_and_cancel(&gateway, &url).await;
    receiver.calls(1).await;

    let id = parked["id"].as_str().unwrap().parse().unwrap();
    let wait = async {
        loop {
            let mut tx = gateway.store().read().await.unwrap();
            let story = sayso::store::audit::story(&mut tx, id).await.unwrap();
            if let Some(line) = story.iter().find(|line| line.kind == "agent.given_up") {
                return line.detail.clone();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let why = tokio::time::timeout(Duration::from_secs(10), wait).await.expect("it is given up");
    assert!(why.unwrap().contains("410"));
}

#[tokio::test]
async fn a_name_that_leads_inside_is_never_called() {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    let parked = park_and_cancel(&gateway, "https://localhost:9/hook").await;
    let id = parked["id"].as_str().unwrap().parse().unwrap();
    let wait = async {
        loop {
            let mut tx = gateway.store().read().await.unwrap();
            let story = sayso::store::audit::story(&mut tx, id).await.unwrap();
            if let Some(line) = story.iter().find(|line| line.kind == "agent.not_reached") {
                return line.detail.clone().unwrap();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let why = tokio::time::timeout(Duration::from_secs(10), wait).await.expect("it is tried");
    assert_eq!(why, "the name leads into a private network");
}
