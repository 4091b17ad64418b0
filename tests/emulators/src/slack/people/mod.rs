//! The people's side: what they do, and what they see.

mod hand;
mod hooks;
mod look;
mod modals;
mod places;
mod taps;
mod writing;

use std::sync::Arc;

use axum::Router;
use serde_json::{Value, json};
use tokio::time::Instant;

pub(super) use modals::settle;

use crate::slack::Shared;
use crate::slack::state::{Hook, Trigger, User, World};
use crate::slack::{TEAM_ID, shapes};

/// The people's side over HTTP, and the addresses for responses.
pub(super) fn routes(shared: Arc<Shared>) -> Router {
    hand::routes(Arc::clone(&shared)).merge(hooks::routes(shared))
}

impl World {
    /// Makes sure that somebody has an account.
    fn know(&mut self, id: &str) {
        self.users.entry(id.to_owned()).or_insert_with(|| User {
            id: id.to_owned(),
            name: format!("person-{}", id.to_lowercase()),
            is_bot: false,
            is_deleted: false,
            team: TEAM_ID.to_owned(),
        });
    }

    /// A trigger for what somebody just did.
    fn trigger(&mut self, user: &str, view: Option<&str>) -> String {
        let number = self.next_number();
        let id = format!("{number}.1760000000.{number:032x}");
        let until = Instant::now() + self.settings.trigger_lives;
        let trigger =
            Trigger { until, user: user.to_owned(), is_used: false, view: view.map(str::to_owned) };
        self.triggers.insert(id.clone(), trigger);
        id
    }

    /// An address for responses to what somebody just did.
    fn hook(&mut self, kind: &str, channel: &str, user: &str, on: Option<&str>) -> String {
        let number = self.next_number();
        let path = format!("{kind}/{TEAM_ID}/{number}/{number:x}");
        let hook = Hook {
            until: Instant::now() + self.settings.hook_lives,
            uses: 0,
            channel: channel.to_owned(),
            user: user.to_owned(),
            on: on.map(str::to_owned),
        };
        self.hooks.insert(path.clone(), hook);
        path
    }

    /// How an interaction names a place.
    fn place_json(&self, channel: &str) -> Value {
        let name = self.places.get(channel).map_or("directmessage", shapes::place_name);
        json!({ "id": channel, "name": name })
    }
}
