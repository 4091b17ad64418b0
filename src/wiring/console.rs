//! The web console.

use std::sync::Arc;

use crate::desk::Pages;
use crate::wiring::outlets::{Outlet, Parts};

pub(super) fn open(parts: &Parts<'_>) -> Option<Outlet> {
    if !parts.config.console {
        return None;
    }
    let desk = Pages {
        store: parts.store.clone(),
        wakeups: parts.wakeups.clone(),
        lifecycle: parts.lifecycle.clone(),
        channel: sayso_console::NAME,
        platforms: parts.config.platforms(),
        exact_units: sayso_console::EXACT_UNITS,
    };
    let public_url = parts.config.public_url.as_ref();
    let is_encrypted = public_url.is_some_and(|url| url.scheme() == "https");
    let inbox = Arc::clone(parts.inbox);
    let console = sayso_console::Console::new(Arc::new(desk), inbox, is_encrypted);
    let routes = Some(console.routes());
    Some(Outlet { channel: Arc::new(console), routes })
}
