//! Pressing and choosing, and slash commands.

use serde_json::{Map, Value, json};

use crate::slack::delivery::{After, Outgoing, Route};
use crate::slack::people::look::label;
use crate::slack::state::{Shown, World};
use crate::slack::{APP_ID, DOMAIN, TEAM_ID, Workspace, shapes};

/// The controls of some blocks, each with its block's id.
pub(super) fn controls(blocks: &[Value]) -> impl Iterator<Item = (&str, &Value)> {
    blocks.iter().flat_map(|block| {
        let id = block["block_id"].as_str().unwrap_or_default();
        let is_row = block["type"] == "actions";
        let row = block["elements"].as_array().into_iter().flatten().filter(move |_| is_row);
        let single = [block.get("accessory"), block.get("element")].into_iter().flatten();
        row.chain(single).filter(|element| element["type"] != "image").map(move |e| (id, e))
    })
}

/// The control with this name or this label.
pub(super) fn control<'a>(blocks: &'a [Value], what: &str) -> Option<(&'a str, &'a Value)> {
    let by_name = controls(blocks).find(|(_, element)| element["action_id"] == what);
    by_name.or_else(|| controls(blocks).find(|(_, element)| label(element) == what))
}

/// The value of a control that keeps one, as `state` has it; a button has none.
pub(super) fn state_of(element: &Value, chosen: Option<&Value>) -> Option<Value> {
    let kind = element["type"].as_str().unwrap_or_default();
    let (field, initial) = match kind {
        "static_select" | "external_select" | "radio_buttons" => {
            ("selected_option", "initial_option")
        }
        "multi_static_select" | "multi_external_select" | "checkboxes" => {
            ("selected_options", "initial_options")
        }
        "users_select" => ("selected_user", "initial_user"),
        "multi_users_select" => ("selected_users", "initial_users"),
        "conversations_select" => ("selected_conversation", "initial_conversation"),
        "channels_select" => ("selected_channel", "initial_channel"),
        "datepicker" => ("selected_date", "initial_date"),
        "timepicker" => ("selected_time", "initial_time"),
        "datetimepicker" => ("selected_date_time", "initial_date_time"),
        "plain_text_input" | "email_text_input" | "url_text_input" | "number_input" => {
            ("value", "initial_value")
        }
        _ => return None,
    };
    let nothing = if field == "selected_options" { json!([]) } else { Value::Null };
    let value = chosen.or_else(|| element.get(initial)).cloned().unwrap_or(nothing);
    Some(json!({ "type": kind, field: value }))
}

/// What somebody chose, in the form that this control keeps it in.
pub(super) fn choice(element: &Value, value: &str) -> Value {
    let kind = element["type"].as_str().unwrap_or_default();
    let grouped = element["option_groups"].as_array().into_iter().flatten();
    let grouped = grouped.filter_map(|group| group["options"].as_array()).flatten();
    let plain = element["options"].as_array().into_iter().flatten();
    let option = plain.chain(grouped).find(|option| option["value"] == value).cloned();
    match kind {
        "static_select" | "radio_buttons" | "overflow" => option.expect("an option that is shown"),
        "multi_static_select" | "checkboxes" => json!([option.expect("an option that is shown")]),
        "multi_users_select" => json!([value]),
        "external_select" => {
            json!({ "text": { "type": "plain_text", "text": value, "emoji": true }, "value": value })
        }
        _ => value.into(),
    }
}

impl World {
    fn values(&self, user: &str, at: &str, blocks: &[Value]) -> Value {
        let mut values = Map::new();
        for (block, element) in controls(blocks) {
            let name = element["action_id"].as_str().unwrap_or_default();
            let chosen = self.choices.get(&choice_key(user, at, block, name));
            if let Some(state) = state_of(element, chosen) {
                let of_block = values.entry(block).or_insert_with(|| json!({}));
                of_block[name] = state;
            }
        }
        Value::Object(values)
    }

    /// What a press or a choice puts into the list of actions.
    fn action(&mut self, block: &str, element: &Value, chosen: Option<Value>) -> Value {
        let at = self.next_ts();
        let mut action = json!({
            "action_id": element["action_id"], "block_id": block, "type": element["type"],
            "action_ts": at,
        });
        if element["type"] == "button" {
            for name in ["text", "value", "style", "url", "confirm"] {
                if let Some(value) = element.get(name) {
                    action[name] = value.clone();
                }
            }
            return action;
        }
        for name in ["placeholder", "initial_option"] {
            if let Some(value) = element.get(name) {
                action[name] = value.clone();
            }
        }
        if element["type"] == "overflow" {
            action["selected_option"] = chosen.unwrap_or_default();
        } else if let Some(state) = state_of(element, chosen.as_ref()) {
            let fields = state.as_object().into_iter().flatten();
            for (name, value) in fields.filter(|(name, _)| *name != "type") {
                action[name] = value.clone();
            }
        }
        action
    }

