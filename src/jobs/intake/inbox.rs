//! The inbox as channels see it.

use std::sync::OnceLock;
use std::time::Duration;

use async_trait::async_trait;
use sayso_channel::{Accepted, Inbox, InboxError, RawInbound};

use crate::decisions::Policy;
use crate::ids::InboxId;
use crate::jobs::Bench;
use crate::jobs::intake::prepare;
use crate::router::Arrival;
use crate::store::inbox::Item;
use crate::store::{self, Store, StoreError, Tx, Write};
use crate::wakeups::Wakeups;

/// How long a page waits for the words that answer what it sent.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of one item at most.
const MAX_BYTES: usize = 64 * 1024;

/// Takes what channels receive.
pub struct Intake {
    store: Store,
    wakeups: Wakeups,
    /// What this process is called among those that share the database.
    owner: String,
    /// What items are dealt with by, once there are workers.
    work: OnceLock<(Bench, Policy)>,
}

impl Intake {
    /// The inbox of this gateway.
    pub fn new(store: Store, wakeups: Wakeups) -> Self {
        Self { store, wakeups, owner: InboxId::new().to_string(), work: OnceLock::new() }
    }

    /// From now on items are dealt with at once where that can be; until then
    /// they are only stored.
    pub fn work_with(&self, bench: Bench, policy: Policy) {
        // A second call would change nothing: there is one bench a process.
        let _ = self.work.set((bench, policy));
    }

    /// Lets another process read what this one has read until now.
    pub async fn leave(&self) {
        // Otherwise the right ends by itself, later.
        let _ = self.store.write(Leave { owner: self.owner.clone() }).await;
    }
}

/// Stores an item and deals with it in one transaction; whether that could be.
/// It can't when the item was there before, when others of its conversation wait,
/// or when dealing with it failed: nothing is stored then.
async fn take(bench: Bench, policy: Policy, item: Item) -> bool {
    let Ok(prepared) = prepare(&bench, &item, policy, Arrival::New(item.clone())) else {
        return false;
    };
    match prepared.carry_out(&bench, &item).await {
        Ok(()) => {
            bench.wakeups.dealt_with();
            true
        }
        Err(StoreError::AlreadyDone) => false,
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::debug!(error, "Input `{}` was not dealt with at once", item.id);
            false
        }
    }
}

/// Stores an item; its id, and whether it was there before.
pub struct Accept {
    /// The item.
    pub item: Item,
    /// Whether the caller deals with it itself.
    pub hold: bool,
}

#[async_trait]
impl Write for Accept {
    type Out = Accepted;

    async fn run(&self, tx: &mut Tx) -> Result<Accepted, StoreError> {
        let item = &self.item;
        if store::inbox::insert(tx, item, self.hold).await? {
            return Ok(Accepted { id: item.id.to_string(), is_duplicate: false });
        }
        let found = store::inbox::find(tx, &item.channel, &item.receiver, &item.dedup_key).await?;
        Ok(Accepted { id: found.unwrap_or_default(), is_duplicate: true })
    }
}

struct AcceptAll {
    channel: String,
    receiver: String,
    items: Vec<Item>,
    position: i64,
}

#[async_trait]
impl Write for AcceptAll {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        for item in &self.items {
            // One that is there already was dealt with or will be.
            store::inbox::insert(tx, item, false).await?;
        }
        store::readers::advance(tx, &self.channel, &self.receiver, self.position).await
    }
}

struct Hold {
    name: String,
    owner: String,
    span: Duration,
}

#[async_trait]
impl Write for Hold {
    type Out = bool;

    async fn run(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        let fence = store::leases::hold(tx, &self.name, &self.owner, self.span).await?;
        Ok(fence.is_some())
    }
}

struct Leave {
    owner: String,
}

#[async_trait]
impl Write for Leave {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        store::leases::release(tx, &self.owner).await
    }
}

