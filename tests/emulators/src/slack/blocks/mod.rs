//! What Slack takes as blocks, and with which words it refuses the rest.

mod dress;
mod elements;
mod rich;

use std::collections::HashSet;

use serde_json::{Map, Value};

pub(super) use dress::{dress, dress_view};

/// Blocks of a message.
const MOST_IN_MESSAGE: usize = 50;
/// Blocks of a view.
const MOST_IN_VIEW: usize = 100;
/// Characters over all blocks of a message; not documented, and real.
const MOST_CHARACTERS: usize = 13_200;

/// Where the blocks are to stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Surface {
    Message,
    View,
}

/// Goes over a structure and notes what is wrong with it, each with a pointer.
pub(super) struct Check {
    surface: Surface,
    block_ids: HashSet<String>,
    action_ids: HashSet<String>,
    found: Vec<String>,
}

/// Checks the blocks of a message.
pub(super) fn check_message(blocks: &[Value]) -> Vec<String> {
    let mut check = Check::new(Surface::Message);
    check.blocks(blocks, "/blocks");
    check.found
}

/// Whether the blocks of a message hold more text than fits, however it is spread.
pub(super) fn is_too_long(blocks: &[Value]) -> bool {
    blocks.iter().map(characters).sum::<usize>() > MOST_CHARACTERS
}

fn characters(value: &Value) -> usize {
    match value {
        Value::Array(all) => all.iter().map(characters).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| match value {
                Value::String(text) if name == "text" => text.chars().count(),
                _ => characters(value),
            })
            .sum(),
        _ => 0,
    }
}

/// Checks a view.
pub(super) fn check_view(view: &Value) -> Vec<String> {
    let mut check = Check::new(Surface::View);
    check.view(view);
    check.found
}

impl Check {
    fn new(surface: Surface) -> Self {
        Self { surface, block_ids: HashSet::new(), action_ids: HashSet::new(), found: Vec::new() }
    }

    fn fault(&mut self, at: &str, words: &str) {
        self.found.push(format!("{words} [json-pointer:{at}]"));
    }

