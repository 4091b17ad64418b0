//! Messages: posted, changed, taken back.

use serde_json::{Value, json};

use crate::slack::blocks;
use crate::slack::state::{Ephemeral, Place, Refusal, Shown, World};
use crate::slack::web::{
    Outcome, Parameters, flag, is_ts, missing, needed, structure, text, visible, warn,
};
use crate::slack::{BOT_USER, DOMAIN, shapes};

/// Characters of a text, from where on the rest is thrown away.
const MOST_TEXT: usize = 40_000;
/// Characters of a text that replaces another.
const MOST_NEW_TEXT: usize = 4_000;
/// Bytes of data that go with a message.
const MOST_METADATA: usize = 16_000;

/// What a message is to consist of.
#[derive(Default)]
pub(in crate::slack) struct Content {
    pub(in crate::slack) text: Option<String>,
    pub(in crate::slack) blocks: Option<Vec<Value>>,
    pub(in crate::slack) attachments: Option<Vec<Value>>,
    metadata: Option<Value>,
    is_truncated: bool,
}

impl Content {
    /// Whether nothing of it would be seen.
    pub(in crate::slack) fn is_empty(&self) -> bool {
        self.text.as_deref().unwrap_or_default().is_empty()
            && self.blocks.as_deref().unwrap_or_default().is_empty()
            && self.attachments.as_deref().unwrap_or_default().is_empty()
    }

    /// Puts what was given into a message.
    pub(in crate::slack) fn fill(self, shown: &mut Shown) {
        shown.text = self.text.unwrap_or_default();
        shown.blocks = self.blocks.unwrap_or_default();
        shown.attachments = self.attachments.unwrap_or_default();
        shown.metadata = self.metadata;
    }
}

/// Takes a message's parts out of the parameters, or says what is wrong.
pub(in crate::slack) fn checked_content(
    world: &mut World,
    parameters: &Parameters,
) -> Result<Content, Refusal> {
    let mut content = Content::default();
    if let Some(markdown) = text(parameters, "markdown_text") {
        if parameters.contains_key("text") || parameters.contains_key("blocks") {
            return Err(Refusal::new("markdown_text_conflict"));
        }
        if markdown.chars().count() > 12_000 {
            return Err(Refusal::new("msg_too_long"));
        }
        content.text = Some(encoded(markdown));
    }
    if let Some(text) = parameters.get("text").and_then(Value::as_str) {
        let whole = encoded(text);
        content.is_truncated = whole.chars().count() > MOST_TEXT;
        content.text = Some(whole.chars().take(MOST_TEXT).collect());
    }
    content.blocks = checked_blocks(world, parameters)?;
    match structure(parameters, "attachments") {
        Ok(None) => {}
        Ok(Some(Value::Array(attachments))) if attachments.len() <= 100 => {
            content.attachments = Some(attachments);
        }
        Ok(Some(Value::Array(_))) => return Err(Refusal::new("too_many_attachments")),
        _ => return Err(Refusal::new("invalid_attachments")),
    }
    content.metadata = checked_metadata(parameters)?;
    Ok(content)
}

fn checked_blocks(
    world: &mut World,
    parameters: &Parameters,
) -> Result<Option<Vec<Value>>, Refusal> {
    let mut blocks = match structure(parameters, "blocks") {
        Ok(None) => return Ok(None),
        Ok(Some(Value::Array(blocks))) => blocks,
        _ => return Err(Refusal::new("invalid_blocks_format")),
    };
    let found = blocks::check_message(&blocks);
    if !found.is_empty() {
        return Err(Refusal::explained("invalid_blocks", found));
    }
    if blocks::is_too_long(&blocks) {
        return Err(Refusal::new("msg_blocks_too_long"));
    }
    blocks::dress(&mut blocks, || world.next_id("b"));
    Ok(Some(blocks))
}

fn checked_metadata(parameters: &Parameters) -> Result<Option<Value>, Refusal> {
    let metadata = structure(parameters, "metadata");
    let metadata = metadata.map_err(|()| Refusal::new("invalid_metadata_format"))?;
    let Some(metadata) = metadata else { return Ok(None) };
    // An empty one takes the old one away.
    let is_empty = metadata.as_object().is_some_and(serde_json::Map::is_empty);
    let is_whole = metadata["event_type"].is_string() && metadata["event_payload"].is_object();
    if !is_whole && !is_empty {
        return Err(Refusal::new("invalid_metadata_format"));
    }
    if metadata.to_string().len() > MOST_METADATA {
        return Err(Refusal::new("metadata_too_large"));
    }
    Ok(Some(metadata))
}

