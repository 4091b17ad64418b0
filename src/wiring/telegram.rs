//! Telegram.

use std::sync::Arc;

use sayso_channel::{Channel as _, Health, Inbox};
use sayso_telegram::{Mode, NAME, Telegram, WEBHOOK_PATH};

use crate::config::Config;
use crate::wiring::outlets::{Outlet, Parts};

fn channel(config: &Config) -> anyhow::Result<Option<Telegram>> {
    let Some(settings) = &config.telegram else { return Ok(None) };
    let mode = match &settings.webhook_secret {
        None => Mode::Poll,
        Some(secret) => {
            let url = format!("{}{WEBHOOK_PATH}", config.base_url());
            Mode::Webhook { url: url.parse()?, secret: secret.clone() }
        }
    };
    Ok(Some(Telegram::new(&settings.token, settings.api_url.clone(), mode)?))
}

pub(super) fn open(parts: &Parts<'_>) -> anyhow::Result<Option<Outlet>> {
    let Some(telegram) = channel(parts.config)? else { return Ok(None) };
    let inbox: Arc<dyn Inbox> = Arc::clone(parts.inbox) as _;
    let routes = telegram.routes(inbox);
    Ok(Some(Outlet { channel: Arc::new(telegram), routes }))
}

pub(super) async fn probe(config: &Config) -> Option<(&'static str, Health)> {
    let health = match channel(config) {
        Ok(telegram) => telegram?.probe().await,
        Err(error) => Health { is_up: false, detail: format!("{error:#}") },
    };
    Some((NAME, health))
}

pub(super) async fn link(config: &Config, code: &str) -> Option<String> {
    channel(config).ok()??.link(code).await
}
