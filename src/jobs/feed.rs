//! Follows what happened, in the order of commit, and gives hints: to waiting
//! agents, to open pages and to the other workers. Also notices what another
//! process, like a command at the keyboard, has committed.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::ids::RequestId;
use crate::jobs::{Bench, POLL};
use crate::requests::status::Status;
use crate::store::audit::{Cursor, News};
use crate::store::dialect::Dialect;
use crate::store::{self, StoreError, Tx, audit};
use crate::telemetry::Metrics;

/// How often another process's commits are looked for on SQLite, where the
/// question costs a few microseconds.
const GLANCE: Duration = Duration::from_millis(50);

/// Follows until the process stops.
pub async fn run(bench: Bench) {
    let mut feed = Feed { bench, cursor: None, watcher: None, seen: None };
    let mut commits = feed.bench.store.commits();
    let mut glance = tokio::time::interval(GLANCE);
    glance.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let poll = match feed.bench.store.dialect() {
        Dialect::Sqlite => POLL,
        // It can't be asked whether there is anything new.
        Dialect::Postgres => POLL / 5,
    };
    let mut poll = tokio::time::interval(poll);
    poll.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let lifecycle = feed.bench.lifecycle.clone();
    loop {
        // Each branch may be dropped at any time without loss.
        let must_look = tokio::select! {
            () = lifecycle.stopping() => return,
            changed = commits.changed() => changed.is_ok(),
            _ = poll.tick() => true,
            _ = glance.tick() => feed.has_foreign_commits().await,
        };
        if must_look && let Err(error) = feed.look().await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "News could not be read; trying again");
        }
    }
}

struct Feed {
    bench: Bench,
    cursor: Option<Cursor>,
    watcher: Option<Tx>,
    seen: Option<i64>,
}

impl Feed {
    async fn has_foreign_commits(&mut self) -> bool {
        if self.watcher.is_none() {
            self.watcher = self.bench.store.read().await.ok();
        }
        let Some(watcher) = &mut self.watcher else { return true };
        match self.bench.store.foreign_changes(watcher).await {
            Ok(Some(version)) => self.seen.replace(version) != Some(version),
            Ok(None) => {
                // This database is polled; the connection is better used elsewhere.
                self.watcher = None;
                false
            }
            Err(_) => {
                self.watcher = None;
                true
            }
        }
    }

    async fn look(&mut self) -> Result<(), StoreError> {
        let mut tx = self.bench.store.read().await?;
        let Some(mut cursor) = self.cursor else {
            self.cursor = Some(audit::feed_end(&mut tx).await?);
            // Whatever happened before this process started is looked for once.
            self.bench.wakeups.news();
            return Ok(());
        };
        loop {
            let news = audit::feed(&mut tx, cursor, None).await?;
            let Some(last) = news.last() else { return Ok(()) };
            cursor = last.cursor();
            self.cursor = Some(cursor);
            for item in &news {
                let request = item.request.as_deref().and_then(|id| id.parse().ok());
                let agent = item.agent.as_deref().and_then(|id| id.parse().ok());
                self.bench.wakeups.happened(request, agent);
                report(item);
            }
            self.bench.wakeups.news();
            measure(&self.bench.metrics, &mut tx, &news).await?;
        }
    }
}

/// Notes how long the requests took that ended.
async fn measure(metrics: &Metrics, tx: &mut Tx, news: &[News]) -> Result<(), StoreError> {
    let ended: Vec<RequestId> = news.iter().filter_map(ended).collect();
    for times in store::requests::times(tx, &ended).await? {
        let span = Timestamp::since(times.ended_at, times.created_at);
        metrics.settled(times.status.as_str(), span.as_secs_f64(), times.by_person);
    }
    Ok(())
}

/// The request, if this is about the end of one.
fn ended(item: &News) -> Option<RequestId> {
    let status = item.kind.strip_prefix("request.")?.parse::<Status>().ok()?;
    item.request.as_deref().filter(|_| status.is_final())?.parse().ok()
}

/// What an operator wants to find in the log; all of it is in the audit.
fn report(item: &News) {
    let (kind, request) = (item.kind.as_str(), item.request.as_deref().unwrap_or_default());
    match kind {
        "agent.given_up" | "agent.not_reached" | "request.undeliverable" | "delivery.failed" => {
            let channel = item.channel.as_deref().unwrap_or_default();
            let reason = item.detail.as_deref().unwrap_or_default();
            tracing::warn!(channel, reason, "{kind} {request}");
        }
        _ if kind.starts_with("request.") => {
            tracing::info!("{kind} {request}");
        }
        _ => tracing::debug!("{kind} {request}"),
    }
}
