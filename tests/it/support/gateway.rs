//! A gateway that runs in the test's process, spoken to by HTTP.

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use sayso::admin::{AddAgent, AddGuardian};
use sayso::config::{Config, Sources};
use sayso::store::places::Place;
use sayso::store::{self, Location, Store};
use sayso::wiring;
use serde_json::Value;

use crate::support::Database;
use crate::support::database::Fresh;

pub(crate) struct Gateway {
    pub(crate) running: wiring::Gateway,
    pub(crate) config: Config,
    /// Goes with the test, and not before.
    _fresh: Fresh,
    pub(crate) key: String,
    pub(crate) webhook_secret: String,
    pub(crate) http: reqwest::Client,
}

impl Gateway {
    /// Starts one with the guardian `owner` and the agent `robot`.
    pub(crate) async fn start(database: Database) -> Option<Self> {
        Self::start_with(database, &[]).await
    }

    /// The same with settings, as in the environment.
    pub(crate) async fn start_with(database: Database, env: &[(&str, &str)]) -> Option<Self> {
        let fresh = database.fresh().await?;
        let config = config(&fresh, env);
        let running = wiring::start(&config).await.unwrap();
        let added = running
            .store
            .write(AddAgent { name: "robot".into(), guardian: None })
            .await
            .unwrap()
            .unwrap();
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        let webhook_secret = added.agent.webhook_secret.expose().to_owned();
        Some(Self { running, config, _fresh: fresh, key: added.key, webhook_secret, http })
    }

    /// Stops it and starts another on the same data.
    pub(crate) async fn restart(&mut self) {
        self.running.lifecycle.stop();
        assert!(self.running.lifecycle.ended().await, "it stops in time");
        self.running.store.close().await;
        self.running.release();
        self.running = wiring::start(&self.config).await.unwrap();
    }

    /// Another agent; its key.
    pub(crate) async fn add_agent(&self, name: &str) -> String {
        let add = AddAgent { name: name.into(), guardian: None };
        self.store().write(add).await.unwrap().unwrap().key
    }

    /// Another guardian.
    pub(crate) async fn add_guardian(&self, name: &str) {
        self.store().write(AddGuardian { name: name.into() }).await.unwrap().unwrap();
    }

    pub(crate) fn store(&self) -> &Store {
        &self.running.store
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.running.address)
    }

    /// A call as the agent.
    pub(crate) fn call(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, self.url(path)).bearer_auth(&self.key)
    }

    /// Posts JSON as the agent.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        let call = self.call(Method::POST, path).header("content-type", "application/json");
        read(call.body(body.to_string()).send().await.unwrap()).await
    }

    /// Gets JSON as the agent.
    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        read(self.call(Method::GET, path).send().await.unwrap()).await
    }

    /// Parks a request; what the gateway says of it.
    pub(crate) async fn park(&self, body: Value) -> Value {
        let (status, value) = self.post("/v1/requests", &body).await;
        assert_eq!(status, StatusCode::CREATED, "{value}");
        value
    }

    /// The request once `holds` is true of it; fails when it takes too long.
    pub(crate) async fn until(&self, id: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let read = async {
            loop {
                let (_, value) = self.get(&format!("/v1/requests/{id}")).await;
                if holds(&value) {
                    return value;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), read).await.expect("it becomes true in time")
    }

    /// Waits until the gateway knows this of a place.
    pub(crate) async fn knows(&self, address: &str, holds: impl Fn(&Place) -> bool) {
        let known = async {
            loop {
                let mut tx = self.store().read().await.unwrap();
                let places = store::places::list(&mut tx).await.unwrap();
                if places.iter().any(|place| place.address == address && holds(place)) {
                    return;
                }
                drop(tx);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), known).await.expect("it is known in time");
    }

    /// Logs a guardian in to the console; the cookie.
    pub(crate) async fn log_in(&self, name: &str) -> String {
        let life = Duration::from_mins(10);
        let base = self.url("");
        let link = wiring::console_link(self.store(), &base, name, life).await.unwrap();
        let secret = link.split("link=").nth(1).unwrap();
        let answer = self
            .http
            .post(self.url("/console/login"))
            .header("origin", self.url(""))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(format!("link={secret}"))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), StatusCode::SEE_OTHER);
        let cookie = answer.headers()["set-cookie"].to_str().unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }

    /// A page of the console.
    pub(crate) async fn page(&self, cookie: &str, path: &str) -> (StatusCode, String) {
        let call = self.http.get(self.url(path)).header("cookie", cookie);
        let answer = call.send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    }

    /// Submits a form of the console; where it leads, and the page there.
    pub(crate) async fn submit(
        &self,
        cookie: &str,
        path: &str,
        fields: &[(&str, &str)],
    ) -> (StatusCode, String) {
        let body =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let answer = self
            .http
            .post(self.url(path))
            .header("cookie", cookie)
            .header("origin", self.url(""))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body)
            .send()
            .await
            .unwrap();
        let status = answer.status();
        if status == StatusCode::SEE_OTHER {
            let to = answer.headers()["location"].to_str().unwrap().to_owned();
            return (status, self.page(cookie, &to).await.1);
        }
        (status, answer.text().await.unwrap())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.running.lifecycle.stop();
    }
}

/// The settings of a gateway on a fresh database.
pub(crate) fn config(fresh: &Fresh, env: &[(&str, &str)]) -> Config {
    let mut all: Vec<(String, String)> =
        env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    all.push(("SAYSO_DATA_DIR".into(), fresh.dir.path().display().to_string()));
    all.push(("SAYSO_SERVER__LISTEN".into(), "127.0.0.1:0".into()));
    if let Location::Postgres(url) = &fresh.location {
        all.push(("SAYSO_DATABASE__URL".into(), url.clone()));
    }
    let current_dir = fresh.dir.path().to_owned();
    Config::load(&Sources { file: None, env: all, current_dir }).unwrap()
}

/// Status and body of an answer.
pub(crate) async fn read(answer: Response) -> (StatusCode, Value) {
    let status = answer.status();
    let text = answer.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}
