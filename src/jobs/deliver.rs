//! Makes every card show what it should: posts it, or edits it, as it stands at
//! that moment. Ten changes while a channel is slow cost one edit.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sayso_channel::{Address, Card, Channel, MessageRef, SendError};
use tokio::task::JoinSet;

use crate::broadcaster;
use crate::broadcaster::cards::{View, draw};
use crate::clock::Timestamp;
use crate::jobs::{Bench, POLL};
use crate::requests::Request;
use crate::store::deliveries::{Attempt, Delivery, State};
use crate::store::{self, StoreError, Tx, Write, audit};
use crate::wording;

/// Deliveries under way in one channel at the same time.
const SLOTS: usize = 32;
/// Attempts after which a card that can't be sent is given up until the person
/// is seen again.
const MAX_ATTEMPTS: i64 = 12;
/// No card is tried again before so long for ever.
const NEVER: Timestamp = Timestamp::from_micros(i64::MAX);

/// Delivers in one channel until the process stops. Each channel has a worker of
/// its own: a slow one holds no other up.
pub async fn run(bench: Bench, channel: Arc<dyn Channel>) {
    let lifecycle = bench.lifecycle.clone();
    let mut anything = bench.wakeups.anything();
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            () = lifecycle.stopping() => break,
            changed = anything.changed() => if changed.is_err() { break },
            Some(_) = running.join_next() => {}
            () = tokio::time::sleep(POLL) => {}
        }
        // Whatever ended besides makes room too.
        while running.try_join_next().is_some() {}
        if let Err(error) = start(&bench, &channel, &mut running).await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "Cards could not be claimed; trying again");
        }
    }
    // What is under way is finished: its result would be unknown otherwise.
    while running.join_next().await.is_some() {}
}

struct Claim(&'static str, i64);

#[async_trait]
impl Write for Claim {
    type Out = Vec<Delivery>;

    async fn run(&self, tx: &mut Tx) -> Result<Vec<Delivery>, StoreError> {
        store::deliveries::claim_due(tx, self.0, self.1).await
    }
}

/// Starts as many deliveries that are due as there is room for.
async fn start(
    bench: &Bench,
    channel: &Arc<dyn Channel>,
    running: &mut JoinSet<()>,
) -> Result<(), StoreError> {
    let name = channel.name();
    let room = SLOTS.saturating_sub(running.len());
    if room == 0 || !store::deliveries::is_any_due(&mut bench.store.read().await?, name).await? {
        return Ok(());
    }
    let claim = Claim(name, i64::try_from(room).unwrap_or(1));
    for delivery in bench.store.write(claim).await? {
        let (bench, channel) = (bench.clone(), Arc::clone(channel));
        running.spawn(async move {
            let id = delivery.id;
            if let Err(error) = make_so(&bench, &channel, delivery).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(delivery.id = %id, error, "Delivery `{id}` was not recorded");
            }
        });
    }
    Ok(())
}

async fn make_so(
    bench: &Bench,
    channel: &Arc<dyn Channel>,
    delivery: Delivery,
) -> Result<(), StoreError> {
    let found = store::requests::find(&mut bench.store.read().await?, delivery.request).await?;
    let Some(request) = found else { return Ok(()) };
    let now = bench.store.clock().now();
    let mut trouble = None;
    let attempt = if delivery.message.is_none() && request.status.is_final() {
        // Nothing stands there and nothing is to be decided: nothing to show.
        Attempt {
            id: delivery.id,
            fence: delivery.fence,
            state: delivery.state,
            message: None,
            shown_version: Some(delivery.desired_version),
            is_whole: None,
            detail: delivery.detail.clone(),
            next_at: NEVER,
        }
    } else {
        let drawn = draw(&request, view(channel, &delivery));
        let result = show(channel, &delivery, &drawn.card).await;
        if let Err(SendError::Unreachable { reason }) = &result {
            trouble = Some(reason.clone());
        }
        let attempt = outcome(&delivery, &request, result, now);
        let is_whole = attempt.shown_version.map(|_| drawn.is_whole);
        Attempt { is_whole, ..attempt }
    };
    let is_first = delivery.sent_at.is_none() && attempt.state == State::Sent;
    if is_first {
        bench.metrics.delivered(now.since(request.created_at).as_secs_f64());
    }
    let speaks = channel.capacity().speaks;
    bench.store.write(Record { attempt, delivery, request, is_first, trouble, speaks }).await
}

fn view(channel: &Arc<dyn Channel>, delivery: &Delivery) -> View {
    let exact_units = channel.capacity().exact_units;
    View { exact_units, is_opened: delivery.opened_at.is_some() }
}

/// Posts the card, or edits it where it stands; the message that it is now.
async fn show(
    channel: &Arc<dyn Channel>,
    delivery: &Delivery,
    card: &Card,
) -> Result<String, SendError> {
    let address = Address(delivery.address.clone());
    let receipt = match &delivery.message {
        None => channel.send(&address, card, &delivery.id.to_string()).await?,
        Some(message) => channel.update(&MessageRef { address, id: message.clone() }, card).await?,
    };
    Ok(receipt.message.id)
}

