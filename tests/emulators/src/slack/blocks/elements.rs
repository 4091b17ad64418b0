//! What stands in blocks and can be pressed, chosen or filled in.

use serde_json::{Map, Value};

use crate::slack::blocks::Check;

/// What an element stands in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    Actions,
    Section,
    Input,
}

const SELECTS: &[&str] = &[
    "static_select",
    "external_select",
    "users_select",
    "conversations_select",
    "channels_select",
];

const MULTI_SELECTS: &[&str] = &[
    "multi_static_select",
    "multi_external_select",
    "multi_users_select",
    "multi_conversations_select",
    "multi_channels_select",
];

const PICKERS: &[&str] = &["datepicker", "timepicker", "checkboxes", "radio_buttons"];

const FIELDS_TO_FILL: &[&str] = &[
    "plain_text_input",
    "email_text_input",
    "url_text_input",
    "number_input",
    "rich_text_input",
    "file_input",
];

impl Within {
    fn takes(self, kind: &str) -> bool {
        if SELECTS.contains(&kind) || PICKERS.contains(&kind) {
            return true;
        }
        match self {
            Self::Actions => ["button", "overflow", "datetimepicker"].contains(&kind),
            Self::Section => {
                ["button", "overflow", "image"].contains(&kind) || MULTI_SELECTS.contains(&kind)
            }
            Self::Input => {
                kind == "datetimepicker"
                    || MULTI_SELECTS.contains(&kind)
                    || FIELDS_TO_FILL.contains(&kind)
            }
        }
    }
}

impl Check {
    pub(super) fn element(&mut self, element: &Value, at: &str, within: Within) {
        let Some(kind) = element.get("type").and_then(Value::as_str) else {
            let is_object = element.is_object();
            let words =
                if is_object { "missing required field: type" } else { "must provide an object" };
            self.fault(at, words);
            return;
        };
        if !within.takes(kind) {
            self.fault(&format!("{at}/type"), &format!("unsupported type: {kind}"));
            return;
        }
        self.action_id(element, at);
        match kind {
            "button" => self.button(element, at),
            "image" => self.image(element, at, false),
            "overflow" => {
                let fields = self.object(element, at, &["options"], &["action_id", "confirm"]);
                if let Some(fields) = fields {
                    self.confirm(fields, at);
                    self.options(&element["options"], &format!("{at}/options"), 5, true);
                }
            }
            "checkboxes" | "radio_buttons" => self.boxes(element, at),
            "datepicker" => self.picker(element, at, "initial_date"),
            "timepicker" => self.picker(element, at, "initial_time"),
            "datetimepicker" => self.picker(element, at, "initial_date_time"),
            _ if SELECTS.contains(&kind) || MULTI_SELECTS.contains(&kind) => {
                self.select(element, kind, at);
            }
            _ => self.field(element, kind, at),
        }
    }

    /// Two elements of a block never have the same name.
    fn action_id(&mut self, element: &Value, at: &str) {
        let at = format!("{at}/action_id");
        self.string(element.get("action_id"), &at, 1, 255);
        let Some(id) = element["action_id"].as_str() else { return };
        if !self.action_ids.insert(id.to_owned()) {
            self.fault(&at, &format!("action_id \"{id}\" already exists in the block"));
        }
    }

    fn button(&mut self, button: &Value, at: &str) {
        let allowed = ["action_id", "url", "value", "style", "confirm", "accessibility_label"];
        let Some(fields) = self.object(button, at, &["text"], &allowed) else { return };
        self.text(fields.get("text"), &format!("{at}/text"), 75, true);
        self.string(fields.get("value"), &format!("{at}/value"), 0, 2_000);
        self.string(fields.get("url"), &format!("{at}/url"), 1, 3_000);
        let label = fields.get("accessibility_label");
        self.string(label, &format!("{at}/accessibility_label"), 1, 75);
        self.word(fields, "style", at, &["primary", "danger"]);
        self.confirm(fields, at);
    }

    fn confirm(&mut self, fields: &Map<String, Value>, at: &str) {
        let Some(confirm) = fields.get("confirm") else { return };
        let at = format!("{at}/confirm");
        let needed = ["title", "text", "confirm", "deny"];
        let Some(fields) = self.object(confirm, &at, &needed, &["style"]) else { return };
        self.text(fields.get("title"), &format!("{at}/title"), 100, true);
        self.text(fields.get("text"), &format!("{at}/text"), 300, false);
        self.text(fields.get("confirm"), &format!("{at}/confirm"), 30, true);
        self.text(fields.get("deny"), &format!("{at}/deny"), 30, true);
        self.word(fields, "style", &at, &["primary", "danger"]);
    }

    fn options(&mut self, options: &Value, at: &str, most: usize, has_url: bool) {
        for (index, option) in self.array(options, at, 1, most).iter().enumerate() {
            self.option(option, &format!("{at}/{index}"), has_url, true);
        }
    }

