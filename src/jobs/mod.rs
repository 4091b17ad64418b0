//! Workers: they make true what is written down. Each looks for work when it is
//! given a hint and once a second besides.

pub mod deliver;
pub mod feed;
pub mod fence;
pub mod intake;
pub mod notify;
pub mod owed;
pub mod speak;
pub mod sweep;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sayso_channel::Channel;

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
