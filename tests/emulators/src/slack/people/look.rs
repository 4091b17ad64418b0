//! What people see, and what went over the wire for it.

use std::time::Duration;

use serde_json::Value;

use crate::slack::people::taps::controls;
use crate::slack::state::{Button, Call, Ephemeral, Modal, Shown, Upload, User};
use crate::slack::{Delivery, Workspace};

/// What stands on a control.
pub(super) fn label(element: &Value) -> String {
    let text = element["text"]["text"].as_str().or_else(|| element["placeholder"]["text"].as_str());
    plain(text.unwrap_or_default())
}

/// Text as it is shown: signs that were written out are signs again.
fn plain(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

/// Marked-up text as it is shown: people by name, links with where they lead.
fn shown_markup(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        out.push_str(&plain(before));
        let Some((inside, after)) = after.split_once('>') else {
            out.push('<');
            rest = after;
            continue;
        };
        let (target, name) = inside.split_once('|').unwrap_or((inside, ""));
        match (target.strip_prefix('!'), name) {
            (Some(group), "") => out.extend(["@", group]),
            (_, "") => out.push_str(&plain(target)),
            (_, name) => out.push_str(&plain(&format!("{name} ({target})"))),
        }
        rest = after;
    }
    out.push_str(&plain(rest));
    out
}

fn text_object(text: &Value) -> String {
    let words = text["text"].as_str().unwrap_or_default();
    if text["type"] == "mrkdwn" { shown_markup(words) } else { plain(words) }
}

/// A block in words, without its controls.
fn block_text(block: &Value) -> String {
    let each = |name: &str| -> Vec<String> {
        let entries = block[name].as_array().into_iter().flatten();
        entries
            .map(|entry| if entry["type"] == "image" { String::new() } else { text_object(entry) })
            .collect()
    };
    match block["type"].as_str().unwrap_or_default() {
        "section" => {
            let mut lines = vec![text_object(&block["text"])];
            lines.extend(each("fields"));
            lines.retain(|line| !line.is_empty());
            lines.join("\n")
        }
        "header" => text_object(&block["text"]),
        "markdown" => block["text"].as_str().unwrap_or_default().to_owned(),
        "context" => each("elements").join(" "),
        "input" => text_object(&block["label"]),
        "image" => block["alt_text"].as_str().unwrap_or_default().to_owned(),
        "divider" => "---".to_owned(),
        "rich_text" => rich(block),
        _ => String::new(),
    }
}

fn rich(part: &Value) -> String {
    let inner = || part["elements"].as_array().into_iter().flatten().map(rich);
    match part["type"].as_str().unwrap_or_default() {
        "rich_text" | "rich_text_list" => inner().collect::<Vec<_>>().join("\n"),
        "rich_text_section" | "rich_text_quote" | "rich_text_preformatted" => inner().collect(),
        "text" => part["text"].as_str().unwrap_or_default().to_owned(),
        "link" => match (part["text"].as_str(), part["url"].as_str()) {
            (Some(text), Some(url)) => format!("{text} ({url})"),
            (_, url) => url.unwrap_or_default().to_owned(),
        },
        "user" => format!("@{}", part["user_id"].as_str().unwrap_or_default()),
        "channel" => format!("#{}", part["channel_id"].as_str().unwrap_or_default()),
        "broadcast" => format!("@{}", part["range"].as_str().unwrap_or_default()),
        "emoji" => format!(":{}:", part["name"].as_str().unwrap_or_default()),
        _ => String::new(),
    }
}

