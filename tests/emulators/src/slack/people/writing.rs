//! What people, and programs other than ours, write.

use serde_json::{Map, Value, json};

use crate::slack::state::{Shown, World};
use crate::slack::{BOT_USER, TEAM_ID, Workspace, shapes};

/// What was typed, as it goes over the wire; people, places and groups that the
/// app suggests while one types are marked already (`<@U0BOT>`).
fn typed(text: &str) -> (String, Vec<Value>) {
    let mut wire = String::new();
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    let flush = |plain: &mut String, parts: &mut Vec<Value>| {
        if !plain.is_empty() {
            parts.push(json!({ "type": "text", "text": std::mem::take(plain) }));
        }
    };
    while let Some(c) = rest.chars().next() {
        let marked = rest.strip_prefix('<').and_then(|after| after.split_once('>'));
        let marked = marked.and_then(|(inside, after)| Some((inside, mark(inside)?, after)));
        if let Some((inside, part, after)) = marked {
            flush(&mut plain, &mut parts);
            parts.push(part);
            wire.push('<');
            wire.push_str(inside);
            wire.push('>');
            rest = after;
            continue;
        }
        match c {
            '&' => wire.push_str("&amp;"),
            '<' => wire.push_str("&lt;"),
            '>' => wire.push_str("&gt;"),
            c => wire.push(c),
        }
        plain.push(c);
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    flush(&mut plain, &mut parts);
    (wire, parts)
}

fn mark(inside: &str) -> Option<Value> {
    let is_id = |id: &str| !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric());
    if let Some(id) = inside.strip_prefix('@').filter(|id| is_id(id)) {
        Some(json!({ "type": "user", "user_id": id }))
    } else if let Some(id) = inside.strip_prefix('#').filter(|id| is_id(id)) {
        Some(json!({ "type": "channel", "channel_id": id }))
    } else {
        let range = inside.strip_prefix('!')?;
        let is_range = ["here", "channel", "everyone"].contains(&range);
        is_range.then(|| json!({ "type": "broadcast", "range": range }))
    }
}

fn rich(parts: Vec<Value>, id: &str) -> Vec<Value> {
    let section = json!({ "type": "rich_text_section", "elements": parts });
    vec![json!({ "type": "rich_text", "block_id": id, "elements": [section] })]
}

impl World {
    /// A message that somebody typed, not sent yet.
    fn written(&mut self, user: &str, text: &str, thread: Option<&str>) -> Shown {
        self.know(user);
        let (text, parts) = typed(text);
        let number = self.next_number();
        let block = self.next_id("b");
        let mut extra = Map::new();
        let id = format!("{number:08x}-0000-4000-8000-{number:012x}");
        extra.insert("client_msg_id".to_owned(), id.into());
        let (name, team) = (self.users[user].name.clone(), self.users[user].team.clone());
        if team != TEAM_ID {
            for name in ["team", "user_team", "source_team"] {
                extra.insert(name.to_owned(), team.as_str().into());
            }
            let profile = json!({ "name": name, "display_name": name, "team": team });
            extra.insert("user_profile".to_owned(), profile);
        }
        Shown {
            ts: self.next_ts(),
            thread_ts: thread.map(str::to_owned),
            user: user.to_owned(),
            text,
            blocks: rich(parts, &block),
            extra,
            ..Shown::default()
        }
    }
}

impl Workspace {
    /// Somebody writes in their conversation with the bot; the message's ts.
    pub fn says(&self, user: &str, text: &str) -> String {
        let channel = self.dm(user);
        self.says_in(user, &channel, text, None)
    }

    /// Somebody writes somewhere, perhaps in a thread. With `<@U0BOT>` in the
    /// text it is a mention, outside of direct conversations.
    pub fn says_in(&self, user: &str, channel: &str, text: &str, thread: Option<&str>) -> String {
        self.with(|world| {
            let shown = world.written(user, text, thread);
            let ts = shown.ts.clone();
            world.post(channel, shown);
            ts
        })
    }

    /// Somebody mentions the bot; the app gets this as two events.
    pub fn mentions(&self, user: &str, channel: &str, text: &str, thread: Option<&str>) -> String {
        self.says_in(user, channel, &format!("<@{BOT_USER}> {text}"), thread)
    }

    /// Somebody replies in a thread and shows it to the channel as well.
    pub fn broadcasts(&self, user: &str, channel: &str, text: &str, thread: &str) -> String {
        self.with(|world| {
            let mut shown = world.written(user, text, Some(thread));
            shown.subtype = Some("thread_broadcast".to_owned());
            let ts = shown.ts.clone();
            world.post(channel, shown);
            ts
        })
    }

