//! The methods of the Bot API that a bot of ours may call.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::telegram::Shared;
use crate::telegram::people::{BOT_ID, bot, message_json};
use crate::telegram::state::{Answered, Refusal, Shown, World};

type Parameters = Map<String, Value>;
type Outcome = Result<Value, Refusal>;

const METHODS: &[&str] = &[
    "getMe",
    "getUpdates",
    "setWebhook",
    "deleteWebhook",
    "getWebhookInfo",
    "sendMessage",
    "editMessageText",
    "sendDocument",
    "answerCallbackQuery",
    "sendChatAction",
    "getChatMember",
];

/// Method names are taken in any case.
pub(super) fn canonical(method: &str) -> String {
    let known = METHODS.iter().find(|known| known.eq_ignore_ascii_case(method));
    known.map_or_else(|| method.to_owned(), |known| (*known).to_owned())
}

pub(super) async fn run(shared: &Arc<Shared>, method: &str, parameters: &Parameters) -> Outcome {
    match method {
        "getMe" => Ok(me()),
        "getUpdates" => get_updates(shared, parameters).await,
        "setWebhook" => set_webhook(shared, parameters),
        "deleteWebhook" => Ok(delete_webhook(&mut shared.world(), parameters)),
        "getWebhookInfo" => Ok(webhook_info(&shared.world())),
        "sendMessage" => send(&mut shared.world(), parameters, None),
        "sendDocument" => send_document(&mut shared.world(), parameters),
        "editMessageText" => edit(&mut shared.world(), parameters),
        "answerCallbackQuery" => answer(&mut shared.world(), parameters),
        "sendChatAction" => Ok(true.into()),
        "getChatMember" => member(&shared.world(), parameters),
        _ => Err(Refusal::new(404, "Not Found: method not found")),
    }
}

fn me() -> Value {
    let mut me = bot();
    for flag in [
        "can_join_groups",
        "can_read_all_group_messages",
        "supports_inline_queries",
        "supports_join_request_queries",
        "can_connect_to_business",
        "has_main_web_app",
        "has_topics_enabled",
        "allows_users_to_create_topics",
        "can_manage_bots",
    ] {
        me[flag] = (flag == "can_join_groups").into();
    }
    me
}

/// The bot's place in a chat.
fn member(world: &World, parameters: &Parameters) -> Outcome {
    let id = number(parameters, "chat_id").unwrap_or(0);
    let chat = world.chats.get(&id).ok_or_else(|| bad("chat not found"))?;
    if let Some((code, words)) = &chat.refusal {
        return Err(Refusal::new(*code, words));
    }
    if number(parameters, "user_id") != Some(BOT_ID) {
        return Err(bad("user not found"));
    }
    let mut member = json!({ "status": "member", "user": bot() });
    if chat.is_bot_administrator {
        member["status"] = "administrator".into();
        for right in [
            "can_be_edited",
            "is_anonymous",
            "can_manage_chat",
            "can_delete_messages",
            "can_manage_video_chats",
            "can_restrict_members",
            "can_promote_members",
            "can_change_info",
            "can_invite_users",
            "can_post_stories",
            "can_edit_stories",
            "can_delete_stories",
        ] {
            member[right] = (right == "can_manage_chat").into();
        }
    }
    Ok(member)
}

fn text<'a>(parameters: &'a Parameters, name: &str) -> Option<&'a str> {
    parameters.get(name).and_then(Value::as_str)
}

