//! Ends what is past its deadline, links the audit chain, remembers the time,
//! forgets what is no longer needed.

use std::time::{Duration, Instant};

use async_trait::async_trait;

use crate::clock::Timestamp;
use crate::decisions;
use crate::jobs::Bench;
use crate::store::{self, Store, StoreError, Tx, Write, audit};

/// How often deadlines are looked at.
const TICK: Duration = Duration::from_millis(200);
/// How long what came in is kept: longer than any platform repeats it.
const KEEP_INBOX: Duration = Duration::from_hours(7 * 24);

/// Sweeps until the process stops.
pub async fn run(bench: Bench) {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut turn: u64 = 0;
    let mut steps = Steps::default();
    loop {
        tokio::select! {
            () = bench.lifecycle.stopping() => return,
            _ = tick.tick() => {}
        }
        let is_held = steps.is_held(Instant::now(), bench.store.clock().wall());
        let result = async {
            if !is_held {
                expire(&bench.store).await?;
            }
            if turn.is_multiple_of(5) {
                bench.store.look_after_disk();
                link(&bench.store).await?;
            }
            if turn.is_multiple_of(25) {
                bench.store.write(RaiseHighWater).await?;
            }
            if turn.is_multiple_of(5 * 60 * 10) {
                bench.store.write(Prune).await?;
            }
            Ok::<(), StoreError>(())
        };
        if let Err(error) = result.await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "Sweeping failed; trying again");
        }
        turn = turn.wrapping_add(1);
    }
}

/// Steps of the machine's clock against one that only counts.
///
/// After a large step forward nothing is expired for a while: the operator may
/// set the clock right again. An approval is refused all the same once the
/// clock says that its time is over.
#[derive(Default)]
struct Steps {
    last: Option<(Instant, Timestamp)>,
    held_until: Option<Instant>,
}

impl Steps {
    const LARGE: Duration = Duration::from_mins(1);
    const BACK: Duration = Duration::from_secs(2);
    const HOLD: Duration = Duration::from_mins(1);

    fn is_held(&mut self, now: Instant, wall: Timestamp) -> bool {
        if let Some((then, wall_then)) = self.last.replace((now, wall)) {
            let expected = wall_then.plus(now.duration_since(then));
            let (ahead, behind) = (wall.since(expected), expected.since(wall));
            if ahead > Self::LARGE {
                let seconds = ahead.as_secs();
                tracing::error!(seconds, "The clock went forward; nothing expires for a minute");
                self.held_until = Some(now + Self::HOLD);
            } else if behind > Self::BACK {
                let seconds = behind.as_secs();
                tracing::warn!(seconds, "The clock went back; no deadline moves with it");
            }
        }
        self.held_until.is_some_and(|until| now < until)
    }
}

async fn expire(store: &Store) -> Result<(), StoreError> {
    while store::requests::is_any_due(&mut store.read().await?).await? {
        if store.write(Expire).await? == 0 {
            return Ok(());
        }
    }
    Ok(())
}

/// Links every row of the audit chain that has no place yet.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn link(store: &Store) -> Result<(), StoreError> {
    while audit::is_any_unlinked(&mut store.read().await?).await? {
        if store.write(Link).await? == 0 {
            return Ok(());
        }
    }
    Ok(())
}

/// Expires what is past its deadline.
pub struct Expire;

#[async_trait]
impl Write for Expire {
    type Out = usize;

    async fn run(&self, tx: &mut Tx) -> Result<usize, StoreError> {
        decisions::expire(tx).await
    }
}

struct Link;

#[async_trait]
impl Write for Link {
    type Out = usize;

    async fn run(&self, tx: &mut Tx) -> Result<usize, StoreError> {
        audit::link(tx).await
    }
}

struct RaiseHighWater;

#[async_trait]
impl Write for RaiseHighWater {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        store::leases::raise_high_water(tx).await
    }
}

struct Prune;

#[async_trait]
impl Write for Prune {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let before = tx.now().minus(KEEP_INBOX);
        store::notices::prune(tx, before).await?;
        store::places::prune(tx).await?;
        store::guesses::prune(tx).await?;
        store::inbox::prune(tx, before).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_step_forward_holds_expiry_for_a_minute_and_a_step_back_does_not() {
        let (start, wall) = (Instant::now(), Timestamp::from_micros(1_000_000_000_000));
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let says = |seconds: u64| wall.plus(Duration::from_secs(seconds));
        let mut steps = Steps::default();

        assert!(!steps.is_held(at(0), says(0)));
        assert!(!steps.is_held(at(1), says(50)), "49 seconds are no large step");
        assert!(steps.is_held(at(2), says(3_600)));
        assert!(steps.is_held(at(61), says(3_659)));
        assert!(!steps.is_held(at(62), says(3_660)));
        assert!(!steps.is_held(at(63), says(100)), "a step back");
    }
}
