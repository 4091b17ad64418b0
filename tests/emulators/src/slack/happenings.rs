//! Events: what the app is told, and in which words.

use serde_json::{Value, json};

use crate::slack::delivery::{After, Outgoing, Route};
use crate::slack::state::{EditMark, Kind, Shown, World};
use crate::slack::{APP_ID, BOT_USER, TEAM_ID, shapes};

impl World {
    /// Wraps an event and sends it; its id.
    pub(super) fn happens(&mut self, event: Value, is_forced: bool) -> String {
        let id = self.next_id("Ev");
        let payload = self.wrap(event, &id);
        self.send(Outgoing::first(Route::Events, payload, After::Nothing, is_forced));
        id
    }

    fn wrap(&self, event: Value, id: &str) -> Value {
        let channel = event["channel"].as_str().or_else(|| event["item"]["channel"].as_str());
        let place = channel.and_then(|channel| self.places.get(channel));
        let is_shared = place.is_some_and(|place| place.is_ext_shared);
        let enterprise = self.settings.enterprise.as_deref();
        let team = if self.settings.is_org_wide { Value::Null } else { TEAM_ID.into() };
        let mut payload = json!({
            "token": "stand-in", "team_id": TEAM_ID, "api_app_id": APP_ID, "event": event,
            "type": "event_callback", "event_id": id, "event_time": self.now(),
            "authorizations": [{
                "enterprise_id": enterprise, "team_id": team, "user_id": BOT_USER,
                "is_bot": true, "is_enterprise_install": self.settings.is_org_wide,
            }],
            "is_ext_shared_channel": is_shared, "context_team_id": TEAM_ID,
            "context_enterprise_id": enterprise, "event_context": format!("4-{id}"),
        });
        if let Some(enterprise) = enterprise {
            payload["enterprise_id"] = enterprise.into();
        }
        payload
    }

    /// Keeps a message and tells the app, if it may know.
    pub(super) fn post(&mut self, channel: &str, shown: Shown) {
        let ts = shown.ts.clone();
        let place = self.places.get_mut(channel).expect("the place");
        // The first reply makes its parent the head of a thread.
        if let Some(parent) = shown.thread_ts.as_ref().and_then(|ts| place.messages.get_mut(ts)) {
            parent.thread_ts.get_or_insert_with(|| parent.ts.clone());
        }
        place.messages.insert(ts.clone(), shown);
        self.tell_of(channel, &ts);
    }

    fn tell_of(&mut self, channel: &str, ts: &str) {
        let place = &self.places[channel];
        if !place.has_bot() {
            return;
        }
        let shown = &place.messages[ts];
        let mut event = shapes::message(place, shown);
        event["channel"] = channel.into();
        event["event_ts"] = ts.into();
        let is_im = place.kind == Kind::Im;
        let names_us = shown.text.contains(&format!("<@{BOT_USER}>")) && shown.bot_id.is_none();
        let mention = (names_us && !is_im).then(|| {
            let mut mention = event.clone();
            mention["type"] = "app_mention".into();
            mention
        });
        event["channel_type"] = place.kind.channel_type().into();
        let mut both: Vec<Value> = [event].into_iter().chain(mention).collect();
        if self.settings.mention_first {
            both.reverse();
        }
        for event in both {
            self.happens(event, false);
        }
    }

    /// Changes a message and tells the app.
    pub(super) fn change(
        &mut self,
        channel: &str,
        ts: &str,
        is_marked: bool,
        change: impl FnOnce(&mut Shown),
    ) {
        let at = self.next_ts();
        let mark = self.settings.edit_mark;
        let place = self.places.get_mut(channel).expect("the place");
        let before = shapes::message(place, &place.messages[ts]);
        let shown = place.messages.get_mut(ts).expect("the message");
        change(shown);
        shown.edits += 1;
        let is_bots = shown.user == BOT_USER;
        if is_marked && !(is_bots && mark == EditMark::Missing) {
            let mut edited = json!({ "user": shown.user, "ts": at });
            if is_bots && mark == EditMark::WithoutUser {
                edited = json!({ "ts": at });
            }
            shown.edited = Some(edited);
        }
        let after = shapes::message(place, &place.messages[ts]);
        self.tell_of_change(channel, "message_changed", &at, &before, Some(after));
    }

    /// Takes a message away and tells the app.
    pub(super) fn delete(&mut self, channel: &str, ts: &str) {
        let at = self.next_ts();
        let place = self.places.get_mut(channel).expect("the place");
        let Some(shown) = place.messages.get(ts) else { return };
        let before = shapes::message(place, shown);
        if shapes::replies(place, ts).next().is_some() {
            let rest = shapes::tombstone(shown);
            let after = shapes::message(place, &rest);
            place.messages.insert(ts.to_owned(), rest);
            self.tell_of_change(channel, "message_changed", &at, &before, Some(after));
        } else {
            place.messages.remove(ts);
            self.tell_of_change(channel, "message_deleted", &at, &before, None);
        }
    }

    pub(super) fn tell_of_change(
        &mut self,
        channel: &str,
        subtype: &str,
        at: &str,
        before: &Value,
        after: Option<Value>,
    ) {
        let place = &self.places[channel];
        if !place.has_bot() {
            return;
        }
        let mut event = json!({
            "type": "message", "subtype": subtype, "channel": channel, "hidden": true, "ts": at,
            "event_ts": at, "channel_type": place.kind.channel_type(), "previous_message": before,
        });
        match after {
            Some(after) => event["message"] = after,
            None => event["deleted_ts"] = before["ts"].clone(),
        }
        self.happens(event, false);
    }

    /// Gives a reaction, or takes it back, and tells the app.
    pub(super) fn react(
        &mut self,
        user: &str,
        channel: &str,
        ts: &str,
        name: &str,
        is_there: bool,
    ) {
        let at = self.next_ts();
        let place = self.places.get_mut(channel).expect("the place");
        let shown = place.messages.get_mut(ts).expect("the message");
        let author = shown.user.clone();
        if is_there {
            match shown.reactions.iter_mut().find(|(of, _)| of == name) {
                Some((_, users)) => users.push(user.to_owned()),
                None => shown.reactions.push((name.to_owned(), vec![user.to_owned()])),
            }
        } else {
            for (_, users) in shown.reactions.iter_mut().filter(|(of, _)| of == name) {
                users.retain(|of| of != user);
            }
            shown.reactions.retain(|(_, users)| !users.is_empty());
        }
        if !place.has_bot() {
            return;
        }
        let mut event = json!({
            "type": if is_there { "reaction_added" } else { "reaction_removed" }, "user": user,
            "reaction": name, "item": { "type": "message", "channel": channel, "ts": ts },
            "event_ts": at,
        });
        if self.settings.names_item_user && !author.is_empty() {
            event["item_user"] = author.into();
        }
        self.happens(event, false);
    }
}
