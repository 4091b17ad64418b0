//! Stored payload → fact. Pure.
//!
//! Read field by field: the platform adds kinds and fields at any time. What is
//! needed of a click is its action, its user, its workspace and the message that
//! holds it.

use sayso_channel::{Account, ActionToken, Event, Inbound, Place, Privacy, RawInbound, Unreadable};
use serde_json::Value;

use crate::envelope::{Me, Route, Stored, channel, text};
use crate::markup::plain;
use crate::modal::Asked;

/// Reads stored input.
///
/// # Errors
///
/// [`Unreadable`] when it is none of ours.
pub(crate) fn read(raw: &RawInbound) -> Result<Inbound, Unreadable> {
    let stored: Stored = stored(raw)?;
    let Stored { me, route, is_private, payload } = &stored;
    let privacy = if *is_private { Privacy::Private } else { Privacy::Shared };
    Ok(match route {
        Route::EventsApi => happened(me, privacy, payload),
        Route::Interactive => match text(payload, "/type") {
            Some("block_actions") => click(me, privacy, payload),
            Some("view_submission") => filled_in(me, payload),
            _ => ignored(),
        },
        Route::SlashCommands => command(me, privacy, payload),
    })
}

/// What was stored.
///
/// # Errors
///
/// [`Unreadable`] when it is none of ours.
pub(crate) fn stored(raw: &RawInbound) -> Result<Stored, Unreadable> {
    serde_json::from_slice(&raw.body).map_err(|_| Unreadable("no stored payload".to_owned()))
}

fn nobody() -> Account {
    Account { realm: String::new(), id: String::new(), is_automated: true }
}

fn ignored() -> Inbound {
    let place = Place { address: String::new(), privacy: Privacy::Shared };
    Inbound { actor: nobody(), place, event: Event::Ignored }
}

fn is_true(value: &Value, path: &str) -> bool {
    value.pointer(path).is_some_and(|flag| flag == true || flag == "true")
}

/// Somebody by their id, and by the organisation that gave it: in a channel that
/// is shared with another organisation, people of both are called alike.
fn account(me: &Me, id: Option<&str>, home: Home<'_>) -> Account {
    let Some(id) = id else { return nobody() };
    let Home { of_person, enterprise, is_with_others } = home;
    let ours = [Some(me.team.as_str()), me.enterprise.as_deref(), enterprise];
    let is_org_wide = me.enterprise.is_some() || enterprise.is_some();
    let realm = match of_person {
        // Within an organisation a person's own workspace may be any of its.
        Some(home) if !ours.contains(&Some(home)) && (!is_org_wide || is_with_others) => home,
        _ => enterprise.unwrap_or(me.realm()),
    };
    let is_automated = id == me.user || id == "USLACKBOT";
    Account { realm: realm.to_owned(), id: id.to_owned(), is_automated }
}

/// Where somebody belongs, as far as the payload says.
#[derive(Default, Clone, Copy)]
struct Home<'a> {
    /// The person's own workspace or organisation.
    of_person: Option<&'a str>,
    /// The organisation, where the app is installed for all of it.
    enterprise: Option<&'a str>,
    /// Whether the channel is shared with another organisation.
    is_with_others: bool,
}

fn happened(me: &Me, privacy: Privacy, payload: &Value) -> Inbound {
    let Some(event) = payload.get("event").filter(|event| event.is_object()) else {
        return ignored();
    };
    match text(event, "/type").unwrap_or_default() {
        "message" | "app_mention" => said(me, privacy, payload, event),
        "reaction_added" => reacted(me, privacy, payload, event),
        "member_joined_channel" if text(event, "/user") == Some(&me.user) => {
            reach(me, privacy, payload, true, "", text(event, "/inviter"))
        }
        "member_left_channel" if text(event, "/user") == Some(&me.user) => {
            reach(me, privacy, payload, false, "the bot is no longer in that channel", None)
        }
        "channel_left" | "group_left" => {
            reach(me, privacy, payload, false, "the bot is no longer in that channel", None)
        }
        "channel_archive" | "group_archive" => {
            reach(me, privacy, payload, false, "that channel is archived", None)
        }
        "channel_unarchive" | "group_unarchive" => reach(me, privacy, payload, true, "", None),
        _ => ignored(),
    }
}

fn home<'a>(payload: &'a Value, event: &'a Value) -> Home<'a> {
    let of_person = ["/user_team", "/source_team", "/team"];
    let is_org_wide = is_true(payload, "/authorizations/0/is_enterprise_install");
    Home {
        of_person: of_person.iter().find_map(|path| text(event, path)),
        enterprise: text(payload, "/enterprise_id").filter(|_| is_org_wide),
        is_with_others: is_true(payload, "/is_ext_shared_channel"),
    }
}

fn said(me: &Me, privacy: Privacy, payload: &Value, event: &Value) -> Inbound {
    let subtype = text(event, "/subtype");
    let (words, is_secondhand) = match subtype {
        None | Some("file_share" | "thread_broadcast" | "me_message") => (event, false),
        Some("message_changed") => match changed(event) {
            Some(message) => (message, true),
            None => return ignored(),
        },
        Some(_) => return ignored(),
    };
    let mut actor = account(me, text(words, "/user"), home(payload, words));
    // A program that writes in somebody's name is not somebody.
    let is_by_program = ["bot_id", "app_id", "bot_profile"]
        .iter()
        .any(|name| words.get(name).is_some_and(|value| !value.is_null()));
    actor.is_automated |= is_by_program || is_true(words, "/hidden");
    let Some(channel) = text(event, "/channel") else { return ignored() };
    let thread = text(words, "/thread_ts").filter(|thread| Some(*thread) != text(words, "/ts"));
    let is_private = privacy == Privacy::Private;
    let (said, is_spoken_to) = plain(text(words, "/text").unwrap_or_default(), &me.user);
    // A private conversation is one place, whatever its threads. In a channel a
    // thread is; where we are spoken to, one begins.
    let begins = (is_spoken_to && !is_private).then(|| text(words, "/ts")).flatten();
    let within = thread.or(begins).filter(|_| !is_private);
    let is_ours = text(words, "/parent_user_id").is_none_or(|user| user == me.user);
    let reply_to = thread.filter(|_| is_ours).map(str::to_owned);
    let place = Place { address: me.address(channel, within), privacy };
    let event = if said.is_empty() {
        Event::Ignored
    } else {
        Event::Text { text: said, reply_to, is_secondhand }
    };
    Inbound { actor, place, event }
}

