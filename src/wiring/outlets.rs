//! The channels of this build and of these settings.

use std::sync::Arc;

use sayso_channel::{Channel, Health, Inbound, RawInbound};

use crate::config::Config;
use crate::jobs::intake::Intake;
use crate::lifecycle::Lifecycle;
use crate::store::Store;
use crate::wakeups::Wakeups;
#[cfg(feature = "console")]
use crate::wiring::console;
#[cfg(feature = "slack")]
use crate::wiring::slack;
#[cfg(feature = "telegram")]
use crate::wiring::telegram;

/// What channels are made from.
#[cfg_attr(
    not(feature = "console"),
    expect(dead_code, reason = "the channels of this build need less")
)]
pub(super) struct Parts<'a> {
    pub(super) config: &'a Config,
    pub(super) store: &'a Store,
    pub(super) wakeups: &'a Wakeups,
    pub(super) lifecycle: &'a Lifecycle,
    pub(super) inbox: &'a Arc<Intake>,
}

/// A channel, and what it serves by HTTP.
pub(super) struct Outlet {
    pub(super) channel: Arc<dyn Channel>,
    pub(super) routes: Option<axum::Router>,
}

/// The channels that run, and what they serve together.
#[derive(Default)]
pub(super) struct Outlets {
    pub(super) channels: Vec<Arc<dyn Channel>>,
    pub(super) routes: Option<axum::Router>,
}

/// Opens every channel that the settings name.
///
/// # Errors
///
/// In words for the operator.
#[cfg_attr(
    not(any(feature = "slack", feature = "telegram")),
    expect(clippy::unnecessary_wraps, reason = "what can fail is not built in")
)]
#[cfg_attr(
    not(any(feature = "console", feature = "slack", feature = "telegram")),
    expect(unused_variables, reason = "no channel is built in")
)]
pub(super) fn open(parts: &Parts<'_>) -> anyhow::Result<Outlets> {
    let opened: Vec<Option<Outlet>> = Vec::from([
        #[cfg(feature = "console")]
        console::open(parts),
        #[cfg(feature = "slack")]
        slack::open(parts)?,
        #[cfg(feature = "telegram")]
        telegram::open(parts)?,
    ]);
    let mut outlets = Outlets::default();
    for outlet in opened.into_iter().flatten() {
        outlets.channels.push(outlet.channel);
        outlets.routes = match (outlets.routes.take(), outlet.routes) {
            (Some(before), Some(more)) => Some(before.merge(more)),
            (before, more) => before.or(more),
        };
    }
    Ok(outlets)
}

/// Asks each platform in the settings whether everything is in place.
pub async fn probe(config: &Config) -> Vec<(&'static str, Health)> {
    let probes: Vec<Option<(&'static str, Health)>> = Vec::from([
        #[cfg(feature = "slack")]
        slack::probe(config).await,
        #[cfg(not(feature = "slack"))]
        std::future::ready(config.slack.as_ref().map(|_| missing("slack"))).await,
        #[cfg(feature = "telegram")]
        telegram::probe(config).await,
        #[cfg(not(feature = "telegram"))]
        std::future::ready(config.telegram.as_ref().map(|_| missing("telegram"))).await,
    ]);
    probes.into_iter().flatten().collect()
}

/// A link that opens the bot with this pairing code, if the platform can be
/// asked for the bot's name.
pub async fn pairing_link(config: &Config, code: &str) -> Option<String> {
    #[cfg(feature = "telegram")]
    return telegram::link(config, code).await;
    #[cfg(not(feature = "telegram"))]
    {
        let _ = code;
        std::future::ready(config.telegram.as_ref().and(None)).await
    }
}

/// What the ids of people on Slack belong to, unless the operator says; nothing
/// when the platform can't be asked.
pub async fn slack_realm(config: &Config) -> Option<String> {
    #[cfg(feature = "slack")]
    return slack::realm(config).await;
    #[cfg(not(feature = "slack"))]
    std::future::ready(config.slack.as_ref().and(None)).await
}

/// The address at which somebody on Slack is reached who is only known by their
/// id; nothing in a build without Slack.
#[cfg_attr(feature = "slack", expect(clippy::unnecessary_wraps, reason = "a build may lack it"))]
pub fn slack_address(realm: &str, user: &str) -> Option<String> {
    #[cfg(feature = "slack")]
    return Some(slack::address_of(realm, user));
    #[cfg(not(feature = "slack"))]
    {
        let _ = (realm, user);
        None
    }
}

/// A platform that is in the settings and not in this build.
#[cfg(not(all(feature = "slack", feature = "telegram")))]
fn missing(name: &'static str) -> (&'static str, Health) {
    (name, Health { is_up: false, detail: format!("this build has no {name}") })
}

/// What typing `text` into the console of an account would store; nothing in a
/// build without the console.
#[cfg_attr(feature = "console", expect(clippy::unnecessary_wraps, reason = "a build may lack it"))]
pub fn typed_in_console(account: &str, address: &str, key: &str, text: &str) -> Option<RawInbound> {
    #[cfg(feature = "console")]
    return Some(sayso_console::Console::typed(account, address, key, text));
    #[cfg(not(feature = "console"))]
    {
        let _ = (account, address, key, text);
        None
    }
}

/// Reads back what [`typed_in_console`] gave.
pub fn read_console(raw: &RawInbound) -> Option<Inbound> {
    #[cfg(feature = "console")]
    return sayso_console::Console::read_raw(raw).ok();
    #[cfg(not(feature = "console"))]
    {
        let _ = raw;
        None
    }
}
