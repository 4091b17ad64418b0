//! Dialogs.

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::slack::state::{Modal, Refusal, World};
use crate::slack::web::{Outcome, Parameters, missing, structure, text};
use crate::slack::{APP_ID, BOT_ID, TEAM_ID, blocks};

/// How many dialogs may lie on each other.
const MOST_STACKED: usize = 3;
const MOST_BYTES: usize = 250_000;

fn checked_view(parameters: &Parameters) -> Result<Value, Refusal> {
    let view = structure(parameters, "view").ok().flatten();
    let view = view.ok_or_else(|| missing("view"))?;
    check(&view)?;
    Ok(view)
}

fn check(view: &Value) -> Result<(), Refusal> {
    if view.to_string().len() > MOST_BYTES {
        return Err(Refusal::new("view_too_large"));
    }
    let found = blocks::check_view(view);
    if found.is_empty() { Ok(()) } else { Err(Refusal::explained("invalid_arguments", found)) }
}

/// Uses up a trigger; whose it is, and the dialog that it came from.
fn exchange(
    world: &mut World,
    parameters: &Parameters,
) -> Result<(String, Option<String>), Refusal> {
    let trigger = match text(parameters, "trigger_id") {
        None => return Err(missing("trigger_id")),
        Some(id) => world.triggers.get_mut(id),
    };
    let trigger = trigger.ok_or_else(|| Refusal::new("invalid_trigger_id"))?;
    if trigger.is_used {
        return Err(Refusal::new("exchanged_trigger_id"));
    }
    if Instant::now() >= trigger.until {
        return Err(Refusal::new("expired_trigger_id"));
    }
    trigger.is_used = true;
    Ok((trigger.user.clone(), trigger.view.clone()))
}

pub(super) fn open(world: &mut World, parameters: &Parameters, is_on_top: bool) -> Outcome {
    let view = checked_view(parameters)?;
    if view["type"] != "modal" {
        let words = "must be a valid enum value [json-pointer:/view/type]".to_owned();
        return Err(Refusal::explained("invalid_arguments", vec![words]));
    }
    let external = view["external_id"].as_str().filter(|id| !id.is_empty());
    if external.is_some_and(|id| world.modals.iter().any(|m| m.view["external_id"] == id)) {
        return Err(Refusal::new("duplicate_external_id"));
    }
    let (user, below) = exchange(world, parameters)?;
    let stacked = world.modals.iter().filter(|modal| modal.user == user && modal.is_open).count();
    if is_on_top && below.is_none() {
        return Err(Refusal::new("invalid_trigger_id"));
    }
    if is_on_top && stacked >= MOST_STACKED {
        return Err(Refusal::new("push_limit_reached"));
    }
    if !is_on_top {
        // A dialog that is opened takes the place of those that were there.
        for modal in world.modals.iter_mut().filter(|modal| modal.user == user) {
            modal.is_open = false;
        }
    }
    let id = put_view(world, &user, view, below.filter(|_| is_on_top).as_deref());
    Ok(json!({ "view": shown(world, &id) }))
}

fn shown(world: &World, id: &str) -> Value {
    world.modals.iter().find(|modal| modal.id == id).map_or(Value::Null, |modal| modal.view.clone())
}

/// Puts a checked view on somebody's screen; its id.
pub(in crate::slack) fn put_view(
    world: &mut World,
    user: &str,
    view: Value,
    below: Option<&str>,
) -> String {
    let id = world.next_id("V");
    let root = below
        .and_then(|below| shown(world, below)["root_view_id"].as_str().map(str::to_owned))
        .unwrap_or_else(|| id.clone());
    let view = dressed(world, view, &id, &root, below);
    world.modals.push(Modal {
        id: id.clone(),
        user: user.to_owned(),
        view,
        is_open: true,
        errors: Map::new(),
        is_in_trouble: false,
    });
    id
}

/// A view with what Slack adds to it.
fn dressed(world: &mut World, given: Value, id: &str, root: &str, below: Option<&str>) -> Value {
    let hash = world.next_ts();
    let mut view = json!({
        "id": id, "team_id": TEAM_ID, "type": "modal", "blocks": [], "private_metadata": "",
        "callback_id": "", "state": { "values": {} }, "hash": hash, "title": null,
        "clear_on_close": false, "notify_on_close": false, "close": null, "submit": null,
        "previous_view_id": below, "root_view_id": root, "app_id": APP_ID, "external_id": "",
        "app_installed_team_id": TEAM_ID, "bot_id": BOT_ID,
    });
    for (name, value) in given.as_object().into_iter().flatten() {
        view[name] = value.clone();
    }
    blocks::dress_view(&mut view, || world.next_id("b"));
    view
}

pub(super) fn update(world: &mut World, parameters: &Parameters) -> Outcome {
    let view = checked_view(parameters)?;
    let (by_id, by_external) = (text(parameters, "view_id"), text(parameters, "external_id"));
    if by_id.is_none() && by_external.is_none() {
        return Err(missing("view_id"));
    }
    let found = world.modals.iter().find(|modal| {
        modal.is_open
            && by_id.is_none_or(|id| modal.id == id)
            && by_external.is_none_or(|id| modal.view["external_id"] == id)
    });
    let found = found.ok_or_else(|| Refusal::new("not_found"))?;
    if text(parameters, "hash").is_some_and(|hash| found.view["hash"] != hash) {
        return Err(Refusal::new("hash_conflict"));
    }
    let id = found.id.clone();
    replace(world, &id, view);
    Ok(json!({ "view": shown(world, &id) }))
}

fn replace(world: &mut World, id: &str, view: Value) {
    let old = shown(world, id);
    let root = old["root_view_id"].as_str().unwrap_or(id).to_owned();
    let view = dressed(world, view, id, &root, old["previous_view_id"].as_str());
    if let Some(modal) = world.modals.iter_mut().find(|modal| modal.id == id) {
        modal.view = view;
        modal.errors.clear();
    }
}

/// Does what the answer to a submission asks for; whether it made sense.
pub(in crate::slack) fn after_submission(world: &mut World, id: &str, answer: &Value) -> bool {
    let Some(user) = world.modals.iter().find(|m| m.id == id).map(|m| m.user.clone()) else {
        return false;
    };
    match answer["response_action"].as_str() {
        None => {
            close(world, id);
            true
        }
        Some("clear") => {
            for modal in world.modals.iter_mut().filter(|modal| modal.user == user) {
                modal.is_open = false;
            }
            true
        }
        Some("errors") => {
            let Some(errors) = answer["errors"].as_object().filter(|errors| !errors.is_empty())
            else {
                return false;
            };
            let blocks = shown(world, id)["blocks"].clone();
            let blocks = blocks.as_array().cloned().unwrap_or_default();
            let is_known = errors.keys().all(|name| {
                blocks.iter().any(|b| b["block_id"] == name.as_str() && b["type"] == "input")
            });
            if is_known && let Some(modal) = world.modals.iter_mut().find(|m| m.id == id) {
                modal.errors.clone_from(errors);
            }
            is_known
        }
        Some(action @ ("update" | "push")) => {
            let view = answer["view"].clone();
            if check(&view).is_err() {
                return false;
            }
            if action == "update" {
                replace(world, id, view);
            } else {
                put_view(world, &user, view, Some(id));
            }
            true
        }
        Some(_) => false,
    }
}

/// Takes a dialog off the screen; one below shows again.
pub(in crate::slack) fn close(world: &mut World, id: &str) {
    if let Some(modal) = world.modals.iter_mut().find(|modal| modal.id == id) {
        modal.is_open = false;
    }
}
