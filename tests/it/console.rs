//! The console by HTTP: logins, forms, and what other sites can't do.

use reqwest::StatusCode;
use rstest::rstest;
use serde_json::{Value, json};

use crate::api::{form_key, message_of};
use crate::support::{Database, Gateway};

fn tool(command: &str) -> Value {
    json!({ "kind": "tool_approval", "tool": { "name": "shell", "input": { "command": command } } })
}

struct Visit<'a> {
    gateway: &'a Gateway,
    cookie: String,
    key: String,
}

impl<'a> Visit<'a> {
    async fn new(gateway: &'a Gateway, name: &str) -> Self {
        let cookie = gateway.log_in(name).await;
        let (status, page) = gateway.page(&cookie, "/console/").await;
        assert_eq!(status, StatusCode::OK);
        let key = form_key(&page);
        Self { gateway, cookie, key }
    }

    async fn tap(&self, id: &str, action: &str, text: Option<&str>) -> (StatusCode, String) {
        let message = message_of(self.gateway, id).await;
        let token = format!("apr:{id}:{action}");
        let once = sayso::secrets::token();
        let mut fields = vec![
            ("form_key", self.key.as_str()),
            ("once", once.as_str()),
            ("message", message.as_str()),
            ("token", token.as_str()),
        ];
        fields.extend(text.map(|text| ("text", text)));
        self.gateway.submit(&self.cookie, "/console/tap", &fields).await
    }

    async fn say(&self, text: &str, reply_to: Option<&str>) -> (StatusCode, String) {
        let once = sayso::secrets::token();
        let mut fields =
            vec![("form_key", self.key.as_str()), ("once", once.as_str()), ("text", text)];
        fields.extend(reply_to.map(|to| ("reply_to", to)));
        self.gateway.submit(&self.cookie, "/console/say", &fields).await
    }
}

#[rstest]
#[tokio::test]
async fn every_way_of_answering_leads_to_the_decision(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(gateway) = Gateway::start(database).await else { return };
    let visit = Visit::new(&gateway, "owner").await;
    let question = |title: &str| json!({ "kind": "question", "title": title });
    let with_options = json!({
        "kind": "question", "title": "Where?",
        "options": [{ "id": "eu", "label": "EU (Frankfurt)" }, { "id": "us", "label": "US" }],
    });
    let id = |request: &Value| request["id"].as_str().unwrap().to_owned();

    let denied = id(&gateway.park(tool("rm")).await);
    let (_, page) =
        visit.tap(&denied, "reject_reason", Some("a+b = c & d %41 é\r\nand more")).await;
    assert!(page.contains("Denied"), "the page says what became of it");
    let chosen = id(&gateway.park(with_options).await);
    visit.tap(&chosen, "answer_0", None).await;
    let answered = id(&gateway.park(question("Name?")).await);
    let card = message_of(&gateway, &answered).await;
    visit.say("feature/x", Some(&card)).await;
    let skipped = id(&gateway.park(question("Why?")).await);
    visit.tap(&skipped, "answer_skip", None).await;
    let by_code = gateway.park(tool("ls")).await;
    message_of(&gateway, &id(&by_code)).await;
    visit.say(&format!("{} approve", by_code["code"].as_str().unwrap()), None).await;

    for (request, status, path, value) in [
        (denied, "denied", "/outcome/reason", json!("a+b = c & d %41 é\nand more")),
        (chosen, "answered", "/outcome/answer/option", json!("eu")),
        (answered, "answered", "/outcome/answer/text", json!("feature/x")),
        (skipped, "skipped", "/outcome/answer", Value::Null),
        (id(&by_code), "approved", "/outcome/decided_by/channel", json!("console")),
    ] {
        let (_, now) = gateway.get(&format!("/v1/requests/{request}")).await;
        assert_eq!(now["status"], status);
        assert_eq!(now.pointer(path), Some(&value), "{now}");
        let shown = gateway.until(&request, |r| r["deliveries"][0]["state"] == "settled").await;
        assert_eq!(shown["reachable"], true);
    }
    let (_, history) = gateway.page(&visit.cookie, "/console/history").await;
    assert_eq!(history.matches("by owner via console").count(), 5, "{history}");
}