    /// An action on a message or on an ephemeral one.
    fn act(
        &mut self,
        user: &str,
        channel: &str,
        shown: &Shown,
        what: &str,
        value: Option<&str>,
    ) -> String {
        self.know(user);
        let (block, element) = control(&shown.blocks, what)
            .unwrap_or_else(|| panic!("{what:?} is not on {:#?}", shown.blocks));
        let chosen = value.map(|value| choice(element, value));
        if let Some(chosen) = chosen.clone().filter(|_| element["type"] != "overflow") {
            let name = element["action_id"].as_str().unwrap_or_default();
            self.choices.insert(choice_key(user, &shown.ts, block, name), chosen);
        }
        let action = self.action(block, element, chosen);
        let is_ephemeral = self.ephemerals.iter().any(|e| e.shown.ts == shown.ts);
        let trigger = self.trigger(user, None);
        let hook = self.hook("actions", channel, user, Some(&shown.ts));
        let mut container = json!({
            "type": "message", "message_ts": shown.ts, "channel_id": channel,
            "is_ephemeral": is_ephemeral,
        });
        if let Some(thread) = &shown.thread_ts {
            container["thread_ts"] = thread.as_str().into();
        }
        let mut payload = json!({
            "type": "block_actions", "user": self.actor(user), "container": container,
            "trigger_id": trigger, "channel": self.place_json(channel),
            "state": { "values": self.values(user, &shown.ts, &shown.blocks) },
            "response_url": self.hook_url(&hook), "actions": [action],
        });
        if !is_ephemeral {
            let place = &self.places[channel];
            payload["message"] = shapes::message(place, shown);
        }
        self.stamp(&mut payload);
        self.send(Outgoing::first(Route::Interactive, payload, After::Nothing, false));
        trigger
    }

    fn found(&self, channel: &str, ts: &str) -> Shown {
        let message = self.places.get(channel).and_then(|place| place.messages.get(ts));
        let ephemeral = self.ephemerals.iter().find(|e| e.channel == channel && e.shown.ts == ts);
        let found = message.or(ephemeral.map(|ephemeral| &ephemeral.shown));
        found.expect("a message that is there").clone()
    }
}

fn choice_key(user: &str, at: &str, block: &str, name: &str) -> String {
    format!("{user} {at} {block} {name}")
}

impl Workspace {
    /// Somebody presses the button with this name or label, and says yes if that
    /// asks whether they are sure; the trigger.
    pub fn presses(&self, user: &str, channel: &str, ts: &str, what: &str) -> String {
        self.with(|world| {
            let shown = world.found(channel, ts);
            world.act(user, channel, &shown, what, None)
        })
    }

    /// Somebody presses on what they still see of a message, though it may be
    /// another one by now; the trigger.
    pub fn presses_on(&self, user: &str, channel: &str, shown: &Shown, what: &str) -> String {
        self.with(|world| world.act(user, channel, shown, what, None))
    }

    /// Somebody chooses a value of a menu or a list; the trigger.
    pub fn selects(&self, user: &str, channel: &str, ts: &str, what: &str, value: &str) -> String {
        self.with(|world| {
            let shown = world.found(channel, ts);
            world.act(user, channel, &shown, what, Some(value))
        })
    }

    /// Somebody presses a button, or chooses, in the dialog before them; the
    /// trigger.
    pub fn presses_in_modal(&self, user: &str, what: &str, value: Option<&str>) -> String {
        self.with(|world| {
            let modal = world.modals.iter().rev().find(|modal| modal.user == user && modal.is_open);
            let view = modal.expect("a dialog").view.clone();
            let blocks = view["blocks"].as_array().cloned().unwrap_or_default();
            let found = control(&blocks, what);
            let (block, element) = found.unwrap_or_else(|| panic!("{what:?} is not on {view:#?}"));
            let chosen = value.map(|value| choice(element, value));
            let action = world.action(block, element, chosen);
            let id = view["id"].as_str().unwrap_or_default().to_owned();
            let trigger = world.trigger(user, Some(&id));
            let mut payload = json!({
                "type": "block_actions", "user": world.actor(user), "trigger_id": trigger,
                "container": { "type": "view", "view_id": id }, "view": view, "actions": [action],
            });
            world.stamp(&mut payload);
            world.send(Outgoing::first(Route::Interactive, payload, After::Nothing, false));
            trigger
        })
    }

    /// Somebody gives a slash command; the trigger.
    pub fn commands(&self, user: &str, channel: &str, command: &str, text: &str) -> String {
        self.with(|world| {
            world.know(user);
            let trigger = world.trigger(user, None);
            let hook = world.hook("commands", channel, user, None);
            let place = world.place_json(channel);
            let mut payload = json!({
                "token": "stand-in", "team_id": TEAM_ID, "team_domain": DOMAIN,
                "channel_id": channel, "channel_name": place["name"], "user_id": user,
                "user_name": world.users[user].name, "command": command, "text": text,
                "api_app_id": APP_ID, "is_enterprise_install": world.settings.is_org_wide.to_string(),
                "response_url": world.hook_url(&hook), "trigger_id": trigger,
            });
            if let Some(enterprise) = &world.settings.enterprise {
                payload["enterprise_id"] = enterprise.as_str().into();
                payload["enterprise_name"] = "The organisation".into();
            }
            let after = After::Command { channel: channel.to_owned(), user: user.to_owned() };
            world.send(Outgoing::first(Route::Commands, payload, after, false));
            trigger
        })
    }
}
