//! Slack.

use std::sync::Arc;

use sayso_channel::{Channel as _, Health, Inbox};
use sayso_slack::{Mode, NAME, Slack};

use crate::config::{Config, SlackMode};
use crate::wiring::outlets::{Outlet, Parts};

fn channel(config: &Config) -> anyhow::Result<Option<Slack>> {
    let Some(settings) = &config.slack else { return Ok(None) };
    let mode = match &settings.mode {
        SlackMode::Socket(app_token) => Mode::Socket { app_token: app_token.clone() },
        SlackMode::Http(secret) => Mode::Http { signing_secret: secret.clone() },
    };
    Ok(Some(Slack::new(&settings.bot_token, settings.api_url.clone(), mode)?))
}

pub(super) fn open(parts: &Parts<'_>) -> anyhow::Result<Option<Outlet>> {
    let Some(slack) = channel(parts.config)? else { return Ok(None) };
    let inbox: Arc<dyn Inbox> = Arc::clone(parts.inbox) as _;
    let routes = slack.routes(inbox);
    Ok(Some(Outlet { channel: Arc::new(slack), routes }))
}

pub(super) async fn probe(config: &Config) -> Option<(&'static str, Health)> {
    let health = match channel(config) {
        Ok(slack) => slack?.probe().await,
        Err(error) => Health { is_up: false, detail: format!("{error:#}") },
    };
    Some((NAME, health))
}

/// The workspace or organisation that the app is installed in, if the platform
/// can be asked.
pub(super) async fn realm(config: &Config) -> Option<String> {
    channel(config).ok()??.realm().await
}

/// The address at which somebody is reached who is only known by their id.
pub(super) fn address_of(realm: &str, user: &str) -> String {
    Slack::address_of(realm, user)
}