#[tokio::test]
async fn a_page_shows_the_trail_of_a_request() {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    let visit = Visit::new(&gateway, "owner").await;
    let parked = gateway.park(tool("ls")).await;
    let id = parked["id"].as_str().unwrap();
    gateway.until(id, |r| r["deliveries"][0]["state"] == "sent").await;
    gateway.page(&visit.cookie, "/console/").await;
    visit.tap(id, "approve_once", None).await;

    let card = message_of(&gateway, id).await;
    let (_, page) = gateway.page(&visit.cookie, &format!("/console/cards/{card}")).await;

    for line in ["Parked by robot", "Delivered to console", "Seen by owner", "Approved by owner"] {
        assert!(page.contains(line), "{line}: {page}");
    }
    assert!(!page.contains("approve_once"), "a closed card has no buttons");
}

#[tokio::test]
async fn the_page_is_the_same_after_a_restart() {
    let mut gateway = Gateway::start(Database::Sqlite).await.unwrap();
    let cookie = gateway.log_in("owner").await;
    let parked = gateway.park(tool("echo same")).await;
    let code = parked["code"].as_str().unwrap();
    message_of(&gateway, parked["id"].as_str().unwrap()).await;
    let (_, before) = gateway.page(&cookie, "/console/").await;

    gateway.restart().await;

    let (_, after) = gateway.page(&cookie, "/console/").await;
    for page in [&before, &after] {
        assert!(page.contains(code) && page.contains("echo same"), "{page}");
    }
}

#[tokio::test]
async fn nobody_sees_another_persons_cards() {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    gateway.add_guardian("bob").await;
    let parked = gateway.park({
        let mut body = tool("for the owner only");
        body["guardian"] = json!("owner");
        body
    });
    let parked = parked.await;
    let id = parked["id"].as_str().unwrap();
    let card = message_of(&gateway, id).await;
    let bob = Visit::new(&gateway, "bob").await;

    let (_, page) = gateway.page(&bob.cookie, "/console/").await;
    assert!(!page.contains("for the owner only"));
    let (status, _) = gateway.page(&bob.cookie, &format!("/console/cards/{card}")).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let (_, page) = bob.tap(id, "approve_once", None).await;
    assert!(page.contains("Only the person this request is for"), "{page}");
    assert_eq!(gateway.get(&format!("/v1/requests/{id}")).await.1["status"], "pending");
}

#[tokio::test]
async fn a_login_link_works_once_and_only_when_it_is_pressed() {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    let life = std::time::Duration::from_mins(10);
    let link = sayso::wiring::console_link(gateway.store(), &gateway.url(""), "owner", life)
        .await
        .unwrap();
    for _ in 0..3 {
        let seen = gateway.http.get(&link).send().await.unwrap();
        assert_eq!(seen.status(), StatusCode::OK, "looking does not use it up");
    }
    let secret = link.split("link=").nth(1).unwrap();
    let (first, _) = gateway.submit("", "/console/login", &[("link", secret)]).await;
    let (second, _) = gateway.submit("", "/console/login", &[("link", secret)]).await;
    let (wrong, _) = gateway.submit("", "/console/login", &[("link", "guess")]).await;

    assert_eq!(first, StatusCode::SEE_OTHER);
    assert_eq!((second, wrong), (StatusCode::UNAUTHORIZED, StatusCode::UNAUTHORIZED));
}

#[tokio::test]
async fn without_a_login_there_is_nothing_to_see() {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    for path in ["/console/", "/console/history", "/console/events", "/console/cards/dlv_1"] {
        for cookie in ["", "sayso_login=guess"] {
            let (status, page) = gateway.page(cookie, path).await;
            assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
            assert!(page.contains("sayso console link"), "it says what to do: {page}");
        }
    }
    let visit = Visit::new(&gateway, "owner").await;
    gateway.submit(&visit.cookie, "/console/logout", &[("form_key", &visit.key)]).await;
    let (status, _) = gateway.page(&visit.cookie, "/console/").await;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "logging out ends it");
}

