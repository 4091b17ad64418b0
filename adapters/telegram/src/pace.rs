//! Pacing: what the platform asks of bots, and what it told us.
//!
//! One message a second in a chat, 20 a minute in a group, 30 a second in all;
//! short bursts pass. Edits have a pace of their own, so that a card closes
//! while others are being posted. The platform's own `retry_after` counts above
//! all of it, for the chat that it was said of.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How far ahead of its pace a chat may be: a short burst, as when somebody
/// answers several cards.
const CHAT_BURST: u32 = 8;
const CHAT_EVERY: Duration = Duration::from_secs(1);
const GROUP_EVERY: Duration = Duration::from_secs(3);
const ALL_EVERY: Duration = Duration::from_millis(34);
const ALL_BURST: u32 = 10;
/// Who has to wait longer is told so; who has to wait less waits here.
const SHORT: Duration = Duration::from_millis(1_500);

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

/// When something may be sent.
#[derive(Default)]
pub(crate) struct Pace {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    chats: HashMap<(i64, What), Instant>,
    all: Option<Instant>,
    pauses: HashMap<i64, Instant>,
    /// Until when turns are promised to those who were told to come back, each
    /// its own: they would all come back together otherwise.
    promised: HashMap<(Option<i64>, What), Instant>,
}

impl Pace {
    /// Waits for a turn in `chat`.
    ///
    /// # Errors
    ///
    /// The time to wait, if it is long; no turn is taken then.
    pub(crate) async fn turn(&self, chat: i64, what: What) -> Result<(), Duration> {
        let wait = self.reserve(chat, what, Instant::now())?;
        tokio::time::sleep(wait).await;
        Ok(())
    }

    fn reserve(&self, chat: i64, what: What, now: Instant) -> Result<Duration, Duration> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // What lies in the past says nothing any more.
        if state.chats.len() > 1_000 {
            state.chats.retain(|_, at| *at > now);
            state.promised.retain(|_, until| *until > now);
        }
        state.pauses.retain(|_, until| *until > now);
        let every = if chat < 0 { GROUP_EVERY } else { CHAT_EVERY };
        let of_chat = state.chats.get(&(chat, what)).copied().unwrap_or(now).max(now);
        let of_all = state.all.unwrap_or(now).max(now);
        // Two chats at once: it is the bot that is asked to wait.
        let paused = if state.pauses.len() > 1 {
            state.pauses.values().max().copied()
        } else {
            state.pauses.get(&chat).copied()
        };
        let paused = paused.unwrap_or(now);
        let in_chat = of_chat.checked_sub(every * (CHAT_BURST - 1)).unwrap_or(now);
        let in_all = of_all.checked_sub(ALL_EVERY * (ALL_BURST - 1)).unwrap_or(now);
        let at = in_chat.max(in_all).max(paused).max(now);
        let wait = at - now;
        if wait > SHORT {
            let (queue, step) = if in_all > in_chat.max(paused) {
                ((None, what), ALL_EVERY)
            } else {
                ((Some(chat), what), every)
            };
            let promised = state.promised.entry(queue).or_insert(at);
            let turn = (*promised).max(at);
            *promised = turn + step;
            return Err(turn - now);
        }
        state.chats.insert((chat, what), of_chat + every);
        state.all = Some(of_all + ALL_EVERY);
        Ok(wait)
    }

    /// The platform asked to leave `chat` alone for so long.
    pub(crate) fn pause(&self, chat: i64, span: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + span;
        let pause = state.pauses.entry(chat).or_insert(until);
        *pause = (*pause).max(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_chat_gets_a_short_burst_and_then_one_a_second() {
        let pace = Pace::default();
        let start = Instant::now();
        for _ in 0..11 {
            while let Err(wait) = pace.turn(7, What::Card).await {
                tokio::time::sleep(wait).await;
            }
        }
        let taken = start.elapsed();
        assert!(taken >= Duration::from_secs(3) && taken < Duration::from_secs(4), "{taken:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_holds_its_chat_and_two_hold_all() {
        let pace = Pace::default();
        pace.pause(7, Duration::from_secs(33));
        let wait = pace.turn(7, What::Edit).await.unwrap_err();
        assert!(wait > Duration::from_secs(32), "{wait:?}");
        assert_eq!(pace.turn(8, What::Edit).await, Ok(()));
        pace.pause(7, Duration::from_secs(1));
        assert!(pace.turn(7, What::Edit).await.unwrap_err() > Duration::from_secs(32));
        pace.pause(9, Duration::from_secs(5));
        assert!(pace.turn(8, What::Edit).await.is_err());
        tokio::time::sleep(Duration::from_secs(34)).await;
        assert_eq!(pace.turn(7, What::Card).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_to_come_back_gets_a_turn_of_their_own() {
        let pace = Pace::default();
        let now = Instant::now();
        let told = (0..50).filter_map(|_| pace.reserve(7, What::Card, now).err());
        let waits: Vec<u64> = told.map(|wait| wait.as_secs()).collect();
        assert!(waits.len() > 30 && waits.windows(2).all(|two| two[1] == two[0] + 1), "{waits:?}");
        assert_eq!(pace.turn(7, What::Words).await, Ok(()), "words don't wait for cards");
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