fn outcome(
    delivery: &Delivery,
    request: &Request,
    result: Result<String, SendError>,
    now: Timestamp,
) -> Attempt {
    let again = |after: Duration| now.plus(after.max(backoff(delivery.attempts)));
    match result {
        Ok(message) => Attempt {
            id: delivery.id,
            fence: delivery.fence,
            state: State::Sent,
            message: Some(message),
            // The card was drawn from what was claimed; if the request has changed
            // since, it is due again.
            shown_version: Some(request.version.min(delivery.desired_version)),
            is_whole: None,
            detail: None,
            next_at: now,
        },
        Err(SendError::Gone) => Attempt {
            shown_version: Some(delivery.desired_version),
            ..failed(delivery, State::Gone, "the message is gone", NEVER)
        },
        Err(SendError::Unreachable { reason } | SendError::Rejected { reason }) => {
            failed(delivery, State::Failed, &reason, NEVER)
        }
        Err(SendError::Retry { reason, .. } | SendError::Unknown { reason })
            if delivery.attempts >= MAX_ATTEMPTS =>
        {
            failed(delivery, State::Failed, &reason, NEVER)
        }
        Err(SendError::Retry { after, reason }) => {
            let state = if delivery.message.is_some() { delivery.state } else { State::Queued };
            failed(delivery, state, &reason, again(after))
        }
        Err(SendError::Unknown { reason }) => {
            let state = if delivery.message.is_some() { delivery.state } else { State::Unknown };
            failed(delivery, state, &reason, again(store::deliveries::LEASE))
        }
    }
}

fn failed(delivery: &Delivery, state: State, detail: &str, next_at: Timestamp) -> Attempt {
    Attempt {
        id: delivery.id,
        fence: delivery.fence,
        state,
        message: None,
        shown_version: None,
        is_whole: None,
        detail: Some(detail.to_owned()),
        next_at,
    }
}

/// 0.5, 1, 2, 4 … 60 seconds.
fn backoff(attempts: i64) -> Duration {
    let exponent = u32::try_from(attempts.clamp(1, 8)).unwrap_or(8) - 1;
    Duration::from_millis(500 << exponent).min(Duration::from_mins(1))
}

struct Record {
    attempt: Attempt,
    delivery: Delivery,
    request: Request,
    is_first: bool,
    /// Why the person can't be reached there at all, if that is so.
    trouble: Option<String>,
    /// Whether the channel takes loose words.
    speaks: bool,
}

impl Record {
    /// What follows from the attempt besides its own row.
    async fn follow_through(&self, tx: &mut Tx) -> Result<(), StoreError> {
        if let Some(why) = &self.trouble {
            store::people::set_trouble(tx, self.delivery.binding, why).await?;
        }
        if self.attempt.state == State::Gone && self.request.status.is_final() && self.speaks {
            let words = wording::gone(&self.request);
            let Delivery { channel, address, .. } = &self.delivery;
            store::notices::owe(tx, channel, address, &words).await?;
        }
        if self.attempt.state == State::Failed
            && self.delivery.state != State::Failed
            && !self.request.status.is_final()
        {
            let all = store::deliveries::list_of(tx, self.request.id).await?;
            if !broadcaster::is_reachable(&all) {
                audit::insert(
                    tx,
                    &audit::Event {
                        kind: "request.undeliverable",
                        request: Some(self.request.id),
                        agent: Some(self.request.agent),
                        detail: Some("no channel of the guardian can take it"),
                        ..audit::Event::default()
                    },
                );
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Write for Record {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        if !store::deliveries::record(tx, &self.attempt).await? {
            return Ok(());
        }
        self.follow_through(tx).await?;
        let has_failed =
            self.attempt.state == State::Failed && self.delivery.state != State::Failed;
        let kind = match self.attempt.state {
            State::Sent if self.is_first => "delivery.sent",
            State::Sent if self.request.status.is_final() => "delivery.settled",
            State::Failed if has_failed => "delivery.failed",
            State::Gone => "delivery.gone",
            _ => return Ok(()),
        };
        audit::insert(
            tx,
            &audit::Event {
                kind,
                request: Some(self.delivery.request),
                agent: Some(self.request.agent),
                channel: Some(&self.delivery.channel),
                detail: self.attempt.detail.as_deref(),
                ..audit::Event::default()
            },
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ids::{AgentId, BindingId, DeliveryId, PrincipalId, RequestId};
    use crate::requests::code::Code;
    use crate::requests::status::Status;
    use crate::requests::{Content, Kind, Risk, Shown};

    #[test]
    fn a_card_drawn_from_an_older_claim_does_not_count_as_the_newest() {
        let at = Timestamp::from_micros(1);
        let content = Content {
            kind: Kind::Question,
            title: Some("?".to_owned()),
            body: None,
            tool: None,
            options: Vec::new(),
            allow_text: true,
        };
        let request = Request {
            id: RequestId::new(),
            code: Code::random(),
            status: Status::Pending,
            revision: 1,
            version: 2,
            agent: AgentId::new(),
            agent_name: "robot".to_owned(),
            session: None,
            run: None,
            guardian: PrincipalId::new(),
            guardian_name: "ada".to_owned(),
            digest: content.digest(),
            content,
            risk: Risk::Low,
            callback_url: None,
            metadata: json!({}),
            supersedes: None,
            superseded_by: None,
            asked: 1,
            created_at: at,
            deadline: at,
            outcome: None,
            shown: Shown::default(),
        };
        let claimed = Delivery {
            id: DeliveryId::new(),
            request: request.id,
            binding: BindingId::new(),
            channel: "console".to_owned(),
            address: "ada".to_owned(),
            message: Some("m".to_owned()),
            state: State::Sent,
            shown_version: 0,
            desired_version: 1,
            is_whole: false,
            sent_at: None,
            seen_at: None,
            opened_at: None,
            detail: None,
            attempts: 1,
            fence: 1,
        };

        let attempt = outcome(&claimed, &request, Ok("m".to_owned()), at);

        assert_eq!(attempt.shown_version, Some(1), "version 2 is due again");
    }
}
