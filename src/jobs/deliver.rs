//! Makes every card show what it should: posts it, or edits it, as it stands at
//! that moment. Ten changes while a channel is slow cost one edit.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sayso_channel::{Address, Card, Channel, MessageRef, Receipt, SendError};
use tokio::task::JoinSet;

use crate::broadcaster;
use crate::broadcaster::cards::{View, draw};
use crate::clock::Timestamp;
use crate::ids::DeliveryId;
use crate::jobs::{Bench, Slotted, in_slots};
use crate::requests::Request;
use crate::store::deliveries::{Attempt, Delivery, State};
use crate::store::{self, StoreError, Tx, Write, audit};
use crate::wording;

/// Deliveries under way in one channel at the same time.
const SLOTS: usize = 32;
/// Attempts after which a card that can't be sent is given up until the person
/// is seen again.
const MAX_ATTEMPTS: i64 = 12;
/// How long it takes until a card that may have been sent is sent once more.
const DOUBT: Duration = Duration::from_secs(30);
/// No card is tried again before so long for ever.
const NEVER: Timestamp = Timestamp::from_micros(i64::MAX);

/// Delivers in one channel until the process stops. Each channel has a worker of
/// its own: a slow one holds no other up.
pub async fn run(bench: Bench, channel: Arc<dyn Channel>) {
    let work = Delivering { bench, channel };
    in_slots(&work.bench, SLOTS, &work).await;
}

struct Delivering {
    bench: Bench,
    channel: Arc<dyn Channel>,
}

