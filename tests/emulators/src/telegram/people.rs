//! The people's side: what they do, and what they see.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};

use crate::telegram::state::{Answered, Call, Chat, Shown, World};
use crate::telegram::{BotApi, Shared};

/// The bot's id.
pub const BOT_ID: i64 = 700;
/// The bot's name.
pub const BOT_NAME: &str = "GateBot";

pub(super) fn bot() -> Value {
    json!({ "id": BOT_ID, "is_bot": true, "first_name": "Gate", "username": BOT_NAME })
}

fn user(id: i64) -> Value {
    json!({ "id": id, "is_bot": false, "first_name": format!("Person {id}") })
}

fn chat_json(id: i64, kind: &str) -> Value {
    if kind == "private" {
        json!({ "id": id, "type": kind, "first_name": format!("Person {id}") })
    } else {
        json!({ "id": id, "type": kind, "title": "A group" })
    }
}

pub(super) fn message_json(chat: i64, kind: &str, shown: &Shown) -> Value {
    let from = if shown.from == BOT_ID { bot() } else { user(shown.from) };
    let mut message = json!({
        "message_id": shown.id, "date": 1_760_000_000, "chat": chat_json(chat, kind), "from": from,
    });
    let part = if shown.file.is_some() { "caption" } else { "text" };
    message[part] = shown.text.as_str().into();
    if shown.file.is_some() {
        message["document"] =
            json!({ "file_id": "f", "file_unique_id": "f", "file_name": "whole.txt" });
    }
    if !shown.entities.is_empty() {
        message["entities"] = Value::Array(shown.entities.clone());
    }
    if let Some(topic) = shown.topic {
        message["message_thread_id"] = topic.into();
        message["is_topic_message"] = true.into();
    }
    if !shown.buttons.is_empty() {
        let rows: Vec<Vec<Value>> = shown
            .buttons
            .iter()
            .map(|row| row.iter().map(|(t, d)| json!({ "text": t, "callback_data": d })).collect())
            .collect();
        message["reply_markup"] = json!({ "inline_keyboard": rows });
    }
    message
}

impl World {
    fn chat(&mut self, id: i64) -> &mut Chat {
        let kind = if id > 0 { "private" } else { "supergroup" };
        self.chats.entry(id).or_insert_with(|| Chat { kind: kind.to_owned(), ..Chat::default() })
    }

    fn say(&mut self, from: i64, chat: i64, text: &str, reply_to: Option<i64>) -> Value {
        let id = self.next_message();
        let shown = Shown {
            id,
            from,
            text: text.to_owned(),
            entities: Vec::new(),
            buttons: Vec::new(),
            topic: None,
            reply_to,
            edits: 0,
            file: None,
        };
        let kind = self.chat(chat).kind.clone();
        let mut message = message_json(chat, &kind, &shown);
        if let Some(replied) = reply_to.and_then(|id| self.chat(chat).messages.get(&id).cloned()) {
            message["reply_to_message"] = message_json(chat, &kind, &replied);
        }
        self.chat(chat).messages.insert(id, shown);
        message
    }
}

impl BotApi {
    fn with<T>(&self, act: impl FnOnce(&mut World) -> T) -> T {
        let result = act(&mut self.shared.world());
        self.shared.touch();
        result
    }

    /// Goes on numbering updates from here: a server that forgets everything
    /// must not begin where a gateway has been already.
    pub fn number_from(&self, number: i64) {
        self.with(|world| world.last_update = number);
    }

    /// Somebody writes in their private chat with the bot; the message's id.
    pub fn says(&self, who: i64, text: &str) -> i64 {
        self.says_in(who, who, text, None)
    }

    /// Somebody writes somewhere, perhaps in reply to a message.
    pub fn says_in(&self, who: i64, chat: i64, text: &str, reply_to: Option<i64>) -> i64 {
        self.with(|world| {
            let message = world.say(who, chat, text, reply_to);
            let id = message["message_id"].as_i64().unwrap_or(0);
            world.push("message", message);
            id
        })
    }

