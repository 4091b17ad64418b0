//! Calls that Slack makes: checked by their signature before anything is read,
//! stored, then answered with 200.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use hmac::{Hmac, Mac as _};
use sayso_channel::Inbox;
use serde_json::{Map, Value};
use sha2::Sha256;

use crate::envelope::{Route, text};
use crate::socket::usage;
use crate::{COMMANDS_PATH, EVENTS_PATH, INTERACTIVITY_PATH, NAME, Slack, words};

/// Bytes of one call; a payload is far smaller.
const LARGEST: usize = 1024 * 1024;
/// How old or early a call may be: an old one may be somebody's repetition.
const WINDOW: u64 = 300;
/// How often it is noted that the token still works.
const LOOK: Duration = Duration::from_mins(5);
/// How soon after a failure.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

#[derive(Clone)]
struct Hook {
    slack: Slack,
    inbox: Arc<dyn Inbox>,
    secret: Arc<[u8]>,
}

pub(crate) fn routes(slack: Slack, inbox: Arc<dyn Inbox>, secret: Arc<[u8]>) -> Router {
    Router::new()
        .route(EVENTS_PATH, post(take))
        .route(INTERACTIVITY_PATH, post(take))
        .route(COMMANDS_PATH, post(take))
        .layer(DefaultBodyLimit::max(LARGEST))
        .with_state(Hook { slack, inbox, secret })
}

/// Why a call is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refused {
    /// It has no signature, or one of somebody else.
    Signature,
    /// It is signed, and so many seconds old; or early, where that is negative.
    Time(i64),
}

/// Checks that Slack has made the call, and lately.
fn check(secret: &[u8], headers: &HeaderMap, body: &[u8], now: u64) -> Result<(), Refused> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let timestamp = header("x-slack-request-timestamp").ok_or(Refused::Signature)?;
    let signature = header("x-slack-signature").and_then(|value| value.strip_prefix("v0="));
    let signature = signature.and_then(|hex| hex::decode(hex).ok()).ok_or(Refused::Signature)?;
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).map_err(|_| Refused::Signature)?;
    for part in [b"v0:", timestamp.as_bytes(), b":", body] {
        mac.update(part);
    }
    // In constant time.
    mac.verify_slice(&signature).map_err(|_| Refused::Signature)?;
    let at: u64 = timestamp.parse().map_err(|_| Refused::Signature)?;
    if now.abs_diff(at) > WINDOW {
        let age = i64::try_from(now.abs_diff(at)).unwrap_or(i64::MAX);
        return Err(Refused::Time(if at > now { -age } else { age }));
    }
    Ok(())
}

fn now() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a signature is compared with the wall clock")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

