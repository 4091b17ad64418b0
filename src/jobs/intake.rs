//! What comes in: stored, then dealt with; the items of one conversation in
//! order, different conversations at the same time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sayso_channel::{Accepted, Channel, Event, Inbox, InboxError, Manner, RawInbound, TapRef};

use crate::decisions::Policy;
use crate::ids::InboxId;
use crate::jobs::{Bench, POLL};
use crate::router::{Outcome, Route, Routed};
use crate::store::inbox::Item;
use crate::store::{self, Store, StoreError, Tx, Write};
use crate::wakeups::Wakeups;

/// Items dealt with at the same time.
const BATCH: i64 = 64;
/// How long a page waits for the words that answer what it sent.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of one item at most.
const MAX_BYTES: usize = 64 * 1024;

/// The inbox as channels see it.
#[derive(Clone)]
pub struct Intake {
    store: Store,
    wakeups: Wakeups,
    /// What this process is called among those that share the database.
    owner: String,
}

impl Intake {
    /// The inbox of this gateway.
    pub fn new(store: Store, wakeups: Wakeups) -> Self {
        Self { store, wakeups, owner: InboxId::new().to_string() }
    }
}

impl Intake {
    /// Lets another process read what this one has read until now.
    pub async fn leave(&self) {
        // Otherwise the right ends by itself, later.
        let _ = self.store.write(Leave { owner: self.owner.clone() }).await;
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
        let accept = Accept { item: item(channel, raw), hold: false };
        let accepted = self.store.write(accept).await;
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

/// Deals with what came in until the process stops.
pub async fn run(bench: Bench, policy: Policy) {
    let lifecycle = bench.lifecycle.clone();
    loop {
        tokio::select! {
            () = lifecycle.stopping() => return,
            () = bench.wakeups.inbox() => {}
            () = tokio::time::sleep(POLL) => {}
        }
        loop {
            match turn(&bench, policy).await {
                Ok(0) => break,
                Ok(_) if lifecycle.is_stopping() => return,
                Ok(_) => {}
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "Input could not be claimed; trying again");
                    break;
                }
            }
        }
    }
}

struct Claim;

#[async_trait]
impl Write for Claim {
    type Out = Vec<Item>;

    async fn run(&self, tx: &mut Tx) -> Result<Vec<Item>, StoreError> {
        store::inbox::claim(tx, BATCH).await
    }
}

async fn turn(bench: &Bench, policy: Policy) -> Result<usize, StoreError> {
    if !store::inbox::is_any_new(&mut bench.store.read().await?).await? {
        return Ok(0);
    }
    let claimed = bench.store.write(Claim).await?;
    let count = claimed.len();
    let mut running = tokio::task::JoinSet::new();
    for item in claimed {
        let bench = bench.clone();
        running.spawn(async move { deal_with(&bench, item, policy).await });
    }
    while running.join_next().await.is_some() {}
    Ok(count)
}

async fn deal_with(bench: &Bench, item: Item, policy: Policy) {
    let id = item.id;
    let result = match read(bench, &item) {
        Ok((channel, inbound)) => {
            let is_tap = matches!(inbound.event, Event::Tap { .. });
            let speaks = channel.capacity().speaks;
            let name = item.channel.clone();
            let route = Route { item: id, channel: name, inbound, policy, speaks };
            bench.store.write(route).await.map(|routed| {
                if is_tap {
                    answer(bench, channel, &item, routed);
                }
            })
        }
        Err(why) => {
            tracing::warn!(inbox.id = %id, "Input `{id}` was not understood and is kept");
            bench.store.write(SetAside { item: item.clone(), why }).await
        }
    };
    match result {
        Ok(()) | Err(StoreError::AlreadyDone) => {}
        Err(error) => {
            report(id, &error);
            let why = error.to_string();
            if let Err(error) = bench.store.write(GiveBack { item, why }).await {
                report(id, &error);
            }
        }
    }
    bench.wakeups.dealt_with();
}

fn report(id: InboxId, error: &StoreError) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(inbox.id = %id, error, "Input `{id}` will be tried again");
}

fn read(bench: &Bench, item: &Item) -> Result<(Arc<dyn Channel>, sayso_channel::Inbound), String> {
    let channel = bench.channel(&item.channel).ok_or("the channel is switched off")?;
    let inbound = channel.read(&raw_of(item)).map_err(|error| error.to_string())?;
    Ok((Arc::clone(channel), inbound))
}

fn raw_of(item: &Item) -> RawInbound {
    RawInbound {
        receiver: item.receiver.clone(),
        dedup_key: item.dedup_key.clone(),
        lane: item.lane.clone(),
        body: item.raw.clone(),
    }
}

/// Answers a press of a button, once, after the commit. If that fails, the
/// decision stands all the same and the card shows it.
fn answer(bench: &Bench, channel: Arc<dyn Channel>, item: &Item, routed: Routed) {
    let Some(words) = routed.reply else { return };
    let manner = match routed.outcome {
        Outcome::Applied | Outcome::Clarify => Manner::Passing,
        _ => Manner::Staying,
    };
    let tap = TapRef { raw: raw_of(item) };
    bench.lifecycle.spawn("answer", async move {
        if let Err(error) = channel.answer_tap(&tap, &words, manner).await {
            let error = &error as &dyn std::error::Error;
            tracing::info!(error, "A press was not answered; what it did stands");
        }
    });
}

struct SetAside {
    item: Item,
    why: String,
}

#[async_trait]
impl Write for SetAside {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let item = Item { attempts: store::inbox::MAX_ATTEMPTS, ..self.item.clone() };
        store::inbox::give_back(tx, &item, &self.why).await
    }
}

struct GiveBack {
    item: Item,
    why: String,
}

#[async_trait]
impl Write for GiveBack {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        store::inbox::give_back(tx, &self.item, &self.why).await
    }
}
