//! The bot's own reactions.

use serde_json::json;

use crate::slack::BOT_USER;
use crate::slack::state::{Refusal, World};
use crate::slack::web::{Outcome, Parameters, is_ts, needed, text};

/// How many different reactions a message takes.
const MOST_KINDS: usize = 23;

pub(super) fn change(world: &mut World, parameters: &Parameters, is_there: bool) -> Outcome {
    let name = needed(parameters, "name")?;
    if !is_name(name) {
        return Err(Refusal::new("invalid_name"));
    }
    let (Some(channel), Some(ts)) = (text(parameters, "channel"), text(parameters, "timestamp"))
    else {
        return Err(Refusal::new("no_item_specified"));
    };
    if !is_ts(ts) {
        return Err(Refusal::new("bad_timestamp"));
    }
    let place = world.places.get(channel).filter(|place| place.is_visible());
    let place = place.ok_or_else(|| Refusal::new("channel_not_found"))?;
    if !place.has_bot() {
        return Err(Refusal::new("not_in_channel"));
    }
    if place.is_archived {
        return Err(Refusal::new("is_archived"));
    }
    let shown = place.messages.get(ts).ok_or_else(|| Refusal::new("message_not_found"))?;
    if shown.subtype.as_deref() == Some("tombstone") {
        return Err(Refusal::new("message_not_found"));
    }
    let users = shown.reactions.iter().find(|(of, _)| of == name).map(|(_, users)| users);
    let has_reacted = users.is_some_and(|users| users.iter().any(|user| user == BOT_USER));
    match (is_there, has_reacted) {
        (true, true) => return Err(Refusal::new("already_reacted")),
        (false, false) => return Err(Refusal::new("no_reaction")),
        (true, false) if users.is_none() && shown.reactions.len() >= MOST_KINDS => {
            return Err(Refusal::new("too_many_emoji"));
        }
        _ => {}
    }
    let (channel, ts) = (channel.to_owned(), ts.to_owned());
    world.react(BOT_USER, &channel, &ts, name, is_there);
    Ok(json!({}))
}

/// A name as in a message, without colons, perhaps with a skin tone.
fn is_name(name: &str) -> bool {
    let (base, tone) = name.split_once("::").unwrap_or((name, "skin-tone-2"));
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_+-'".contains(&b);
    let is_tone = tone
        .strip_prefix("skin-tone-")
        .is_some_and(|tone| ["2", "3", "4", "5", "6"].contains(&tone));
    !base.is_empty() && base.len() <= 100 && base.bytes().all(is_plain) && is_tone
}
