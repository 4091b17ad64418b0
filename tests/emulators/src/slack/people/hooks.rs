//! The addresses that an interaction brings, for responses to it.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::slack::state::{Ephemeral, Refusal, World};
use crate::slack::web::{Parameters, checked_content};
use crate::slack::{Shared, record};

/// How often one address may be used.
const MOST_USES: usize = 5;

pub(super) fn routes(shared: Arc<Shared>) -> Router {
    Router::new().route("/hooks/{*path}", post(respond)).with_state(shared)
}

impl World {
    pub(super) fn hook_url(&self, path: &str) -> String {
        format!("{}hooks/{path}", self.address)
    }
}

async fn respond(
    State(shared): State<Arc<Shared>>,
    Path(path): Path<String>,
    body: Bytes,
) -> Response {
    let given = read(&body);
    record::note("response", "response_url", given.as_ref().unwrap_or(&Value::Null), false);
    let result = given.ok_or((StatusCode::BAD_REQUEST, "invalid_payload".to_owned()));
    let result = result.and_then(|given| use_once(&mut shared.world(), &path, &given));
    shared.touch();
    match result {
        Ok(()) => "ok".into_response(),
        Err((status, error)) => {
            let body = json!({ "ok": false, "error": error }).to_string();
            (status, [("content-type", "application/json; charset=utf-8")], body).into_response()
        }
    }
}

fn read(body: &[u8]) -> Option<Value> {
    let from_form = || {
        let mut pairs = url::form_urlencoded::parse(body);
        let payload = pairs.find(|(name, _)| name == "payload")?;
        serde_json::from_str(&payload.1).ok()
    };
    serde_json::from_slice(body).ok().or_else(from_form).filter(Value::is_object)
}

fn use_once(world: &mut World, path: &str, given: &Value) -> Result<(), (StatusCode, String)> {
    let gone = |error: &str| (StatusCode::NOT_FOUND, error.to_owned());
    let hook = world.hooks.get_mut(path).ok_or_else(|| gone("invalid_url"))?;
    if Instant::now() >= hook.until {
        return Err(gone("expired_url"));
    }
    if hook.uses >= MOST_USES {
        return Err(gone("used_url"));
    }
    hook.uses += 1;
    let (channel, user, on) = (hook.channel.clone(), hook.user.clone(), hook.on.clone());
    let wants = |name: &str| given[name] == true || given[name] == "true";
    let refused = |refusal: Refusal| (StatusCode::BAD_REQUEST, refusal.error);
    if let Some(on) = on {
        if wants("delete_original") {
            take_away(world, &channel, &on);
            return Ok(());
        }
        if wants("replace_original") {
            return replace(world, &channel, &on, given).map_err(refused);
        }
    }
    say_back(world, &channel, &user, given).map_err(refused)
}

fn take_away(world: &mut World, channel: &str, ts: &str) {
    world.ephemerals.retain(|ephemeral| ephemeral.shown.ts != ts);
    world.delete(channel, ts);
}

fn parameters(given: &Value) -> Parameters {
    given.as_object().cloned().unwrap_or_default()
}

fn replace(world: &mut World, channel: &str, ts: &str, given: &Value) -> Result<(), Refusal> {
    let content = checked_content(world, &parameters(given))?;
    if content.is_empty() {
        return Err(Refusal::new("no_text"));
    }
    if let Some(ephemeral) = world.ephemerals.iter_mut().find(|e| e.shown.ts == ts) {
        content.fill(&mut ephemeral.shown);
        ephemeral.shown.edits += 1;
    } else if world.places.get(channel).is_some_and(|place| place.messages.contains_key(ts)) {
        world.change(channel, ts, false, |shown| {
            let metadata = shown.metadata.take();
            content.fill(shown);
            shown.metadata = metadata;
        });
    }
    Ok(())
}

/// A response as a message of its own: for one person, unless it is for all.
pub(super) fn say_back(
    world: &mut World,
    channel: &str,
    user: &str,
    given: &Value,
) -> Result<(), Refusal> {
    let content = checked_content(world, &parameters(given))?;
    if content.is_empty() {
        return Err(Refusal::new("no_text"));
    }
    let mut shown = world.bots_own();
    content.fill(&mut shown);
    shown.thread_ts = given["thread_ts"].as_str().map(str::to_owned);
    if given["response_type"] == "in_channel" {
        world.post(channel, shown);
    } else {
        let (channel, user) = (channel.to_owned(), user.to_owned());
        world.ephemerals.push(Ephemeral { channel, user, shown });
    }
    Ok(())
}