#[tokio::test]
async fn a_login_ends_when_it_is_not_used() {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    let cookie = gateway.log_in("owner").await;
    gateway.store().clock().advance(std::time::Duration::from_mins(31));
    assert_eq!(gateway.page(&cookie, "/console/").await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn forms_of_other_sites_change_nothing() {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    let visit = Visit::new(&gateway, "owner").await;
    let parked = gateway.park(tool("ls")).await;
    let id = parked["id"].as_str().unwrap();
    let message = message_of(&gateway, id).await;
    let own = gateway.url("");
    let body = |key: &str| {
        format!("form_key={key}&once=1&message={message}&token=apr%3A{id}%3Aapprove_once")
    };
    for (origin, kind, key) in [
        (None, "application/x-www-form-urlencoded", visit.key.as_str()),
        (Some("null"), "application/x-www-form-urlencoded", visit.key.as_str()),
        (Some("https://evil.example"), "application/x-www-form-urlencoded", visit.key.as_str()),
        (Some(own.as_str()), "application/x-www-form-urlencoded", "guess"),
        (Some(own.as_str()), "application/x-www-form-urlencoded", ""),
        (Some(own.as_str()), "text/plain", visit.key.as_str()),
        (Some(own.as_str()), "application/json", visit.key.as_str()),
    ] {
        let mut call = gateway
            .http
            .post(gateway.url("/console/tap"))
            .header("cookie", &visit.cookie)
            .header("content-type", kind)
            .body(body(key));
        if let Some(origin) = origin {
            call = call.header("origin", origin);
        }
        let status = call.send().await.unwrap().status();
        assert!(status.is_client_error(), "{origin:?} {kind} {key}: {status}");
    }
    assert_eq!(gateway.get(&format!("/v1/requests/{id}")).await.1["status"], "pending");
}

#[tokio::test]
async fn the_same_form_twice_is_one_input() {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    let visit = Visit::new(&gateway, "owner").await;
    let asked = gateway.park(json!({ "kind": "question", "title": "Name?" })).await;
    message_of(&gateway, asked["id"].as_str().unwrap()).await;
    let fields = [("form_key", visit.key.as_str()), ("once", "same"), ("text", "feature/x")];
    for _ in 0..3 {
        let (status, page) = gateway.submit(&visit.cookie, "/console/say", &fields).await;
        assert_eq!(status, StatusCode::SEE_OTHER);
        assert!(page.contains("feature/x"), "each time the same answer: {page}");
    }
    let next = gateway.park(json!({ "kind": "question", "title": "And now?" })).await;
    message_of(&gateway, next["id"].as_str().unwrap()).await;
    gateway.submit(&visit.cookie, "/console/say", &fields).await;
    let id = next["id"].as_str().unwrap();
    assert_eq!(gateway.get(&format!("/v1/requests/{id}")).await.1["status"], "pending");
}

#[tokio::test]
async fn reading_decides_nothing_and_pages_carry_their_armour() {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    let visit = Visit::new(&gateway, "owner").await;
    let parked = gateway.park(tool("ls")).await;
    let id = parked["id"].as_str().unwrap();
    let message = message_of(&gateway, id).await;
    for path in [
        format!(
            "/console/tap?form_key={}&once=1&message={message}&token=apr:{id}:approve_once",
            visit.key
        ),
        "/console/say?text=approve".to_owned(),
        format!("/console/cards/{message}"),
        "/console/".to_owned(),
    ] {
        gateway.page(&visit.cookie, &path).await;
    }
    assert_eq!(gateway.get(&format!("/v1/requests/{id}")).await.1["status"], "pending");

    let answer = gateway.http.get(gateway.url("/console/login")).send().await.unwrap();
    let policy = answer.headers()["content-security-policy"].to_str().unwrap();
    for part in ["default-src 'none'", "frame-ancestors 'none'", "form-action 'self'"] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(answer.headers()["cache-control"], "no-store");
    assert_eq!(answer.headers()["x-frame-options"], "DENY");
}

#[tokio::test]
async fn words_of_an_agent_are_never_markup() {
    let gateway = Gateway::start(Database::Sqlite).await.unwrap();
    let visit = Visit::new(&gateway, "owner").await;
    let parked = gateway.park(json!({
        "kind": "question",
        "title": "<img src=x onerror=alert(1)>",
        "body": "[x](javascript:alert(1)) </blockquote><script>alert(1)</script>",
        "options": [
            { "id": "a", "label": "\" autofocus onfocus=\"alert(1)" },
            { "id": "b", "label": "&lt;b&gt; & &amp;amp; <b>" },
        ],
    }));
    let parked = parked.await;
    message_of(&gateway, parked["id"].as_str().unwrap()).await;

    let (_, page) = gateway.page(&visit.cookie, "/console/").await;

    assert!(!page.contains("<img") && !page.contains("<script>alert"), "{page}");
    assert!(!page.contains("\" autofocus"), "{page}");
    assert!(page.contains("&amp;lt;b&amp;gt; &amp; &amp;amp;amp; &lt;b&gt;"), "read as written");
}
