//! Workers: they make true what is written down. Each looks for work when it is
//! given a hint and once a second besides.

pub mod deliver;
pub mod feed;
pub mod fence;
pub mod intake;
pub mod look;
pub mod notify;
pub mod owed;
pub mod speak;
pub mod sweep;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sayso_channel::Channel;
use tokio::task::JoinSet;

use crate::lifecycle::Lifecycle;
use crate::store::{self, Store, StoreError, Tx, Write};
use crate::telemetry::Metrics;
use crate::wakeups::Wakeups;

/// How often a worker looks without a hint.
pub const POLL: Duration = Duration::from_secs(1);

/// What workers work with.
#[derive(Clone)]
pub struct Bench {
    /// The database.
    pub store: Store,
    /// Hints.
    pub wakeups: Wakeups,
    /// The channels that run.
    pub channels: Arc<[Arc<dyn Channel>]>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The life of the process.
    pub lifecycle: Lifecycle,
}

impl Bench {
    /// The channel of that name, if it runs.
    pub fn channel(&self, name: &str) -> Option<&Arc<dyn Channel>> {
        self.channels.iter().find(|channel| channel.name() == name)
    }
}

/// Work that is done several pieces at a time.
#[async_trait]
trait Slotted: Send + Sync {
    /// Starts at most `room` pieces that are due.
    async fn start(&self, room: i64, running: &mut JoinSet<()>) -> Result<(), StoreError>;
}

/// Works in so many slots until the process stops: whenever something may have
/// changed or a slot has become free, what is due is started, at most as much as
/// there is room for. What is under way at the end is finished: its result
/// would be unknown otherwise.
async fn in_slots(bench: &Bench, slots: usize, work: &impl Slotted) {
    let mut anything = bench.wakeups.anything();
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            () = bench.lifecycle.stopping() => break,
            more = Wakeups::next_change(&mut anything) => if !more { break },
            Some(_) = running.join_next() => {}
            () = tokio::time::sleep(POLL) => {}
        }
        // Whatever ended besides makes room too.
        while running.try_join_next().is_some() {}
        let room = i64::try_from(slots.saturating_sub(running.len())).unwrap_or(0);
        if room == 0 {
            continue;
        }
        if let Err(error) = work.start(room, &mut running).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "Work could not be claimed; trying again");
        }
    }
    while running.join_next().await.is_some() {}
}

/// Takes up what a process was at when it died, without waiting for its leases
/// to end. A card that may or may not have been sent waits all the same.
pub struct TakeUp;

#[async_trait]
impl Write for TakeUp {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        store::leases::release_all(tx).await?;
        store::inbox::release(tx).await?;
        store::jobs::release(tx).await?;
        store::deliveries::release(tx).await
    }
}