/// The message as it is now, if somebody has changed its words; the platform
/// reports the same for previews that it adds and for what we change ourselves.
fn changed(event: &Value) -> Option<&Value> {
    let message = event.get("message")?;
    let before = text(event, "/previous_message/text");
    (text(message, "/text") != before && before.is_some()).then_some(message)
}

fn reacted(me: &Me, privacy: Privacy, payload: &Value, event: &Value) -> Inbound {
    let actor = account(me, text(event, "/user"), home(payload, event));
    let found = (text(event, "/item/channel"), text(event, "/item/ts"), text(event, "/reaction"));
    let (Some(channel), Some(message), Some(emoji)) = found else { return ignored() };
    let place = Place { address: me.address(channel, None), privacy };
    let event = Event::Reaction { emoji: emoji.to_owned(), message: message.to_owned() };
    Inbound { actor, place, event }
}

fn reach(
    me: &Me,
    privacy: Privacy,
    payload: &Value,
    is_open: bool,
    reason: &str,
    by: Option<&str>,
) -> Inbound {
    let Some(channel) = channel(Route::EventsApi, payload) else { return ignored() };
    let place = Place { address: me.address(channel, None), privacy };
    let event = Event::Reach { is_open, reason: reason.to_owned() };
    Inbound { actor: account(me, by, Home::default()), place, event }
}

/// Who used something of ours.
fn user(me: &Me, payload: &Value) -> Account {
    let is_org_wide = is_true(payload, "/is_enterprise_install");
    let enterprise = text(payload, "/enterprise/id").filter(|_| is_org_wide);
    let id = text(payload, "/user/id").or_else(|| text(payload, "/user"));
    let of_person = text(payload, "/user/team_id");
    account(me, id, Home { of_person, enterprise, is_with_others: false })
}

fn click(me: &Me, privacy: Privacy, payload: &Value) -> Inbound {
    let actor = user(me, payload);
    let message = text(payload, "/container/message_ts").or_else(|| text(payload, "/message/ts"));
    let place = match channel(Route::Interactive, payload) {
        Some(channel) => Place { address: me.address(channel, None), privacy },
        None => Place { address: String::new(), privacy: Privacy::Shared },
    };
    let message = message.map(str::to_owned);
    let Some(token) = token(payload) else {
        return Inbound { actor, place, event: Event::Ignored };
    };
    Inbound { actor, place, event: Event::Tap { token, message, text: None } }
}

/// What was clicked or chosen. An action without anything of ours still wants an
/// answer.
pub(crate) fn token(payload: &Value) -> Option<ActionToken> {
    let action = payload.pointer("/actions/0")?;
    let paths = ["/selected_option/value", "/value", "/action_id"];
    let found = paths.iter().find_map(|path| text(action, path)?.parse().ok());
    found.or_else(|| "none".parse().ok())
}

/// Words that were typed into a window of ours.
fn filled_in(me: &Me, payload: &Value) -> Inbound {
    let Some(asked) = text(payload, "/view/private_metadata").and_then(Asked::parse) else {
        return ignored();
    };
    let words = payload
        .pointer("/view/state/values")
        .and_then(Value::as_object)
        .and_then(|blocks| blocks.values().next())
        .and_then(Value::as_object)
        .and_then(|inputs| inputs.values().next())
        .and_then(|input| text(input, "/value"))
        .map(|words| words.trim().to_owned())
        .filter(|words| !words.is_empty());
    let privacy = if asked.is_private { Privacy::Private } else { Privacy::Shared };
    let place = Place { address: me.address(&asked.channel, None), privacy };
    let message = asked.message;
    let event = match (asked.token.and_then(|token| token.parse().ok()), words) {
        (Some(token), text) => Event::Tap { token, message, text },
        (None, Some(text)) => Event::Text { text, reply_to: message, is_secondhand: false },
        (None, None) => Event::Ignored,
    };
    Inbound { actor: user(me, payload), place, event }
}

fn command(me: &Me, privacy: Privacy, payload: &Value) -> Inbound {
    let is_org_wide = is_true(payload, "/is_enterprise_install");
    let enterprise = text(payload, "/enterprise_id").filter(|_| is_org_wide);
    let home = Home { of_person: text(payload, "/team_id"), enterprise, is_with_others: false };
    let actor = account(me, text(payload, "/user_id"), home);
    let Some(channel) = channel(Route::SlashCommands, payload) else { return ignored() };
    let place = Place { address: me.address(channel, None), privacy };
    // What is typed after a command comes as it is.
    let event = match text(payload, "/text").map(str::trim).filter(|words| !words.is_empty()) {
        Some(words) => Event::Text { text: words.to_owned(), reply_to: None, is_secondhand: false },
        None => Event::Ignored,
    };
    Inbound { actor, place, event }
}
