//! How things look on the wire.

use serde_json::{Value, json};

use crate::slack::state::{Kind, Place, Shown, Upload, User, World};
use crate::slack::{APP_ID, BOT_ID, BOT_USER, DOMAIN, TEAM_ID};

/// Slack's own account, which speaks for deleted messages.
const SLACKBOT: &str = "USLACKBOT";

pub(super) fn message(place: &Place, shown: &Shown) -> Value {
    let mut message = json!({ "type": "message", "ts": shown.ts, "text": shown.text });
    if !shown.user.is_empty() {
        message["user"] = shown.user.as_str().into();
    }
    if let Some(bot) = &shown.bot_id {
        message["bot_id"] = bot.as_str().into();
    }
    if shown.bot_id.as_deref() == Some(BOT_ID) {
        message["bot_profile"] = bot_profile();
    }
    if !shown.user.is_empty() && shown.subtype.as_deref() != Some("tombstone") {
        message["team"] = TEAM_ID.into();
    }
    for (name, value) in [
        ("subtype", shown.subtype.clone().map(Value::from)),
        ("edited", shown.edited.clone()),
        ("metadata", shown.metadata.clone()),
        ("thread_ts", shown.thread_ts.clone().map(Value::from)),
    ] {
        if let Some(value) = value {
            message[name] = value;
        }
    }
    for (name, entries) in
        [("blocks", &shown.blocks), ("attachments", &shown.attachments), ("files", &shown.files)]
    {
        if !entries.is_empty() {
            message[name] = Value::Array(entries.clone());
        }
    }
    thread_fields(place, shown, &mut message);
    for (name, value) in &shown.extra {
        message[name] = value.clone();
    }
    message
}

fn bot_profile() -> Value {
    json!({
        "id": BOT_ID, "app_id": APP_ID, "user_id": BOT_USER, "name": "sayso", "deleted": false,
        "updated": 1_759_000_000, "team_id": TEAM_ID, "is_workflow_bot": false,
        "icons": {
            "image_36": "https://a.slack-edge.com/36.png",
            "image_48": "https://a.slack-edge.com/48.png",
            "image_72": "https://a.slack-edge.com/72.png",
        },
    })
}

/// What a thread's first message says of its replies, and a reply of it.
fn thread_fields(place: &Place, shown: &Shown, message: &mut Value) {
    let Some(thread) = &shown.thread_ts else { return };
    if *thread != shown.ts {
        if let Some(parent) = place.messages.get(thread).filter(|parent| !parent.user.is_empty()) {
            message["parent_user_id"] = parent.user.as_str().into();
        }
        return;
    }
    let replies: Vec<&Shown> = replies(place, thread).collect();
    let mut users: Vec<&str> = replies.iter().map(|reply| reply.user.as_str()).collect();
    users.sort_unstable();
    users.dedup();
    message["reply_count"] = replies.len().into();
    message["reply_users_count"] = users.len().into();
    message["reply_users"] = users.into();
    message["latest_reply"] = replies.last().map_or("", |reply| reply.ts.as_str()).into();
    message["is_locked"] = false.into();
    message["subscribed"] = false.into();
}

/// The replies in a thread, without the message that it began with.
pub(super) fn replies<'a>(place: &'a Place, thread: &'a str) -> impl Iterator<Item = &'a Shown> {
    place
        .messages
        .values()
        .filter(move |shown| shown.thread_ts.as_deref() == Some(thread) && shown.ts != thread)
}

/// A message in a history, where reactions show.
pub(super) fn listed(place: &Place, shown: &Shown, with_metadata: bool) -> Value {
    let mut message = message(place, shown);
    if !with_metadata && let Some(fields) = message.as_object_mut() {
        fields.remove("metadata");
    }
    if !shown.reactions.is_empty() {
        let reactions = shown
            .reactions
            .iter()
            .map(|(name, users)| json!({ "name": name, "users": users, "count": users.len() }));
        message["reactions"] = reactions.collect();
    }
    message
}

/// What is left of a message that others have replied to.
pub(super) fn tombstone(shown: &Shown) -> Shown {
    Shown {
        ts: shown.ts.clone(),
        thread_ts: shown.thread_ts.clone(),
        user: SLACKBOT.to_owned(),
        subtype: Some("tombstone".to_owned()),
        text: "This message was deleted.".to_owned(),
        extra: [("hidden".to_owned(), true.into())].into_iter().collect(),
        ..Shown::default()
    }
}