/// A number, also as text.
fn number(parameters: &Parameters, name: &str) -> Option<i64> {
    let value = parameters.get(name)?;
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

/// A structure, also as text that holds JSON.
fn structure(parameters: &Parameters, name: &str) -> Option<Value> {
    match parameters.get(name)? {
        Value::String(text) => serde_json::from_str(text).ok(),
        Value::Null => None,
        value => Some(value.clone()),
    }
}

fn flag(parameters: &Parameters, name: &str) -> bool {
    match parameters.get(name) {
        Some(Value::Bool(flag)) => *flag,
        Some(Value::String(text)) => text == "true",
        _ => false,
    }
}

fn bad(words: &str) -> Refusal {
    Refusal::new(400, &format!("Bad Request: {words}"))
}

fn allow(world: &mut World, parameters: &Parameters) {
    if let Some(Value::Array(kinds)) = structure(parameters, "allowed_updates") {
        let kinds = kinds.iter().filter_map(|kind| kind.as_str().map(str::to_owned));
        world.allowed = Some(kinds.collect());
    }
}

async fn get_updates(shared: &Arc<Shared>, parameters: &Parameters) -> Outcome {
    let seconds = u64::try_from(number(parameters, "timeout").unwrap_or(0)).unwrap_or(0).min(50);
    let limit = usize::try_from(number(parameters, "limit").unwrap_or(100)).unwrap_or(100);
    let mut changed = shared.changed.subscribe();
    let mine = {
        let mut world = shared.world();
        if !world.webhook.url.is_empty() {
            return Err(Refusal::new(
                409,
                "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook \
                 to delete the webhook first",
            ));
        }
        allow(&mut world, parameters);
        // An offset confirms what lies before it.
        if let Some(offset) = number(parameters, "offset").filter(|offset| *offset > 0) {
            world.updates.retain(|(number, _)| *number >= offset);
        }
        world.poll += 1;
        world.poll
    };
    shared.touch();
    let until = tokio::time::Instant::now() + Duration::from_secs(seconds);
    loop {
        changed.mark_unchanged();
        {
            let mut world = shared.world();
            if world.poll != mine {
                return Err(Refusal::new(
                    409,
                    "Conflict: terminated by other getUpdates request; make sure that only one bot \
                     instance is running",
                ));
            }
            if !world.webhook.url.is_empty() {
                return Err(Refusal::new(409, "Conflict: terminated by setWebhook request"));
            }
            let batch: Vec<(i64, Value)> =
                world.updates.iter().take(limit.clamp(1, 100)).cloned().collect();
            if !batch.is_empty() || tokio::time::Instant::now() >= until {
                for (number, _) in &batch {
                    *world.served.entry(*number).or_default() += 1;
                }
                let updates = batch.into_iter().map(|(_, update)| update);
                return Ok(Value::Array(updates.collect()));
            }
        }
        tokio::select! {
            _ = changed.changed() => {}
            () = tokio::time::sleep_until(until) => {}
        }
    }
}

fn set_webhook(shared: &Arc<Shared>, parameters: &Parameters) -> Outcome {
    let url = text(parameters, "url").unwrap_or_default().to_owned();
    let secret = text(parameters, "secret_token").unwrap_or_default().to_owned();
    // Plain http is taken for this machine alone, where tests run.
    let is_https = url.starts_with("https://") || url.starts_with("http://127.0.0.1:");
    if !url.is_empty() && !is_https {
        return Err(bad("bad webhook: An HTTPS URL must be provided for webhook"));
    }
    if secret.len() > 256 {
        return Err(bad("secret token is too long"));
    }
    if !secret.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')) {
        return Err(bad("secret token contains unallowed characters"));
    }
    {
        let mut world = shared.world();
        allow(&mut world, parameters);
        if flag(parameters, "drop_pending_updates") {
            world.updates.clear();
        }
        world.webhook.url = url;
        world.webhook.secret = secret;
    }
    shared.touch();
    Ok(true.into())
}

fn delete_webhook(world: &mut World, parameters: &Parameters) -> Value {
    world.webhook.url.clear();
    if flag(parameters, "drop_pending_updates") {
        world.updates.clear();
    }
    true.into()
}

fn webhook_info(world: &World) -> Value {
    let mut info = json!({
        "url": world.webhook.url, "has_custom_certificate": false,
        "pending_update_count": world.updates.len(),
    });
    if let Some(error) = &world.webhook.last_error {
        info["last_error_date"] = 1_760_000_000.into();
        info["last_error_message"] = error.as_str().into();
    }
    info
}

/// Finds the chat a message goes to, with the refusals that the place gives.
fn place(world: &World, parameters: &Parameters) -> Result<(i64, Option<i64>), Refusal> {
    let chat = number(parameters, "chat_id").ok_or_else(|| bad("chat_id is empty"))?;
    let Some(found) = world.chats.get(&chat) else {
        return Err(bad("chat not found"));
    };
    if let Some(to) = found.moved_to {
        let parameters = Some(json!({ "migrate_to_chat_id": to }));
        let words = "Bad Request: group chat was upgraded to a supergroup chat".to_owned();
        return Err(Refusal { code: 400, words, parameters });
    }
    if let Some((code, words)) = &found.refusal {
        return Err(Refusal::new(*code, words));
    }
    let topic = number(parameters, "message_thread_id");
    if topic.is_some_and(|topic| !found.topics.contains(&topic)) {
        return Err(bad("message thread not found"));
    }
    Ok((chat, topic))
}

fn checked_text(parameters: &Parameters, name: &str, most: usize) -> Result<String, Refusal> {
    if text(parameters, "parse_mode").is_some_and(|mode| !mode.is_empty()) {
        return Err(bad("can't parse entities: this stand-in takes explicit entities only"));
    }
    let text = text(parameters, name).unwrap_or_default().trim().to_owned();
    if text.is_empty() && name == "text" {
        return Err(bad("message text is empty"));
    }
    if text.encode_utf16().count() > most {
        return Err(bad("message is too long"));
    }
    Ok(text)
}

