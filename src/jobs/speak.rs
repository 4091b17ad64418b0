//! Says what is owed to people, in each conversation in order.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sayso_channel::{Address, Channel, SendError};

use crate::clock::Timestamp;
use crate::ids::NoticeId;
use crate::jobs::{Bench, POLL};
use crate::store::notices::{Notice, Progress};
use crate::store::{self, StoreError, Tx, Write};

/// Conversations spoken to at the same time.
const BATCH: i64 = 16;
/// Words that come later than that are not understood any more.
const TOO_LATE: Duration = Duration::from_mins(10);

/// Speaks in one channel until the process stops.
pub async fn run(bench: Bench, channel: Arc<dyn Channel>) {
    let lifecycle = bench.lifecycle.clone();
    let mut anything = bench.wakeups.anything();
    loop {
        tokio::select! {
            () = lifecycle.stopping() => return,
            changed = anything.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(POLL) => {}
        }
        loop {
            match turn(&bench, &channel).await {
                Ok(0) => break,
                Ok(_) if lifecycle.is_stopping() => return,
                Ok(_) => {}
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "Words could not be claimed; trying again");
                    break;
                }
            }
        }
    }
}

struct Claim(&'static str);

#[async_trait]
impl Write for Claim {
    type Out = Vec<Notice>;

    async fn run(&self, tx: &mut Tx) -> Result<Vec<Notice>, StoreError> {
        store::notices::claim_due(tx, self.0, BATCH).await
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

async fn turn(bench: &Bench, channel: &Arc<dyn Channel>) -> Result<usize, StoreError> {
    let name = channel.name();
    if !store::notices::is_any_due(&mut bench.store.read().await?, name).await? {
        return Ok(0);
    }
    let claimed = bench.store.write(Claim(name)).await?;
    let count = claimed.len();
    let mut running = tokio::task::JoinSet::new();
    for notice in claimed {
        let (bench, channel) = (bench.clone(), Arc::clone(channel));
        running.spawn(async move {
            let said = channel.say(&Address(notice.address.clone()), &notice.text).await;
            let progress = progress(&notice, said, bench.store.clock().now());
            if let Err(error) = bench.store.write(Record(notice.id, progress)).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "Words `{}` were not recorded", notice.id);
            }
        });
    }
    while running.join_next().await.is_some() {}
    Ok(count)
}

fn progress(notice: &Notice, said: Result<(), SendError>, now: Timestamp) -> Progress {
    match said {
        Ok(()) => Progress::Sent,
        Err(SendError::Retry { after, .. }) if now.since(notice.created_at) < TOO_LATE => {
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