    /// Another app's bot writes.
    pub fn bot_says(&self, channel: &str, text: &str, thread: Option<&str>) -> String {
        self.with(|world| {
            let mut shown = world.written("U0OTHERBOT", text, thread);
            world.users.get_mut("U0OTHERBOT").expect("the bot").is_bot = true;
            shown.bot_id = Some("B0OTHER".to_owned());
            shown.extra.remove("client_msg_id");
            shown.extra.insert("app_id".to_owned(), "A0OTHER".into());
            let profile = json!({
                "id": "B0OTHER", "app_id": "A0OTHER", "name": "other", "deleted": false,
                "updated": 1_759_000_000, "team_id": TEAM_ID, "is_workflow_bot": false,
                "icons": {
                    "image_36": "https://a.slack-edge.com/o36.png",
                    "image_48": "https://a.slack-edge.com/o48.png",
                    "image_72": "https://a.slack-edge.com/o72.png",
                },
            });
            shown.extra.insert("bot_profile".to_owned(), profile);
            let ts = shown.ts.clone();
            world.post(channel, shown);
            ts
        })
    }

    /// A workflow or an old integration writes: a message without an account.
    pub fn workflow_says(&self, channel: &str, text: &str, thread: Option<&str>) -> String {
        self.with(|world| {
            let (text, _) = typed(text);
            let ts = world.next_ts();
            let name = ("username".to_owned(), Value::from("A workflow"));
            let shown = Shown {
                ts: ts.clone(),
                thread_ts: thread.map(str::to_owned),
                subtype: Some("bot_message".to_owned()),
                bot_id: Some("B0WORKFLOW".to_owned()),
                text,
                extra: Map::from_iter([name]),
                ..Shown::default()
            };
            world.post(channel, shown);
            ts
        })
    }

    /// A program writes under somebody's own account: all that shows it is the
    /// app's id, and sometimes not even that.
    pub fn says_by_token(
        &self,
        user: &str,
        channel: &str,
        text: &str,
        app_id: Option<&str>,
    ) -> String {
        self.with(|world| {
            let mut shown = world.written(user, text, None);
            shown.extra.remove("client_msg_id");
            if let Some(app_id) = app_id {
                shown.extra.insert("app_id".to_owned(), app_id.into());
            }
            let ts = shown.ts.clone();
            world.post(channel, shown);
            ts
        })
    }

    /// The bot's own account writes and nothing says that it is a bot's.
    pub fn bot_user_says(&self, channel: &str, text: &str) -> String {
        self.says_in(BOT_USER, channel, text, None)
    }

    /// Somebody changes what they wrote. One that names the bot is a mention
    /// again.
    pub fn edits(&self, channel: &str, ts: &str, text: &str) {
        self.with(|world| {
            let (text, parts) = typed(text);
            let block = world.next_id("b");
            world.change(channel, ts, true, |shown| {
                shown.text = text;
                shown.blocks = rich(parts, &block);
            });
            let place = &world.places[channel];
            let shown = &place.messages[ts];
            let is_named = shown.text.contains(&format!("<@{BOT_USER}>"));
            if is_named && place.has_bot() && place.kind.channel_type() != "im" {
                let mut event = shapes::message(place, shown);
                event["type"] = "app_mention".into();
                event["channel"] = channel.into();
                event["event_ts"] = event["edited"]["ts"].clone();
                world.happens(event, false);
            }
        });
    }

    /// Slack itself touches a message, as it does for a link's preview: the app
    /// hears of a change, and nothing that people wrote is different.
    pub fn unfurls(&self, channel: &str, ts: &str) {
        self.with(|world| {
            world.change(channel, ts, false, |shown| {
                let preview = json!({ "id": 1, "from_url": "https://example.com", "title": "A" });
                shown.attachments.push(preview);
            });
        });
    }

    /// Somebody takes a message away, their own or as an admin the bot's.
    pub fn deletes(&self, channel: &str, ts: &str) {
        self.with(|world| world.delete(channel, ts));
    }

    /// Somebody reacts.
    pub fn reacts(&self, user: &str, channel: &str, ts: &str, name: &str) {
        self.with(|world| {
            world.know(user);
            world.react(user, channel, ts, name, true);
        });
    }

    /// Somebody takes a reaction back.
    pub fn unreacts(&self, user: &str, channel: &str, ts: &str, name: &str) {
        self.with(|world| world.react(user, channel, ts, name, false));
    }
}