fn checked_entities(parameters: &Parameters, text: &str) -> Result<Vec<Value>, Refusal> {
    let units: Vec<u16> = text.encode_utf16().collect();
    let Some(Value::Array(entities)) = structure(parameters, "entities") else {
        return Ok(Vec::new());
    };
    for entity in &entities {
        let part = |name: &str| entity[name].as_u64().and_then(|n| usize::try_from(n).ok());
        let (Some(offset), Some(length)) = (part("offset"), part("length")) else {
            return Err(bad("can't parse MessageEntity: offset and length are needed"));
        };
        let covered = units.get(offset..(offset + length).min(units.len()));
        // An entity that splits a character, lies outside or is empty is a
        // fault of ours, even where the real server is silent about it.
        let is_whole =
            covered.is_some_and(|part| !part.is_empty() && String::from_utf16(part).is_ok());
        if !is_whole {
            return Err(bad("entity beyond the text or inside a character"));
        }
    }
    Ok(entities)
}

fn checked_buttons(parameters: &Parameters) -> Result<Vec<Vec<(String, String)>>, Refusal> {
    let Some(markup) = structure(parameters, "reply_markup") else { return Ok(Vec::new()) };
    let rows = markup.get("inline_keyboard").and_then(Value::as_array);
    let rows = rows.ok_or_else(|| bad("object expected as reply markup"))?;
    let mut shown = Vec::new();
    for row in rows {
        let mut buttons = Vec::new();
        for button in row.as_array().into_iter().flatten() {
            let label = button["text"].as_str().unwrap_or_default();
            let Some(data) = button["callback_data"].as_str() else {
                return Err(bad(
                    "can't parse inline keyboard button: Text buttons are unallowed in the inline \
                     keyboard",
                ));
            };
            if data.is_empty() || data.len() > 64 || label.is_empty() {
                return Err(bad("BUTTON_DATA_INVALID"));
            }
            buttons.push((label.to_owned(), data.to_owned()));
        }
        if buttons.len() > 8 {
            return Err(bad("reply markup is too long"));
        }
        shown.push(buttons);
    }
    if shown.iter().map(Vec::len).sum::<usize>() > 100 {
        return Err(bad("reply markup is too long"));
    }
    Ok(shown)
}

fn send(world: &mut World, parameters: &Parameters, file: Option<String>) -> Outcome {
    let (chat, topic) = place(world, parameters)?;
    let text = match &file {
        None => checked_text(parameters, "text", 4_096)?,
        Some(_) => checked_text(parameters, "caption", 1_024)?,
    };
    let entities = checked_entities(parameters, &text)?;
    let buttons = checked_buttons(parameters)?;
    let id = world.next_message();
    let shown =
        Shown { id, from: BOT_ID, text, entities, buttons, topic, reply_to: None, edits: 0, file };
    let kind = world.chats[&chat].kind.clone();
    let answer = message_json(chat, &kind, &shown);
    world.chats.get_mut(&chat).expect("the chat").messages.insert(id, shown);
    Ok(answer)
}

fn send_document(world: &mut World, parameters: &Parameters) -> Outcome {
    let file = text(parameters, "document").unwrap_or_default().to_owned();
    if file.is_empty() {
        return Err(bad("there is no document in the request"));
    }
    send(world, parameters, Some(file))
}

fn edit(world: &mut World, parameters: &Parameters) -> Outcome {
    let (chat, _) = place(world, parameters)?;
    let id = number(parameters, "message_id").unwrap_or(0);
    let text = checked_text(parameters, "text", 4_096).map_err(|refusal| {
        if refusal.words.ends_with("too long") { bad("MESSAGE_TOO_LONG") } else { refusal }
    })?;
    let entities = checked_entities(parameters, &text)?;
    let buttons = checked_buttons(parameters)?;
    let kind = world.chats[&chat].kind.clone();
    let chat_state = world.chats.get_mut(&chat).expect("the chat");
    let Some(shown) = chat_state.messages.get_mut(&id) else {
        return Err(bad("message to edit not found"));
    };
    if shown.from != BOT_ID {
        return Err(bad("message can't be edited"));
    }
    if shown.text == text && shown.entities == entities && shown.buttons == buttons {
        return Err(bad(
            "message is not modified: specified new message content and reply markup are exactly \
             the same as a current content and reply markup of the message",
        ));
    }
    shown.text = text;
    shown.entities = entities;
    shown.buttons = buttons;
    shown.edits += 1;
    Ok(message_json(chat, &kind, shown))
}

fn answer(world: &mut World, parameters: &Parameters) -> Outcome {
    let id = text(parameters, "callback_query_id").unwrap_or_default().to_owned();
    let words = text(parameters, "text").unwrap_or_default().to_owned();
    if words.chars().count() > 200 {
        return Err(bad("MESSAGE_TOO_LONG"));
    }
    if !world.open_presses.remove(&id) {
        return Err(bad("query is too old and response timeout expired or query ID is invalid"));
    }
    let is_alert = flag(parameters, "show_alert");
    world.answered.push(Answered { id, text: words, is_alert });
    Ok(true.into())
}