struct Claim(&'static str, i64);

#[async_trait]
impl Write for Claim {
    type Out = Vec<Delivery>;

    async fn run(&self, tx: &mut Tx) -> Result<Vec<Delivery>, StoreError> {
        store::deliveries::claim_due(tx, self.0, self.1).await
    }
}

#[async_trait]
impl Slotted for Delivering {
    async fn start(&self, room: i64, running: &mut JoinSet<()>) -> Result<(), StoreError> {
        let name = self.channel.name();
        if !store::deliveries::is_any_due(&mut self.bench.store.read().await?, name).await? {
            return Ok(());
        }
        for delivery in self.bench.store.write(Claim(name, room)).await? {
            let (bench, channel) = (self.bench.clone(), Arc::clone(&self.channel));
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
}

async fn make_so(
    bench: &Bench,
    channel: &Arc<dyn Channel>,
    delivery: Delivery,
) -> Result<(), StoreError> {
    let found = store::requests::find(&mut bench.store.read().await?, delivery.request).await?;
    let Some(request) = found else { return Ok(()) };
    let now = bench.store.clock().now();
    let (mut trouble, mut left_behind, mut moved) = (None, None, None);
    let attempt = if delivery.message.is_none() && request.status.is_final() {
        // Nothing stands there and nothing is to be decided: nothing to show.
        Attempt {
            id: delivery.id,
            fence: delivery.fence,
            wanted_version: delivery.desired_version,
            state: delivery.state,
            message: None,
            shown_version: Some(delivery.desired_version),
            is_whole: None,
            counts: true,
            detail: delivery.detail.clone(),
            next_at: NEVER,
        }
    } else {
        let drawn = draw(&request, view(channel, &delivery));
        let result = show_patiently(bench, channel, &delivery, &drawn.card).await;
        // Only what was shown counts as shown: a message that is gone has nothing
        // more to show, and shows nothing.
        let is_whole = result.is_ok().then_some(drawn.is_whole);
        match &result {
            Err(SendError::Unreachable { reason }) => trouble = Some(reason.clone()),
            Ok(receipt) => {
                left_behind.clone_from(&receipt.left_behind);
                let stands = &receipt.message.address.0;
                moved = (*stands != delivery.address).then(|| stands.clone());
            }
            Err(_) => {}
        }
        Attempt { is_whole, ..outcome(&delivery, &request, result, now) }
    };
    let is_first = delivery.sent_at.is_none() && attempt.state == State::Sent;
    if is_first {
        bench.metrics.delivered(now.since(request.created_at).as_secs_f64());
    }
    let speaks = channel.capacity().speaks;
    let record =
        Record { attempt, delivery, request, is_first, trouble, left_behind, moved, speaks };
    bench.store.write(record).await
}

fn view(channel: &Arc<dyn Channel>, delivery: &Delivery) -> View {
    let exact_units = channel.capacity().exact_units;
    View { exact_units, is_opened: delivery.opened_at.is_some() }
}

/// Posts the card, or edits it where it stands; posts it anew if it was to be
/// shown whole and stands no more.
async fn show(
    channel: &Arc<dyn Channel>,
    delivery: &Delivery,
    card: &Card,
) -> Result<Receipt, SendError> {
    let address = Address(delivery.address.clone());
    match &delivery.message {
        None => channel.send(&address, card, &delivery.id.to_string()).await,
        Some(message) => {
            let stands = MessageRef { address: address.clone(), id: message.clone() };
            match channel.update(&stands, card).await {
                // Whoever asked to see all of it and has removed it gets it anew.
                Err(SendError::Gone)
                    if delivery.opened_at.is_some() && !card.actions.is_empty() =>
                {
                    channel.send(&address, card, &delivery.id.to_string()).await
                }
                shown => shown,
            }
        }
    }
}

/// Shows the card, and keeps the claim for as long as that takes.
async fn show_patiently(
    bench: &Bench,
    channel: &Arc<dyn Channel>,
    delivery: &Delivery,
    card: &Card,
) -> Result<Receipt, SendError> {
    let showing = show(channel, delivery, card);
    tokio::pin!(showing);
    loop {
        tokio::select! {
            shown = &mut showing => return shown,
            () = tokio::time::sleep(store::deliveries::LEASE / 3) => {
                // Without it somebody else may post the same; that is mended
                // when a second copy is pressed.
                let _ = bench.store.write(Keep { id: delivery.id, fence: delivery.fence }).await;
            }
        }
    }
}

struct Keep {
    id: DeliveryId,
    fence: i64,
}

#[async_trait]
impl Write for Keep {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        store::deliveries::keep(tx, self.id, self.fence).await
    }
}

fn outcome(
    delivery: &Delivery,
    request: &Request,
    result: Result<Receipt, SendError>,
    now: Timestamp,
) -> Attempt {
    let again = |after: Duration| now.plus(after.max(backoff(delivery.attempts)));
    let stands = delivery.message.is_some();
    match result {
        Ok(receipt) => Attempt {
            id: delivery.id,
            fence: delivery.fence,
            wanted_version: delivery.desired_version,
            state: State::Sent,
            message: Some(receipt.message.id),
            // The card was drawn from what was claimed; if the request has changed
            // since, it is due again.
            shown_version: Some(request.version.min(delivery.desired_version)),
            is_whole: None,
            detail: None,
            counts: true,
            next_at: now,
        },
        Err(SendError::Gone) => Attempt {
            shown_version: Some(delivery.desired_version),
            ..failed(delivery, State::Gone, "the message is gone", NEVER)
        },
        Err(SendError::Unreachable { reason } | SendError::Rejected { reason }) => {
            failed(delivery, State::Failed, &reason, NEVER)
        }
        Err(SendError::Busy { after }) => {
            let state = if stands { delivery.state } else { State::Queued };
            let attempt = failed(delivery, state, "waiting for its turn", now.plus(after));
            Attempt { counts: false, ..attempt }
        }
        // A card that stands there is edited until it shows how things are,
        // however long that takes.
        Err(SendError::Retry { reason, .. }) if !stands && delivery.attempts >= MAX_ATTEMPTS => {
            failed(delivery, State::Failed, &reason, NEVER)
        }
        Err(SendError::Retry { after, reason }) => {
            let state = if stands { delivery.state } else { State::Queued };
            failed(delivery, state, &reason, again(jittered(after)))
        }
        Err(SendError::Unknown { reason }) if stands => {
            failed(delivery, delivery.state, &reason, again(DOUBT))
        }
        // Sent once more; then a second copy is worse than none. The first press
        // on either tells which message it is.
        Err(SendError::Unknown { reason }) => {
            let is_first = delivery.state != State::Unknown;
            let next_at = if is_first { again(DOUBT) } else { NEVER };
            failed(delivery, State::Unknown, &reason, next_at)
        }
    }
}

/// Up to a fifth longer, so that those who were told the same don't come back
/// together.
fn jittered(after: Duration) -> Duration {
    after.mul_f64(rand::random_range(1.0..1.2))
}

fn failed(delivery: &Delivery, state: State, detail: &str, next_at: Timestamp) -> Attempt {
    Attempt {
        id: delivery.id,
        fence: delivery.fence,
        wanted_version: delivery.desired_version,
        state,
        message: None,
        shown_version: None,
        is_whole: None,
        counts: true,
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
    /// A message that still stands with buttons and is to be closed with the
    /// others.
    left_behind: Option<String>,
    /// Where the conversation really is, if that is not where it was looked for.
    moved: Option<String>,
    /// Whether the channel takes loose words.
    speaks: bool,
}

impl Record {
    /// What follows from the attempt besides its own row.
    async fn follow_through(&self, tx: &mut Tx) -> Result<(), StoreError> {
        if let Some(why) = &self.trouble {
            store::people::set_trouble(tx, self.delivery.binding, why).await?;
        }
        if let Some(to) = &self.moved {
            let Delivery { channel, address, .. } = &self.delivery;
            store::people::move_address(tx, channel, address, to).await?;
        }
        if let Some(message) = &self.left_behind {
            let version = self.request.version;
            store::deliveries::leave_behind(tx, &self.delivery, message, version).await?;
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
    use crate::ids::{AgentId, BindingId, PrincipalId, RequestId};
    use crate::requests::code::Code;
    use crate::requests::status::Status;
    use crate::requests::{Content, Kind, Risk, Shown};

    fn request() -> Request {
        let at = Timestamp::from_micros(1);
        let content = Content {
            kind: Kind::Question,
            title: Some("?".to_owned()),
            body: None,
            tool: None,
            options: Vec::new(),
            allow_text: true,
        };
        Request {
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
        }
    }

    fn claimed(request: &Request) -> Delivery {
        Delivery {
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
        }
    }

    #[test]
    fn a_card_drawn_from_an_older_claim_does_not_count_as_the_newest() {
        let (request, at) = (request(), Timestamp::from_micros(1));
        let claimed = claimed(&request);
        let message = MessageRef { address: Address("ada".to_owned()), id: "m".to_owned() };
        let receipt = Receipt { message, left_behind: None };
        let attempt = outcome(&claimed, &request, Ok(receipt), at);

        assert_eq!(attempt.shown_version, Some(1), "version 2 is due again");
    }

    #[test]
    fn a_card_in_doubt_is_sent_once_more_and_not_a_third_time() {
        let (request, at) = (request(), Timestamp::from_micros(1));
        let unsent = Delivery { message: None, state: State::Sending, ..claimed(&request) };
        let lost = || Err(SendError::Unknown { reason: "cut".to_owned() });

        let first = outcome(&unsent, &request, lost(), at);
        assert_eq!(first.state, State::Unknown);
        assert!(first.next_at >= at.plus(DOUBT) && first.next_at < NEVER);
        let again = Delivery { state: State::Unknown, attempts: 2, ..unsent };
        let second = outcome(&again, &request, lost(), at);
        assert_eq!((second.state, second.next_at), (State::Unknown, NEVER));
    }

    #[test]
    fn a_card_that_stands_is_edited_however_long_it_takes_and_its_pace_is_no_failure() {
        let (request, at) = (request(), Timestamp::from_micros(1));
        let standing = Delivery { attempts: 1_000, ..claimed(&request) };
        let after = Duration::from_secs(1);
        for error in [
            SendError::Retry { after, reason: "down".to_owned() },
            SendError::Unknown { reason: "cut".to_owned() },
            SendError::Busy { after },
        ] {
            let attempt = outcome(&standing, &request, Err(error), at);
            assert_eq!(attempt.state, State::Sent);
            assert!(attempt.next_at < at.plus(Duration::from_mins(2)));
        }
        let unsent = Delivery { message: None, state: State::Sending, ..standing };
        let waits = outcome(&unsent, &request, Err(SendError::Busy { after }), at);
        assert_eq!((waits.state, waits.counts), (State::Queued, false));
    }
}