    /// An object that has these fields and no others.
    fn object<'a>(
        &mut self,
        value: &'a Value,
        at: &str,
        needed: &[&str],
        allowed: &[&str],
    ) -> Option<&'a Map<String, Value>> {
        let Some(fields) = value.as_object() else {
            self.fault(at, "must provide an object");
            return None;
        };
        for name in needed {
            if fields.get(*name).is_none_or(Value::is_null) {
                self.fault(at, &format!("missing required field: {name}"));
            }
        }
        for name in fields.keys() {
            let is_known = name == "type" || needed.contains(&name.as_str());
            if !is_known && !allowed.contains(&name.as_str()) {
                self.fault(at, &format!("invalid additional property: {name}"));
            }
        }
        Some(fields)
    }

    /// The entries of an array of a length within these bounds.
    fn array<'a>(&mut self, value: &'a Value, at: &str, least: usize, most: usize) -> &'a [Value] {
        let Some(entries) = value.as_array() else {
            self.fault(at, "must provide an array");
            return &[];
        };
        if entries.len() < least {
            let s = if least == 1 { "" } else { "s" };
            self.fault(at, &format!("no fewer than {least} item{s} required"));
        }
        if entries.len() > most {
            self.fault(at, &format!("no more than {most} items allowed"));
        }
        entries
    }

    /// A string of a length within these bounds; absence is somebody else's.
    fn string(&mut self, value: Option<&Value>, at: &str, least: usize, most: usize) {
        let Some(value) = value.filter(|value| !value.is_null()) else { return };
        let Some(text) = value.as_str() else {
            self.fault(at, "must provide a string");
            return;
        };
        let length = text.chars().count();
        if length < least {
            self.fault(at, &format!("must be more than {} characters", least - 1));
        } else if length > most {
            self.fault(at, &format!("must be less than {} characters", most + 1));
        }
    }

    fn boolean(&mut self, fields: &Map<String, Value>, name: &str, at: &str) {
        if fields.get(name).is_some_and(|value| !value.is_boolean() && !value.is_null()) {
            self.fault(&format!("{at}/{name}"), "must provide a boolean");
        }
    }

    /// One of these words.
    fn word(&mut self, fields: &Map<String, Value>, name: &str, at: &str, words: &[&str]) {
        let Some(value) = fields.get(name).filter(|value| !value.is_null()) else { return };
        if !value.as_str().is_some_and(|word| words.contains(&word)) {
            self.fault(&format!("{at}/{name}"), "must be a valid enum value");
        }
    }

    /// A text object; with `is_plain` none that holds markup.
    fn text(&mut self, value: Option<&Value>, at: &str, most: usize, is_plain: bool) {
        let Some(value) = value.filter(|value| !value.is_null()) else { return };
        let before = self.found.len();
        let kind = value["type"].as_str().unwrap_or_default();
        let fields = match kind {
            "plain_text" => self.object(value, at, &["text"], &["emoji"]),
            "mrkdwn" if !is_plain => self.object(value, at, &["text"], &["verbatim"]),
            _ if !value.is_object() => {
                self.fault(at, "must provide an object");
                None
            }
            _ if kind.is_empty() => {
                self.fault(at, "missing required field: type");
                None
            }
            "mrkdwn" => {
                self.fault(&format!("{at}/type"), "must be a valid enum value");
                None
            }
            other => {
                self.fault(&format!("{at}/type"), &format!("unsupported type: {other}"));
                None
            }
        };
        if let Some(fields) = fields {
            self.string(fields.get("text"), &format!("{at}/text"), 1, most);
            self.boolean(fields, "emoji", at);
            self.boolean(fields, "verbatim", at);
        }
        // Where several schemas would do, Slack says that none of them did.
        if self.found.len() > before && !is_plain {
            self.fault(at, "failed to match all allowed schemas");
        }
    }

    fn blocks(&mut self, blocks: &[Value], at: &str) {
        let most = match self.surface {
            Surface::Message => MOST_IN_MESSAGE,
            Surface::View => MOST_IN_VIEW,
        };
        if blocks.len() > most {
            self.fault(at, &format!("no more than {most} items allowed"));
        }
        let mut markdown = 0;
        for (index, block) in blocks.iter().enumerate() {
            self.action_ids.clear();
            self.block(block, &format!("{at}/{index}"));
            if block["type"] == "markdown" {
                markdown += block["text"].as_str().unwrap_or_default().chars().count();
            }
        }
        if markdown > 12_000 {
            self.fault(at, "markdown text must be less than 12001 characters");
        }
    }

    fn block(&mut self, block: &Value, at: &str) {
        let Some(kind) = block.get("type").and_then(Value::as_str) else {
            let words = if block.is_object() {
                "missing required field: type"
            } else {
                "must provide an object"
            };
            self.fault(at, words);
            return;
        };
        self.block_id(block, at);
        match kind {
            "section" => self.section(block, at),
            "divider" => _ = self.object(block, at, &[], &["block_id"]),
            "header" => {
                let fields = self.object(block, at, &["text"], &["block_id"]);
                let text = fields.and_then(|fields| fields.get("text"));
                self.text(text, &format!("{at}/text"), 150, true);
            }
            "context" => self.context(block, at),
            "actions" => {
                if self.object(block, at, &["elements"], &["block_id"]).is_some() {
                    let at = format!("{at}/elements");
                    for (index, element) in
                        self.array(&block["elements"], &at, 1, 25).iter().enumerate()
                    {
                        self.element(element, &format!("{at}/{index}"), elements::Within::Actions);
                    }
                }
            }
            "input" => self.input(block, at),
            "image" => self.image(block, at, true),
            "rich_text" => {
                if self.object(block, at, &["elements"], &["block_id"]).is_some() {
                    self.rich_text(&block["elements"], &format!("{at}/elements"));
                }
            }
            "markdown" if self.surface == Surface::Message => {
                _ = self.object(block, at, &["text"], &["block_id"]);
                self.string(block.get("text"), &format!("{at}/text"), 1, 12_000);
            }
            other => self.fault(&format!("{at}/type"), &format!("unsupported type: {other}")),
        }
    }

    fn block_id(&mut self, block: &Value, at: &str) {
        self.string(block.get("block_id"), &format!("{at}/block_id"), 0, 255);
        let Some(id) = block["block_id"].as_str().filter(|id| !id.is_empty()) else { return };
        if !self.block_ids.insert(id.to_owned()) {
            self.fault(
                &format!("{at}/block_id"),
                &format!("block_id \"{id}\" already exists in the list of blocks"),
            );
        }
    }

    fn section(&mut self, block: &Value, at: &str) {
        let allowed = ["block_id", "text", "fields", "accessory", "expand"];
        let Some(fields) = self.object(block, at, &[], &allowed) else { return };
        if !fields.contains_key("text") && !fields.contains_key("fields") {
            self.fault(at, "missing required field: fields");
            self.fault(at, "missing required field: text");
        }
        self.text(fields.get("text"), &format!("{at}/text"), 3_000, false);
        self.boolean(fields, "expand", at);
        if let Some(entries) = fields.get("fields") {
            let at = format!("{at}/fields");
            for (index, entry) in self.array(entries, &at, 1, 10).iter().enumerate() {
                self.text(Some(entry), &format!("{at}/{index}"), 2_000, false);
            }
        }
        if let Some(accessory) = fields.get("accessory") {
            self.element(accessory, &format!("{at}/accessory"), elements::Within::Section);
        }
    }

    fn context(&mut self, block: &Value, at: &str) {
        if self.object(block, at, &["elements"], &["block_id"]).is_none() {
            return;
        }
        let at = format!("{at}/elements");
        for (index, element) in self.array(&block["elements"], &at, 1, 10).iter().enumerate() {
            let at = format!("{at}/{index}");
            if element["type"] == "image" {
                self.image(element, &at, false);
            } else {
                self.text(Some(element), &at, 3_000, false);
            }
        }
    }

    fn image(&mut self, image: &Value, at: &str, is_block: bool) {
        let allowed: &[&str] = if is_block {
            &["block_id", "image_url", "slack_file", "title"]
        } else {
            &["image_url", "slack_file"]
        };
        let Some(fields) = self.object(image, at, &["alt_text"], allowed) else { return };
        if fields.contains_key("image_url") == fields.contains_key("slack_file") {
            self.fault(at, "must provide either image_url or slack_file");
        }
        self.string(fields.get("image_url"), &format!("{at}/image_url"), 1, 3_000);
        self.string(fields.get("alt_text"), &format!("{at}/alt_text"), 1, 2_000);
        self.text(fields.get("title"), &format!("{at}/title"), 2_000, true);
    }

    fn input(&mut self, block: &Value, at: &str) {
        let allowed = ["block_id", "hint", "optional", "dispatch_action"];
        let Some(fields) = self.object(block, at, &["label", "element"], &allowed) else { return };
        self.text(fields.get("label"), &format!("{at}/label"), 2_000, true);
        self.text(fields.get("hint"), &format!("{at}/hint"), 2_000, true);
        self.boolean(fields, "optional", at);
        self.boolean(fields, "dispatch_action", at);
        if let Some(element) = fields.get("element") {
            self.element(element, &format!("{at}/element"), elements::Within::Input);
        }
    }

    fn view(&mut self, view: &Value) {
        let at = "/view";
        let allowed = [
            "title",
            "close",
            "submit",
            "private_metadata",
            "callback_id",
            "clear_on_close",
            "notify_on_close",
            "external_id",
            "submit_disabled",
        ];
        let needed: &[&str] = if view["type"] == "modal" {
            &["type", "title", "blocks"]
        } else {
            &["type", "blocks"]
        };
        let Some(fields) = self.object(view, at, needed, &allowed) else { return };
        self.word(fields, "type", at, &["modal", "home"]);
        for name in ["title", "close", "submit"] {
            self.text(fields.get(name), &format!("{at}/{name}"), 24, true);
        }
        for (name, most) in
            [("private_metadata", 3_000), ("callback_id", 255), ("external_id", 255)]
        {
            self.string(fields.get(name), &format!("{at}/{name}"), 0, most);
        }
        for name in ["clear_on_close", "notify_on_close", "submit_disabled"] {
            self.boolean(fields, name, at);
        }
        let Some(blocks) = fields.get("blocks") else { return };
        if let Some(blocks) = blocks.as_array() {
            self.blocks(blocks, "/view/blocks");
            let takes_input = blocks.iter().any(|block| block["type"] == "input");
            if takes_input && view["type"] == "modal" && !fields.contains_key("submit") {
                self.fault(at, "missing required field: submit");
            }
        } else {
            self.fault("/view/blocks", "must provide an array");
        }
    }
}
