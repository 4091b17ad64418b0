//! Says what is owed to people, in each conversation in order.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sayso_channel::{Address, Channel, SendError};
use tokio::task::JoinSet;

use crate::clock::Timestamp;
use crate::ids::NoticeId;
use crate::jobs::{Bench, Slotted, in_slots};
use crate::store::notices::{Notice, Progress};
use crate::store::{self, StoreError, Tx, Write};

/// Conversations spoken to at the same time.
const SLOTS: usize = 16;
/// Words that come later than that are not understood any more.
const TOO_LATE: Duration = Duration::from_mins(10);

/// Speaks in one channel until the process stops.
pub async fn run(bench: Bench, channel: Arc<dyn Channel>) {
    let work = Speaking { bench, channel };
    in_slots(&work.bench, SLOTS, &work).await;
}

struct Speaking {
    bench: Bench,
    channel: Arc<dyn Channel>,
}

struct Claim(&'static str, i64);

#[async_trait]
impl Write for Claim {
    type Out = Vec<Notice>;

    async fn run(&self, tx: &mut Tx) -> Result<Vec<Notice>, StoreError> {
        store::notices::claim_due(tx, self.0, self.1).await
    }
}

struct Record(NoticeId, Progress);

#[async_trait]
impl Write for Record {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        store::notices::record(tx, self.0, self.1).await
    }
}

#[async_trait]
impl Slotted for Speaking {
    async fn start(&self, room: i64, running: &mut JoinSet<()>) -> Result<(), StoreError> {
        let name = self.channel.name();
        if !store::notices::is_any_due(&mut self.bench.store.read().await?, name).await? {
            return Ok(());
        }
        for notice in self.bench.store.write(Claim(name, room)).await? {
            let (bench, channel) = (self.bench.clone(), Arc::clone(&self.channel));
            running.spawn(async move {
                let said = channel.say(&Address(notice.address.clone()), &notice.text).await;
                let progress = progress(&notice, said, bench.store.clock().now());
                if let Err(error) = bench.store.write(Record(notice.id, progress)).await {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "Words `{}` were not recorded", notice.id);
                }
            });
        }
        Ok(())
    }
}

fn progress(notice: &Notice, said: Result<(), SendError>, now: Timestamp) -> Progress {
    match said {
        Ok(()) => Progress::Sent,
        Err(SendError::Retry { after, .. } | SendError::Busy { after })
            if now.since(notice.created_at) < TOO_LATE =>
        {
            Progress::Later(now.plus(after.max(Duration::from_secs(1))))
        }
        Err(error) => {
            tracing::info!(
                error = &error as &dyn std::error::Error,
                "Words to {} in {} were not delivered",
                notice.address,
                notice.channel
            );
            match error {
                SendError::Unknown { .. } => Progress::Sent,
                _ => Progress::Failed,
            }
        }
    }
}
