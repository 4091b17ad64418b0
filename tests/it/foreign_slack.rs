//! The same story against a stand-in for Slack that somebody else wrote: what ours
//! might have got wrong because we wrote both sides.
//!
//! `LOCAL_SLACK` names its program (`local-slack-linux-x64` 0.1.8 of npm); without it
//! the test says so and ends. It listens on every interface, so it is to be started
//! in a network namespace of its own, as `tests/run` does. It checks nothing of what
//! it is sent.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sayso::admin::BindGuardian;
use serde_json::{Value, json};

use crate::support::Database;
use crate::support::gateway::Gateway;

const ADA: &str = "U0ADA0001";
const SETTINGS: &str = "
workspace: { name: Sayso, domain: sayso, teamId: T0001 }
app:
  appId: A0001
  botUserId: U0BOT0001
  botName: sayso
  botToken: xoxb-stand-in
  appToken: xapp-stand-in
  signingSecret: stand-in-secret-of-the-app
  mode: socket
users:
  - { id: U0ADA0001, name: ada, real_name: Ada, email: ada@example.org }
channels:
  - { id: C0OPS0001, name: ops, members: [U0ADA0001, U0BOT0001] }
";

struct Foreign {
    child: Child,
    _dir: tempfile::TempDir,
    http: reqwest::Client,
    url: String,
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Foreign {
    async fn start() -> Option<Self> {
        let Ok(program) = std::env::var("LOCAL_SLACK") else {
            println!("SKIPPED: a foreign Slack (LOCAL_SLACK is not set)");
            return None;
        };
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let dir = tempfile::tempdir().unwrap();
        let settings = dir.path().join("settings.yaml");
        std::fs::write(&settings, SETTINGS).unwrap();
        let child = Command::new(program)
            .arg("--config")
            .arg(&settings)
            .args(["--port", &port.to_string(), "--base-host", "127.0.0.1"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let foreign = Self { child, _dir: dir, http, url: format!("http://127.0.0.1:{port}") };
        let up = async {
            while foreign.http.get(format!("{}/_control/state", foreign.url)).send().await.is_err()
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), up).await.expect("it comes up");
        Some(foreign)
    }

    async fn get(&self, path: &str) -> Value {
        let answer = self.http.get(format!("{}/_control/{path}", self.url)).send().await.unwrap();
        serde_json::from_str(&answer.text().await.unwrap()).unwrap()
    }

    async fn does(&self, what: &str, body: &Value) {
        let call = self.http.post(format!("{}/_control/{what}", self.url));
        let call = call.header("content-type", "application/json").body(body.to_string());
        let answer: Value =
            serde_json::from_str(&call.send().await.unwrap().text().await.unwrap()).unwrap();
        assert_eq!(answer["ok"], true, "{what}: {answer}");
    }

    /// The conversation of Ada and the app, and the newest message of ours in it of
    /// which `holds` is true.
    async fn message(&self, holds: impl Fn(&str) -> bool) -> (String, Value) {
        let look = async {
            loop {
                let state = self.get("state").await;
                let dms = state["channels"].as_array().unwrap().iter();
                for dm in dms.filter(|channel| channel["is_im"] == true) {
                    let id = dm["id"].as_str().unwrap().to_owned();
                    let said = self.get(&format!("messages/{id}")).await;
                    let mut said = said["messages"].as_array().unwrap().iter().rev();
                    let ours = |m: &&Value| m["user"] == "U0BOT0001" && holds(&m.to_string());
                    if let Some(found) = said.find(ours) {
                        return (id, found.clone());
                    }
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), look).await.expect("it is said in time")
    }

    /// Whether the app is connected.
    async fn is_connected(&self) {
        let look = async {
            while !self.get("log").await.to_string().contains("apps.connections.open") {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), look).await.expect("it connects in time");
    }
}

fn button<'a>(message: &'a Value, label: &str) -> &'a Value {
    let blocks = message["blocks"].as_array().unwrap().iter();
    let mut elements = blocks.filter_map(|block| block["elements"].as_array()).flatten();
    elements.find(|element| element["text"]["text"] == label).unwrap()
}

#[tokio::test]
async fn a_foreign_slack_takes_every_call_of_a_whole_story() {
    let Some(slack) = Foreign::start().await else { return };
    let url = format!("{}/api", slack.url);
    let env = [
        ("SAYSO_SLACK__BOT_TOKEN", "xoxb-stand-in"),
        ("SAYSO_SLACK__APP_TOKEN", "xapp-stand-in"),
        ("SAYSO_SLACK__API_URL", url.as_str()),
    ];
    let gateway = Gateway::start_with(Database::Sqlite, &env).await.unwrap();
    let bind = BindGuardian {
        name: "owner".to_owned(),
        channel: "slack".to_owned(),
        realm: "T0001".to_owned(),
        account: ADA.to_owned(),
        address: Some(format!("T0001:@{ADA}")),
    };
    gateway.store().write(bind).await.unwrap().unwrap();
    slack.is_connected().await;
    let park = async |command: &str| {
        let tool = json!({ "name": "shell", "input": { "command": command } });
        gateway.park(json!({ "kind": "tool_approval", "tool": tool })).await
    };
    let ended = async |parked: &Value, status: &str| {
        let id = parked["id"].as_str().unwrap();
        gateway.until(id, |request| request["status"] == status).await;
        let code = parked["code"].as_str().unwrap().to_owned();
        let shows = |text: &str| text.contains(&code) && !text.contains("\"actions\"");
        slack.message(shows).await;
    };
    let card_of = async |parked: &Value| {
        let code = parked["code"].as_str().unwrap().to_owned();
        slack.message(|text| text.contains(&code) && text.contains("\"actions\"")).await
    };

    let clicked = park("cargo test").await;
    let (dm, card) = card_of(&clicked).await;
    let action = button(&card, "Approve once");
    let press = json!({ "channel": dm, "user": ADA, "messageTs": card["ts"], "action": action });
    slack.does("interact", &press).await;
    ended(&clicked, "approved").await;

    let typed = park("rm -rf /").await;
    card_of(&typed).await;
    let words = format!("{} deny", typed["code"].as_str().unwrap());
    slack.does("message", &json!({ "channel": dm, "user": ADA, "text": words })).await;
    ended(&typed, "denied").await;

    let thumbed = park("ls").await;
    let (_, card) = card_of(&thumbed).await;
    let thumb = json!({ "channel": dm, "user": ADA, "ts": card["ts"], "name": "+1" });
    slack.does("reaction", &thumb).await;
    ended(&thumbed, "approved").await;
}
