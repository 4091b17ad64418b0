//! The same story against a stand-in for the Bot API that somebody else wrote:
//! what ours might have got wrong because we wrote both sides.
//!
//! `LO_BOT_API_EMULATOR` names its program (`lo-bot-api-emulator` 0.3.6 of `PyPI`);
//! without it the test says so and ends. It knows no `link_preview_options`, so
//! a shim takes them out.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::any;
use sayso::admin::BindGuardian;
use serde_json::{Value, json};

use crate::support::Database;
use crate::support::gateway::Gateway;

const TOKEN: &str = "123456:TESTTOKEN";
const ADA: i64 = 1_001;

struct Foreign {
    child: Child,
    dir: tempfile::TempDir,
    http: reqwest::Client,
    /// The server itself, and the shim before it.
    server: String,
    shim: String,
}

impl Foreign {
    async fn start() -> Option<Self> {
        let Ok(program) = std::env::var("LO_BOT_API_EMULATOR") else {
            println!("SKIPPED: a foreign Bot API (LO_BOT_API_EMULATOR is not set)");
            return None;
        };
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let dir = tempfile::tempdir().unwrap();
        let child = Command::new(program)
            .args(["--host", "127.0.0.1", "--port", &port.to_string(), "--enable-control"])
            .args(["--allow-insecure-loopback-webhooks", "--journal"])
            .arg(dir.path().join("calls.jsonl"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let server = format!("http://127.0.0.1:{port}");
        let up = async {
            while http.get(format!("{server}/bot{TOKEN}/getMe")).send().await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), up).await.expect("it comes up");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let shim_url = format!("http://{}", listener.local_addr().unwrap());
        let routes = axum::Router::new()
            .route("/{bot}/{method}", any(shim))
            .with_state((http.clone(), server.clone()));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Some(Self { child, dir, http, server, shim: shim_url })
    }

    /// Something happens to the bot.
    async fn happens(&self, update: Value) {
        let body = json!({ "token": TOKEN, "update": update }).to_string();
        let call = self.http.post(format!("{}/__fixture/updates", self.server));
        let answer = call.header("content-type", "application/json").body(body).send().await;
        assert_eq!(answer.unwrap().status(), 200);
    }

    /// The calls that were made: method and status.
    fn calls(&self) -> Vec<(String, u64)> {
        let journal = std::fs::read_to_string(self.dir.path().join("calls.jsonl"));
        let journal = journal.unwrap_or_default();
        let lines = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines
            .filter_map(|line| {
                Some((line["method"].as_str()?.to_owned(), line["status"].as_u64()?))
            })
            .collect()
    }

    async fn until(&self, method: &str, count: usize) {
        let wait = async {
            while self.calls().iter().filter(|(of, _)| of == method).count() < count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(20), wait).await;
        waited.unwrap_or_else(|_| panic!("{method} is called: {:?}", self.calls()));
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Hands a call on without what the other side does not know.
async fn shim(
    State((http, server)): State<(reqwest::Client, String)>,
    Path((bot, method)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> impl IntoResponse {
    let mut body = body;
    if let Ok(Value::Object(mut members)) = serde_json::from_slice::<Value>(&body) {
        members.remove("link_preview_options");
        body = Value::Object(members).to_string().into();
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let call = http.post(format!("{server}/{bot}/{method}"));
    let call = call.header("content-type", kind.unwrap_or("application/json"));
    let answer = call.body(body).send().await.unwrap();
    let status = StatusCode::from_u16(answer.status().as_u16()).unwrap();
    (status, answer.bytes().await.unwrap())
}

#[tokio::test]
async fn a_foreign_bot_api_takes_every_call_of_a_whole_story() {
    let Some(foreign) = Foreign::start().await else { return };
    let url = foreign.shim.as_str();
    let env = [("SAYSO_TELEGRAM__TOKEN", TOKEN), ("SAYSO_TELEGRAM__API_URL", url)];
    let gateway = Gateway::start_with(Database::Sqlite, &env).await.unwrap();
    let bind = BindGuardian {
        name: "owner".to_owned(),
        channel: "telegram".to_owned(),
        realm: String::new(),
        account: ADA.to_string(),
        address: None,
    };
    gateway.store().write(bind).await.unwrap().unwrap();
    let user = json!({ "id": ADA, "is_bot": false, "first_name": "Ada" });
    let chat = json!({ "id": ADA, "type": "private", "first_name": "Ada" });

    // A press.
    let tool = json!({ "name": "shell", "input": { "command": "make 🎩" } });
    let parked = gateway.park(json!({ "kind": "tool_approval", "tool": tool })).await;
    let id = parked["id"].as_str().unwrap();
    foreign.until("sendMessage", 1).await;
    foreign
        .happens(json!({ "callback_query": {
            "id": "77", "from": user, "chat_instance": "ci", "data": format!("apr:{id}:approve_once"),
            "message": { "message_id": 1, "date": 1, "chat": chat, "text": "card" },
        }}))
        .await;
    gateway.until(id, |r| r["status"] == "approved").await;
    foreign.until("answerCallbackQuery", 1).await;
    foreign.until("editMessageText", 1).await;

    // Words, and their answer.
    let options = json!([{ "id": "a", "label": "Neo4j" }, { "id": "b", "label": "Stardog" }]);
    let asked = json!({ "kind": "question", "title": "Which?", "options": options });
    let asked = gateway.park(asked).await;
    foreign.until("sendMessage", 2).await;
    let code = asked["code"].as_str().unwrap();
    foreign
        .happens(json!({ "message": {
            "message_id": 50, "date": 1, "chat": chat, "from": user, "text": format!("{code} 2"),
        }}))
        .await;
    let id = asked["id"].as_str().unwrap();
    let answered = gateway.until(id, |r| r["status"] == "answered").await;
    assert_eq!(answered["outcome"]["answer"]["option"], "b");
    foreign.until("editMessageText", 2).await;
    foreign.until("sendMessage", 3).await;

    let refused: Vec<_> =
        foreign.calls().into_iter().filter(|(_, status)| *status != 200).collect();
    assert!(refused.is_empty(), "{refused:?}");
}