pub(super) fn user(user: &User) -> Value {
    let is_stranger = user.team != TEAM_ID;
    let mut shape = json!({
        "id": user.id, "team_id": user.team, "name": user.name, "deleted": user.is_deleted,
        "is_bot": user.is_bot, "is_app_user": false, "updated": 1_759_000_000,
        "profile": {
            "real_name": user.name, "display_name": user.name, "avatar_hash": "g",
            "real_name_normalized": user.name, "display_name_normalized": user.name,
            "team": user.team, "status_text": "", "status_emoji": "",
            "image_48": "https://secure.gravatar.com/avatar/48.jpg",
        },
    });
    if user.is_bot {
        shape["profile"]["api_app_id"] = APP_ID.into();
        shape["profile"]["bot_id"] = BOT_ID.into();
    }
    if is_stranger {
        shape["is_stranger"] = true.into();
    }
    if user.is_deleted {
        return shape;
    }
    for flag in [
        "is_admin",
        "is_owner",
        "is_primary_owner",
        "is_restricted",
        "is_ultra_restricted",
        "is_email_confirmed",
    ] {
        shape[flag] = (flag == "is_email_confirmed" && !user.is_bot).into();
    }
    shape["real_name"] = user.name.as_str().into();
    shape["color"] = "9f69e7".into();
    shape["tz"] = "Europe/Amsterdam".into();
    shape["tz_label"] = "Central European Time".into();
    shape["tz_offset"] = 3600.into();
    shape["who_can_share_contact_card"] = "EVERYONE".into();
    shape
}

pub(super) fn place(place: &Place) -> Value {
    if place.kind == Kind::Im {
        let person = place.members.iter().find(|member| *member != BOT_USER);
        return json!({
            "id": place.id, "created": place.created, "is_archived": place.is_archived,
            "is_im": true, "is_org_shared": false, "context_team_id": TEAM_ID,
            "updated": place.created * 1_000, "user": person, "is_user_deleted": false,
            "last_read": "0000000000.000000", "is_open": true, "priority": 0,
        });
    }
    let is_private = place.kind != Kind::Public;
    let is_old = place.id.starts_with('G');
    let about = json!({ "value": "", "creator": "", "last_set": 0 });
    json!({
        "id": place.id, "name": place.name, "name_normalized": place.name,
        "is_channel": !is_old, "is_group": is_old, "is_im": false,
        "is_mpim": place.kind == Kind::Mpim, "is_private": is_private, "created": place.created,
        "is_archived": place.is_archived, "is_general": false, "unlinked": 0,
        "is_shared": place.is_ext_shared, "is_org_shared": false,
        "is_pending_ext_shared": false, "pending_shared": [],
        "is_ext_shared": place.is_ext_shared, "context_team_id": TEAM_ID,
        "updated": place.created * 1_000, "parent_conversation": null, "creator": SLACKBOT,
        "shared_team_ids": [TEAM_ID], "pending_connected_team_ids": [],
        "is_member": place.has_bot(), "last_read": "0000000000.000000", "topic": about,
        "purpose": about, "previous_names": [], "num_members": place.members.len(),
    })
}

/// The name under which interactions know a place.
pub(super) fn place_name(place: &Place) -> &str {
    match place.kind {
        Kind::Im => "directmessage",
        Kind::Private => "privategroup",
        Kind::Public | Kind::Mpim => &place.name,
    }
}

pub(super) fn file(upload: &Upload) -> Value {
    let kind = upload.name.rsplit('.').next().unwrap_or_default();
    json!({
        "id": upload.id, "created": 1_760_000_000, "timestamp": 1_760_000_000,
        "name": upload.name, "title": upload.title, "mimetype": "text/plain", "filetype": kind,
        "user": BOT_USER, "user_team": TEAM_ID, "size": upload.content.len(), "mode": "hosted",
        "is_external": false, "is_public": false, "editable": false, "file_access": "visible",
        "url_private": format!("https://files.slack.com/files-pri/{TEAM_ID}-{}/{}", upload.id, upload.name),
        "permalink": format!("https://{DOMAIN}.slack.com/files/{BOT_USER}/{}/{}", upload.id, upload.name),
    })
}

impl World {
    /// Who did something, as interactions say it.
    pub(super) fn actor(&self, id: &str) -> Value {
        let name = self.users.get(id).map_or(id, |user| user.name.as_str());
        let team = self.users.get(id).map_or(TEAM_ID, |user| user.team.as_str());
        json!({ "id": id, "username": name, "name": name, "team_id": team })
    }

    /// The fields that name workspace, organisation and app, as interactions have
    /// them.
    pub(super) fn stamp(&self, payload: &mut Value) {
        payload["api_app_id"] = APP_ID.into();
        payload["token"] = "stand-in".into();
        payload["team"] = json!({ "id": TEAM_ID, "domain": DOMAIN });
        payload["is_enterprise_install"] = self.settings.is_org_wide.into();
        payload["enterprise"] = match &self.settings.enterprise {
            Some(id) => json!({ "id": id, "name": "The organisation" }),
            None => Value::Null,
        };
        if let Some(id) = &self.settings.enterprise {
            payload["team"]["enterprise_id"] = id.as_str().into();
            payload["team"]["enterprise_name"] = "The organisation".into();
        }
        if self.settings.is_org_wide {
            payload["team"] = Value::Null;
        }
    }
}