    /// Somebody presses the button with this data on a message of their chat;
    /// the id of the press.
    pub fn presses(&self, who: i64, chat: i64, message: i64, data: &str) -> String {
        self.with(|world| {
            world.last_press += 1;
            let id = format!("press{}", world.last_press);
            world.open_presses.insert(id.clone());
            let kind = world.chat(chat).kind.clone();
            let shown = world.chat(chat).messages.get(&message).cloned();
            let on = shown.map_or_else(
                // One that can't be shown any more.
                || json!({ "message_id": message, "date": 0, "chat": chat_json(chat, &kind) }),
                |shown| message_json(chat, &kind, &shown),
            );
            world.push(
                "callback_query",
                json!({
                    "id": id, "from": user(who), "chat_instance": "ci", "data": data, "message": on,
                }),
            );
            id
        })
    }

    /// Any update, as it is, also of a kind that the bot did not ask for.
    pub fn happens(&self, kind: &str, content: Value) -> i64 {
        self.with(|world| world.force(kind, content))
    }

    /// The last updates come again.
    pub fn repeats(&self, updates: &[Value]) {
        self.with(|world| {
            for update in updates {
                let number = update["update_id"].as_i64().unwrap_or(0);
                world.updates.push((number, update.clone()));
            }
        });
    }

    /// What the bot did not confirm yet.
    pub fn unconfirmed(&self) -> Vec<Value> {
        self.shared.world().updates.iter().map(|(_, update)| update.clone()).collect()
    }

    /// How often an update was given out to polls.
    pub fn served(&self, number: i64) -> usize {
        self.shared.world().served.get(&number).copied().unwrap_or(0)
    }

    /// Somebody blocks the bot.
    pub fn blocks(&self, who: i64) {
        self.refuses(who, Some((403, "Forbidden: bot was blocked by the user")));
        self.happens("my_chat_member", membership(who, "member", "kicked"));
    }

    /// Somebody unblocks the bot.
    pub fn unblocks(&self, who: i64) {
        self.refuses(who, None);
        self.happens("my_chat_member", membership(who, "kicked", "member"));
    }

    /// Every message to a chat is refused with these words, or taken again.
    pub fn refuses(&self, chat: i64, words: Option<(u16, &str)>) {
        self.with(|world| {
            world.chat(chat).refusal = words.map(|(code, words)| (code, words.to_owned()));
        });
    }

    /// A group becomes a supergroup.
    pub fn migrates(&self, from: i64, to: i64) {
        self.with(|world| {
            world.chat(to);
            world.chat(from).moved_to = Some(to);
            let mut left = world.say(1, from, "", None);
            left["migrate_to_chat_id"] = to.into();
            world.push("message", left);
            let mut came = world.say(1, to, "", None);
            came["migrate_from_chat_id"] = from.into();
            world.push("message", came);
        });
    }

    /// Somebody makes the bot an administrator of a group, who is told everything
    /// there.
    pub fn promotes(&self, who: i64, chat: i64) {
        self.with(|world| world.chat(chat).is_bot_administrator = true);
        let change = json!({
            "chat": chat_json(chat, "supergroup"), "from": user(who), "date": 1_760_000_000,
            "old_chat_member": { "status": "member", "user": bot() },
            "new_chat_member": {
                "status": "administrator", "user": bot(), "can_be_edited": false,
                "is_anonymous": false, "can_manage_chat": true, "can_delete_messages": false,
                "can_manage_video_chats": false, "can_restrict_members": false,
                "can_promote_members": false, "can_change_info": false,
                "can_invite_users": false, "can_post_stories": false,
                "can_edit_stories": false, "can_delete_stories": false,
            },
        });
        self.happens("my_chat_member", change);
    }

    /// Opens a chat without anybody having written in it.
    pub fn opens(&self, chat: i64) {
        self.with(|world| {
            world.chat(chat);
        });
    }

    /// A group gets a topic.
    pub fn opens_topic(&self, chat: i64, topic: i64) {
        self.with(|world| world.chat(chat).topics.insert(topic));
    }

    /// Somebody removes a message.
    pub fn removes(&self, chat: i64, message: i64) {
        self.with(|world| world.chat(chat).messages.remove(&message));
    }

    /// What stands in a chat, in order.
    pub fn chat(&self, chat: i64) -> Vec<Shown> {
        let mut world = self.shared.world();
        world.chat(chat).messages.values().cloned().collect()
    }