/// Text as Slack keeps it: what is no markup and looks like it is escaped.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let after = rest.get(c.len_utf8()..).unwrap_or_default();
        let is_entity = ["amp;", "lt;", "gt;"].iter().any(|name| after.starts_with(name));
        let markup = after
            .split_once('>')
            .filter(|(inside, _)| c == '<' && !inside.is_empty() && !inside.contains(['<', '\n']));
        if let Some((inside, beyond)) = markup {
            out.extend(["<", inside, ">"]);
            rest = beyond;
            continue;
        }
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' if !is_entity => out.push_str("&amp;"),
            c => out.push(c),
        }
        rest = after;
    }
    out
}

/// Finds where a message may go: a conversation, a public channel's name, or a
/// person whose direct conversation it then is.
fn destination(world: &mut World, parameters: &Parameters) -> Result<String, Refusal> {
    let asked = text(parameters, "channel").ok_or_else(|| Refusal::new("channel_not_found"))?;
    let is_person = world.users.get(asked).is_some_and(|user| !user.is_bot && !user.is_deleted);
    let id = if is_person {
        world.im(BOT_USER, asked)
    } else {
        let name = asked.trim_start_matches('#');
        let known = world.places.values().find(|p| p.id == asked || p.name == name);
        known.filter(|_| !name.is_empty()).map(|p| p.id.clone()).unwrap_or_default()
    };
    let place = world.places.get(&id).filter(|place| place.is_visible());
    let place = place.ok_or_else(|| Refusal::new("channel_not_found"))?;
    if place.is_archived {
        return Err(Refusal::new("is_archived"));
    }
    if !place.has_bot() {
        return Err(Refusal::new("not_in_channel"));
    }
    Ok(id)
}

pub(super) fn post(world: &mut World, parameters: &Parameters) -> Outcome {
    let channel = destination(world, parameters)?;
    let content = checked_content(world, parameters)?;
    if content.is_empty() {
        return Err(Refusal::new("no_text"));
    }
    let is_truncated = content.is_truncated;
    let mut shown = world.bots_own();
    content.fill(&mut shown);
    shown.metadata.take_if(|metadata| metadata.as_object().is_some_and(serde_json::Map::is_empty));
    shown.thread_ts = thread(&world.places[&channel], parameters)?;
    if shown.thread_ts.is_some() && flag(parameters, "reply_broadcast") {
        shown.subtype = Some("thread_broadcast".to_owned());
    }
    let ts = shown.ts.clone();
    world.post(&channel, shown);
    let place = &world.places[&channel];
    let message = shapes::message(place, &place.messages[&ts]);
    let mut answer = json!({ "channel": channel, "ts": ts, "message": message });
    if is_truncated {
        warn(&mut answer, "message_truncated");
    }
    Ok(answer)
}

/// The thread that a message is to go to. One that begins nowhere is taken too,
/// as the real server does, unless it is not even a timestamp.
fn thread(place: &Place, parameters: &Parameters) -> Result<Option<String>, Refusal> {
    let Some(thread) = text(parameters, "thread_ts") else { return Ok(None) };
    if !is_ts(thread) {
        return Err(Refusal::new("invalid_thread_ts"));
    }
    let parent = place.messages.get(thread);
    if parent.is_some_and(|parent| parent.subtype.as_deref() == Some("tombstone")) {
        return Err(Refusal::new("cannot_reply_to_message"));
    }
    // A reply to a reply goes to the thread of that.
    let root = parent.and_then(|parent| parent.thread_ts.clone());
    Ok(Some(root.unwrap_or_else(|| thread.to_owned())))
}

/// A message of the bot's own that may be changed.
fn own<'a>(
    world: &'a World,
    parameters: &Parameters,
    words: &str,
) -> Result<(&'a Place, &'a Shown), Refusal> {
    let place = visible(world, parameters)?;
    let ts = needed(parameters, "ts")?;
    let shown = place.messages.get(ts).filter(|_| is_ts(ts));
    let shown = shown.ok_or_else(|| Refusal::new("message_not_found"))?;
    if shown.user != BOT_USER {
        return Err(Refusal::new(words));
    }
    Ok((place, shown))
}

