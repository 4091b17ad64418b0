//! Stored update → fact. Pure.
//!
//! Read field by field from the JSON: the platform adds kinds and fields at any
//! time, and a library's types lose the text of a message with an entity they
//! don't know. What is needed of a press is its id, who pressed and its data.

use sayso_channel::{Account, ActionToken, Event, Inbound, Place, Privacy, RawInbound, Unreadable};
use serde_json::Value;

/// Accounts that stand for many people: the platform itself, anonymous
/// administrators, whoever posts as a channel.
const SHARED_ACCOUNTS: [i64; 3] = [777_000, 1_087_968_824, 136_817_688];
/// The thread id of a forum's General topic, which is no topic.
const GENERAL: i64 = 1;
/// Reads a stored update.
///
/// # Errors
///
/// [`Unreadable`] when it is no update.
pub(crate) fn read(raw: &RawInbound) -> Result<Inbound, Unreadable> {
    let body: Value =
        serde_json::from_slice(&raw.body).map_err(|_| Unreadable("no JSON".to_owned()))?;
    let update = body
        .get("update")
        .filter(|update| update.is_object())
        .ok_or_else(|| Unreadable("no update".to_owned()))?;
    let bot = body.get("bot").and_then(Value::as_str).unwrap_or_default();
    let part = |name: &str| update.get(name).filter(|part| part.is_object());
    Ok(if let Some(tap) = part("callback_query") {
        press(tap)
    } else if let Some(message) = part("message") {
        said(message, bot, &raw.receiver, false)
    } else if let Some(message) = part("edited_message") {
        said(message, bot, &raw.receiver, true)
    } else if let Some(reaction) = part("message_reaction") {
        reacted(reaction)
    } else if let Some(change) = part("my_chat_member") {
        membership(change)
    } else {
        ignored()
    })
}

/// The id of the press in a stored update, by which it is answered.
pub(crate) fn press_id(raw: &RawInbound) -> Option<String> {
    let body: Value = serde_json::from_slice(&raw.body).ok()?;
    body.pointer("/update/callback_query/id").and_then(Value::as_str).map(str::to_owned)
}

fn nobody() -> Account {
    Account { realm: String::new(), id: String::new(), is_automated: true }
}

fn nowhere() -> Place {
    Place { address: String::new(), privacy: Privacy::Shared }
}

fn ignored() -> Inbound {
    Inbound { actor: nobody(), place: nowhere(), event: Event::Ignored }
}

fn account(user: Option<&Value>) -> Account {
    let id = user.and_then(|user| user.get("id")).and_then(Value::as_i64);
    let Some(id) = id.filter(|id| *id > 0) else { return nobody() };
    let is_bot = user.and_then(|user| user.get("is_bot")).and_then(Value::as_bool);
    Account {
        realm: String::new(),
        id: id.to_string(),
        is_automated: is_bot == Some(true) || SHARED_ACCOUNTS.contains(&id),
    }
}

fn place(message: &Value) -> Place {
    let Some(chat) = message.pointer("/chat/id").and_then(Value::as_i64) else { return nowhere() };
    let is_private = message.pointer("/chat/type").and_then(Value::as_str) == Some("private");
    let is_topic = message.get("is_topic_message").and_then(Value::as_bool) == Some(true);
    let topic = message.get("message_thread_id").and_then(Value::as_i64);
    // In a private chat topics only sort messages: the place is the person.
    let address = match topic.filter(|topic| is_topic && *topic != GENERAL && !is_private) {
        Some(topic) => format!("{chat}:{topic}"),
        None => chat.to_string(),
    };
    let privacy = if is_private { Privacy::Private } else { Privacy::Shared };
    Place { address, privacy }
}

fn message_id(message: Option<&Value>) -> Option<String> {
    message?.get("message_id").and_then(Value::as_i64).map(|id| id.to_string())
}

