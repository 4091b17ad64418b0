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
    // Alone with us every thread is about its root; elsewhere only one of ours is
    // for us.
    let reply_to = thread.filter(|_| is_ours || is_private).map(str::to_owned);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::envelope::store;

    const ADA: &str = "U0ADA0001";

    fn me(enterprise: Option<&str>) -> Me {
        Me {
            team: "T0HOME001".to_owned(),
            enterprise: enterprise.map(str::to_owned),
            user: "U0BOT0001".to_owned(),
            bot: "B0BOT0001".to_owned(),
        }
    }

    fn inbound_as(me: &Me, route: Route, privacy: Privacy, payload: &Value) -> Inbound {
        read(&store(me, route, privacy, payload.clone())).unwrap()
    }

    fn event(event: &Value) -> Inbound {
        let payload = json!({ "type": "event_callback", "event_id": "Ev1", "event": event });
        inbound_as(&me(None), Route::EventsApi, Privacy::Private, &payload)
    }

    fn message(extra: &Value) -> Value {
        let mut message = json!({
            "type": "message", "channel": "D0ADA0001", "channel_type": "im", "user": ADA,
            "text": "A1B2C3 approve", "ts": "1700000010.000400", "event_ts": "1700000010.000400",
        });
        for (key, value) in extra.as_object().unwrap() {
            message[key] = value.clone();
        }
        message
    }

    fn key(route: Route, payload: &Value) -> String {
        store(&me(None), route, Privacy::Shared, payload.clone()).dedup_key
    }

    #[rstest]
    #[case::a_bot(json!({ "bot_id": "B0OTHER01" }))]
    #[case::another_app_in_ones_name(json!({ "app_id": "A0OTHER01" }))]
    #[case::a_profile_of_a_bot(json!({ "bot_profile": { "id": "B1" } }))]
    #[case::ourselves(json!({ "user": "U0BOT0001" }))]
    #[case::nobody(json!({ "user": null }))]
    #[case::slack_itself(json!({ "user": "USLACKBOT" }))]
    fn whoever_is_not_a_person_under_their_own_name_is_automated(#[case] extra: Value) {
        assert!(event(&message(&extra)).actor.is_automated);
    }

    #[rstest]
    #[case("bot_message")]
    #[case("message_deleted")]
    #[case("channel_join")]
    #[case("a_new_subtype")]
    fn messages_of_other_kinds_are_nothing(#[case] subtype: &str) {
        assert_eq!(event(&message(&json!({ "subtype": subtype }))).event, Event::Ignored);
    }

    #[test]
    fn a_change_counts_where_somebody_changed_their_words_and_then_as_secondhand() {
        let changed = |before: Value, inner: Value| {
            let mut new = json!({ "user": ADA, "text": "A1B2C3 approve", "ts": "1.1" });
            for (name, value) in inner.as_object().unwrap() {
                new[name] = value.clone();
            }
            event(&json!({
                "type": "message", "subtype": "message_changed", "channel": "D0ADA0001",
                "channel_type": "im", "message": new, "previous_message": before, "event_ts": "2.1",
            }))
        };
        let edited = changed(json!({ "text": "A1B2C3 deny" }), json!({}));
        assert!(matches!(edited.event, Event::Text { is_secondhand: true, .. }));
        // A preview was added, or we don't know what it was before.
        for before in [json!({ "text": "A1B2C3 approve" }), json!({}), json!(null)] {
            assert_eq!(changed(before, json!({})).event, Event::Ignored);
        }
        let ours = changed(json!({ "text": "x" }), json!({ "user": "U0BOT0001", "bot_id": "B1" }));
        assert!(ours.actor.is_automated);
    }

    #[test]
    fn a_reply_in_a_thread_of_ours_names_its_root_and_one_in_another_does_not() {
        let reply = |extra: Value| match event(&message(&extra)).event {
            Event::Text { reply_to, .. } => reply_to,
            other => panic!("{other:?}"),
        };
        let thread = json!({ "thread_ts": "1.5" });
        assert_eq!(reply(thread).as_deref(), Some("1.5"));
        let ours = json!({ "thread_ts": "1.5", "parent_user_id": "U0BOT0001" });
        assert_eq!(reply(ours).as_deref(), Some("1.5"));
        // Alone with us a thread is about its root, whoever wrote it.
        let own = json!({ "thread_ts": "1.5", "parent_user_id": ADA });
        assert_eq!(reply(own).as_deref(), Some("1.5"));
        let root = json!({ "thread_ts": "1700000010.000400" });
        assert_eq!(reply(root), None, "the root of a thread is no reply to itself");
    }

    #[rstest]
    #[case(json!({ "text": "<@U0BOT0001> hello" }), "T0HOME001:C0OPS0001:1700000010.000400")]
    #[case(json!({ "text": "hello" }), "T0HOME001:C0OPS0001")]
    #[case(json!({ "thread_ts": "1.5" }), "T0HOME001:C0OPS0001:1.5")]
    fn in_a_channel_a_thread_is_a_place(#[case] extra: Value, #[case] address: &str) {
        let mut extra = extra;
        extra["channel"] = "C0OPS0001".into();
        extra["channel_type"] = "channel".into();
        let payload = json!({ "event_id": "Ev1", "event": message(&extra) });
        let inbound = inbound_as(&me(None), Route::EventsApi, Privacy::Shared, &payload);
        assert_eq!(inbound.place.address, address);
    }

    #[test]
    fn people_of_other_organisations_are_other_people() {
        let realm = |me: &Me, payload: Value| {
            inbound_as(me, Route::EventsApi, Privacy::Shared, &payload).actor.realm
        };
        let payload = |more: Value, extra: Value| {
            let mut payload = json!({ "event_id": "Ev1", "event": message(&extra) });
            for (name, value) in more.as_object().unwrap() {
                payload[name] = value.clone();
            }
            payload
        };
        let theirs = json!({ "user_team": "T0OTHER01" });
        assert_eq!(realm(&me(None), payload(json!({}), theirs.clone())), "T0OTHER01");
        assert_eq!(realm(&me(None), payload(json!({}), json!({}))), "T0HOME001");
        let ours = json!({ "user_team": "T0HOME001" });
        assert_eq!(realm(&me(None), payload(json!({}), ours)), "T0HOME001");
        // Within an organisation a person may have another workspace of it …
        let corp = me(Some("E0CORP001"));
        assert_eq!(realm(&corp, payload(json!({}), theirs.clone())), "E0CORP001");
        // … unless the channel is shared with another one.
        let shared = json!({ "is_ext_shared_channel": true });
        assert_eq!(realm(&corp, payload(shared, theirs)), "T0OTHER01");
    }

    #[test]
    fn a_click_of_an_organisation_wide_app_has_no_workspace() {
        let payload = json!({
            "type": "block_actions", "team": null, "enterprise": { "id": "E0CORP001" },
            "is_enterprise_install": true, "user": { "id": "W0ADA0001", "team_id": "T0HOME009" },
            "container": { "message_ts": "1.5", "channel_id": "D1" },
            "actions": [{ "action_id": "g1", "value": "apr:x:reject" }],
        });
        for me in [me(None), me(Some("E0CORP001"))] {
            let inbound = inbound_as(&me, Route::Interactive, Privacy::Shared, &payload);
            assert_eq!(
                (inbound.actor.realm.as_str(), inbound.actor.id.as_str()),
                ("E0CORP001", "W0ADA0001")
            );
            let Event::Tap { token, message, .. } = inbound.event else { panic!() };
            assert_eq!((token.as_str(), message.as_deref()), ("apr:x:reject", Some("1.5")));
        }
    }

    #[test]
    fn a_message_is_the_same_under_any_id_and_a_click_is_one_gesture() {
        let named = |id: &str, kind: &str| {
            let event = message(&json!({ "type": kind }));
            key(Route::EventsApi, &json!({ "event_id": id, "event": event }))
        };
        assert_eq!(named("Ev1", "message"), named("Ev2", "app_mention"));
        let other = message(&json!({ "ts": "1700000010.000500" }));
        let other = key(Route::EventsApi, &json!({ "event_id": "Ev1", "event": other }));
        assert_ne!(named("Ev1", "message"), other);
        let click = |user: &str, at: &str| {
            key(
                Route::Interactive,
                &json!({
                    "type": "block_actions", "user": { "id": user }, "trigger_id": at,
                    "container": { "message_ts": "1.5" },
                    "actions": [{ "action_id": "apr:x:reject", "action_ts": at }],
                }),
            )
        };
        assert_eq!(click(ADA, "7.1"), click(ADA, "7.1"));
        assert_ne!(click(ADA, "7.1"), click(ADA, "7.2"));
        assert_ne!(click(ADA, "7.1"), click("U0BOB0002", "7.1"));
    }

    #[test]
    fn of_a_huge_payload_the_words_and_the_click_are_kept() {
        let blocks = vec![json!({ "type": "section", "text": "x".repeat(2_000) }); 40];
        let said = event(&message(&json!({ "blocks": blocks, "thread_ts": "1.5" })));
        let Event::Text { text, reply_to, .. } = said.event else { panic!() };
        assert_eq!((text.as_str(), reply_to.as_deref()), ("A1B2C3 approve", Some("1.5")));
        let payload = json!({
            "type": "block_actions", "user": { "id": ADA }, "message": { "blocks": blocks },
            "container": { "message_ts": "1.5", "channel_id": "D1" },
            "actions": [{ "action_id": "apr:x:reject", "action_ts": "1.1" }],
        });
        let raw = store(&me(None), Route::Interactive, Privacy::Private, payload);
        assert!(raw.body.len() < 1_000);
        assert!(matches!(read(&raw).unwrap().event, Event::Tap { .. }));
    }

    proptest! {
        #[test]
        fn no_payload_makes_it_fail(
            name in "[a-z_]{1,20}", value in "\\PC{0,60}", kind in 0_usize..6,
        ) {
            let value: Value = serde_json::from_str(&value).unwrap_or_else(|_| json!(value));
            let kind = ["message", "app_mention", "reaction_added", "member_joined_channel",
                "message_changed", "block_actions"][kind];
            for route in [Route::EventsApi, Route::Interactive, Route::SlashCommands] {
                for payload in [
                    json!({ &name: value, "type": kind, "event": value, "actions": value }),
                    json!({ "type": kind, "event": { "type": kind, &name: value, "user": value } }),
                    json!({ "type": kind, "actions": [{ &name: value }], "view": { &name: value } }),
                    value.clone(),
                ] {
                    let _ = inbound_as(&me(None), route, Privacy::Shared, &payload);
                }
            }
        }
    }
}