async fn take(State(hook): State<Hook>, headers: HeaderMap, body: Bytes) -> Response {
    match check(&hook.secret, &headers, &body, now()) {
        Ok(()) => {}
        Err(Refused::Signature) => {
            tracing::warn!("A call in Slack's name has no valid signature; it is refused");
            return StatusCode::UNAUTHORIZED.into_response();
        }
        Err(Refused::Time(age)) => {
            tracing::warn!(
                age,
                "A call of Slack is {age} s old by this machine's clock; it is refused"
            );
            return StatusCode::UNAUTHORIZED.into_response();
        }
    }
    let Some((route, payload)) = read(&body) else {
        tracing::warn!("Slack sent something that can't be read; it is dropped");
        return StatusCode::OK.into_response();
    };
    if text(&payload, "/type") == Some("url_verification") {
        let challenge = text(&payload, "/challenge").unwrap_or_default().to_owned();
        return ([(header::CONTENT_TYPE, "text/plain")], challenge).into_response();
    }
    let usage = usage(route, &payload);
    // By itself: if Slack hangs up, it is taken all the same.
    let taking =
        tokio::spawn(
            async move { hook.slack.take(hook.inbox.as_ref(), route, payload).await.is_ok() },
        );
    match (taking.await.unwrap_or(false), usage) {
        (true, Some(usage)) => {
            ([(header::CONTENT_TYPE, "application/json")], usage.to_string()).into_response()
        }
        (true, None) => StatusCode::OK.into_response(),
        // Sent again when it could not be stored.
        (false, _) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
}

/// What came, whatever the path: events are JSON, clicks are JSON in a form,
/// commands are a form.
fn read(body: &[u8]) -> Option<(Route, Value)> {
    if let Ok(payload) = serde_json::from_slice::<Value>(body) {
        return payload.is_object().then_some((Route::EventsApi, payload));
    }
    let fields: Vec<(String, String)> = url::form_urlencoded::parse(body).into_owned().collect();
    if let Some((_, payload)) = fields.iter().find(|(name, _)| name == "payload") {
        return Some((Route::Interactive, serde_json::from_str(payload).ok()?));
    }
    let is_command = fields.iter().any(|(name, value)| name == "command" && value.starts_with('/'));
    is_command.then(|| {
        let fields: Map<String, Value> = fields
            .into_iter()
            // It is of no use and need not be kept.
            .filter(|(name, _)| name != "token")
            .map(|(name, value)| (name, Value::String(value)))
            .collect();
        (Route::SlashCommands, Value::Object(fields))
    })
}

/// Looks after the token until it is dropped.
pub(crate) async fn run(slack: &Slack, inbox: &dyn Inbox) {
    loop {
        let looked: Result<Value, _> = slack.form("auth.test", &[]).await;
        let trouble = looked.err().map(|fault| words(&fault));
        if let Some(receiver) = slack.realm().await {
            inbox.report(NAME, &receiver, trouble.as_deref()).await;
        } else {
            // There is nobody yet of whom it could be noted.
            tracing::warn!(reason = trouble, "Slack: who we are could not be found out");
        }
        tokio::time::sleep(if trouble.is_some() { LOOK_AGAIN } else { LOOK }).await;
    }
}

/// A call as Slack signs it.
#[cfg(test)]
fn signed(secret: &[u8], at: &str, body: &[u8]) -> HeaderMap {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
    for part in [b"v0:", at.as_bytes(), b":", body] {
        mac.update(part);
    }
    let signature = format!("v0={}", hex::encode(mac.finalize().into_bytes()));
    let mut headers = HeaderMap::new();
    headers.insert("x-slack-signature", signature.parse().unwrap());
    headers.insert("x-slack-request-timestamp", at.parse().unwrap());
    headers
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// The example of Slack's documentation.
    #[test]
    fn the_signature_is_that_of_the_documentation() {
        let secret = b"8f742231b10e8888abcd99yyyzzz85a5";
        let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        let mut headers = HeaderMap::new();
        headers.insert("x-slack-request-timestamp", "1531420618".parse().unwrap());
        let signature = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
        headers.insert("x-slack-signature", signature.parse().unwrap());
        assert_eq!(check(secret, &headers, body.as_bytes(), 1_531_420_618), Ok(()));
        assert_eq!(
            check(b"another", &headers, body.as_bytes(), 1_531_420_618),
            Err(Refused::Signature)
        );
    }

    #[rstest]
    #[case("1000000", Ok(()))]
    #[case("999700", Ok(()))]
    #[case("1000300", Ok(()))]
    #[case("999699", Err(Refused::Time(301)))]
    #[case("1000301", Err(Refused::Time(-301)))]
    #[case("abc", Err(Refused::Signature))]
    fn a_call_is_taken_within_five_minutes(
        #[case] at: &str,
        #[case] expected: Result<(), Refused>,
    ) {
        let headers = signed(b"secret", at, b"{}");
        assert_eq!(check(b"secret", &headers, b"{}", 1_000_000), expected);
    }

    #[test]
    fn a_call_without_a_signature_is_refused_and_so_is_a_changed_one() {
        assert_eq!(check(b"secret", &HeaderMap::new(), b"{}", 0), Err(Refused::Signature));
        let headers = signed(b"secret", "1000000", b"{}");
        assert_eq!(check(b"secret", &headers, b"{ }", 1_000_000), Err(Refused::Signature));
    }

    #[test]
    fn the_form_around_a_click_is_read_to_the_letter() {
        let payload = json!({ "type": "view_submission", "words": "a+b = c & d %41 é" });
        let body = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("payload", &payload.to_string())
            .finish();
        let (route, read) = read(body.as_bytes()).unwrap();
        assert_eq!((route, read), (Route::Interactive, payload));
    }
}