fn press(tap: &Value) -> Inbound {
    let message = tap.get("message").filter(|message| message.is_object());
    let data = tap.get("data").and_then(Value::as_str).unwrap_or_default();
    let token: Option<ActionToken> = data.parse().ok().or_else(|| "none".parse().ok());
    Inbound {
        actor: account(tap.get("from")),
        place: message.map_or_else(nowhere, place),
        event: token.map_or(Event::Ignored, |token| Event::Tap {
            token,
            message: message_id(message),
            text: None,
        }),
    }
}

fn said(message: &Value, bot: &str, bot_id: &str, is_edited: bool) -> Inbound {
    let place = place(message);
    let has = |name: &str| message.get(name).is_some_and(|value| !value.is_null());
    if let Some(to) = message.get("migrate_to_chat_id").and_then(Value::as_i64) {
        let from = place.address;
        let place = Place { address: to.to_string(), privacy: Privacy::Shared };
        return Inbound { actor: nobody(), place, event: Event::Moved { from } };
    }
    if let Some(from) = message.get("migrate_from_chat_id").and_then(Value::as_i64) {
        return Inbound { actor: nobody(), place, event: Event::Moved { from: from.to_string() } };
    }
    let mut actor = account(message.get("from"));
    // Whoever posts as a chat is not known to be anybody.
    actor.is_automated |= has("sender_chat") || has("sender_business_bot");
    let text = ["text", "caption"].iter().find_map(|name| message.get(name)?.as_str());
    let replied = message.get("reply_to_message").filter(|replied| replied.is_object());
    let is_ours = replied
        .and_then(|replied| replied.pointer("/from/id"))
        .and_then(Value::as_i64)
        .is_none_or(|id| id.to_string() == bot_id);
    let text = text.and_then(|text| spoken_to(text, bot, place.privacy));
    let is_foreign = ["forward_origin", "forward_from", "forward_date", "via_bot"];
    let is_secondhand = is_edited
        || is_foreign.iter().any(|name| has(name))
        || message.get("is_automatic_forward").and_then(Value::as_bool) == Some(true);
    let event = match text {
        Some(text) => {
            Event::Text { text, reply_to: message_id(replied).filter(|_| is_ours), is_secondhand }
        }
        None => Event::Ignored,
    };
    Inbound { actor, place, event }
}

/// What is said to us: a command or a mention by our whole name loses the name;
/// a command for another bot is not for us.
fn spoken_to(text: &str, bot: &str, privacy: Privacy) -> Option<String> {
    let text = text.trim();
    let is_us = |name: &str| !bot.is_empty() && name.eq_ignore_ascii_case(bot);
    if let Some(command) = text.strip_prefix('/') {
        let end = command.find(char::is_whitespace).unwrap_or(command.len());
        let (word, rest) = command.split_at(end);
        return match word.split_once('@') {
            Some((word, name)) => is_us(name).then(|| format!("/{word}{rest}")),
            None => Some(text.to_owned()),
        };
    }
    if privacy == Privacy::Private {
        return Some(text.to_owned());
    }
    let without = |mention: &str, rest: &str| {
        let name = mention.trim_end_matches([',', ':']).strip_prefix('@')?;
        is_us(name).then(|| rest.trim().to_owned())
    };
    let first = text.split_once(char::is_whitespace).and_then(|(word, rest)| without(word, rest));
    let last =
        || text.rsplit_once(char::is_whitespace).and_then(|(rest, word)| without(word, rest));
    Some(first.or_else(last).unwrap_or_else(|| text.to_owned()))
}

fn reacted(reaction: &Value) -> Inbound {
    let emoji = |name: &str| -> Vec<String> {
        let listed = reaction.get(name).and_then(Value::as_array);
        listed
            .into_iter()
            .flatten()
            .filter(|one| one.get("type").and_then(Value::as_str) == Some("emoji"))
            .filter_map(|one| one.get("emoji").and_then(Value::as_str).map(str::to_owned))
            .collect()
    };
    let before = emoji("old_reaction");
    let added: Vec<String> =
        emoji("new_reaction").into_iter().filter(|one| !before.contains(one)).collect();
    let message = message_id(Some(reaction));
    let event = match message.filter(|_| !added.is_empty()) {
        Some(message) => Event::Reaction { emoji: added.join(" "), message },
        None => Event::Ignored,
    };
    Inbound { actor: account(reaction.get("user")), place: place(reaction), event }
}

