//! SQLite's one writer: commits waiting writes together.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use sqlx::AnyPool;
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::ids::RequestId;
use crate::store::dialect::Dialect;
use crate::store::disk::Disk;
use crate::store::{StoreError, Tx, Write, requests};

/// Writes that may wait at the same time; more have to wait before the queue.
const QUEUE: usize = 1024;
/// Writes that share one commit at most.
const GROUP: usize = 256;

pub(super) struct Writer {
    queue: Mutex<Option<mpsc::Sender<Box<dyn Queued>>>>,
    sender: mpsc::WeakSender<Box<dyn Queued>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(super) fn start(
        pool: AnyPool,
        clock: Clock,
        disk: Arc<Disk>,
        fatal: watch::Sender<bool>,
        commits: watch::Sender<u64>,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let weak = sender.downgrade();
        let task = tokio::spawn(Loop { pool, clock, disk, fatal, commits, receiver }.run());
        Self { queue: Mutex::new(Some(sender)), sender: weak, task: Mutex::new(Some(task)) }
    }

    pub(super) async fn submit<W: Write>(&self, write: W) -> Result<W::Out, StoreError> {
        let sender = self.sender.upgrade().ok_or(StoreError::Closed)?;
        let (reply, answer) = oneshot::channel();
        let queued = Box::new(Entry { write, out: None, reply });
        sender.send(queued).await.map_err(|_| StoreError::Closed)?;
        drop(sender);
        answer.await.map_err(|_| StoreError::Closed)?
    }

    pub(super) fn queued(&self) -> usize {
        self.sender.upgrade().map_or(0, |s| s.max_capacity() - s.capacity())
    }

    pub(super) async fn close(&self) {
        self.queue.lock().await.take();
        if let Some(task) = self.task.lock().await.take() {
            // A panic of the loop was reported where it happened.
            let _ = task.await;
        }
    }
}

/// A write in the queue, whatever it yields.
#[async_trait]
trait Queued: Send {
    fn reads(&self) -> Option<RequestId>;
    async fn run(&mut self, tx: &mut Tx) -> Result<(), StoreError>;
    fn finish(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Entry<W: Write> {
    write: W,
    out: Option<W::Out>,
    reply: oneshot::Sender<Result<W::Out, StoreError>>,
}

#[async_trait]
impl<W: Write> Queued for Entry<W> {
    fn reads(&self) -> Option<RequestId> {
        self.write.reads()
    }

    async fn run(&mut self, tx: &mut Tx) -> Result<(), StoreError> {
        let run = AssertUnwindSafe(self.write.run(tx)).catch_unwind().await;
        self.out = Some(run.map_err(|_| StoreError::Panicked)??);
        Ok(())
    }

    fn finish(self: Box<Self>, committed: Result<(), StoreError>) {
        let Self { out, reply, .. } = *self;
        // The caller may have stopped waiting; the write stands all the same.
        let _ = reply.send(committed.and_then(|()| out.ok_or(StoreError::Closed)));
    }
}

/// Why a group was not committed.
enum Failure {
    /// Because of one of its writes.
    Of(StoreError),
    /// Because of the database.
    All(StoreError),
}

impl Failure {
    fn error(&self) -> &StoreError {
        match self {
            Self::Of(error) | Self::All(error) => error,
        }
    }

    fn into_error(self) -> StoreError {
        match self {
            Self::Of(error) | Self::All(error) => error,
        }
    }
}

struct Loop {
    pool: AnyPool,
    clock: Clock,
    disk: Arc<Disk>,
    fatal: watch::Sender<bool>,
    commits: watch::Sender<u64>,
    receiver: mpsc::Receiver<Box<dyn Queued>>,
}

impl Loop {
    async fn run(mut self) {
        let mut group = Vec::with_capacity(GROUP);
        while self.receiver.recv_many(&mut group, GROUP).await > 0 {
            self.commit(std::mem::take(&mut group)).await;
            // Whoever was answered may write again at once; let them come, so
            // that the next group is as large as it can be.
            tokio::task::yield_now().await;
        }
        self.pool.close().await;
    }

    async fn commit(&self, mut group: Vec<Box<dyn Queued>>) {
        let result = self.try_with_reserve(&mut group).await;
        let is_shared = match &result {
            // One of them failed: the others are not to suffer.
            Err(Failure::Of(_)) => group.len() == 1,
            // The database failed: it would fail each of them.
            Ok(()) | Err(Failure::All(_)) => true,
        };
        let result = result.map_err(Failure::into_error);
        if is_shared {
            for queued in group {
                queued.finish(self.watched(result.clone()));
            }
            return;
        }
        for mut queued in group {
            let result = self.try_with_reserve(std::slice::from_mut(&mut queued)).await;
            queued.finish(self.watched(result.map_err(Failure::into_error)));
        }
    }

    /// Tries it, and once more with what is set aside for a full disk.
    async fn try_with_reserve(&self, group: &mut [Box<dyn Queued>]) -> Result<(), Failure> {
        match self.try_together(group).await {
            Err(failure) if failure.error().is_disk_full() && self.disk.give_up_reserve() => {
                self.try_together(group).await
            }
            result => result,
        }
    }

    async fn try_together(&self, group: &mut [Box<dyn Queued>]) -> Result<(), Failure> {
        let begun = Tx::begin(&self.pool, Dialect::Sqlite, self.clock.clone()).await;
        let mut tx = begun.map_err(Failure::All)?;
        let ids: Vec<RequestId> = group.iter().filter_map(|queued| queued.reads()).collect();
        if ids.len() > 1 {
            // A row that can't be read fails whoever asks for it.
            requests::read_ahead(&mut tx, &ids).await.map_err(Failure::Of)?;
        }
        for queued in group {
            if let Err(error) = queued.run(&mut tx).await {
                tx.rollback().await;
                return Err(Failure::Of(error));
            }
        }
        tx.commit().await.map_err(Failure::All)?;
        self.commits.send_modify(|count| *count += 1);
        Ok(())
    }

    fn watched(&self, result: Result<(), StoreError>) -> Result<(), StoreError> {
        if let Err(error) = &result
            && error.is_fatal()
        {
            tracing::error!(error = error as &dyn std::error::Error, "The database file failed");
            self.fatal.send_replace(true);
        }
        result
    }
}
