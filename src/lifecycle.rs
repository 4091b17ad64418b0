//! Tasks that are waited for, and stopping in two stages.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a graceful stop may take before the process goes anyway.
/// Correctness never depends on a clean stop.
pub const STOP_WITHIN: Duration = Duration::from_secs(20);

/// The life of the process.
#[derive(Clone, Default)]
pub struct Lifecycle {
    stop: CancellationToken,
    failed: CancellationToken,
    tasks: TaskTracker,
}

impl Lifecycle {
    /// Runs `task` until it ends or the process stops; a task that panics stops
    /// the process.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let (stop, failed) = (self.stop.clone(), self.failed.clone());
        let run = tokio::spawn(task);
        self.tasks.spawn(async move {
            if let Err(error) = run.await
                && error.is_panic()
            {
                tracing::error!(task = name, "A task failed inside; the process stops");
                failed.cancel();
                stop.cancel();
            }
        });
    }

    /// Asks everything to stop.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Whether everything was asked to stop.
    pub fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Whether a task failed inside.
    pub fn has_failed(&self) -> bool {
        self.failed.is_cancelled()
    }

    /// Resolves once everything was asked to stop.
    pub async fn stopping(&self) {
        self.stop.cancelled().await;
    }

    /// Waits until every task has ended, at most [`STOP_WITHIN`]; whether they
    /// all did.
    pub async fn ended(&self) -> bool {
        self.tasks.close();
        tokio::time::timeout(STOP_WITHIN, self.tasks.wait()).await.is_ok()
    }
}
