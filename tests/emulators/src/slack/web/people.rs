//! Who is who, and a few methods that stand alone.

use serde_json::{Value, json};
use url::Url;

use crate::slack::state::{Refusal, World};
use crate::slack::web::{Outcome, Parameters, needed, text};
use crate::slack::{APP_ID, BOT_ID, BOT_USER, DOMAIN, TEAM_ID, shapes};

pub(super) fn auth_test(world: &World, is_app: bool) -> Value {
    if is_app {
        return json!({ "app_name": "Sayso", "app_id": APP_ID });
    }
    let mut answer = json!({
        "url": format!("https://{DOMAIN}.slack.com/"), "team": "The workspace", "user": "sayso",
        "team_id": TEAM_ID, "user_id": BOT_USER, "bot_id": BOT_ID,
        "is_enterprise_install": world.settings.is_org_wide,
    });
    if let Some(id) = &world.settings.enterprise {
        answer["enterprise_id"] = id.as_str().into();
    }
    answer
}

pub(super) fn user(world: &World, parameters: &Parameters) -> Outcome {
    let found = text(parameters, "user").and_then(|id| world.users.get(id));
    let user = found.ok_or_else(|| Refusal::new("user_not_found"))?;
    Ok(json!({ "user": shapes::user(user) }))
}

pub(super) fn team(world: &World) -> Value {
    let mut team = json!({
        "id": TEAM_ID, "name": "The workspace", "domain": DOMAIN, "email_domain": "",
        "url": format!("https://{DOMAIN}.slack.com/"),
        "icon": { "image_default": true, "image_34": "https://a.slack-edge.com/34.png" },
        "avatar_base_url": "https://ca.slack-edge.com/", "is_verified": false,
    });
    if let Some(id) = &world.settings.enterprise {
        team["enterprise_id"] = id.as_str().into();
        team["enterprise_name"] = "The organisation".into();
    }
    json!({ "team": team })
}

/// An address for one connection, good for one use.
pub(super) fn open_connection(world: &mut World, base: &Url) -> Value {
    let ticket = world.next_id("ticket-");
    let mut url = base.join("link/").expect("a URL");
    url.set_scheme("ws").expect("the same sort of scheme");
    url.query_pairs_mut().append_pair("ticket", &ticket).append_pair("app_id", APP_ID);
    world.tickets.insert(ticket);
    json!({ "url": url.as_str() })
}

pub(super) fn set_status(world: &mut World, parameters: &Parameters) -> Outcome {
    let channel = needed(parameters, "channel_id")?;
    let thread = needed(parameters, "thread_ts")?;
    if !parameters.contains_key("status") {
        return Err(super::missing("status"));
    }
    if !world.places.get(channel).is_some_and(crate::slack::state::Place::has_bot) {
        return Err(Refusal::new("channel_not_found"));
    }
    let status = text(parameters, "status").unwrap_or_default();
    world.statuses.push((channel.to_owned(), thread.to_owned(), status.to_owned()));
    Ok(json!({}))
}
