//! Accounts, conversations, and what becomes of them.

use serde_json::json;

use crate::slack::state::{Kind, User};
use crate::slack::{BOT_USER, TEAM_ID, Workspace};

impl Workspace {
    /// Gives somebody an account, or changes it.
    pub fn has_user(&self, user: User) {
        self.with(|world| world.users.insert(user.id.clone(), user));
    }

    /// Gives a person of this workspace an account.
    pub fn has_person(&self, id: &str, name: &str) {
        self.has_user(User {
            id: id.to_owned(),
            name: name.to_owned(),
            is_bot: false,
            is_deleted: false,
            team: TEAM_ID.to_owned(),
        });
    }

    /// Gives a person of another organisation an account.
    pub fn has_stranger(&self, id: &str, name: &str, team: &str) {
        self.has_user(User {
            id: id.to_owned(),
            name: name.to_owned(),
            is_bot: false,
            is_deleted: false,
            team: team.to_owned(),
        });
    }

    /// Sets a conversation up with these members; the bot is one only if named.
    pub fn has_channel(&self, id: &str, kind: Kind, name: &str, members: &[&str]) {
        self.with(|world| {
            for member in members {
                world.know(member);
            }
            let members = members.iter().map(|member| (*member).to_owned()).collect();
            world.add_place(id, kind, name, members);
        });
    }

    /// Another organisation takes part in a conversation from now on.
    pub fn shares(&self, channel: &str) {
        self.with(|world| {
            world.places.get_mut(channel).expect("the place").is_ext_shared = true;
        });
    }

    /// The conversation between somebody and the bot, opened if it was not.
    pub fn dm(&self, user: &str) -> String {
        self.with(|world| {
            world.know(user);
            world.im(BOT_USER, user)
        })
    }

    /// Somebody is let into a conversation; who it is, may be the bot.
    pub fn joins(&self, channel: &str, who: &str, inviter: &str) {
        self.with(|world| {
            world.know(who);
            let place = world.places.get_mut(channel).expect("the place");
            place.members.insert(who.to_owned());
            let kind = if place.id.starts_with('G') { "G" } else { "C" };
            if place.has_bot() {
                let at = world.next_ts();
                let event = json!({
                    "type": "member_joined_channel", "user": who, "channel": channel,
                    "channel_type": kind, "team": TEAM_ID, "inviter": inviter, "event_ts": at,
                });
                world.happens(event, false);
            }
        });
    }

    /// Somebody leaves a conversation, or is put out; may be the bot.
    pub fn leaves(&self, channel: &str, who: &str) {
        self.with(|world| {
            let place = world.places.get_mut(channel).expect("the place");
            let had_bot = place.has_bot();
            place.members.remove(who);
            let kind = if place.id.starts_with('G') { "G" } else { "C" };
            let word = if place.kind == Kind::Private { "group_left" } else { "channel_left" };
            if !had_bot {
                return;
            }
            let at = world.next_ts();
            let event = json!({
                "type": "member_left_channel", "user": who, "channel": channel,
                "channel_type": kind, "team": TEAM_ID, "event_ts": at,
            });
            world.happens(event, false);
            if who == BOT_USER {
                let event = json!({ "type": word, "channel": channel, "event_ts": at });
                world.happens(event, false);
            }
        });
    }

    /// Somebody archives a conversation.
    pub fn archives(&self, user: &str, channel: &str) {
        self.with(|world| {
            let place = world.places.get_mut(channel).expect("the place");
            place.is_archived = true;
            let is_private = place.kind == Kind::Private;
            if place.has_bot() {
                let at = world.next_ts();
                let word = if is_private { "group_archive" } else { "channel_archive" };
                let event = json!({
                    "type": word, "channel": channel, "user": user, "is_moved": 0, "event_ts": at,
                });
                world.happens(event, false);
            }
        });
    }

    /// Somebody's account is closed.
    pub fn deactivates(&self, user: &str) {
        self.with(|world| {
            world.know(user);
            world.users.get_mut(user).expect("the user").is_deleted = true;
        });
    }

    /// The app is thrown out: it is told, and its tokens are no good any more.
    pub fn uninstalls(&self) {
        self.with(|world| {
            world.settings.account_refusal = Some("account_inactive".to_owned());
            let at = world.next_ts();
            world.happens(json!({ "type": "app_uninstalled", "event_ts": at }), false);
        });
    }

    /// The bot's token is taken back: the app is told, and it is no good any more.
    pub fn revokes_tokens(&self) {
        self.with(|world| {
            world.settings.account_refusal = Some("token_revoked".to_owned());
            let at = world.next_ts();
            let tokens = json!({ "oauth": [], "bot": [BOT_USER] });
            let event = json!({ "type": "tokens_revoked", "tokens": tokens, "event_ts": at });
            world.happens(event, false);
        });
    }
}