struct Report {
    channel: String,
    receiver: String,
    trouble: Option<String>,
}

#[async_trait]
impl Write for Report {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let trouble = self.trouble.as_deref();
        store::readers::report(tx, &self.channel, &self.receiver, trouble).await
    }
}

fn item(channel: &str, raw: RawInbound) -> Item {
    Item {
        id: InboxId::new(),
        channel: channel.to_owned(),
        receiver: raw.receiver,
        dedup_key: raw.dedup_key,
        lane: raw.lane,
        raw: raw.body,
        attempts: 0,
    }
}

fn lease_name(channel: &str, receiver: &str) -> String {
    format!("reader:{channel}:{receiver}")
}

fn not_stored(channel: &str) -> impl FnOnce(StoreError) -> InboxError + '_ {
    move |error| {
        let error = &error as &dyn std::error::Error;
        tracing::error!(error, "The inbox of {channel} failed");
        InboxError
    }
}

#[async_trait]
impl Inbox for Intake {
    async fn accept(&self, channel: &str, raw: RawInbound) -> Result<Accepted, InboxError> {
        if raw.body.len() > MAX_BYTES {
            return Err(InboxError);
        }
        let item = item(channel, raw);
        if let Some((bench, policy)) = self.work.get() {
            // By itself: who sent it may hang up, and is answered all the same.
            let taken = tokio::spawn(take(bench.clone(), *policy, item.clone()));
            // One that panicked is stored for the worker, which tries again.
            if taken.await.unwrap_or(false) {
                return Ok(Accepted { id: item.id.to_string(), is_duplicate: false });
            }
        }
        let accepted = self.store.write(Accept { item, hold: false }).await;
        self.wakeups.came_in();
        accepted.map_err(not_stored(channel))
    }

    async fn accept_all(
        &self,
        channel: &str,
        receiver: &str,
        items: Vec<RawInbound>,
        position: i64,
    ) -> Result<(), InboxError> {
        if items.iter().any(|raw| raw.body.len() > MAX_BYTES) {
            return Err(InboxError);
        }
        let is_any = !items.is_empty();
        let accept = AcceptAll {
            channel: channel.to_owned(),
            receiver: receiver.to_owned(),
            items: items.into_iter().map(|raw| item(channel, raw)).collect(),
            position,
        };
        self.store.write(accept).await.map_err(not_stored(channel))?;
        if is_any {
            self.wakeups.came_in();
        }
        Ok(())
    }

    async fn position(&self, channel: &str, receiver: &str) -> Result<Option<i64>, InboxError> {
        let read = async {
            store::readers::position(&mut self.store.read().await?, channel, receiver).await
        };
        read.await.map_err(not_stored(channel))
    }

    async fn be_only_reader(
        &self,
        channel: &str,
        receiver: &str,
        span: Duration,
    ) -> Result<bool, InboxError> {
        let (name, owner) = (lease_name(channel, receiver), self.owner.clone());
        self.store.write(Hold { name, owner, span }).await.map_err(not_stored(channel))
    }

    async fn report(&self, channel: &str, receiver: &str, trouble: Option<&str>) {
        let report = Report {
            channel: channel.to_owned(),
            receiver: receiver.to_owned(),
            trouble: trouble.map(str::to_owned),
        };
        if let Err(error) = self.store.write(report).await {
            // Only the operator's view is a little older.
            tracing::debug!(error = &error as &dyn std::error::Error, "Not reported");
        }
    }

    async fn outcome(&self, accepted: &Accepted) -> Option<String> {
        let mut anything = self.wakeups.anything();
        let wait = async {
            loop {
                anything.mark_unchanged();
                let mut tx = self.store.read().await.ok()?;
                if let Some(fate) = store::inbox::fate(&mut tx, &accepted.id).await.ok()? {
                    return fate.reply;
                }
                drop(tx);
                anything.changed().await.ok()?;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.ok().flatten()
    }
}
