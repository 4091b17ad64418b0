//! Filling dialogs in, and what comes of an answer.

use serde_json::{Map, Value, json};

use crate::slack::Workspace;
use crate::slack::delivery::{After, Outgoing, Route};
use crate::slack::people::hooks::say_back;
use crate::slack::people::taps::{choice, controls, state_of};
use crate::slack::state::{Ephemeral, Modal, Shown, World};
use crate::slack::web::{after_submission, close};

/// Acts on the answer to something that asked for one.
pub(in crate::slack) fn settle(
    world: &mut World,
    after: &After,
    answer: Option<&Value>,
    is_taken: bool,
) {
    match after {
        After::Nothing => {}
        After::Submission { view } => {
            // Text where an instruction should be is as bad as no answer.
            let is_readable = answer.is_none_or(Value::is_object);
            let answer = answer.cloned().unwrap_or_default();
            let went_well = is_taken && is_readable && after_submission(world, view, &answer);
            if let Some(modal) = world.modals.iter_mut().find(|modal| modal.id == *view) {
                modal.is_in_trouble = !went_well;
            }
        }
        After::Command { channel, user } if is_taken => {
            let given = match answer {
                None => return,
                Some(Value::String(text)) => json!({ "text": text }),
                Some(given) => given.clone(),
            };
            let is_empty = given.as_object().is_none_or(Map::is_empty);
            if !is_empty && say_back(world, channel, user, &given).is_err() {
                failed(world, channel, user);
            }
        }
        After::Command { channel, user } => failed(world, channel, user),
    }
}

/// What people read when a command came to nothing.
fn failed(world: &mut World, channel: &str, user: &str) {
    let shown = Shown {
        ts: world.next_ts(),
        user: "USLACKBOT".to_owned(),
        text: "The command failed with the error \"dispatch_failed\"".to_owned(),
        ..Shown::default()
    };
    world.ephemerals.push(Ephemeral { channel: channel.to_owned(), user: user.to_owned(), shown });
}

impl World {
    fn on_top(&self, user: &str) -> Modal {
        let open = self.modals.iter().rev().find(|modal| modal.user == user && modal.is_open);
        open.expect("a dialog that is open").clone()
    }
}

/// What was filled in, as `state` has it.
///
/// # Panics
///
/// When the client would not let it pass: a field that is needed is empty, or a
/// text is too long.
fn filled(modal: &Modal, input: &[(&str, &str)]) -> Value {
    let blocks = modal.view["blocks"].as_array().cloned().unwrap_or_default();
    let mut values = Map::new();
    for (block, element) in controls(&blocks) {
        let name = element["action_id"].as_str().unwrap_or_default();
        let given = input.iter().find(|(of, _)| *of == name || *of == block);
        let chosen = given.map(|(_, value)| choice(element, value));
        let whole = blocks.iter().find(|b| b["block_id"] == block).cloned().unwrap_or_default();
        let Some(state) = state_of(element, chosen.as_ref()) else { continue };
        let fields = state.as_object().into_iter().flatten();
        let is_empty = fields.filter(|(name, _)| *name != "type").all(|(_, value)| {
            value.is_null() || value == "" || value.as_array().is_some_and(Vec::is_empty)
        });
        let is_needed = whole["type"] == "input" && whole["optional"] != true;
        assert!(!(is_empty && is_needed), "the dialog lets {block} not be empty");
        if let Some(most) = element["max_length"].as_u64() {
            let length = state["value"].as_str().unwrap_or_default().chars().count();
            let is_short = u64::try_from(length).is_ok_and(|length| length <= most);
            assert!(is_short, "the dialog takes {most} characters in {block}");
        }
        values.entry(block).or_insert_with(|| json!({}))[name] = state;
    }
    for (name, _) in input {
        let mut known = controls(&blocks);
        let is_known = known.any(|(block, e)| block == *name || e["action_id"] == *name);
        assert!(is_known, "{name:?} is in {blocks:#?}");
    }
    Value::Object(values)
}

impl Workspace {
    /// Somebody fills in the dialog before them, by names of fields or blocks, and
    /// submits it.
    pub fn submits(&self, user: &str, input: &[(&str, &str)]) {
        self.with(|world| {
            let modal = world.on_top(user);
            assert!(!modal.view["submit"].is_null(), "the dialog can be submitted");
            let mut view = modal.view.clone();
            view["state"]["values"] = filled(&modal, input);
            let trigger = world.trigger(user, Some(&modal.id));
            let mut payload = json!({
                "type": "view_submission", "user": world.actor(user), "trigger_id": trigger,
                "view": view, "response_urls": [],
            });
            world.stamp(&mut payload);
            let after = After::Submission { view: modal.id };
            world.send(Outgoing::first(Route::Interactive, payload, after, false));
        });
    }

    /// Somebody closes the dialog before them; the app hears of it if it asked to.
    pub fn closes(&self, user: &str) {
        self.with(|world| {
            let modal = world.on_top(user);
            close(world, &modal.id);
            if modal.view["notify_on_close"] != true {
                return;
            }
            let mut payload = json!({
                "type": "view_closed", "user": world.actor(user), "view": modal.view,
                "is_cleared": false,
            });
            world.stamp(&mut payload);
            world.send(Outgoing::first(Route::Interactive, payload, After::Nothing, false));
        });
    }

    /// The dialog before somebody.
    pub fn modal(&self, user: &str) -> Option<Modal> {
        let world = self.shared.world();
        world.modals.iter().rev().find(|modal| modal.user == user && modal.is_open).cloned()
    }
}
