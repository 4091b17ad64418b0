//! Ends what is past its deadline, links the audit chain, remembers the time,
//! forgets what is no longer needed.

use std::time::Duration;

use async_trait::async_trait;

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
    loop {
        tokio::select! {
            () = bench.lifecycle.stopping() => return,
            _ = tick.tick() => {}
        }
        let result = async {
            expire(&bench.store).await?;
            if turn.is_multiple_of(5) {
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
        store::inbox::prune(tx, before).await.map(|_| ())
    }
}
