//! Signed requests to the app's own addresses.

use std::sync::Arc;

use hmac::{Hmac, Mac as _};
use reqwest::redirect::Policy;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::time::Instant;
use url::form_urlencoded;

use crate::slack::delivery::{Outcome, Outgoing, Route, conclude};
use crate::slack::{Shared, record};

/// Where the app takes requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestUrls {
    /// Events.
    pub events: String,
    /// Presses, choices and modals.
    pub interactivity: String,
    /// Slash commands.
    pub commands: String,
}

/// The signature of a body at a second, as `X-Slack-Signature` has it.
pub fn sign(secret: &str, timestamp: i64, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key of any length");
    mac.update(format!("v0:{timestamp}:{body}").as_bytes());
    format!("v0={}", hex::encode(mac.finalize().into_bytes()))
}

fn client() -> reqwest::Client {
    let builder = reqwest::Client::builder().no_proxy().redirect(Policy::limited(2));
    builder.build().unwrap_or_default()
}

fn now(skew: i64) -> i64 {
    #[expect(clippy::disallowed_methods, reason = "the app compares with the real time")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(now.unwrap_or_default().as_secs()).unwrap_or(0) + skew
}

fn request(shared: &Shared, url: &str, kind: &str, body: String) -> reqwest::RequestBuilder {
    let (skew, wrong) = {
        let world = shared.world();
        (world.settings.skew, world.settings.wrong_secret.clone())
    };
    let timestamp = now(skew);
    let secret = wrong.as_ref().unwrap_or(&shared.credentials.signing_secret);
    let signature = sign(secret, timestamp, &body);
    client()
        .post(url)
        .header("user-agent", "Slackbot 1.0 (+https://api.slack.com/robots)")
        .header("accept", "*/*")
        .header("content-type", kind)
        .header("x-slack-request-timestamp", timestamp.to_string())
        .header("x-slack-signature", signature)
        .body(body)
}

const FORM: &str = "application/x-www-form-urlencoded";

fn form(outgoing: &Outgoing) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    if outgoing.route == Route::Interactive {
        form.append_pair("payload", &outgoing.payload.to_string());
    } else {
        for (name, value) in outgoing.payload.as_object().into_iter().flatten() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            form.append_pair(name, &text);
        }
    }
    form.finish()
}

/// Sends something once and sees what comes back.
pub(super) async fn give(shared: Arc<Shared>, urls: RequestUrls, outgoing: Outgoing) {
    let started = Instant::now();
    let (index, within) = {
        let mut world = shared.world();
        (world.log(&outgoing), world.settings.ack_within)
    };
    let mut request = match outgoing.route {
        Route::Events => {
            let body = outgoing.payload.to_string();
            request(&shared, &urls.events, "application/json", body)
        }
        Route::Interactive => request(&shared, &urls.interactivity, FORM, form(&outgoing)),
        Route::Commands => request(&shared, &urls.commands, FORM, form(&outgoing)),
    };
    if outgoing.attempt > 0 {
        request = request
            .header("x-slack-retry-num", outgoing.attempt.to_string())
            .header("x-slack-retry-reason", outgoing.reason);
    }
    let exchange = async {
        let answer = request.send().await?;
        let status = answer.status();
        let no_retry = answer.headers().get("x-slack-no-retry").is_some_and(|value| value == "1");
        Ok::<_, reqwest::Error>((status, no_retry, answer.text().await?))
    };
    let result = tokio::time::timeout(within, exchange).await;
    let mut may_retry = true;
    let (outcome, again) = match result {
        Err(_) => (Outcome::TimedOut, Some("http_timeout")),
        Ok(Err(error)) if error.is_redirect() => (Outcome::Refused, Some("too_many_redirects")),
        Ok(Err(_)) => (Outcome::Unreachable, Some("connection_failed")),
        Ok(Ok((status, no_retry, body))) => {
            may_retry = !no_retry;
            let mut world = shared.world();
            let delivery = &mut world.deliveries[index];
            delivery.status = Some(status.as_u16());
            delivery.took = Some(started.elapsed());
            if !body.is_empty() {
                let answer = serde_json::from_str(&body).unwrap_or(Value::String(body));
                record::note("answer", outgoing.route.envelope_type(), &answer, false);
                delivery.answer = Some(answer);
            }
            if status.is_success() {
                (Outcome::Taken, None)
            } else {
                (Outcome::Refused, Some("http_error"))
            }
        }
    };
    conclude(&shared, outgoing, index, outcome, again.filter(|_| may_retry));
}

/// Asks the address for events whether it is the app's; why not, if it is not.
pub(in crate::slack) async fn verify_url(shared: &Arc<Shared>) -> Result<(), String> {
    let urls = shared.world().settings.urls.clone().ok_or("no request URL is set")?;
    let challenge = shared.world().next_id("challenge");
    let body = json!({ "token": "stand-in", "challenge": challenge, "type": "url_verification" });
    record::note("events_api", "url_verification", &body, false);
    let within = shared.world().settings.ack_within;
    let sent = request(shared, &urls.events, "application/json", body.to_string()).send();
    let answer = tokio::time::timeout(within, sent).await;
    let answer = answer.map_err(|_| "no answer in time")?.map_err(|error| error.to_string())?;
    if !answer.status().is_success() {
        return Err(format!("the answer's status is {}", answer.status()));
    }
    let text = answer.text().await.map_err(|error| error.to_string())?;
    let from_json = serde_json::from_str::<Value>(&text).ok();
    let from_json = from_json.and_then(|json| json["challenge"].as_str().map(str::to_owned));
    let from_form = || text.strip_prefix("challenge=").map(str::to_owned);
    let given = from_json.or_else(from_form).unwrap_or_else(|| text.trim().to_owned());
    if given == challenge { Ok(()) } else { Err("the challenge did not come back".to_owned()) }
}
