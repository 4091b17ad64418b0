//! How often is too often.

use std::time::Duration;

use tokio::time::Instant;

use crate::slack::state::{Refusal, World};
use crate::slack::web::{Parameters, text};

const MINUTE: Duration = Duration::from_mins(1);
/// Posts to a channel that may come at once; after them it is one a second.
const BURST: usize = 4;

/// Calls a minute that each tier allows; 0 is one without a number.
fn allowed(tier: u32) -> usize {
    match tier {
        1 => 1,
        2 => 20,
        3 => 50,
        4 => 100,
        _ => usize::MAX,
    }
}

/// Counts a call of a method.
pub(super) fn count(world: &mut World, method: &str, tier: u32) -> Result<(), Refusal> {
    window(world, method, allowed(tier), MINUTE)
}

/// Counts a post to a channel.
pub(super) fn count_post(world: &mut World, parameters: &Parameters) -> Result<(), Refusal> {
    let Some(channel) = text(parameters, "channel") else { return Ok(()) };
    let key = format!("post to {channel}");
    let burst = u32::try_from(BURST).unwrap_or(u32::MAX);
    window(world, &key, BURST, Duration::from_secs(1) * burst)
}

fn window(world: &mut World, key: &str, most: usize, span: Duration) -> Result<(), Refusal> {
    if !world.settings.enforces_rates {
        return Ok(());
    }
    let now = Instant::now();
    let times = world.rates.entry(key.to_owned()).or_default();
    while times.front().is_some_and(|first| now.duration_since(*first) >= span) {
        times.pop_front();
    }
    if times.len() >= most {
        let free_in =
            times.front().map_or(span, |first| span.saturating_sub(now.duration_since(*first)));
        let seconds = free_in.as_secs() + u64::from(free_in.subsec_nanos() > 0);
        let refusal = Refusal { retry_after: Some(seconds.max(1)), ..Refusal::new("ratelimited") };
        return Err(refusal);
    }
    times.push_back(now);
    Ok(())
}
