//! Broadcaster: which cards should stand where.
//!
//! A request that was opened has one delivery for each account of its guardian,
//! and owes a broadcast. That settles each of them: a card at a private address,
//! or the reason why there is none. From then on a delivery is desired state; the worker makes it so.

pub mod cards;

use std::time::Duration;

use async_trait::async_trait;

use crate::broadcaster::cards::{View, draw};
use crate::requests::Request;
use crate::requests::status::Status;
use crate::store::deliveries::{Delivery, State};
use crate::store::jobs::{Job, Progress};
use crate::store::{self, StoreError, Tx, Write, audit};
use crate::wording;

/// How long after the last look at a page somebody counts as being there.
pub const ATTENDANCE: Duration = Duration::from_hours(24);

/// A channel that this gateway runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlet {
    /// Its name.
    pub channel: String,
    /// UTF-16 code units of exact text that fit on its cards.
    pub exact_units: usize,
}

/// Routes a request's deliveries and settles the job that asked for it.
#[derive(Debug, Clone)]
pub struct Broadcast {
    /// The job.
    pub job: Job,
    /// The channels that run.
    pub outlets: Vec<Outlet>,
}

#[async_trait]
impl Write for Broadcast {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        if !store::jobs::record(tx, &self.job, &Progress::Done, None).await? {
            return Ok(());
        }
        let Some(request) = store::requests::find(tx, self.job.request).await? else {
            return Ok(());
        };
        if request.status != Status::Pending {
            return Ok(());
        }
        say_in_its_place(tx, &request, &wording::waiting(&request)).await?;
        let mut is_anywhere = false;
        for delivery in store::deliveries::list_of(tx, request.id).await? {
            if !is_unrouted(&delivery) {
                is_anywhere |= delivery.state != State::Failed;
                continue;
            }
            let outlet = self.outlets.iter().find(|o| o.channel == delivery.channel);
            let route = match outlet {
                None => Err(format!("the channel {} is switched off", delivery.channel)),
                Some(_) if delivery.address.is_empty() => {
                    Err("the private address is not known yet".to_owned())
                }
                Some(outlet) => {
                    let view = View { exact_units: outlet.exact_units, is_opened: false };
                    Ok(draw(&request, view).is_whole)
                }
            };
            is_anywhere |= route.is_ok();
            store::deliveries::route(tx, delivery.id, route).await?;
        }
        if !is_anywhere {
            audit::insert(
                tx,
                &audit::Event {
                    kind: "request.undeliverable",
                    request: Some(request.id),
                    agent: Some(request.agent),
                    detail: Some("no channel of the guardian runs"),
                    ..audit::Event::default()
                },
            );
        }
        Ok(())
    }
}

/// Says in the shared place that a request came from how it ended, and settles
/// the job that asked for it.
#[derive(Debug, Clone)]
pub struct TellPlace {
    /// The job.
    pub job: Job,
}

#[async_trait]
impl Write for TellPlace {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        if store::jobs::record(tx, &self.job, &Progress::Done, None).await?
            && let Some(request) = store::requests::find(tx, self.job.request).await?
        {
            say_in_its_place(tx, &request, &wording::bare(&request)).await?;
        }
        Ok(())
    }
}

/// Says something in the shared place that a request came from, if it came from
/// one that we know: nothing but what everybody there may read.
async fn say_in_its_place(tx: &mut Tx, request: &Request, words: &str) -> Result<(), StoreError> {
    let Some((channel, address)) = request.origin() else { return Ok(()) };
    if store::places::is_open(tx, channel, address).await? {
        store::notices::owe(tx, channel, address, words).await?;
    }
    Ok(())
}

/// Whether it was never said where the delivery goes.
fn is_unrouted(delivery: &Delivery) -> bool {
    delivery.state == State::Queued
        && delivery.message.is_none()
        && delivery.attempts == 0
        && delivery.shown_version >= delivery.desired_version
}

/// How a delivery is told to the agent: one word.
pub fn state_word(delivery: &Delivery, status: Status) -> &'static str {
    let is_shown = delivery.shown_version >= delivery.desired_version;
    match delivery.state {
        State::Failed => "failed",
        State::Gone => "settled",
        // Also one that ended before anything stood there.
        State::Queued | State::Sending | State::Unknown | State::Sent
            if status.is_final() && is_shown =>
        {
            "settled"
        }
        State::Queued | State::Sending | State::Unknown | State::Sent => {
            if delivery.seen_at.is_some() {
                "seen"
            } else if delivery.sent_at.is_some() {
                "sent"
            } else {
                "queued"
            }
        }
    }
}

/// Whether some surface of the guardian can take the card, as far as is known: a
/// request that was not broadcast yet counts as reachable.
pub fn is_reachable(deliveries: &[Delivery]) -> bool {
    deliveries.is_empty() || deliveries.iter().any(|d| d.state != State::Failed)
}
