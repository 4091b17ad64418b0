//! Long polling: fetch, store with the new position in one transaction, and only
//! then ask for what follows, which is what confirms it to the platform.

use std::time::{Duration, Instant};

use sayso_channel::Inbox;
use serde::Serialize;
use serde_json::value::RawValue;
use teloxide::payloads::{DeleteWebhook, DeleteWebhookSetters as _};
use teloxide::types::AllowedUpdate;

use crate::api::{Fault, PATIENCE};
use crate::refusal::Refusal;
use crate::update::{Receiver, store};
use crate::{NAME, Telegram};

/// Seconds that the platform holds a poll; its own limit.
const HOLD: u64 = 50;
/// How long the right to poll lasts without renewal: longer than any poll.
const LEASE: Duration = Duration::from_secs(HOLD + 40);
/// The least time that a poll without news takes.
const LEAST: Duration = Duration::from_secs(1);
/// How often somebody without the right asks for it.
const ASK_AGAIN: Duration = Duration::from_secs(3);

/// Everything we may ever act on. The platform keeps the last list that it was
/// sent, and leaves out reactions unless they are named.
pub(crate) fn allowed_updates() -> Vec<AllowedUpdate> {
    use AllowedUpdate::{
        CallbackQuery, ChannelPost, EditedChannelPost, EditedMessage, Message, MessageReaction,
        MyChatMember,
    };
    vec![
        Message,
        EditedMessage,
        ChannelPost,
        EditedChannelPost,
        CallbackQuery,
        MessageReaction,
        MyChatMember,
    ]
}

/// teloxide's own counts updates with 32 bits.
#[derive(Serialize)]
struct GetUpdates {
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<i64>,
    limit: u8,
    timeout: u64,
    allowed_updates: Vec<AllowedUpdate>,
}

/// Polls until it is dropped.
pub(crate) async fn run(telegram: &Telegram, inbox: &dyn Inbox) {
    let bot = telegram.receiver();
    let mut trouble = Backoff::default();
    // The first poll, and one after trouble, is not held: it shows at once
    // whether polling works.
    let mut hold = 0;
    loop {
        if !matches!(inbox.be_only_reader(NAME, bot, LEASE).await, Ok(true)) {
            // Another gateway on the same database polls.
            tokio::time::sleep(ASK_AGAIN).await;
            continue;
        }
        match turn(telegram, inbox, hold).await {
            Ok(()) => {
                trouble = Backoff::default();
                hold = HOLD;
            }
            Err(fault) => {
                hold = 0;
                if !trouble.is_own_webhook(&fault) {
                    let words = words(&fault);
                    tracing::warn!(
                        reason = words,
                        "Telegram: fetching updates failed; trying again"
                    );
                    inbox.report(NAME, bot, Some(&words)).await;
                }
                if trouble.is_stalling(&fault) {
                    telegram.shared.api.reconnect();
                }
                tokio::time::sleep(trouble.next(&fault)).await;
            }
        }
    }
}

async fn turn(telegram: &Telegram, inbox: &dyn Inbox, hold: u64) -> Result<(), Fault> {
    let receiver = telegram.receiver_of().await?;
    let not_stored = |_| Fault::NotSent("what came in could not be stored".to_owned());
    let offset = inbox.position(NAME, &receiver.id).await.map_err(not_stored)?;
    let call = GetUpdates { offset, limit: 100, timeout: hold, allowed_updates: allowed_updates() };
    let patience = Duration::from_secs(hold) + PATIENCE;
    let started = Instant::now();
    let fetched: Result<Vec<Box<RawValue>>, Fault> =
        telegram.shared.api.call_named("getUpdates", &call, patience).await;
    if let Err(Fault::Refused { refusal: Refusal::WebhookSet, .. }) = &fetched {
        // The settings say that this bot is polled. What waits for the webhook
        // stays and is fetched. If somebody sets it again, the operator hears of
        // it.
        let keep = DeleteWebhook::new().drop_pending_updates(false);
        let _: bool = telegram.call(&keep).await?;
    }
    let updates = fetched?;
    let (items, position) = batch(receiver, &updates, offset.unwrap_or(0));
    if !updates.is_empty() && items.is_empty() {
        return Err(Fault::Lost("Telegram sent updates without numbers".to_owned()));
    }
    inbox.accept_all(NAME, &receiver.id, items, position).await.map_err(not_stored)?;
    if updates.is_empty() && hold > 0 {
        // A server that holds no polls must not be asked without a pause.
        tokio::time::sleep(LEAST.saturating_sub(started.elapsed())).await;
    }
    Ok(())
}

