//! `kill -9` at any moment loses nothing that was acknowledged.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::api::form_key;
use crate::operations::Home;

/// Rounds of parking, deciding and killing.
const ROUNDS: u32 = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_the_program_again_and_again_loses_nothing_acknowledged() {
    let home = Home::new();
    std::fs::write(
        home.dir.path().join("sayso.toml"),
        "[requests]\nmax_open_per_guardian = 100000\n",
    )
    .unwrap();
    let key = home.json(&["agent", "add", "robot"])["key"].as_str().unwrap().to_owned();
    let http = reqwest::Client::builder()
        .no_proxy()
        .pool_max_idle_per_host(0)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    let visitor = {
        let server = home.serve();
        Visitor::log_in(&home, &http, &server.base).await
    };
    // What was acknowledged: each request, and how it was said to have ended.
    let mut acknowledged: HashMap<String, Option<String>> = HashMap::new();
    let mut delay = 1_u64;

    for round in 0..ROUNDS {
        let mut server = home.serve();
        let base = server.base.clone();
        let acks = AtomicUsize::new(0);
        let killer = async {
            // Another moment each time, without a random generator: after so many
            // answers, however slow the machine is, and a moment more.
            delay = (delay * 48_271) % 2_147_483_647;
            let answers = usize::try_from(delay % 12).unwrap();
            while acks.load(Ordering::Relaxed) < answers {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::time::sleep(Duration::from_micros(delay % 20_000)).await;
            server.child.kill().unwrap();
            server.child.wait().unwrap();
        };
        let acks = &acks;
        let place = Place { http: &http, base: &base, key: &key, visitor: &visitor, acks };
        let clients = (0..4).map(|client| work(&place, round, client));

        let (results, ()) = tokio::join!(futures_util::future::join_all(clients), killer);

        for (id, end) in results.into_iter().flatten() {
            let known = acknowledged.entry(id).or_default();
            if end.is_some() {
                *known = end;
            }
        }
    }

    // What was taken in before a kill is dealt with after the restart.
    let server = home.serve();
    let drained = async {
        loop {
            let metrics = http.get(format!("{}/metrics", server.base)).send().await.unwrap();
            if metrics.text().await.unwrap().contains("queue_items{queue=\"inbox\"} 0") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), drained).await.expect("the inbox is emptied");
    drop(server);

    let ended = acknowledged.values().filter(|end| end.is_some()).count();
    assert!(acknowledged.len() > 100 && ended > 20, "{} {ended}", acknowledged.len());
    let stored = home.json(&["requests", "list", "--limit", "1000000"]);
    let stored: HashMap<&str, &str> = stored["requests"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| (r["id"].as_str().unwrap(), r["status"].as_str().unwrap()))
        .collect();
    for (id, end) in &acknowledged {
        let status = stored.get(id.as_str()).unwrap_or_else(|| panic!("{id} is lost"));
        if let Some(end) = end {
            assert_eq!(status, end, "{id}");
        }
    }
    assert_eq!(home.run(&["audit", "verify"]).code, 0, "the chain is whole");
}

/// Somebody who is logged in, across restarts.
struct Visitor {
    cookie: String,
    form_key: String,
}

impl Visitor {
    async fn log_in(home: &Home, http: &reqwest::Client, base: &str) -> Self {
        let url = home.json(&["console", "link"])["url"].as_str().unwrap().to_owned();
        let secret = url.split("link=").nth(1).unwrap().to_owned();
        let answer = http
            .post(format!("{base}/console/login"))
            .header("origin", base)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("link={secret}"))
            .send()
            .await
            .unwrap();
        let cookie = answer.headers()["set-cookie"].to_str().unwrap().to_owned();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let page = http.get(format!("{base}/console/")).header("cookie", &cookie).send().await;
        let form_key = form_key(&page.unwrap().text().await.unwrap());
        Self { cookie, form_key }
    }
}

struct Place<'a> {
    http: &'a reqwest::Client,
    base: &'a str,
    key: &'a str,
    visitor: &'a Visitor,
    /// Counts what was acknowledged in this round.
    acks: &'a AtomicUsize,
}

/// Parks and ends requests until the server is gone: half of the clients have
/// the agent withdraw them, half have the guardian approve them in the console.
/// What was acknowledged.
async fn work(place: &Place<'_>, round: u32, client: u32) -> Vec<(String, Option<String>)> {
    let mut seen = Vec::new();
    for n in 0.. {
        let body = format!(
            r#"{{"kind":"tool_approval","tool":{{"name":"x","input":"{round} {client} {n}"}}}}"#
        );
        let Some(parked) = place.post("/v1/requests", body).await else { break };
        let id = parked["id"].as_str().unwrap().to_owned();
        seen.push((id.clone(), None));
        place.acks.fetch_add(1, Ordering::Relaxed);
        let end = if client.is_multiple_of(2) {
            let ended = place.post(&format!("/v1/requests/{id}/cancel"), "{}".to_owned()).await;
            ended.map(|request| request["status"].as_str().unwrap().to_owned())
        } else {
            place.approve(&id).await
        };
        let Some(end) = end else { break };
        seen.push((id, Some(end)));
        place.acks.fetch_add(1, Ordering::Relaxed);
    }
    seen
}

impl Place<'_> {
    async fn post(&self, path: &str, body: String) -> Option<Value> {
        let call = self.http.post(format!("{}{path}", self.base)).bearer_auth(self.key);
        let call = call.header("content-type", "application/json");
        let answer = call.body(body).send().await.ok()?;
        let is_success = answer.status().is_success();
        let value = serde_json::from_str(&answer.text().await.ok()?).ok()?;
        assert!(is_success, "{value}");
        Some(value)
    }

    /// Presses Approve; once the page answers, the press is stored and counts.
    async fn approve(&self, id: &str) -> Option<String> {
        let fields = [
            ("form_key", self.visitor.form_key.as_str()),
            ("once", id),
            ("message", "any"),
            ("token", &format!("apr:{id}:approve_once")),
        ];
        let body =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let answer = self
            .http
            .post(format!("{}/console/tap", self.base))
            .header("cookie", &self.visitor.cookie)
            .header("origin", self.base)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body)
            .send()
            .await
            .ok()?;
        assert_eq!(answer.status(), reqwest::StatusCode::SEE_OTHER);
        Some("approved".to_owned())
    }
}
