//! Payload → what is stored of it.

use sayso_channel::{Privacy, RawInbound};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Bytes of a payload that are stored; of a larger one only what is needed.
const LARGEST: usize = 60_000;

/// Who we are in the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Me {
    /// The workspace.
    pub(crate) team: String,
    /// The organisation, where the app is installed for all of it.
    pub(crate) enterprise: Option<String>,
    /// The bot's user.
    pub(crate) user: String,
    /// The bot's other id, under which its messages come back.
    pub(crate) bot: String,
}

impl Me {
    /// What people's ids belong to.
    pub(crate) fn realm(&self) -> &str {
        self.enterprise.as_deref().unwrap_or(&self.team)
    }

    /// A conversation as the gateway addresses it.
    pub(crate) fn address(&self, channel: &str, thread: Option<&str>) -> String {
        let realm = self.realm();
        match thread {
            Some(thread) => format!("{realm}:{channel}:{thread}"),
            None => format!("{realm}:{channel}"),
        }
    }
}

/// The way by which a payload came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Route {
    /// Something happened.
    EventsApi,
    /// Somebody used a button, a list or a window of ours.
    Interactive,
    /// Somebody typed our command.
    SlashCommands,
}

/// What is stored.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub(crate) me: Me,
    pub(crate) route: Route,
    /// Whether only the person and we read the conversation.
    pub(crate) is_private: bool,
    pub(crate) payload: Value,
}

pub(crate) fn text<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    value.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The conversation of a payload.
pub(crate) fn channel(route: Route, payload: &Value) -> Option<&str> {
    let paths: &[&str] = match route {
        Route::EventsApi => {
            &["/event/channel", "/event/item/channel", "/event/channel/id", "/event/channel_id"]
        }
        Route::Interactive => &["/container/channel_id", "/channel/id"],
        Route::SlashCommands => &["/channel_id"],
    };
    paths.iter().find_map(|path| text(payload, path))
}

/// What is stored of a payload.
pub(crate) fn store(me: &Me, route: Route, privacy: Privacy, payload: Value) -> RawInbound {
    let dedup_key = dedup_key(route, &payload);
    let lane = lane(route, &payload);
    let is_private = privacy == Privacy::Private;
    let stored = Stored { me: me.clone(), route, is_private, payload };
    let mut body = serde_json::to_vec(&stored).unwrap_or_default();
    if body.len() > LARGEST {
        let slim = Stored { payload: slimmed(route, &stored.payload), ..stored };
        body = serde_json::to_vec(&slim).unwrap_or_default();
    }
    RawInbound { receiver: me.realm().to_owned(), dedup_key, lane, body }
}

/// The same message comes with several ids and under several names, the same
/// click once: a message is known by where and when it was written, a click by
/// who made it where and when, anything else by its id.
fn dedup_key(route: Route, payload: &Value) -> String {
    let key = name(route, payload);
    // Without what makes it known, only the very same is the same.
    if key.contains(":-") {
        return format!("{key}:{}", hex::encode(Sha256::digest(payload.to_string())));
    }
    key
}

fn name(route: Route, payload: &Value) -> String {
    let part = |path: &str| text(payload, path).unwrap_or("-");
    match route {
        Route::EventsApi => match (part("/event/type"), text(payload, "/event/subtype")) {
            (
                "message" | "app_mention",
                None | Some("file_share" | "thread_broadcast" | "me_message"),
            ) if text(payload, "/event/ts").is_some() => {
                format!("post:{}:{}", part("/event/channel"), part("/event/ts"))
            }
            ("message", Some(subtype)) if text(payload, "/event/event_ts").is_some() => {
                format!("{subtype}:{}:{}", part("/event/channel"), part("/event/event_ts"))
            }
            (kind @ ("reaction_added" | "reaction_removed"), _)
                if text(payload, "/event/event_ts").is_some() =>
            {
                format!(
                    "{kind}:{}:{}:{}:{}:{}",
                    part("/event/item/channel"),
                    part("/event/item/ts"),
                    part("/event/user"),
                    part("/event/reaction"),
                    part("/event/event_ts")
                )
            }
            _ => format!("event:{}", part("/event_id")),
        },
        Route::Interactive => match part("/type") {
            "view_submission" | "view_closed" => {
                format!("{}:{}:{}", part("/type"), part("/view/id"), part("/view/hash"))
            }
            _ => format!(
                "{}:{}:{}:{}:{}",
                part("/type"),
                part("/user/id"),
                text(payload, "/container/message_ts").unwrap_or(part("/message/ts")),
                part("/actions/0/action_id"),
                text(payload, "/actions/0/action_ts").unwrap_or(part("/trigger_id"))
            ),
        },
        Route::SlashCommands => format!("command:{}", part("/trigger_id")),
    }
}

/// Clicks have lanes of their own, one a card and person: none of them waits
/// behind a message or behind another card.
fn lane(route: Route, payload: &Value) -> String {
    let part = |path: &str| text(payload, path).unwrap_or("-");
    match route {
        Route::Interactive => format!(
            "slack:click:{}:{}",
            part("/user/id"),
            text(payload, "/container/message_ts").unwrap_or(part("/view/id"))
        ),
        _ => format!("slack:{}", channel(route, payload).unwrap_or("-")),
    }
}

/// A payload without what we never read: blocks, files, the message that a click
/// was made on.
fn slimmed(route: Route, payload: &Value) -> Value {
    let mut slim = payload.clone();
    let drop = |slim: &mut Value, path: &str, names: &[&str]| {
        if let Some(object) = slim.pointer_mut(path).and_then(Value::as_object_mut) {
            object.retain(|name, _| !names.contains(&name.as_str()));
        }
    };
    let heavy =
        &["blocks", "attachments", "files", "metadata", "root", "previous_message", "message"];
    match route {
        Route::EventsApi => drop(&mut slim, "/event", heavy),
        Route::Interactive => {
            drop(&mut slim, "", &["message", "state"]);
            drop(&mut slim, "/view", &["blocks"]);
        }
        Route::SlashCommands => {}
    }
    if slim.to_string().len() <= LARGEST {
        return slim;
    }
    // Nobody types that much: no message of the platform is so long.
    serde_json::json!({ "type": payload.get("type"), "event_id": payload.get("event_id") })
}
