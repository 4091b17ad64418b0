//! Wake-ups: hints that something may have changed. Whoever waits registers,
//! then reads the database, then waits; any other order loses wake-ups.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use tokio::sync::{Notify, watch};

use crate::ids::{AgentId, RequestId};

/// Waits that may be held at the same time; more are refused.
pub const MAX_WAITS: u64 = 20_000;

/// How long changes are gathered before workers look at them.
const TOGETHER: Duration = Duration::from_millis(5);

/// Where hints are given and taken.
#[derive(Clone, Default)]
pub struct Wakeups {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    requests: DashMap<RequestId, Arc<Notify>>,
    agents: DashMap<AgentId, Arc<Notify>>,
    anything: watch::Sender<u64>,
    jobs: Notify,
    inbox: Notify,
    waits: AtomicU64,
}

/// A registered wait for one request or one agent.
pub struct Wait<K: Eq + std::hash::Hash + Copy> {
    wakeups: Wakeups,
    map: fn(&Shared) -> &DashMap<K, Arc<Notify>>,
    key: K,
    notify: Arc<Notify>,
}

impl<K: Eq + std::hash::Hash + Copy> Wait<K> {
    /// The next hint. Create it, then read, then await it.
    pub fn hint(&self) -> tokio::sync::futures::Notified<'_> {
        self.notify.notified()
    }
}

impl<K: Eq + std::hash::Hash + Copy> Drop for Wait<K> {
    fn drop(&mut self) {
        let shared = &self.wakeups.shared;
        shared.waits.fetch_sub(1, Ordering::Relaxed);
        // This one and the map's own are left: nobody else waits.
        (self.map)(shared).remove_if(&self.key, |_, notify| Arc::strong_count(notify) <= 2);
    }
}

impl Wakeups {
    fn register<K: Eq + std::hash::Hash + Copy>(
        &self,
        map: fn(&Shared) -> &DashMap<K, Arc<Notify>>,
        key: K,
    ) -> Option<Wait<K>> {
        let before = self.shared.waits.fetch_add(1, Ordering::Relaxed);
        if before >= MAX_WAITS {
            self.shared.waits.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let notify = Arc::clone(&map(&self.shared).entry(key).or_default());
        Some(Wait { wakeups: self.clone(), map, key, notify })
    }

    /// Registers a wait for a request; `None` when there are too many.
    pub fn request(&self, id: RequestId) -> Option<Wait<RequestId>> {
        self.register(|shared| &shared.requests, id)
    }

    /// Registers a wait for anything of an agent; `None` when there are too many.
    pub fn agent(&self, id: AgentId) -> Option<Wait<AgentId>> {
        self.register(|shared| &shared.agents, id)
    }

    /// How many waits are held.
    pub fn waits(&self) -> u64 {
        self.shared.waits.load(Ordering::Relaxed)
    }

    /// Changes whenever anything happened.
    pub fn anything(&self) -> watch::Receiver<u64> {
        self.shared.anything.subscribe()
    }

    /// Something happened to a request or to an agent's requests.
    pub fn happened(&self, request: Option<RequestId>, agent: Option<AgentId>) {
        if let Some(notify) = request.and_then(|id| self.shared.requests.get(&id)) {
            notify.notify_waiters();
        }
        if let Some(notify) = agent.and_then(|id| self.shared.agents.get(&id)) {
            notify.notify_waiters();
        }
    }

    /// There was news; workers look for work.
    pub fn news(&self) {
        self.shared.anything.send_modify(|count| *count += 1);
        self.shared.jobs.notify_one();
    }

    /// Something came in.
    pub fn came_in(&self) {
        self.shared.inbox.notify_one();
    }

    /// Waits for the next hint that something may have changed, and a moment
    /// longer: many changes are looked at together. `false` when there are no
    /// more hints.
    pub async fn next_change(hints: &mut watch::Receiver<u64>) -> bool {
        if hints.changed().await.is_err() {
            return false;
        }
        tokio::time::sleep(TOGETHER).await;
        hints.mark_unchanged();
        true
    }

    /// Something that came in was dealt with.
    pub fn dealt_with(&self) {
        self.shared.anything.send_modify(|count| *count += 1);
    }

    /// A hint for the worker that does what is owed.
    pub async fn jobs(&self) {
        self.shared.jobs.notified().await;
    }

    /// A hint for the worker that deals with what came in.
    pub async fn inbox(&self) {
        self.shared.inbox.notified().await;
    }
}
