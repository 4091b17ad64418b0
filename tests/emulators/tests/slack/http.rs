//! Signed requests.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use sayso_emulators::slack::{Outcome, RequestUrls, Workspace, sign};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::app::{card, post, start_impatient};

type Answer = (StatusCode, Vec<(&'static str, &'static str)>, String);

/// An app that keeps what it gets and answers what it was told.
#[derive(Clone, Default)]
struct App {
    got: Arc<Mutex<Vec<(String, HeaderMap, String)>>>,
    answers: Arc<Mutex<Vec<Answer>>>,
}

impl App {
    async fn start(slack: &Workspace, answers: Vec<Answer>) -> Self {
        let app = Self { answers: Arc::new(Mutex::new(answers)), ..Self::default() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let routes = Router::new().fallback(take).with_state(app.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        slack.delivers_to(Some(RequestUrls {
            events: format!("{base}/events"),
            interactivity: format!("{base}/interactivity"),
            commands: format!("{base}/commands"),
        }));
        app
    }

    fn got(&self) -> Vec<(String, HeaderMap, String)> {
        self.got.lock().unwrap().clone()
    }
}

async fn take(
    State(app): State<App>,
    uri: Uri,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, HeaderMap, String) {
    let challenge = serde_json::from_str::<Value>(&body).ok();
    let challenge = challenge.and_then(|body| body["challenge"].as_str().map(str::to_owned));
    app.got.lock().unwrap().push((uri.path().to_owned(), headers, body));
    if let Some(challenge) = challenge {
        return (StatusCode::OK, HeaderMap::new(), challenge);
    }
    let mut answers = app.answers.lock().unwrap();
    let next = (!answers.is_empty()).then(|| answers.remove(0));
    let (status, headers, body) = next.unwrap_or((StatusCode::OK, vec![], String::new()));
    let headers = headers
        .into_iter()
        .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
    (status, headers.collect(), body)
}

#[test]
fn the_signature_is_that_of_the_documented_example() {
    let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow\
                &channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner\
                &command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2F\
                commands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN\
                &trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";

    let signature = sign("8f742231b10e8888abcd99yyyzzz85a5", 1_531_420_618, body);

    assert_eq!(signature, "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503");
}

#[tokio::test]
async fn a_request_that_fails_comes_again_and_says_why() {
    let slack = start_impatient().await;
    let broken = (StatusCode::INTERNAL_SERVER_ERROR, vec![], String::new());
    let app = App::start(&slack, vec![broken]).await;

    slack.says("U1", "yes");
    slack.until(|_| (app.got().len() == 2).then_some(())).await;
    slack.until(|slack| (slack.deliveries()[1].outcome == Outcome::Taken).then_some(())).await;

    let got = app.got();
    assert_eq!(got[0].2, got[1].2);
    assert_eq!(got[1].1["x-slack-retry-num"], "1");
    assert_eq!(got[1].1["x-slack-retry-reason"], "http_error");
    let timestamp = got[1].1["x-slack-request-timestamp"].to_str().unwrap().parse().unwrap();
    assert_eq!(got[1].1["x-slack-signature"], sign("stand-in", timestamp, &got[1].2));
}

#[tokio::test]
async fn an_app_that_wants_no_retries_gets_none() {
    let slack = start_impatient().await;
    let enough = (StatusCode::BAD_REQUEST, vec![("x-slack-no-retry", "1")], String::new());
    let app = App::start(&slack, vec![enough]).await;

    slack.says("U1", "one");
    slack.until(|slack| (slack.deliveries().len() == 1).then_some(())).await;
    slack.until(|slack| (slack.deliveries()[0].outcome == Outcome::Refused).then_some(())).await;
    slack.says("U1", "two");
    slack.until(|_| (app.got().len() == 2).then_some(())).await;

    assert!(app.got()[1].2.contains("two"));
    assert!(app.got().iter().all(|(_, headers, _)| !headers.contains_key("x-slack-retry-num")));
}

#[tokio::test]
async fn presses_and_commands_are_forms_and_a_press_is_not_repeated() {
    let slack = start_impatient().await;
    let broken = (StatusCode::INTERNAL_SERVER_ERROR, vec![], String::new());
    let reply = (StatusCode::OK, vec![], json!({ "text": "Hello" }).to_string());
    let echo = (StatusCode::OK, vec![], String::new());
    let app = App::start(&slack, vec![echo, broken, reply]).await;
    let posted = post(&slack, "U1", json!({ "blocks": card() })).await;

    slack.until(|_| (app.got().len() == 1).then_some(())).await;
    slack.presses("U1", "D1", posted["ts"].as_str().unwrap(), "approve");
    slack.until(|_| (app.got().len() == 2).then_some(())).await;
    slack.commands("U1", "D1", "/sayso", "a+b & c");
    let shown = slack.until(|slack| slack.ephemerals().pop()).await;

    let got = app.got();
    let pairs = |body: &str| -> Vec<(String, String)> {
        url::form_urlencoded::parse(body.as_bytes()).into_owned().collect()
    };
    let press = pairs(&got[1].2);
    assert_eq!((got[1].0.as_str(), press[0].0.as_str()), ("/interactivity", "payload"));
    let payload: Value = serde_json::from_str(&press[0].1).unwrap();
    assert_eq!(payload["actions"][0]["value"], "token-approve");
    assert!(pairs(&got[2].2).contains(&("text".to_owned(), "a+b & c".to_owned())));
    assert_eq!((got[2].0.as_str(), shown.shown.text.as_str()), ("/commands", "Hello"));
    assert_eq!(slack.deliveries()[1].outcome, Outcome::Refused);
    assert_eq!(got.len(), 3);
}

#[tokio::test]
async fn the_address_is_asked_whether_it_is_the_apps() {
    let slack = start_impatient().await;
    let app = App::start(&slack, vec![]).await;

    let verified = slack.verifies_url().await;

    assert_eq!(verified, Ok(()));
    assert!(app.got()[0].1.contains_key("x-slack-signature"));
}
