//! Does what is owed after a commit: puts new requests in front of their
//! guardian, tells agents how theirs ended.

use async_trait::async_trait;

use crate::broadcaster::{Broadcast, Outlet, TellPlace};
use crate::ids::JobId;
use crate::jobs::notify::Notifier;
use crate::jobs::{Bench, POLL};
use crate::store::jobs::{BROADCAST, Job, NOTIFY_AGENT, TELL_PLACE};
use crate::store::{self, StoreError, Tx, Write};

/// Jobs under way at the same time.
const BATCH: i64 = 32;

/// Works until the process stops.
pub async fn run(bench: Bench, notifier: Notifier) {
    let lifecycle = bench.lifecycle.clone();
    let outlets: Vec<Outlet> = bench
        .channels
        .iter()
        .map(|channel| Outlet {
            channel: channel.name().to_owned(),
            exact_units: channel.capacity().exact_units,
        })
        .collect();
    loop {
        tokio::select! {
            () = lifecycle.stopping() => return,
            () = bench.wakeups.jobs() => {}
            () = tokio::time::sleep(POLL) => {}
        }
        loop {
            match turn(&bench, &notifier, &outlets).await {
                Ok(0) => break,
                Ok(_) if lifecycle.is_stopping() => return,
                Ok(_) => {}
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "Owed work could not be claimed; trying again");
                    break;
                }
            }
        }
    }
}

struct Claim(&'static str, i64);

#[async_trait]
impl Write for Claim {
    type Out = Vec<Job>;

    async fn run(&self, tx: &mut Tx) -> Result<Vec<Job>, StoreError> {
        store::jobs::claim_due(tx, self.0, self.1).await
    }
}

async fn turn(bench: &Bench, notifier: &Notifier, outlets: &[Outlet]) -> Result<usize, StoreError> {
    let due = store::jobs::kinds_due(&mut bench.store.read().await?).await?;
    let claim = async |kind: &'static str, limit: i64| {
        if limit == 0 || !due.iter().any(|due| due == kind) {
            return Ok(Vec::new());
        }
        bench.store.write(Claim(kind, limit)).await
    };
    let broadcasts = claim(BROADCAST, BATCH).await?;
    let ends = claim(TELL_PLACE, BATCH).await?;
    let mut count = broadcasts.len() + ends.len();
    for job in broadcasts {
        let id = job.id;
        let outlets = outlets.to_vec();
        done(id, bench.store.write(Broadcast { job, outlets }).await);
    }
    for job in ends {
        let id = job.id;
        done(id, bench.store.write(TellPlace { job }).await);
    }
    if count > 0 {
        // There are cards to be made and words to be said; nothing in the audit
        // says so.
        bench.wakeups.dealt_with();
    }
    // No more calls are claimed than can be made: what waits here would be
    // claimed again by somebody else.
    let calls = claim(NOTIFY_AGENT, notifier.free()).await?;
    count += calls.len();
    for job in calls {
        notifier.start(bench.clone(), job);
    }
    Ok(count)
}

fn done(id: JobId, result: Result<(), StoreError>) {
    if let Err(error) = result {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(job.id = %id, error, "Job `{id}` failed; it will be tried again");
    }
}
