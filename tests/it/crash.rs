//! `kill -9` at any moment loses nothing that was acknowledged.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;

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
    let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap();
    // What was acknowledged: each request, and how it was said to have ended.
    let mut acknowledged: HashMap<String, Option<String>> = HashMap::new();
    let mut delay = 1_u64;

    for round in 0..ROUNDS {
        let mut server = home.serve();
        let base = server.base.clone();
        let killer = async {
            // Another moment each time, without a random generator.
            delay = (delay * 48_271) % 2_147_483_647;
            tokio::time::sleep(Duration::from_millis(5 + delay % 60)).await;
            server.child.kill().unwrap();
            server.child.wait().unwrap();
        };
        let clients = (0..4).map(|client| work(&http, &base, &key, round, client));

        let (results, ()) = tokio::join!(futures_util::future::join_all(clients), killer);

        for (id, end) in results.into_iter().flatten() {
            let known = acknowledged.entry(id).or_default();
            if end.is_some() {
                *known = end;
            }
        }
    }

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

/// Parks and ends requests until the server is gone; what was acknowledged.
async fn work(
    http: &reqwest::Client,
    base: &str,
    key: &str,
    round: u32,
    client: u32,
) -> Vec<(String, Option<String>)> {
    let mut seen = Vec::new();
    for n in 0.. {
        let body = format!(
            r#"{{"kind":"tool_approval","tool":{{"name":"x","input":"{round} {client} {n}"}}}}"#
        );
        let Some(parked) = post(http, &format!("{base}/v1/requests"), key, body).await else {
            break;
        };
        let id = parked["id"].as_str().unwrap().to_owned();
        seen.push((id.clone(), None));
        let url = format!("{base}/v1/requests/{id}/cancel");
        let Some(ended) = post(http, &url, key, "{}".to_owned()).await else { break };
        seen.push((id, ended["status"].as_str().map(str::to_owned)));
    }
    seen
}

async fn post(http: &reqwest::Client, url: &str, key: &str, body: String) -> Option<Value> {
    let call = http.post(url).bearer_auth(key).header("content-type", "application/json");
    let answer = call.body(body).send().await.ok()?;
    let is_success = answer.status().is_success();
    let value = serde_json::from_str(&answer.text().await.ok()?).ok()?;
    assert!(is_success, "{value}");
    Some(value)
}
