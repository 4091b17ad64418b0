//! Update → what is stored of it.

use sayso_channel::RawInbound;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Bytes of an update that are stored; of a larger one only what is needed to
/// decide.
const LARGEST: usize = 60_000;

/// Who received an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Receiver {
    /// The bot's id.
    pub(crate) id: String,
    /// Its name without `@`, by which it is spoken to in groups.
    pub(crate) username: String,
}

/// What is stored of one update, and its place in the order of updates; `None`
/// when it has none.
pub(crate) fn store(receiver: &Receiver, update: &RawValue) -> Option<(RawInbound, i64)> {
    let value: Value = serde_json::from_str(update.get()).ok()?;
    let number = value.get("update_id").and_then(Value::as_i64)?;
    let slim;
    let update = if update.get().len() > LARGEST {
        slim = slimmed(&value);
        slim.as_str()
    } else {
        update.get()
    };
    let username = Value::from(receiver.username.as_str());
    let raw = RawInbound {
        receiver: receiver.id.clone(),
        dedup_key: number.to_string(),
        lane: lane(&value),
        body: format!("{{\"bot\":{username},\"update\":{update}}}").into_bytes(),
    };
    Some((raw, number))
}

/// Presses have lanes of their own, one a card: none of them waits behind a
/// message or behind another card.
fn lane(update: &Value) -> String {
    let place = |message: &Value| message.pointer("/chat/id").and_then(Value::as_i64);
    if let Some(tap) = update.get("callback_query") {
        let part = |path: &str| tap.pointer(path).and_then(Value::as_i64).unwrap_or(0);
        return format!("telegram:tap:{}:{}", part("/from/id"), part("/message/message_id"));
    }
    let chat = update.as_object().and_then(|members| members.values().find_map(place));
    format!("telegram:{}", chat.unwrap_or(0))
}

/// An update without what we never read: entities, media, the text that a reply
/// quotes.
fn slimmed(update: &Value) -> String {
    const KEPT: &[&str] = &[
        "message_id",
        "from",
        "sender_chat",
        "sender_business_bot",
        "chat",
        "text",
        "caption",
        "forward_origin",
        "forward_from",
        "forward_date",
        "via_bot",
        "is_automatic_forward",
        "is_topic_message",
        "message_thread_id",
        "migrate_to_chat_id",
        "migrate_from_chat_id",
    ];
    let message = |message: &Value| {
        let members = message.as_object().into_iter().flatten();
        let kept = members.filter(|(name, _)| KEPT.contains(&name.as_str()));
        let mut kept: serde_json::Map<String, Value> =
            kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        if let Some(replied) = message.get("reply_to_message") {
            let replied =
                json!({ "message_id": replied.get("message_id"), "from": replied.get("from") });
            kept.insert("reply_to_message".to_owned(), replied);
        }
        Value::Object(kept)
    };
    let mut slim = json!({ "update_id": update.get("update_id") });
    for name in ["message", "edited_message"] {
        if let (Some(found), Some(slim)) = (update.get(name), slim.as_object_mut()) {
            slim.insert(name.to_owned(), message(found));
        }
    }
    if let (Some(tap), Some(slim)) = (update.get("callback_query"), slim.as_object_mut()) {
        let on = tap
            .get("message")
            .map(|on| json!({ "message_id": on.get("message_id"), "chat": on.get("chat") }));
        let tap = json!({
            "id": tap.get("id"), "from": tap.get("from"), "data": tap.get("data"), "message": on,
        });
        slim.insert("callback_query".to_owned(), tap);
    }
    let slim = slim.to_string();
    if slim.len() <= LARGEST {
        return slim;
    }
    // Nobody types that much: no message of the platform is so long.
    json!({ "update_id": update.get("update_id") }).to_string()
}

#[cfg(test)]
mod tests {
    use sayso_channel::Event;

    use super::*;
    use crate::inbound::{press_id, read};

    fn stored(update: &Value) -> (RawInbound, i64) {
        let receiver = Receiver { id: "700".to_owned(), username: "GateBot".to_owned() };
        let update = serde_json::value::to_raw_value(update).unwrap();
        store(&receiver, &update).unwrap()
    }

    #[test]
    fn of_a_huge_message_the_words_and_the_reply_are_kept() {
        let entities = vec![json!({ "type": "bold", "offset": 0, "length": 1 }); 3_000];
        let message = json!({
            "message_id": 60, "date": 1, "chat": { "id": 700_001, "type": "private" },
            "from": { "id": 700_001, "is_bot": false }, "text": "я".repeat(4_000),
            "entities": entities, "forward_date": 1,
            "reply_to_message": { "message_id": 41, "from": { "id": 700 }, "entities": entities },
        });
        let event = read(&stored(&json!({ "update_id": 1, "message": message })).0).unwrap().event;
        let Event::Text { text, reply_to, is_secondhand } = event else { panic!() };
        assert_eq!(text.chars().count(), 4_000);
        assert_eq!((reply_to.as_deref(), is_secondhand), (Some("41"), true));
    }

    #[test]
    fn of_a_huge_update_the_press_is_kept() {
        let update = json!({ "update_id": 9, "callback_query": {
            "id": "77", "from": { "id": 700_001 }, "data": "apr:x:reject",
            "message": {
                "message_id": 41, "chat": { "id": 700_001, "type": "private" },
                "text": "x".repeat(100_000),
            },
        }});
        let (raw, number) = stored(&update);
        assert!(raw.body.len() < 1_000 && number == 9);
        assert_eq!(press_id(&raw).as_deref(), Some("77"));
        let inbound = read(&raw).unwrap();
        assert_eq!(
            (inbound.actor.id.as_str(), inbound.place.address.as_str()),
            ("700001", "700001")
        );
    }
}