fn membership(change: &Value) -> Inbound {
    let member = change.get("new_chat_member");
    let field = |name: &str| member.and_then(|member| member.get(name));
    let is_private = change.pointer("/chat/type").and_then(Value::as_str) == Some("private");
    let status = field("status").and_then(Value::as_str).unwrap_or_default();
    let is_muted = status == "restricted"
        && field("can_send_messages").and_then(Value::as_bool) == Some(false);
    let event = match status {
        "kicked" if is_private => reach(false, "the person has blocked the bot"),
        "kicked" | "left" => reach(false, "the bot is no longer in that chat"),
        _ if is_muted => reach(false, "the bot may not write in that chat"),
        "member" | "administrator" | "creator" | "restricted" => reach(true, ""),
        _ => Event::Ignored,
    };
    Inbound { actor: account(change.get("from")), place: place(change), event }
}

fn reach(is_open: bool, reason: &str) -> Event {
    Event::Reach { is_open, reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::update::{Receiver, store};

    fn inbound(update: &Value) -> Inbound {
        let receiver = Receiver { id: "700".to_owned(), username: "GateBot".to_owned() };
        let update = serde_json::value::to_raw_value(update).unwrap();
        read(&store(&receiver, &update).unwrap().0).unwrap()
    }

    fn text_in(chat: &Value, extra: &Value) -> Inbound {
        let mut message = json!({
            "message_id": 60, "date": 1, "chat": chat, "from": { "id": 700_001, "is_bot": false },
            "text": "A1B2C3 approve",
        });
        for (key, value) in extra.as_object().unwrap() {
            message[key] = value.clone();
        }
        inbound(&json!({ "update_id": 1, "message": message }))
    }

    fn private() -> Value {
        json!({ "id": 700_001, "type": "private" })
    }

    fn group() -> Value {
        json!({ "id": -1_009_990_001_i64, "type": "supergroup" })
    }

    #[rstest]
    #[case::whole(json!({ "message": { "message_id": 41, "date": 1_760_000_000, "chat": { "id": 700_001, "type": "private" } } }), Some("41"))]
    #[case::old(json!({ "message": { "message_id": 41, "date": 0, "chat": { "id": 700_001, "type": "private" } } }), Some("41"))]
    #[case::inline(json!({ "inline_message_id": "x" }), None)]
    #[case::odd_neighbours(json!({ "message": 7, "brand_new": { "a": [1] } }), None)]
    fn a_press_is_read_from_its_id_its_presser_and_its_data(
        #[case] extra: Value,
        #[case] message: Option<&str>,
    ) {
        let mut tap = json!({ "id": "77", "from": { "id": 700_001, "is_bot": false }, "data": "apr:x:reject" });
        for (key, value) in extra.as_object().unwrap() {
            tap[key] = value.clone();
        }
        let inbound = inbound(&json!({ "update_id": 1, "callback_query": tap }));
        assert_eq!(inbound.actor.id, "700001");
        let Event::Tap { token, message: on, .. } = inbound.event else { panic!() };
        assert_eq!((token.as_str(), on.as_deref()), ("apr:x:reject", message));
    }

    #[test]
    fn a_press_without_data_still_wants_an_answer() {
        for data in [json!(null), json!(""), json!("x".repeat(65)), json!("ä")] {
            let tap =
                json!({ "id": "77", "from": { "id": 1 }, "data": data, "game_short_name": "g" });
            let inbound = inbound(&json!({ "update_id": 1, "callback_query": tap }));
            assert!(matches!(inbound.event, Event::Tap { .. }));
        }
    }

    #[rstest]
    #[case::bot(json!({ "from": { "id": 5, "is_bot": true } }))]
    #[case::anonymous_admin(json!({ "from": { "id": 1_087_968_824, "is_bot": true }, "sender_chat": { "id": -1 } }))]
    #[case::linked_channel(json!({ "from": { "id": 777_000, "is_bot": false }, "is_automatic_forward": true }))]
    #[case::as_a_channel(json!({ "from": { "id": 136_817_688, "is_bot": true } }))]
    #[case::nobody(json!({ "from": null }))]
    #[case::as_a_chat(json!({ "sender_chat": { "id": -100 } }))]
    fn whoever_is_not_a_person_under_their_own_name_is_automated(#[case] extra: Value) {
        assert!(text_in(&group(), &extra).actor.is_automated);
    }

    #[rstest]
    #[case(json!({ "forward_origin": { "type": "a_new_type" } }))]
    #[case(json!({ "forward_date": 1 }))]
    #[case(json!({ "via_bot": { "id": 9 } }))]
    fn what_somebody_else_said_is_secondhand(#[case] extra: Value) {
        let Event::Text { is_secondhand, .. } = text_in(&private(), &extra).event else { panic!() };
        assert!(is_secondhand);
    }

    #[test]
    fn an_edit_is_secondhand_and_a_channel_post_is_nothing() {
        let message = json!({
            "message_id": 60, "date": 1, "edit_date": 2, "chat": private(),
            "from": { "id": 700_001 }, "text": "A1B2C3 approve",
        });
        let edited = inbound(&json!({ "update_id": 1, "edited_message": message }));
        assert!(matches!(edited.event, Event::Text { is_secondhand: true, .. }));
        for kind in ["channel_post", "edited_channel_post", "edited_business_message", "unknown"] {
            let update = json!({ "update_id": 1, kind: message });
            assert_eq!(inbound(&update).event, Event::Ignored, "{kind}");
        }
    }

    #[test]
    fn the_text_of_a_message_with_an_unknown_entity_is_kept() {
        let extra = json!({ "entities": [{ "type": "date_time", "offset": 0, "length": 3 }], "brand_new": {} });
        let Event::Text { text, .. } = text_in(&private(), &extra).event else { panic!() };
        assert_eq!(text, "A1B2C3 approve");
        let caption = json!({ "text": null, "caption": "A1B2C3 deny", "photo": [] });
        let Event::Text { text, .. } = text_in(&private(), &caption).event else { panic!() };
        assert_eq!(text, "A1B2C3 deny");
    }

    #[rstest]
    #[case("/approve@GateBot A1B2C3", Some("/approve A1B2C3"))]
    #[case("/approve@gatebot A1B2C3", Some("/approve A1B2C3"))]
    #[case("/approve@OtherBot A1B2C3", None)]
    #[case("@GateBot A1B2C3 approve", Some("A1B2C3 approve"))]
    #[case("@GateBot, A1B2C3 approve", Some("A1B2C3 approve"))]
    #[case("A1B2C3 approve @GateBot", Some("A1B2C3 approve"))]
    #[case("@GateBotty A1B2C3 approve", Some("@GateBotty A1B2C3 approve"))]
    #[case("/start", Some("/start"))]
    fn names_are_compared_as_wholes(#[case] text: &str, #[case] expected: Option<&str>) {
        let event = text_in(&group(), &json!({ "text": text })).event;
        let read = match &event {
            Event::Text { text, .. } => Some(text.as_str()),
            _ => None,
        };
        assert_eq!(read, expected);
    }

    #[rstest]
    #[case(json!({ "message_thread_id": 12, "is_topic_message": true }), "-1009990001:12")]
    #[case(json!({ "message_thread_id": 12 }), "-1009990001")]
    #[case(json!({ "message_thread_id": 1, "is_topic_message": true }), "-1009990001")]
    fn a_topic_is_one_only_where_the_message_says_so(#[case] extra: Value, #[case] address: &str) {
        let place = text_in(&group(), &extra).place;
        assert_eq!((place.address.as_str(), place.privacy), (address, Privacy::Shared));
    }

    #[test]
    fn a_reply_counts_when_it_is_to_a_message_of_ours() {
        let to =
            |id: i64| json!({ "reply_to_message": { "message_id": 41, "from": { "id": id } } });
        let reply = |extra: &Value| match text_in(&private(), extra).event {
            Event::Text { reply_to, .. } => reply_to,
            _ => panic!(),
        };
        assert_eq!(reply(&to(700)).as_deref(), Some("41"));
        assert_eq!(reply(&to(700_001)), None);
    }

    #[rstest]
    #[case(json!(["👍"]), json!([]), Some("👍"))]
    #[case(json!(["👍", "❤"]), json!(["👍"]), Some("❤"))]
    #[case(json!([]), json!(["👎"]), None)]
    #[case(json!(["👍", "👎"]), json!([]), Some("👍 👎"))]
    fn only_a_reaction_that_was_added_counts(
        #[case] new: Value,
        #[case] old: Value,
        #[case] expected: Option<&str>,
    ) {
        let list = |emoji: &Value| -> Vec<Value> {
            let emoji = emoji.as_array().unwrap().iter();
            emoji.map(|e| json!({ "type": "emoji", "emoji": e })).collect()
        };
        let mut new = list(&new);
        new.push(json!({ "type": "custom_emoji", "custom_emoji_id": "👍" }));
        new.push(json!({ "type": "paid" }));
        let event = inbound(&json!({ "update_id": 1, "message_reaction": {
            "chat": group(), "message_id": 41, "user": { "id": 700_001 },
            "old_reaction": list(&old), "new_reaction": new,
        }}));
        let read = match &event.event {
            Event::Reaction { emoji, .. } => Some(emoji.as_str()),
            _ => None,
        };
        assert_eq!(read, expected);
    }

    #[test]
    fn a_reaction_of_an_anonymous_account_is_nobodys() {
        let event = inbound(&json!({ "update_id": 1, "message_reaction": {
            "chat": group(), "message_id": 41, "actor_chat": { "id": -5 },
            "old_reaction": [], "new_reaction": [{ "type": "emoji", "emoji": "👍" }],
        }}));
        assert!(event.actor.is_automated);
    }

    #[test]
    fn a_group_that_moves_is_reported_from_both_sides() {
        let old = json!({ "id": -880_001, "type": "group" });
        let new = json!({ "id": -1_009_990_009_i64, "type": "supergroup" });
        for inbound in [
            text_in(&old, &json!({ "text": null, "migrate_to_chat_id": -1_009_990_009_i64 })),
            text_in(&new, &json!({ "text": null, "migrate_from_chat_id": -880_001 })),
        ] {
            assert_eq!(inbound.place.address, "-1009990009");
            assert_eq!(inbound.event, Event::Moved { from: "-880001".to_owned() });
        }
    }

    #[rstest]
    #[case("kicked", Some(false))]
    #[case("member", Some(true))]
    #[case("a_new_word", None)]
    fn blocking_and_unblocking_is_seen(#[case] status: &str, #[case] expected: Option<bool>) {
        let event = inbound(&json!({ "update_id": 1, "my_chat_member": {
            "chat": private(), "from": { "id": 700_001 }, "date": 1,
            "old_chat_member": { "status": "member" }, "new_chat_member": { "status": status },
        }}));
        let read = match event.event {
            Event::Reach { is_open, .. } => Some(is_open),
            _ => None,
        };
        assert_eq!(read, expected);
    }

    proptest! {
        #[test]
        fn no_update_makes_it_fail(key in "[a-z_]{1,20}", value in "\\PC{0,60}", number in any::<i64>()) {
            let value: Value = serde_json::from_str(&value).unwrap_or_else(|_| json!(value));
            for part in ["message", "callback_query", "message_reaction", "my_chat_member", "edited_message"] {
                for update in [
                    json!({ "update_id": number, part: value }),
                    json!({ "update_id": number, part: { &key: value, "chat": value, "from": value } }),
                ] {
                    let _ = inbound(&update);
                }
            }
        }
    }
}
