//! Looks at the places where others read along: what doesn't work there is worth
//! knowing before somebody counts on it.

use std::sync::Arc;

use async_trait::async_trait;
use sayso_channel::{Address, Channel, SendError};
use tokio::task::JoinSet;

use crate::jobs::{Bench, Slotted, in_slots};
use crate::store::{self, StoreError, Tx, Write};

/// Places looked at at the same time.
const SLOTS: usize = 2;

/// Looks for one channel until the process stops.
pub async fn run(bench: Bench, channel: Arc<dyn Channel>) {
    let work = Looking { bench, channel };
    in_slots(&work.bench, SLOTS, &work).await;
}

struct Looking {
    bench: Bench,
    channel: Arc<dyn Channel>,
}

struct Claim(&'static str, i64);

#[async_trait]
impl Write for Claim {
    type Out = Vec<String>;

    async fn run(&self, tx: &mut Tx) -> Result<Vec<String>, StoreError> {
        store::places::claim_due(tx, self.0, self.1).await
    }
}

/// What was found, or why nothing can be written there.
struct Record(&'static str, String, Result<Option<String>, String>);

#[async_trait]
impl Write for Record {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let Self(channel, address, found) = self;
        let found = found.as_ref().map(Option::as_deref).map_err(String::as_str);
        store::places::record(tx, channel, address, found).await
    }
}

#[async_trait]
impl Slotted for Looking {
    async fn start(&self, room: i64, running: &mut JoinSet<()>) -> Result<(), StoreError> {
        let name = self.channel.name();
        if !store::places::is_any_due(&mut self.bench.store.read().await?, name).await? {
            return Ok(());
        }
        for address in self.bench.store.write(Claim(name, room)).await? {
            let (bench, channel) = (self.bench.clone(), Arc::clone(&self.channel));
            running.spawn(async move {
                let found = match channel.look_at(&Address(address.clone())).await {
                    Ok(limits) => Ok(limits),
                    Err(SendError::Unreachable { reason }) => Err(reason),
                    // Nothing was found out; there is another look tomorrow.
                    Err(_) => return,
                };
                if let Err(error) = bench.store.write(Record(name, address, found)).await {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "What was seen at a place was not recorded");
                }
            });
        }
        Ok(())
    }
}
