//! Pacing: what the platform asks of bots, and what it told us.
//!
//! One message a second in a chat, 20 a minute in a group, 30 a second in all;
//! short bursts pass. Edits have a pace of their own, so that a card closes
//! while others are being posted. The platform's own `retry_after` counts above
//! all of it, for the chat that it was said of.

use std::time::Duration;

use sayso_channel::pace::Rate;

/// How far ahead of its pace a chat may be: a short burst, as when somebody
/// answers several cards.
const CHAT: Rate = Rate { every: Duration::from_secs(1), burst: 8 };
const GROUP: Rate = Rate { every: Duration::from_secs(3), burst: 8 };
const ALL: Rate = Rate { every: Duration::from_millis(34), burst: 10 };
/// So many turns ahead that it is only ever slow when it is paused.
const AHEAD: u32 = 10_000;

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum What {
    /// A card.
    Card,
    /// Words, which don't wait behind cards.
    Words,
    /// A change of one that stands there.
    Edit,
}

/// Where turns are taken.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Queue {
    /// In a chat, for one kind.
    Of(i64, What),
    /// In a chat, for everything.
    Chat(i64),
    /// In all chats.
    All,
}

/// When something may be sent.
#[derive(Default)]
pub(crate) struct Pace {
    turns: sayso_channel::pace::Pace<Queue>,
}

impl Pace {
    /// Waits for a turn in `chat`.
    ///
    /// # Errors
    ///
    /// The time to wait, if it is long; no turn is taken then.
    pub(crate) async fn turn(&self, chat: i64, what: What) -> Result<(), Duration> {
        let rate = if chat < 0 { GROUP } else { CHAT };
        let paused = Rate { burst: AHEAD, ..rate };
        let queues =
            [(Queue::Of(chat, what), rate), (Queue::All, ALL), (Queue::Chat(chat), paused)];
        self.turns.turn(&queues).await
    }

    /// The platform asked to leave `chat` alone for so long. If it asks for two
    /// chats at once, it is the bot that is asked to wait.
    pub(crate) fn pause(&self, chat: i64, span: Duration) {
        self.turns.pause(Queue::Chat(chat), span);
        let paused = self.turns.paused();
        let chats = paused.iter().filter(|(queue, _)| matches!(queue, Queue::Chat(_)));
        if chats.clone().count() > 1
            && let Some((_, longest)) = chats.max_by_key(|(_, span)| *span)
        {
            self.turns.pause(Queue::All, *longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pause_holds_its_chat_and_two_hold_all() {
        let pace = Pace::default();
        pace.pause(7, Duration::from_secs(33));
        let wait = pace.turn(7, What::Edit).await.unwrap_err();
        assert!(wait > Duration::from_secs(32), "{wait:?}");
        assert_eq!(pace.turn(8, What::Edit).await, Ok(()));
        pace.pause(9, Duration::from_secs(5));
        assert!(pace.turn(8, What::Edit).await.is_err());
        tokio::time::sleep(Duration::from_secs(34)).await;
        assert_eq!(pace.turn(7, What::Card).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn words_do_not_wait_for_cards() {
        let pace = Pace::default();
        for _ in 0..8 {
            assert_eq!(pace.turn(7, What::Card).await, Ok(()));
        }
        let start = Instant::now();
        assert_eq!(pace.turn(7, What::Words).await, Ok(()));
        assert!(start.elapsed() < Duration::from_millis(100));
    }

    #[tokio::test(start_paused = true)]
    async fn all_chats_together_get_thirty_a_second() {
        let pace = Pace::default();
        let start = Instant::now();
        for chat in 0..300 {
            while let Err(wait) = pace.turn(chat, What::Edit).await {
                tokio::time::sleep(wait).await;
            }
        }
        let taken = start.elapsed();
        assert!(taken > Duration::from_millis(9_500) && taken < Duration::from_millis(10_500));
    }
}
