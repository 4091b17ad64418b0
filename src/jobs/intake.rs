//! What comes in: stored, then dealt with; the items of one conversation in
//! order, different conversations at the same time.

use std::time::Duration;

use async_trait::async_trait;
use sayso_channel::{Accepted, Inbox, InboxError, RawInbound};

use crate::decisions::Policy;
use crate::ids::InboxId;
use crate::jobs::{Bench, POLL};
use crate::router::Route;
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
}

impl Intake {
    /// The inbox of this gateway.
    pub fn new(store: Store, wakeups: Wakeups) -> Self {
        Self { store, wakeups }
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

#[async_trait]
impl Inbox for Intake {
    async fn accept(&self, channel: &str, raw: RawInbound) -> Result<Accepted, InboxError> {
        if raw.body.len() > MAX_BYTES {
            return Err(InboxError);
        }
        let item = Item {
            id: InboxId::new(),
            channel: channel.to_owned(),
            receiver: raw.receiver,
            dedup_key: raw.dedup_key,
            lane: raw.lane,
            raw: raw.body,
            attempts: 0,
        };
        let accepted = self.store.write(Accept { item, hold: false }).await;
        self.wakeups.came_in();
        accepted.map_err(|error| {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "Input of {channel} could not be stored");
            InboxError
        })
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
        Ok(inbound) => {
            let route = Route { item: id, channel: item.channel.clone(), inbound, policy };
            bench.store.write(route).await.map(|_| ())
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

fn read(bench: &Bench, item: &Item) -> Result<sayso_channel::Inbound, String> {
    let channel = bench.channel(&item.channel).ok_or("the channel is switched off")?;
    let raw = RawInbound {
        receiver: item.receiver.clone(),
        dedup_key: item.dedup_key.clone(),
        lane: item.lane.clone(),
        body: item.raw.clone(),
    };
    channel.read(&raw).map_err(|error| error.to_string())
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