    fn option(&mut self, option: &Value, at: &str, has_url: bool, is_plain: bool) {
        let allowed: &[&str] = if has_url { &["description", "url"] } else { &["description"] };
        let Some(fields) = self.object(option, at, &["text", "value"], allowed) else { return };
        self.text(fields.get("text"), &format!("{at}/text"), 75, is_plain);
        self.string(fields.get("value"), &format!("{at}/value"), 1, 150);
        self.text(fields.get("description"), &format!("{at}/description"), 75, is_plain);
        self.string(fields.get("url"), &format!("{at}/url"), 1, 3_000);
    }

    fn boxes(&mut self, element: &Value, at: &str) {
        let allowed =
            ["action_id", "initial_option", "initial_options", "confirm", "focus_on_load"];
        let Some(fields) = self.object(element, at, &["options"], &allowed) else { return };
        self.confirm(fields, at);
        let at = format!("{at}/options");
        for (index, option) in self.array(&element["options"], &at, 1, 10).iter().enumerate() {
            self.option(option, &format!("{at}/{index}"), false, false);
        }
    }

    fn picker(&mut self, element: &Value, at: &str, initial: &str) {
        let allowed = ["action_id", "placeholder", "confirm", "focus_on_load", "timezone", initial];
        let Some(fields) = self.object(element, at, &[], &allowed) else { return };
        self.text(fields.get("placeholder"), &format!("{at}/placeholder"), 150, true);
        self.confirm(fields, at);
    }

    fn select(&mut self, element: &Value, kind: &str, at: &str) {
        let mut allowed = vec!["action_id", "placeholder", "confirm", "focus_on_load"];
        let is_static = kind.ends_with("static_select");
        if kind.starts_with("multi_") {
            allowed.push("max_selected_items");
        } else {
            allowed.push("response_url_enabled");
        }
        allowed.extend(match kind.strip_prefix("multi_").unwrap_or(kind) {
            "static_select" => {
                &["options", "option_groups", "initial_option", "initial_options"][..]
            }
            "external_select" => &["min_query_length", "initial_option", "initial_options"],
            "users_select" => &["initial_user", "initial_users"],
            "conversations_select" => &[
                "initial_conversation",
                "initial_conversations",
                "default_to_current_conversation",
                "filter",
            ],
            _ => &["initial_channel", "initial_channels"],
        });
        let Some(fields) = self.object(element, at, &[], &allowed) else { return };
        self.text(fields.get("placeholder"), &format!("{at}/placeholder"), 150, true);
        self.confirm(fields, at);
        if !is_static {
            return;
        }
        if fields.contains_key("options") == fields.contains_key("option_groups") {
            self.fault(at, "must provide either options or option_groups");
        }
        if let Some(options) = fields.get("options") {
            self.options(options, &format!("{at}/options"), 100, false);
        }
        if let Some(groups) = fields.get("option_groups") {
            let at = format!("{at}/option_groups");
            for (index, group) in self.array(groups, &at, 1, 100).iter().enumerate() {
                let at = format!("{at}/{index}");
                if self.object(group, &at, &["label", "options"], &[]).is_some() {
                    self.text(group.get("label"), &format!("{at}/label"), 75, true);
                    self.options(&group["options"], &format!("{at}/options"), 100, false);
                }
            }
        }
        self.initial(fields, at);
    }

    /// What is chosen at first is one of the options, to the letter.
    fn initial(&mut self, fields: &Map<String, Value>, at: &str) {
        let Some(initial) = fields.get("initial_option") else { return };
        let at = format!("{at}/initial_option");
        self.option(initial, &at, false, true);
        let grouped = fields.get("option_groups").and_then(Value::as_array).into_iter().flatten();
        let grouped = grouped.filter_map(|group| group["options"].as_array()).flatten();
        let plain = fields.get("options").and_then(Value::as_array).into_iter().flatten();
        if !plain.chain(grouped).any(|option| option["value"] == initial["value"]) {
            self.fault(&at, "must be one of the provided options");
        }
    }

    fn field(&mut self, element: &Value, kind: &str, at: &str) {
        let mut allowed = vec!["action_id", "focus_on_load", "dispatch_action_config"];
        allowed.extend(match kind {
            "plain_text_input" => {
                &["initial_value", "multiline", "min_length", "max_length", "placeholder"][..]
            }
            "number_input" => {
                &["is_decimal_allowed", "initial_value", "min_value", "max_value", "placeholder"]
            }
            "file_input" => &["filetypes", "max_files"],
            _ => &["initial_value", "placeholder"],
        });
        let Some(fields) = self.object(element, at, &[], &allowed) else { return };
        self.text(fields.get("placeholder"), &format!("{at}/placeholder"), 150, true);
        if kind == "plain_text_input" {
            self.string(fields.get("initial_value"), &format!("{at}/initial_value"), 0, 3_000);
            self.boolean(fields, "multiline", at);
            for (name, least) in [("min_length", 0), ("max_length", 1)] {
                let Some(length) = fields.get(name).filter(|length| !length.is_null()) else {
                    continue;
                };
                if !length.as_u64().is_some_and(|length| (least..=3_000).contains(&length)) {
                    let words = format!("must be between {least} and 3000");
                    self.fault(&format!("{at}/{name}"), &words);
                }
            }
        }
    }
}
