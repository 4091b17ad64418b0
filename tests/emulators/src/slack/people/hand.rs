//! The people's side by hand: `GET /people/USER` shows somebody's conversation
//! with the bot, `POST /people/USER/says` takes a text, `…/presses` a label,
//! `…/reacts` a name, `…/submits` the fields of the dialog as a form, `…/commands`
//! what comes after `/sayso`.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::slack::state::Shown;
use crate::slack::{Shared, Workspace};

pub(super) fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/people/{user}", get(look))
        .route("/people/{user}/says", post(say))
        .route("/people/{user}/presses", post(press))
        .route("/people/{user}/reacts", post(react))
        .route("/people/{user}/submits", post(submit))
        .route("/people/{user}/closes", post(close))
        .route("/people/{user}/commands", post(command))
        .with_state(shared)
}

fn by_hand(shared: Arc<Shared>) -> Workspace {
    let url = shared.base.clone();
    Workspace { shared, url }
}

fn message(shown: &Shown) -> Value {
    let labels: Vec<String> = shown.buttons().into_iter().map(|button| button.label).collect();
    let reactions: Vec<&str> = shown.reactions.iter().map(|(name, _)| name.as_str()).collect();
    json!({
        "ts": shown.ts, "from": shown.user, "text": shown.read(), "buttons": labels,
        "reactions": reactions, "edits": shown.edits,
    })
}

async fn look(State(shared): State<Arc<Shared>>, Path(user): Path<String>) -> Json<Value> {
    let slack = by_hand(shared);
    let messages: Vec<Value> = slack.chat(&slack.dm(&user)).iter().map(message).collect();
    let only: Vec<Value> = slack
        .ephemerals()
        .iter()
        .filter(|ephemeral| ephemeral.user == user)
        .map(|ephemeral| message(&ephemeral.shown))
        .collect();
    let dialog = slack.modal(&user).map(|modal| {
        json!({
            "text": modal.read(), "blocks": modal.view["blocks"], "errors": modal.errors,
            "is_in_trouble": modal.is_in_trouble,
        })
    });
    Json(json!({ "messages": messages, "only_you": only, "dialog": dialog }))
}

async fn say(State(shared): State<Arc<Shared>>, Path(user): Path<String>, text: String) {
    by_hand(shared).says(&user, &text);
}

/// Presses the newest button with that label, in the dialog if one is open.
async fn press(
    State(shared): State<Arc<Shared>>,
    Path(user): Path<String>,
    label: String,
) -> String {
    let slack = by_hand(shared);
    let channel = slack.dm(&user);
    let only = slack.ephemerals().into_iter().filter(|e| e.user == user && e.channel == channel);
    let mut all = slack.chat(&channel);
    all.extend(only.map(|ephemeral| ephemeral.shown));
    all.sort_by(|one, other| one.ts.cmp(&other.ts));
    let found = all.into_iter().rev().find_map(|shown| {
        let button = shown.buttons().into_iter().find(|b| b.label.contains(label.trim()));
        button.map(|button| (shown.ts, button.action_id))
    });
    match found {
        Some((ts, action_id)) => {
            slack.presses(&user, &channel, &ts, &action_id);
            "pressed\n".to_owned()
        }
        None => "no such button\n".to_owned(),
    }
}

/// Reacts to the bot's newest message.
async fn react(
    State(shared): State<Arc<Shared>>,
    Path(user): Path<String>,
    name: String,
) -> String {
    let slack = by_hand(shared);
    let channel = slack.dm(&user);
    match slack.chat(&channel).into_iter().rev().find(Shown::is_ours) {
        Some(shown) => {
            slack.reacts(&user, &channel, &shown.ts, name.trim());
            "reacted\n".to_owned()
        }
        None => "no message to react to\n".to_owned(),
    }
}

async fn submit(
    State(shared): State<Arc<Shared>>,
    Path(user): Path<String>,
    form: String,
) -> String {
    let slack = by_hand(shared);
    if slack.modal(&user).is_none() {
        return "no dialog is open\n".to_owned();
    }
    let pairs = url::form_urlencoded::parse(form.trim().as_bytes());
    let input: Vec<(String, String)> = pairs.into_owned().collect();
    let input: Vec<(&str, &str)> =
        input.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    slack.submits(&user, &input);
    "submitted\n".to_owned()
}

async fn close(State(shared): State<Arc<Shared>>, Path(user): Path<String>) -> String {
    let slack = by_hand(shared);
    if slack.modal(&user).is_none() {
        return "no dialog is open\n".to_owned();
    }
    slack.closes(&user);
    "closed\n".to_owned()
}

async fn command(State(shared): State<Arc<Shared>>, Path(user): Path<String>, text: String) {
    let slack = by_hand(shared);
    let channel = slack.dm(&user);
    slack.commands(&user, &channel, "/sayso", text.trim());
}
