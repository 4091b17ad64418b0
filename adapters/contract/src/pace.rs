//! Turn-taking: what a platform asks of whoever writes to it often.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Who has to wait longer is told so; who has to wait less waits here.
const SHORT: Duration = Duration::from_millis(1_500);

/// How often something may be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// The time between two turns, in the long run.
    pub every: Duration,
    /// Turns that may come at once after a silence.
    pub burst: u32,
}

/// Queues in which turns are taken. A message stands in several of them at once:
/// that of its conversation, that of the whole account.
pub struct Pace<K> {
    state: Mutex<State<K>>,
}

struct State<K> {
    next: HashMap<K, Instant>,
    pauses: HashMap<K, Instant>,
    /// Until when turns are promised to those who were told to come back, each
    /// its own: they would all come back together otherwise.
    promised: HashMap<K, Instant>,
}

impl<K> Default for Pace<K> {
    fn default() -> Self {
        let state =
            State { next: HashMap::new(), pauses: HashMap::new(), promised: HashMap::new() };
        Self { state: Mutex::new(state) }
    }
}

impl<K: Eq + Hash + Clone> Pace<K> {
    /// Waits for a turn in every one of the queues.
    ///
    /// # Errors
    ///
    /// The time to wait, if it is long; no turn is taken then.
    pub async fn turn(&self, queues: &[(K, Rate)]) -> Result<(), Duration> {
        let wait = self.reserve(queues, Instant::now())?;
        tokio::time::sleep(wait).await;
        Ok(())
    }

    fn reserve(&self, queues: &[(K, Rate)], now: Instant) -> Result<Duration, Duration> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // What lies in the past says nothing any more.
        if state.next.len() > 2_000 {
            state.next.retain(|_, at| *at > now);
            state.promised.retain(|_, until| *until > now);
        }
        state.pauses.retain(|_, until| *until > now);
        let mut slowest: Option<(&K, Rate, Instant)> = None;
        for (queue, rate) in queues {
            let next = state.next.get(queue).copied().unwrap_or(now).max(now);
            let ahead = rate.every * rate.burst.saturating_sub(1);
            let paused = state.pauses.get(queue).copied().unwrap_or(now);
            let at = next.checked_sub(ahead).unwrap_or(now).max(paused).max(now);
            if slowest.is_none_or(|(_, _, latest)| at > latest) {
                slowest = Some((queue, *rate, at));
            }
        }
        let Some((queue, rate, at)) = slowest else { return Ok(Duration::ZERO) };
        if at - now > SHORT {
            let promised = state.promised.entry(queue.clone()).or_insert(at);
            let turn = (*promised).max(at);
            *promised = turn + rate.every;
            return Err(turn - now);
        }
        for (queue, rate) in queues {
            let next = state.next.get(queue).copied().unwrap_or(now).max(now);
            state.next.insert(queue.clone(), next + rate.every);
        }
        Ok(at - now)
    }

    /// The platform asked to leave a queue alone for so long.
    pub fn pause(&self, queue: K, span: Duration) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + span;
        let pause = state.pauses.entry(queue).or_insert(until);
        *pause = (*pause).max(until);
    }

    /// The queues that are paused at the moment, and for how long.
    pub fn paused(&self) -> Vec<(K, Duration)> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let paused = state.pauses.iter().filter(|(_, until)| **until > now);
        paused.map(|(queue, until)| (queue.clone(), *until - now)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { every: Duration::from_secs(1), burst: 8 };

    #[tokio::test(start_paused = true)]
    async fn a_queue_gets_a_short_burst_and_then_one_turn_at_a_time() {
        let pace = Pace::default();
        let start = Instant::now();
        for _ in 0..11 {
            while let Err(wait) = pace.turn(&[("a", RATE)]).await {
                tokio::time::sleep(wait).await;
            }
        }
        let taken = start.elapsed();
        assert!(taken >= Duration::from_secs(3) && taken < Duration::from_secs(4), "{taken:?}");
        assert_eq!(pace.turn(&[("b", RATE)]).await, Ok(()), "another queue is not held up");
    }

    #[tokio::test(start_paused = true)]
    async fn the_slowest_of_several_queues_counts() {
        let pace = Pace::default();
        pace.pause("all", Duration::from_secs(33));
        let wait = pace.turn(&[("a", RATE), ("all", RATE)]).await.unwrap_err();
        assert!(wait > Duration::from_secs(32), "{wait:?}");
        pace.pause("all", Duration::from_secs(1));
        assert!(pace.turn(&[("all", RATE)]).await.unwrap_err() > Duration::from_secs(32));
        assert_eq!(pace.turn(&[("a", RATE)]).await, Ok(()));
        tokio::time::sleep(Duration::from_secs(34)).await;
        assert_eq!(pace.turn(&[("a", RATE), ("all", RATE)]).await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_to_come_back_gets_a_turn_of_their_own() {
        let pace = Pace::default();
        let now = Instant::now();
        let told = (0..50).filter_map(|_| pace.reserve(&[("a", RATE)], now).err());
        let waits: Vec<u64> = told.map(|wait| wait.as_secs()).collect();
        assert!(waits.len() > 30 && waits.windows(2).all(|two| two[1] == two[0] + 1), "{waits:?}");
    }
}