pub(super) fn update(world: &mut World, parameters: &Parameters) -> Outcome {
    let (place, shown) = own(world, parameters, "cant_update_message")?;
    if place.is_archived {
        return Err(Refusal::new("is_inactive"));
    }
    let (channel, ts) = (place.id.clone(), shown.ts.clone());
    let text = text(parameters, "text").unwrap_or_default();
    if text.chars().count() > MOST_NEW_TEXT {
        return Err(Refusal::new("msg_too_long"));
    }
    let content = checked_content(world, parameters)?;
    let has_text = content.text.as_deref().is_some_and(|text| !text.is_empty());
    if content.blocks.is_none() && content.attachments.is_none() && !has_text {
        return Err(Refusal::new("no_text"));
    }
    // Emptied altogether, nothing of the message would be left.
    if content.blocks.as_deref().is_some_and(<[Value]>::is_empty) && !has_text {
        return Err(Refusal::new("no_text"));
    }
    let is_marked = content.blocks.as_deref().is_none_or(<[Value]>::is_empty);
    world.change(&channel, &ts, is_marked, |shown| {
        if let Some(blocks) = content.blocks {
            shown.blocks = blocks;
        } else if has_text {
            // A text alone takes the place of the blocks.
            shown.blocks.clear();
        }
        if let Some(attachments) = content.attachments {
            shown.attachments = attachments;
        }
        if let Some(text) = content.text {
            shown.text = text;
        }
        if let Some(metadata) = content.metadata {
            let is_empty = metadata.as_object().is_some_and(serde_json::Map::is_empty);
            shown.metadata = Some(metadata).filter(|_| !is_empty);
        }
    });
    let place = &world.places[&channel];
    let shown = &place.messages[&ts];
    let message = shapes::message(place, shown);
    Ok(json!({ "channel": channel, "ts": ts, "text": shown.text, "message": message }))
}

pub(super) fn delete(world: &mut World, parameters: &Parameters) -> Outcome {
    let (place, shown) = own(world, parameters, "cant_delete_message")?;
    let (channel, ts) = (place.id.clone(), shown.ts.clone());
    world.delete(&channel, &ts);
    Ok(json!({ "channel": channel, "ts": ts }))
}

pub(super) fn post_ephemeral(world: &mut World, parameters: &Parameters) -> Outcome {
    let user = needed(parameters, "user")?.to_owned();
    // A person's id is no channel here.
    let channel = needed(parameters, "channel")?;
    if !world.places.contains_key(channel) {
        return Err(Refusal::new("channel_not_found"));
    }
    let channel = destination(world, parameters)?;
    if !world.places[&channel].members.contains(&user) {
        return Err(Refusal::new("user_not_in_channel"));
    }
    let text = text(parameters, "text").unwrap_or_default();
    if text.chars().count() > MOST_TEXT {
        return Err(Refusal::new("msg_too_long"));
    }
    let content = checked_content(world, parameters)?;
    if content.is_empty() {
        return Err(Refusal::new("no_text"));
    }
    let mut shown = world.bots_own();
    content.fill(&mut shown);
    shown.thread_ts = thread(&world.places[&channel], parameters)?;
    let ts = shown.ts.clone();
    world.ephemerals.push(Ephemeral { channel, user, shown });
    Ok(json!({ "message_ts": ts }))
}

pub(super) fn permalink(world: &World, parameters: &Parameters) -> Outcome {
    let place = visible(world, parameters)?;
    let ts = text(parameters, "message_ts").ok_or_else(|| missing("message_ts"))?;
    let shown = place.messages.get(ts).ok_or_else(|| Refusal::new("message_not_found"))?;
    let channel = &place.id;
    let mut link =
        format!("https://{DOMAIN}.slack.com/archives/{channel}/p{}", ts.replace('.', ""));
    if let Some(thread) = shown.thread_ts.as_ref().filter(|thread| *thread != ts) {
        link.extend(["?thread_ts=", thread, "&cid=", channel]);
    }
    Ok(json!({ "channel": channel, "permalink": link }))
}
