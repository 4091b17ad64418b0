//! What comes in: stored and dealt with; the items of one conversation in
//! order, different conversations at the same time.
//!
//! An item is dealt with in the transaction that stores it where that can be
//! ([`Intake`]); whatever can't, or came with others, is stored first and dealt
//! with by the worker here.

mod inbox;

use std::sync::Arc;

use async_trait::async_trait;
use sayso_channel::{Channel, Event, Manner, RawInbound, TapRef};

use crate::decisions::Policy;
use crate::ids::InboxId;
pub use crate::jobs::intake::inbox::{Accept, Intake};
use crate::jobs::{Bench, POLL};
use crate::router::{Arrival, Outcome, Route, Routed};
use crate::store::inbox::Item;
use crate::store::{self, StoreError, Tx, Write};

/// Items dealt with at the same time.
const BATCH: i64 = 64;

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
    let result = match prepare(bench, &item, policy, Arrival::Stored(id)) {
        Ok(prepared) => prepared.carry_out(bench, &item).await,
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

/// An item that was read and can be routed.
struct Prepared {
    channel: Arc<dyn Channel>,
    route: Route,
}

/// Reads an item.
///
/// # Errors
///
/// Why it can't be read, in words for the operator.
fn prepare(
    bench: &Bench,
    item: &Item,
    policy: Policy,
    arrival: Arrival,
) -> Result<Prepared, String> {
    let channel = bench.channel(&item.channel).ok_or("the channel is switched off")?;
    let inbound = channel.read(&raw_of(item)).map_err(|error| error.to_string())?;
    let speaks = channel.capacity().speaks;
    let name = item.channel.clone();
    let route = Route { arrival, channel: name, inbound, policy, speaks };
    Ok(Prepared { channel: Arc::clone(channel), route })
}

impl Prepared {
    /// Routes the item; a press is answered after the commit.
    async fn carry_out(self, bench: &Bench, item: &Item) -> Result<(), StoreError> {
        let is_tap = matches!(self.route.inbound.event, Event::Tap { .. });
        let routed = bench.store.write(self.route).await?;
        if is_tap {
            answer(bench, self.channel, item, routed);
        }
        Ok(())
    }
}

fn report(id: InboxId, error: &StoreError) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(inbox.id = %id, error, "Input `{id}` will be tried again");
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