/// Blocks in words.
fn blocks_text(blocks: &[Value]) -> String {
    let lines: Vec<String> =
        blocks.iter().map(block_text).filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

fn buttons(blocks: &[Value]) -> Vec<Button> {
    let all = controls(blocks).map(|(_, element)| Button {
        label: label(element),
        action_id: element["action_id"].as_str().unwrap_or_default().to_owned(),
        value: element["value"].as_str().unwrap_or_default().to_owned(),
    });
    all.collect()
}

impl Shown {
    /// The buttons and other controls, in order.
    pub fn buttons(&self) -> Vec<Button> {
        buttons(&self.blocks)
    }

    /// What a person reads: the blocks if there are some, and otherwise the text.
    pub fn read(&self) -> String {
        let blocks = blocks_text(&self.blocks);
        if self.blocks.is_empty() { shown_markup(&self.text) } else { blocks }
    }

    /// Whether it was written by our bot.
    pub fn is_ours(&self) -> bool {
        self.bot_id.as_deref() == Some(crate::slack::BOT_ID)
    }
}

impl Modal {
    /// What a person reads in it.
    pub fn read(&self) -> String {
        let blocks = self.view["blocks"].as_array().cloned().unwrap_or_default();
        format!("{}\n{}", text_object(&self.view["title"]), blocks_text(&blocks))
    }
}

impl Workspace {
    /// What stands in a conversation, in order, with threads in between.
    pub fn chat(&self, channel: &str) -> Vec<Shown> {
        let world = self.shared.world();
        let place = world.places.get(channel).map(|place| place.messages.values().cloned());
        place.into_iter().flatten().collect()
    }

    /// What was shown to single people.
    pub fn ephemerals(&self) -> Vec<Ephemeral> {
        self.shared.world().ephemerals.clone()
    }

    /// Every dialog there was.
    pub fn modals(&self) -> Vec<Modal> {
        self.shared.world().modals.clone()
    }

    /// Every file that was announced.
    pub fn files(&self) -> Vec<Upload> {
        self.shared.world().uploads.clone()
    }

    /// What stood under the input line: conversation, thread, words.
    pub fn statuses(&self) -> Vec<(String, String, String)> {
        self.shared.world().statuses.clone()
    }

    /// The calls that the bot made.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.world().calls.clone()
    }

    /// The envelopes that were acknowledged, in order, also such as were not sent
    /// or whose time was over.
    pub fn acked(&self) -> Vec<String> {
        self.shared.world().acked.clone()
    }

    /// Every attempt to deliver something.
    pub fn deliveries(&self) -> Vec<Delivery> {
        self.shared.world().deliveries.clone()
    }

    /// Everybody with an account.
    pub fn users(&self) -> Vec<User> {
        self.shared.world().users.values().cloned().collect()
    }

    /// Waits until `holds` is true of what the people see; fails after 20 s.
    pub async fn until<T>(&self, holds: impl Fn(&Self) -> Option<T>) -> T {
        let wait = async {
            loop {
                if let Some(found) = holds(self) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(20), wait).await;
        waited.unwrap_or_else(|_| panic!("it becomes true in time: {:#?}", self.transcript()))
    }

    /// Every conversation as its people see it, then what single people see.
    pub fn transcript(&self) -> Vec<String> {
        let world = self.shared.world();
        let mut lines = Vec::new();
        for place in world.places.values() {
            lines.extend(place.messages.values().map(|shown| line(&place.id, shown)));
        }
        for ephemeral in &world.ephemerals {
            let line = line(&ephemeral.channel, &ephemeral.shown);
            lines.push(format!("only {}: {line}", ephemeral.user));
        }
        for modal in world.modals.iter().filter(|modal| modal.is_open) {
            lines.push(format!("dialog of {}: {} {:?}", modal.user, modal.read(), modal.errors));
        }
        lines
    }
}

fn line(channel: &str, shown: &Shown) -> String {
    let who = match &shown.bot_id {
        _ if shown.is_ours() => "bot",
        Some(bot) if shown.user.is_empty() => bot,
        _ => &shown.user,
    };
    let thread = shown.thread_ts.as_ref().filter(|thread| **thread != shown.ts);
    let thread = thread.map(|thread| format!(" in {thread}")).unwrap_or_default();
    let labels: Vec<String> = shown.buttons().into_iter().map(|button| button.label).collect();
    let reactions: Vec<&str> = shown.reactions.iter().map(|(name, _)| name.as_str()).collect();
    format!("{channel} {}{thread} {who}: {} {labels:?} {reactions:?}", shown.ts, shown.read())
}