    /// How presses were answered, in order.
    pub fn answered(&self) -> Vec<Answered> {
        self.shared.world().answered.clone()
    }

    /// The calls that the bot made.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.world().calls.clone()
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

    /// Every chat as its people see it.
    pub fn transcript(&self) -> Vec<String> {
        let world = self.shared.world();
        let mut ids: Vec<&i64> = world.chats.keys().collect();
        ids.sort();
        let line = |shown: &Shown| {
            let who = if shown.from == BOT_ID { "bot".to_owned() } else { shown.from.to_string() };
            let labels: Vec<&str> =
                shown.buttons.iter().flatten().map(|(label, _)| label.as_str()).collect();
            format!("{} {who}: {} {labels:?}", shown.id, shown.text)
        };
        ids.into_iter().flat_map(|id| world.chats[id].messages.values().map(line)).collect()
    }
}

fn membership(who: i64, before: &str, after: &str) -> Value {
    json!({
        "chat": chat_json(who, "private"), "from": user(who), "date": 1_760_000_000,
        "old_chat_member": { "status": before, "user": bot() },
        "new_chat_member": { "status": after, "user": bot() },
    })
}

/// Calls the webhook, if one is set, with each update until it is taken.
pub(super) async fn deliver_to_webhook(shared: Arc<Shared>) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap_or_default();
    let mut changed = shared.changed.subscribe();
    loop {
        let next = {
            let world = shared.world();
            let hook = &world.webhook;
            let first = world.updates.first().cloned();
            first
                .filter(|_| !hook.url.is_empty())
                .map(|(number, update)| (number, update, hook.url.clone(), hook.secret.clone()))
        };
        let Some((number, update, url, secret)) = next else {
            if changed.changed().await.is_err() {
                return;
            }
            continue;
        };
        let sent = client
            .post(url)
            .header("content-type", "application/json")
            .header("x-telegram-bot-api-secret-token", secret)
            .body(update.to_string())
            .send()
            .await;
        let trouble = match sent {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("Wrong response from the webhook: {}", answer.status())),
            Err(_) => Some("Connection refused".to_owned()),
        };
        let is_taken = trouble.is_none();
        {
            let mut world = shared.world();
            if is_taken {
                world.updates.retain(|(of, _)| *of != number);
            } else {
                world.webhook.last_error = trouble;
            }
        }
        if !is_taken {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// The people's side by hand: `GET /people/CHAT` shows a chat,
/// `POST /people/CHAT/says` takes a text, `POST /people/CHAT/presses` a label.
pub(super) fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/people/{chat}", get(by_hand_look))
        .route("/people/{chat}/says", post(by_hand_say))
        .route("/people/{chat}/presses", post(by_hand_press))
        .with_state(shared)
}

async fn by_hand_look(State(shared): State<Arc<Shared>>, Path(chat): Path<i64>) -> Json<Value> {
    let mut world = shared.world();
    let shown = world.chat(chat).messages.values().map(|shown| {
        json!({
            "id": shown.id, "from": shown.from, "text": shown.text, "buttons": shown.buttons,
        })
    });
    let shown: Vec<Value> = shown.collect();
    let answered = world.answered.last().map(|answered| answered.text.clone());
    Json(json!({ "messages": shown, "last_answer": answered }))
}

fn by_hand(shared: Arc<Shared>) -> BotApi {
    let url = url::Url::parse("http://127.0.0.1/").unwrap();
    BotApi { shared, url }
}

async fn by_hand_say(State(shared): State<Arc<Shared>>, Path(chat): Path<i64>, text: String) {
    by_hand(shared).says(chat, &text);
}

/// Presses the newest button with that label.
async fn by_hand_press(State(shared): State<Arc<Shared>>, Path(chat): Path<i64>, label: String) {
    let api = by_hand(shared);
    let found = api.chat(chat).into_iter().rev().find_map(|shown| {
        let buttons = shown.buttons.iter().flatten();
        let data = buttons.filter(|(of, _)| of.contains(label.trim())).map(|(_, data)| data).next();
        data.map(|data| (shown.id, data.clone()))
    });
    if let Some((message, data)) = found {
        api.presses(chat, chat, message, &data);
    }
}
