//! Places and what is written in them.

use serde_json::{Value, json};

use crate::slack::state::{Kind, Place, Refusal, Shown, World};
use crate::slack::web::{Outcome, Parameters, flag, needed, number, text, visible};
use crate::slack::{BOT_USER, shapes};

pub(super) fn open(world: &mut World, parameters: &Parameters) -> Outcome {
    if let Some(channel) = text(parameters, "channel") {
        let place = world.places.get(channel).filter(|place| place.has_bot());
        let place = place.ok_or_else(|| Refusal::new("channel_not_found"))?;
        return Ok(opened(place, parameters, true));
    }
    let users = text(parameters, "users");
    let users = users.ok_or_else(|| Refusal::new("users_list_not_supplied"))?;
    let users: Vec<&str> = users.split(',').map(str::trim).filter(|id| !id.is_empty()).collect();
    for id in &users {
        let user = world.users.get(*id).ok_or_else(|| Refusal::new("user_not_found"))?;
        if user.is_deleted {
            return Err(Refusal::new("user_disabled"));
        }
        if user.is_bot {
            return Err(Refusal::new("cannot_dm_bot"));
        }
    }
    match users.as_slice() {
        [] => Err(Refusal::new("not_enough_users")),
        [user] => {
            let known = world.places.len();
            let id = world.im(BOT_USER, user);
            Ok(opened(&world.places[&id], parameters, world.places.len() == known))
        }
        more if more.len() > 8 => Err(Refusal::new("too_many_users")),
        more => {
            let mut members: Vec<String> = more.iter().map(|id| (*id).to_owned()).collect();
            members.push(BOT_USER.to_owned());
            let members = members.into_iter().collect();
            let known =
                world.places.values().find(|p| p.kind == Kind::Mpim && p.members == members);
            if let Some(known) = known {
                return Ok(opened(known, parameters, true));
            }
            let id = world.next_id("C");
            let name = format!("mpdm-{}-1", more.join("--").to_lowercase());
            world.add_place(&id, Kind::Mpim, &name, members);
            Ok(opened(&world.places[&id], parameters, false))
        }
    }
}

fn opened(place: &Place, parameters: &Parameters, was_open: bool) -> Value {
    let channel = if flag(parameters, "return_im") {
        shapes::place(place)
    } else {
        json!({ "id": place.id })
    };
    let mut answer = json!({ "channel": channel });
    if was_open {
        answer["no_op"] = true.into();
        answer["already_open"] = true.into();
    }
    answer
}

pub(super) fn info(world: &World, parameters: &Parameters) -> Outcome {
    let place = visible(world, parameters)?;
    let mut channel = shapes::place(place);
    if !flag(parameters, "include_num_members")
        && let Some(fields) = channel.as_object_mut()
    {
        fields.remove("num_members");
    }
    Ok(json!({ "channel": channel }))
}

pub(super) fn list(world: &World, parameters: &Parameters) -> Outcome {
    let types = text(parameters, "types").unwrap_or("public_channel");
    let word = |kind| match kind {
        Kind::Im => "im",
        Kind::Mpim => "mpim",
        Kind::Public => "public_channel",
        Kind::Private => "private_channel",
    };
    let types: Vec<&str> = types.split(',').map(str::trim).collect();
    let known = ["im", "mpim", "public_channel", "private_channel"];
    if types.iter().any(|kind| !known.contains(kind)) {
        return Err(Refusal::new("invalid_types"));
    }
    let found = world.places.values().filter(|place| {
        place.is_visible()
            && types.contains(&word(place.kind))
            && !(flag(parameters, "exclude_archived") && place.is_archived)
    });
    let found: Vec<Value> = found.map(shapes::place).collect();
    page("channels", found, parameters)
}

pub(super) fn members(world: &World, parameters: &Parameters) -> Outcome {
    let place = visible(world, parameters)?;
    page("members", place.members.iter().map(|id| id.as_str().into()).collect(), parameters)
}

/// A part of a list and where the next one begins.
fn page(name: &str, all: Vec<Value>, parameters: &Parameters) -> Outcome {
    let start = match text(parameters, "cursor") {
        None => 0,
        Some(cursor) => {
            let start = cursor.strip_prefix("next:").and_then(|start| start.parse().ok());
            start.ok_or_else(|| Refusal::new("invalid_cursor"))?
        }
    };
    let limit = number(parameters, "limit").filter(|limit| *limit > 0).unwrap_or(100).min(1_000);
    let limit = usize::try_from(limit).unwrap_or(100);
    let count = all.len();
    let part: Vec<Value> = all.into_iter().skip(start).take(limit).collect();
    let end = start + part.len();
    let next = if end < count { format!("next:{end}") } else { String::new() };
    Ok(json!({ name: part, "response_metadata": { "next_cursor": next } }))
}

/// Whether a message lies in the span that was asked for.
fn is_within(shown: &Shown, parameters: &Parameters) -> bool {
    let is_inclusive = flag(parameters, "inclusive");
    let ts = shown.ts.as_str();
    let is_late = text(parameters, "oldest").is_none_or(|o| ts > o || is_inclusive && ts == o);
    let is_early = text(parameters, "latest").is_none_or(|l| ts < l || is_inclusive && ts == l);
    is_late && is_early
}

fn readable<'a>(world: &'a World, parameters: &Parameters) -> Result<&'a Place, Refusal> {
    let place = visible(world, parameters)?;
    if place.has_bot() { Ok(place) } else { Err(Refusal::new("not_in_channel")) }
}

fn messages(found: Vec<Value>, parameters: &Parameters) -> Outcome {
    let mut answer = page("messages", found, parameters)?;
    let has_more = answer["response_metadata"]["next_cursor"] != "";
    answer["has_more"] = has_more.into();
    if !has_more && let Some(fields) = answer.as_object_mut() {
        fields.remove("response_metadata");
    }
    Ok(answer)
}

/// Newest first; replies are not in it.
pub(super) fn history(world: &World, parameters: &Parameters) -> Outcome {
    let place = readable(world, parameters)?;
    let with_metadata = flag(parameters, "include_all_metadata");
    let found = place.messages.values().rev().filter(|shown| {
        let is_root = shown.thread_ts.as_ref().is_none_or(|thread| *thread == shown.ts);
        let is_broadcast = shown.subtype.as_deref() == Some("thread_broadcast");
        (is_root || is_broadcast) && is_within(shown, parameters)
    });
    let found = found.map(|shown| shapes::listed(place, shown, with_metadata)).collect();
    let mut answer = messages(found, parameters)?;
    answer["pin_count"] = 0.into();
    Ok(answer)
}

/// The first message and its replies, oldest first.
pub(super) fn replies(world: &World, parameters: &Parameters) -> Outcome {
    let place = readable(world, parameters)?;
    let ts = needed(parameters, "ts")?;
    let asked = place.messages.get(ts).ok_or_else(|| Refusal::new("thread_not_found"))?;
    let thread = asked.thread_ts.as_deref().unwrap_or(ts);
    let parent = place.messages.get(thread);
    let with_metadata = flag(parameters, "include_all_metadata");
    let found = parent.into_iter().chain(shapes::replies(place, thread));
    let found = found.filter(|shown| shown.ts == thread || is_within(shown, parameters));
    messages(found.map(|shown| shapes::listed(place, shown, with_metadata)).collect(), parameters)
}
