//! The webhook: stored, then answered with 200.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::routing::post;
use sayso_channel::Inbox;
use serde_json::value::RawValue;
use subtle::ConstantTimeEq as _;
use teloxide::payloads::{GetWebhookInfo, SetWebhook, SetWebhookSetters as _};
use url::Url;

use crate::api::Fault;
use crate::poll::allowed_updates;
use crate::update::store;
use crate::{NAME, SetupError, Telegram, WEBHOOK_PATH};

/// Bytes of one call; an update is far smaller.
const LARGEST: usize = 1024 * 1024;
/// How often the platform is asked how its calls go.
const LOOK: Duration = Duration::from_mins(5);
/// How soon after a failure.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// A webhook without a secret could be called by anybody.
pub(crate) fn check_secret(secret: &str) -> Result<(), SetupError> {
    let is_safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    if (16..=256).contains(&secret.len()) && secret.bytes().all(is_safe) {
        return Ok(());
    }
    Err(SetupError(
        "telegram.webhook_secret: it must have 16 to 256 letters, digits, dashes or underscores; \
         `openssl rand -hex 32` makes one"
            .to_owned(),
    ))
}

#[derive(Clone)]
struct Hook {
    telegram: Telegram,
    inbox: Arc<dyn Inbox>,
    secret: Arc<str>,
}

pub(crate) fn routes(telegram: Telegram, inbox: Arc<dyn Inbox>, secret: &str) -> Router {
    Router::new()
        .route(WEBHOOK_PATH, post(take))
        .layer(DefaultBodyLimit::max(LARGEST))
        .with_state(Hook { telegram, inbox, secret: secret.into() })
}

async fn take(State(hook): State<Hook>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let given = headers.get("x-telegram-bot-api-secret-token");
    let given = given.map(HeaderValue::as_bytes).unwrap_or_default();
    if !bool::from(given.ct_eq(hook.secret.as_bytes())) {
        return StatusCode::UNAUTHORIZED;
    }
    let Ok(update) = serde_json::from_slice::<&RawValue>(&body) else {
        tracing::warn!("Telegram sent something that is no JSON; it is dropped");
        return StatusCode::OK;
    };
    let Ok(receiver) = hook.telegram.receiver_of().await else {
        return StatusCode::SERVICE_UNAVAILABLE;
    };
    let Some((raw, _)) = store(receiver, update) else {
        tracing::warn!("Telegram sent something that is no update; it is dropped");
        return StatusCode::OK;
    };
    // Sent again when it could not be stored.
    match hook.inbox.accept(NAME, raw).await {
        Ok(_) => StatusCode::OK,
        Err(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// What is read of the platform's account of the webhook.
#[derive(serde::Deserialize)]
struct Info {
    #[serde(default)]
    url: String,
    #[serde(default)]
    pending_update_count: i64,
    #[serde(default)]
    last_error_message: Option<String>,
}

/// Sets the webhook and watches it until it is dropped.
pub(crate) async fn run(telegram: &Telegram, inbox: &dyn Inbox, url: &Url, secret: &str) {
    let mut is_set = false;
    loop {
        let trouble = match look(telegram, url, secret, &mut is_set).await {
            Ok(trouble) => trouble,
            Err(fault) => Some(fault.to_string()),
        };
        if let Some(reason) = &trouble {
            tracing::warn!(reason, "Telegram: the webhook is in trouble");
        }
        inbox.report(NAME, telegram.receiver(), trouble.as_deref()).await;
        tokio::time::sleep(if trouble.is_some() { LOOK_AGAIN } else { LOOK }).await;
    }
}

/// Sets the webhook where it isn't; what is wrong with it, if anything is.
async fn look(
    telegram: &Telegram,
    url: &Url,
    secret: &str,
    is_set: &mut bool,
) -> Result<Option<String>, Fault> {
    let before: Info = telegram.call(&GetWebhookInfo::new()).await?;
    let is_foreign = *is_set && before.url != url.as_str();
    if !*is_set || is_foreign {
        // At start in any case: the secret may have changed. What waits is kept.
        let set = SetWebhook::new(url.clone())
            .secret_token(secret)
            .allowed_updates(allowed_updates())
            .drop_pending_updates(false);
        let _: bool = telegram.call(&set).await?;
        *is_set = true;
    }
    if is_foreign {
        return Ok(Some("another program has changed the webhook of this bot".to_owned()));
    }
    // An error that is over has nothing waiting any more.
    let waiting = before.pending_update_count;
    Ok(before
        .last_error_message
        .filter(|_| waiting > 0)
        .map(|error| format!("Telegram can't deliver to {url}: {error}; {waiting} updates wait")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_needs_a_secret_that_nobody_guesses() {
        for bad in ["", "short", "a b c d e f g h i j", "ä".repeat(20).as_str(), &"x".repeat(257)]
        {
            assert!(check_secret(bad).is_err(), "{bad}");
        }
        assert!(check_secret(&"x1-_".repeat(8)).is_ok());
    }
}