/// What is stored of a batch, and where reading goes on.
fn batch(
    receiver: &Receiver,
    updates: &[Box<RawValue>],
    offset: i64,
) -> (Vec<sayso_channel::RawInbound>, i64) {
    let stored: Vec<_> = updates.iter().filter_map(|update| store(receiver, update)).collect();
    let next = stored.iter().map(|(_, number)| number + 1).max().unwrap_or(offset);
    (stored.into_iter().map(|(raw, _)| raw).collect(), next)
}

fn words(fault: &Fault) -> String {
    match fault {
        Fault::Refused { refusal, words } => refusal.remedy().map_or(words.clone(), str::to_owned),
        other => other.to_string(),
    }
}

/// How long to wait after failures.
#[derive(Default)]
struct Backoff {
    failures: u32,
    losses: u32,
}

impl Backoff {
    /// Whether it is a webhook that was set before polling began: it is removed,
    /// and nothing is wrong.
    fn is_own_webhook(&self, fault: &Fault) -> bool {
        let is_set = matches!(fault, Fault::Refused { refusal: Refusal::WebhookSet, .. });
        is_set && self.failures == 0
    }

    /// Whether connections seem to be dead without saying so.
    fn is_stalling(&mut self, fault: &Fault) -> bool {
        if matches!(fault, Fault::Lost(_)) {
            self.losses += 1;
        }
        self.losses >= 2 && self.losses.is_multiple_of(2)
    }

    fn next(&mut self, fault: &Fault) -> Duration {
        self.failures += 1;
        let doubled = Duration::from_millis(500) * (1 << self.failures.min(8));
        let (least, most) = match fault {
            Fault::Wait(after) => return *after,
            Fault::Refused { refusal: Refusal::Token, .. } => {
                (Duration::from_secs(30), Duration::from_mins(1))
            }
            // The other poll is ended by ours and ours by it: be slower.
            Fault::Refused { refusal: Refusal::PolledElsewhere, .. } => {
                (Duration::from_secs(3), Duration::from_mins(1))
            }
            _ => (Duration::from_secs(1), Duration::from_secs(30)),
        };
        let jitter = rand::random_range(0.8..1.2);
        doubled.clamp(least, most).mul_f64(jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_goes_on_after_its_highest_number_whatever_else_is_in_it() {
        let receiver = Receiver { id: "700".to_owned(), username: "GateBot".to_owned() };
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let updates = [
            raw(r#"{"update_id":4294967300,"message":{"brand_new_kind":{}}}"#),
            raw(r#"{"update_id":4294967298,"unknown_update":{}}"#),
            raw(r#"{"nothing":1}"#),
            raw("7"),
        ];
        let (items, next) = batch(&receiver, &updates, 5);
        assert_eq!((items.len(), next), (2, 4_294_967_301));
        assert_eq!(batch(&receiver, &[], 5).1, 5);
    }

    #[test]
    fn failures_are_answered_with_longer_and_longer_pauses() {
        let mut backoff = Backoff::default();
        let lost = Fault::Lost(String::new());
        let pauses: Vec<Duration> = (0..8).map(|_| backoff.next(&lost)).collect();
        assert!(pauses[0] < Duration::from_secs(2) && pauses[7] > Duration::from_secs(20));
        assert_eq!(backoff.next(&Fault::Wait(Duration::from_secs(33))), Duration::from_secs(33));
        let stalls: Vec<bool> = (0..4).map(|_| backoff.is_stalling(&lost)).collect();
        assert_eq!(stalls, [false, true, false, true]);
    }
}
