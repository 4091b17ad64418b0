//! The API as agents see it.

use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::gateway::read;
use crate::support::{Database, Gateway};

fn tool(command: &str) -> Value {
    json!({ "kind": "tool_approval", "tool": { "name": "shell", "input": { "command": command } } })
}

async fn decide(gateway: &Gateway, request: &Value, action: &str) {
    let cookie = gateway.log_in("owner").await;
    let (_, page) = gateway.page(&cookie, "/console/").await;
    let key = form_key(&page);
    let id = request["id"].as_str().unwrap();
    let message = message_of(gateway, id).await;
    let token = format!("apr:{id}:{action}");
    let once = sayso::secrets::token();
    let fields = [
        ("form_key", key.as_str()),
        ("once", once.as_str()),
        ("message", message.as_str()),
        ("token", token.as_str()),
    ];
    let (status, _) = gateway.submit(&cookie, "/console/tap", &fields).await;
    assert_eq!(status, StatusCode::SEE_OTHER);
}

pub(crate) fn form_key(page: &str) -> String {
    let at = page.find("name=\"form_key\" value=\"").unwrap() + 23;
    page[at..].split('"').next().unwrap().to_owned()
}

pub(crate) async fn message_of(gateway: &Gateway, id: &str) -> String {
    let id = id.parse().unwrap();
    let look = async {
        loop {
            let mut tx = gateway.store().read().await.unwrap();
            let cards = sayso::store::deliveries::list_of(&mut tx, id).await.unwrap();
            if let Some(card) = cards.first() {
                return card.id.to_string();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), look).await.expect("a card stands in time")
}

#[rstest]
#[tokio::test]
async fn a_request_is_parked_decided_and_read(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(gateway) = Gateway::start(database).await else { return };
    let call = gateway.call(Method::POST, "/v1/requests");
    let call = call.header("content-type", "application/json").body(tool("ls").to_string());
    let answer = call.send().await.unwrap();
    let location = answer.headers()["location"].to_str().unwrap().to_owned();
    let (status, parked) = read(answer).await;

    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(location, format!("/v1/requests/{}", parked["id"].as_str().unwrap()));
    assert_eq!(parked["status"], "pending");
    assert_eq!(parked["revision"], 1);
    assert_eq!(parked["risk"], "medium");
    assert_eq!(parked["guardian"], "owner");
    assert_eq!(parked["outcome"], Value::Null);
    assert!(parked["digest"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(parked["code"].as_str().unwrap().len(), 6);

    decide(&gateway, &parked, "approve_once").await;

    let (status, decided) = gateway.get(&location).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(decided["status"], "approved");
    assert_eq!(decided["outcome"]["verdict"], "approved");
    let by = json!({ "principal": "owner", "channel": "console" });
    assert_eq!(decided["outcome"]["decided_by"], by);
    assert_eq!(decided["outcome"]["digest"], parked["digest"]);
}

#[rstest]
#[tokio::test]
async fn a_waiting_agent_learns_the_decision_at_once(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(gateway) = Gateway::start(database).await else { return };
    let parked = gateway.park(tool("ls")).await;
    let path = format!("/v1/requests/{}?wait=30", parked["id"].as_str().unwrap());
    let started = Instant::now();
    let waiting = gateway.get(&path);
    let deciding = decide(&gateway, &parked, "reject");

    let ((status, decided), ()) = tokio::join!(waiting, deciding);

    assert_eq!(status, StatusCode::OK);
    assert_eq!(decided["status"], "denied");
    assert!(started.elapsed() < Duration::from_secs(25), "it did not wait for the end");
}

#[tokio::test]
async fn a_wait_that_ends_is_no_expiry() {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    let parked = gateway.park(tool("ls")).await;
    let path = format!("/v1/requests/{}", parked["id"].as_str().unwrap());

    let (status, pending) = gateway.get(&format!("{path}?wait=1")).await;

    assert_eq!((status, &pending["status"]), (StatusCode::OK, &json!("pending")));
    decide(&gateway, &parked, "approve_once").await;
    assert_eq!(gateway.get(&path).await.1["status"], "approved");
}

#[tokio::test]
async fn prefer_wait_holds_the_parking_call() {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    let call = |seconds: u32, command: &str| {
        gateway
            .call(Method::POST, "/v1/requests")
            .header("content-type", "application/json")
            .header("prefer", format!("respond-async, wait={seconds}"))
            .body(tool(command).to_string())
            .send()
    };
    let answer = call(1, "a").await.unwrap();
    assert_eq!(answer.status(), StatusCode::ACCEPTED);
    assert!(answer.headers().contains_key("location"));
    let (_, first) = read(answer).await;
    assert_eq!(first["status"], "pending");

    let held = async { read(call(30, "b").await.unwrap()).await };
    let deciding = async {
        let listed = async {
            loop {
                let (_, list) = gateway.get("/v1/requests?status=pending").await;
                if let Some(second) = list["requests"].as_array().unwrap().get(1) {
                    return second.clone();
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        decide(&gateway, &listed.await, "approve_once").await;
    };
    let ((status, second), ()) = tokio::join!(held, deciding);
    assert_eq!((status, &second["status"]), (StatusCode::OK, &json!("approved")));
}

#[rstest]
#[tokio::test]
async fn requests_survive_a_restart_and_their_cards_still_decide(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(mut gateway) = Gateway::start(database).await else { return };
    let parked = gateway.park(tool("ls")).await;
    let before = gateway
        .until(parked["id"].as_str().unwrap(), |r| !r["deliveries"].as_array().unwrap().is_empty());
    let before = before.await;

    gateway.restart().await;

    let path = format!("/v1/requests/{}", parked["id"].as_str().unwrap());
    let (_, after) = gateway.get(&path).await;
    assert_eq!(after["status"], "pending");
    assert_eq!(after["expires_at"], before["expires_at"]);
    decide(&gateway, &parked, "approve_once").await;
    assert_eq!(gateway.get(&path).await.1["status"], "approved");
}

#[rstest]
#[case::no_key(None)]
#[case::wrong_key(Some("Bearer sayso_nonsense"))]
#[case::wrong_scheme(Some("Basic sayso_nonsense"))]
#[case::no_scheme(Some("sayso_nonsense"))]
#[tokio::test]
async fn without_a_key_nothing_is_told(#[case] header: Option<&str>) {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    let id = "req_00000000000070008000000000000000";
    for (method, path) in [
        (Method::POST, "/v1/requests".to_owned()),
        (Method::GET, "/v1/requests".to_owned()),
        (Method::GET, format!("/v1/requests/{id}")),
        (Method::POST, format!("/v1/requests/{id}/cancel")),
        (Method::POST, format!("/v1/requests/{id}/decision")),
        (Method::GET, "/v1/events".to_owned()),
    ] {
        let mut call = gateway.http.request(method.clone(), gateway.url(&path));
        if let Some(header) = header {
            call = call.header("authorization", header);
        }
        let answer = call.send().await.unwrap();
        assert_eq!(answer.headers()["content-type"], "application/problem+json");
        assert_eq!(answer.headers()["www-authenticate"], "Bearer");
        let (status, problem) = read(answer).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{method} {path}");
        assert_eq!(problem["code"], "unauthorized");
    }
}

#[tokio::test]
async fn another_agents_request_does_not_exist() {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    let parked = gateway.park(tool("ls")).await;
    let other = gateway.add_agent("other").await;
    let id = parked["id"].as_str().unwrap();
    for (method, path) in [
        (Method::GET, format!("/v1/requests/{id}")),
        (Method::POST, format!("/v1/requests/{id}/cancel")),
        (Method::POST, format!("/v1/requests/{id}/decision")),
        (Method::GET, "/v1/requests/nonsense".to_owned()),
        (Method::GET, format!("/v1/requests/{}", id.to_uppercase())),
    ] {
        let call = gateway.http.request(method.clone(), gateway.url(&path)).bearer_auth(&other);
        let call = call.header("content-type", "application/json").body("{}");
        let (status, problem) = read(call.send().await.unwrap()).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::NOT_FOUND, &json!("not_found")),
            "{path}"
        );
    }
    let call = gateway.http.get(gateway.url("/v1/requests")).bearer_auth(&other);
    let (_, list) = read(call.send().await.unwrap()).await;
    assert_eq!(list["requests"], json!([]));
    let (status, own) = gateway.post(&format!("/v1/requests/{id}/decision"), &json!({})).await;
    assert_eq!((status, &own["code"]), (StatusCode::FORBIDDEN, &json!("agents_cannot_decide")));
    assert_eq!(gateway.get(&format!("/v1/requests/{id}")).await.1["status"], "pending");
}

/// Everything that can be wrong with a body: what changes in a good one, the
/// code, and the place.
fn wrong_bodies() -> Vec<(Value, &'static str, &'static str)> {
    let long = "x".repeat(301);
    let options = |n: usize| -> Value {
        (0..n).map(|i| json!({ "id": i.to_string(), "label": format!("L{i}") })).collect()
    };
    let question = |more: Value| {
        let mut body = json!({ "kind": "question", "title": "Where?" });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let call = |more: Value| {
        let mut body = tool("ls");
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    vec![
        (json!({}), "missing_field", ""),
        (json!([]), "invalid_field", ""),
        (json!({ "kind": "wish" }), "invalid_field", "/kind"),
        (json!({ "kind": "access_request", "title": "x" }), "unsupported_kind", "/kind"),
        (json!({ "kind": "tool_approval" }), "missing_field", "/tool"),
        (json!({ "kind": "tool_approval", "tool": {} }), "missing_field", "/tool"),
        (
            json!({ "kind": "tool_approval", "tool": { "name": "x" } }),
            "nothing_to_show",
            "/tool/input",
        ),
        (
            json!({ "kind": "tool_approval", "tool": { "name": "\u{200b}" } }),
            "nothing_to_show",
            "/tool/name",
        ),
        (
            json!({ "kind": "tool_approval", "tool": { "name": "x", "input": "\u{200b}" }, "body": " \u{2060}" }),
            "nothing_to_show",
            "/tool/input",
        ),
        (json!({ "kind": "question" }), "missing_field", "/title"),
        (json!({ "kind": "question", "title": "" }), "nothing_to_show", "/title"),
        (json!({ "kind": "question", "title": " \u{200b}" }), "nothing_to_show", "/title"),
        (question(json!({ "title": long })), "too_long", "/title"),
        (question(json!({ "body": "x".repeat(20_001) })), "too_long", "/body"),
        (question(json!({ "options": options(1) })), "invalid_field", "/options"),
        (question(json!({ "options": options(26) })), "invalid_field", "/options"),
        (
            question(
                json!({ "options": [{ "id": "a", "label": "X" }, { "id": "a", "label": "Y" }] }),
            ),
            "duplicate_option",
            "/options/1/id",
        ),
        (
            question(
                json!({ "options": [{ "id": "a", "label": "Yes" }, { "id": "b", "label": "yes " }] }),
            ),
            "duplicate_option",
            "/options/1/label",
        ),
        (
            question(
                json!({ "options": [{ "id": "a", "label": "X" }, { "id": "b", "label": "" }] }),
            ),
            "nothing_to_show",
            "/options/1/label",
        ),
        (
            question(
                json!({ "options": [{ "id": "", "label": "X" }, { "id": "b", "label": "Y" }] }),
            ),
            "invalid_field",
            "/options/0/id",
        ),
        (
            question(
                json!({ "options": [{ "id": "x".repeat(65), "label": "X" }, { "id": "b", "label": "Y" }] }),
            ),
            "too_long",
            "/options/0/id",
        ),
        (
            question(json!({ "options": [{ "id": "a" }, { "id": "b", "label": "Y" }] })),
            "missing_field",
            "/options/0",
        ),
        (question(json!({ "allow_text": false })), "invalid_field", "/allow_text"),
        (question(json!({ "tool": { "name": "x", "input": 1 } })), "invalid_field", "/tool"),
        (call(json!({ "options": options(2) })), "invalid_field", "/options"),
        (call(json!({ "risk": "huge" })), "invalid_field", "/risk"),
        (call(json!({ "expires_in": 0 })), "invalid_field", "/expires_in"),
        (call(json!({ "expires_in": 604_801 })), "invalid_field", "/expires_in"),
        (call(json!({ "expires_in": -5 })), "invalid_field", "/expires_in"),
        (call(json!({ "expires_in": "900" })), "invalid_field", "/expires_in"),
        (call(json!({ "expires_at": "2020-01-01T00:00:00Z" })), "invalid_field", "/expires_at"),
        (call(json!({ "expires_at": "2099-01-01T00:00:00Z" })), "invalid_field", "/expires_at"),
        (call(json!({ "expires_at": "2099-01-01T00:00:00" })), "invalid_field", "/expires_at"),
        (call(json!({ "expires_at": "soon" })), "invalid_field", "/expires_at"),
        (
            call(json!({ "expires_in": 9, "expires_at": "2099-01-01T00:00:00Z" })),
            "invalid_field",
            "/expires_at",
        ),
        (call(json!({ "guardian": "nobody" })), "no_guardian", "/guardian"),
        (call(json!({ "session": "" })), "invalid_field", "/session"),
        (call(json!({ "run": "x".repeat(257) })), "invalid_field", "/run"),
        (call(json!({ "metadata": [] })), "invalid_field", "/metadata"),
        (call(json!({ "metadata": { "x": "y".repeat(17_000) } })), "invalid_field", "/metadata"),
        (call(json!({ "supersedes": "nonsense" })), "unknown_request", "/supersedes"),
        (
            call(json!({ "supersedes": "req_00000000000070008000000000000000" })),
            "unknown_request",
            "/supersedes",
        ),
        (
            call(json!({ "callback_url": "https://127.0.0.1/x" })),
            "invalid_callback_url",
            "/callback_url",
        ),
        (
            call(json!({ "callback_url": "http://example.com/x" })),
            "invalid_callback_url",
            "/callback_url",
        ),
        (call(json!({ "title": "a\u{0}b" })), "invalid_field", "/title"),
        (call(json!({ "session": "a\u{0}b" })), "invalid_field", "/session"),
        (call(json!({ "expire_in": 5 })), "unknown_field", ""),
        (
            call(json!({ "tool": { "name": "x", "input": { "n": 9_007_199_254_740_993_u64 } } })),
            "unsafe_number",
            "/tool/input/n",
        ),
    ]
}

#[tokio::test]
async fn every_wrong_body_is_told_precisely_and_changes_nothing() {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    for (body, code, pointer) in wrong_bodies() {
        let (status, problem) = gateway.post("/v1/requests", &body).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body} {problem}");
        assert_eq!(problem["code"], code, "{body} {problem}");
        let at = problem["pointer"].as_str().unwrap_or_default();
        assert!(at.starts_with(pointer), "{body} {problem}");
        assert_eq!(problem["status"], 422);
    }
    assert_eq!(gateway.get("/v1/requests").await.1["requests"], json!([]));
}

#[tokio::test]
async fn what_is_no_proper_call_is_refused_before_it_is_read() {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    let good = tool("ls").to_string();
    let big = format!("{{\"kind\":\"{}\"}}", "x".repeat(300_000));
    for (kind, body, status, code) in [
        ("text/plain", good.as_str(), 415, "unsupported_media_type"),
        ("", good.as_str(), 415, "unsupported_media_type"),
        ("application/json", "{", 400, "invalid_json"),
        ("application/json", "", 400, "invalid_json"),
        ("application/json", "{\"kind\":1,\"kind\":2}", 400, "invalid_json"),
        ("application/json", big.as_str(), 413, "too_large"),
    ] {
        let mut call = gateway.call(Method::POST, "/v1/requests").body(body.to_owned());
        if !kind.is_empty() {
            call = call.header("content-type", kind);
        }
        let (got, problem) = read(call.send().await.unwrap()).await;
        assert_eq!((got.as_u16(), &problem["code"]), (status, &json!(code)));
    }
    for (path, status, code) in [
        ("/v1/requests?status=odd", 400, "invalid_query"),
        ("/v1/requests?limit=0", 400, "invalid_query"),
        ("/v1/requests?limit=many", 400, "invalid_query"),
        ("/v1/requests?cursor=x", 400, "invalid_query"),
        ("/v1/requests?odd=1", 400, "invalid_query"),
        ("/v2", 404, "not_found"),
    ] {
        let (got, problem) = gateway.get(path).await;
        assert_eq!((got.as_u16(), &problem["code"]), (status, &json!(code)), "{path}");
    }
    let call = gateway.call(Method::DELETE, "/v1/requests");
    let (got, problem) = read(call.send().await.unwrap()).await;
    assert_eq!((got.as_u16(), &problem["code"]), (405, &json!("method_not_allowed")));
    let foreign = gateway.http.get(gateway.url("/v1/requests")).header("host", "evil.example");
    let (got, problem) = read(foreign.send().await.unwrap()).await;
    assert_eq!((got.as_u16(), &problem["code"]), (421, &json!("wrong_host")));
}

#[rstest]
#[tokio::test]
async fn a_retried_call_gets_the_same_request(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(gateway) = Gateway::start(database).await else { return };
    let call = |key: &'static str, body: Value| {
        let call = gateway.call(Method::POST, "/v1/requests");
        let call = call.header("content-type", "application/json").header("idempotency-key", key);
        async move { read(call.body(body.to_string()).send().await.unwrap()).await }
    };
    let (status, first) = call("k1", tool("ls")).await;
    assert_eq!(status, StatusCode::CREATED);
    let (status, again) = call("k1", tool("ls")).await;
    assert_eq!((status, &again["id"]), (StatusCode::CREATED, &first["id"]));
    let (status, other) = call("k1", tool("rm")).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(other["code"], "idempotency_mismatch");

    decide(&gateway, &first, "approve_once").await;
    let (_, settled) = call("k1", tool("ls")).await;
    assert_eq!((&settled["id"], &settled["status"]), (&first["id"], &json!("approved")));
}

#[tokio::test]
async fn the_same_question_again_is_not_a_second_card() {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    let first = gateway.park(tool("ls")).await;
    let (status, again) = gateway.post("/v1/requests", &tool("ls")).await;
    assert_eq!((status, &again["id"]), (StatusCode::OK, &first["id"]));
    assert_eq!(gateway.get("/v1/requests").await.1["requests"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn too_many_open_requests_are_refused_with_a_time_to_come_back() {
    let env = [("SAYSO_REQUESTS__MAX_OPEN_PER_GUARDIAN", "2")];
    let gateway = Gateway::start_with(Database::Sqlite, &env).await.unwrap();
    gateway.park(tool("a")).await;
    gateway.park(tool("b")).await;
    let call = gateway.call(Method::POST, "/v1/requests");
    let call = call.header("content-type", "application/json").body(tool("c").to_string());
    let answer = call.send().await.unwrap();
    assert!(answer.headers().contains_key("retry-after"));
    let (status, problem) = read(answer).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(problem["code"], "too_many_open_requests");
}

#[rstest]
#[tokio::test]
async fn a_withdrawn_request_stays_withdrawn(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(gateway) = Gateway::start(database).await else { return };
    let parked = gateway.park(tool("ls")).await;
    let path = format!("/v1/requests/{}", parked["id"].as_str().unwrap());
    let cancel = format!("{path}/cancel");

    let (status, cancelled) = gateway.post(&cancel, &json!({ "reason": "not needed" })).await;
    assert_eq!((status, &cancelled["status"]), (StatusCode::OK, &json!("cancelled")));
    assert_eq!(cancelled["outcome"]["reason"], "not needed");
    assert_eq!(cancelled["outcome"]["decided_by"], Value::Null);
    let bare = gateway.call(Method::POST, &cancel).send().await.unwrap();
    assert_eq!(bare.status(), StatusCode::CONFLICT, "a reason is optional");
    let (status, again) = gateway.post(&cancel, &json!({})).await;
    assert_eq!((status, &again["code"]), (StatusCode::CONFLICT, &json!("already_ended")));
    assert_eq!(again["outcome"]["verdict"], "cancelled");

    let asked = gateway.park(json!({ "kind": "question", "title": "Why?", "expires_in": 1 })).await;
    let ended = gateway.until(asked["id"].as_str().unwrap(), |r| r["status"] != "pending").await;
    assert_eq!(ended["status"], "expired");
    assert_eq!(ended["outcome"]["decided_by"], Value::Null);
}

#[tokio::test]
async fn a_list_is_read_page_by_page() {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    let mut parked = Vec::new();
    for i in 0..5 {
        let mut body = tool(&i.to_string());
        body["session"] = json!(if i < 3 { "s1" } else { "s2" });
        parked.push(gateway.park(body).await["id"].clone());
    }
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let (_, page) = gateway.get(&format!("/v1/requests?limit=2{cursor}")).await;
        seen.extend(page["requests"].as_array().unwrap().iter().map(|r| r["id"].clone()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, parked);
    let (_, some) = gateway.get("/v1/requests?session=s2&status=pending").await;
    assert_eq!(some["requests"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn an_unchanged_state_is_not_sent_again() {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    let parked = gateway.park(tool("ls")).await;
    let id = parked["id"].as_str().unwrap();
    gateway.until(id, |r| r["deliveries"][0]["state"] == "failed").await;
    let path = format!("/v1/requests/{id}");
    let first = gateway.call(Method::GET, &path).send().await.unwrap();
    let etag = first.headers()["etag"].clone();
    let ask = || gateway.call(Method::GET, &path).header("if-none-match", etag.clone()).send();
    assert_eq!(ask().await.unwrap().status(), StatusCode::NOT_MODIFIED);
    decide(&gateway, &parked, "approve_once").await;
    assert_eq!(ask().await.unwrap().status(), StatusCode::OK);
}

#[rstest]
#[tokio::test]
async fn events_are_followed_and_taken_up_again_where_they_were_left(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(gateway) = Gateway::start(database).await else { return };
    let mut live = Events::open(&gateway, None).await;
    let parked = gateway.park(tool("ls")).await;
    let created = live.next_of("request.created").await;
    assert_eq!(created.data["id"], parked["id"]);
    decide(&gateway, &parked, "approve_once").await;
    let settled = live.next_of("request.settled").await;
    assert_eq!(settled.data["status"], "approved");
    drop(live);

    let other = gateway.park(tool("rm")).await;
    let mut again = Events::open(&gateway, Some(&settled.id)).await;
    let missed = again.next_of("request.created").await;
    assert_eq!(missed.data["id"], other["id"], "nothing twice, nothing lost");

    let bad = gateway.call(Method::GET, "/v1/events").header("last-event-id", "x").send().await;
    assert_eq!(bad.unwrap().status(), StatusCode::BAD_REQUEST);
}

struct Events {
    answer: reqwest::Response,
    buffer: String,
}

struct Event {
    id: String,
    kind: String,
    data: Value,
}

impl Events {
    async fn open(gateway: &Gateway, last: Option<&str>) -> Self {
        let mut call = gateway.call(Method::GET, "/v1/events");
        if let Some(last) = last {
            call = call.header("last-event-id", last);
        }
        let answer = call.send().await.unwrap();
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self { answer, buffer: String::new() }
    }

    async fn next_of(&mut self, kind: &str) -> Event {
        let read = async {
            loop {
                while let Some(at) = self.buffer.find("\n\n") {
                    let block: String = self.buffer.drain(..at + 2).collect();
                    let field = |name: &str| {
                        let line = block.lines().find_map(|l| l.strip_prefix(name));
                        line.map(|l| l.trim().to_owned()).unwrap_or_default()
                    };
                    if field("event:") == kind {
                        let data = serde_json::from_str(&field("data:")).unwrap();
                        return Event { id: field("id:"), kind: kind.to_owned(), data };
                    }
                }
                let chunk = self.answer.chunk().await.unwrap().expect("the stream goes on");
                self.buffer.push_str(&String::from_utf8_lossy(&chunk));
            }
        };
        let event = tokio::time::timeout(Duration::from_secs(15), read).await.expect("in time");
        assert_eq!(event.kind, kind);
        event
    }
}

#[tokio::test]
async fn the_document_of_the_api_is_made_from_the_code() {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    let (status, document) = gateway.get("/openapi.json").await;
    assert_eq!(status, StatusCode::OK);
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    for (path, method) in [
        ("/v1/requests", "post"),
        ("/v1/requests", "get"),
        ("/v1/requests/{id}", "get"),
        ("/v1/requests/{id}/cancel", "post"),
        ("/v1/requests/{id}/decision", "post"),
        ("/v1/events", "get"),
    ] {
        assert!(document["paths"][path][method].is_object(), "{method} {path}");
    }
    insta::assert_json_snapshot!("openapi", document["paths"]);
}

#[tokio::test]
async fn an_agent_that_hangs_up_leaves_its_request_alone() {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    let parked = gateway.park(tool("ls")).await;
    let path = format!("/v1/requests/{}", parked["id"].as_str().unwrap());
    for _ in 0..5 {
        let call = gateway.call(Method::GET, &format!("{path}?wait=60"));
        let hung_up = tokio::time::timeout(Duration::from_millis(30), call.send()).await;
        assert!(hung_up.is_err());
    }
    assert_eq!(gateway.get(&path).await.1["status"], "pending");
    decide(&gateway, &parked, "approve_once").await;
    assert_eq!(gateway.get(&path).await.1["status"], "approved");
}
