//! Pacing: what the platform asks of apps, and what it told us.
//!
//! One message a second in a channel, 50 edits a minute in the workspace; short
//! bursts pass. The platform's own `Retry-After` counts above all of it, for the
//! method that it was said of.

use std::time::Duration;

use sayso_channel::pace::Rate;

const CHANNEL: Rate = Rate { every: Duration::from_secs(1), burst: 4 };
/// Posting has no limit of its own besides; a workspace has many channels.
const POSTS: Rate = Rate { every: Duration::from_millis(50), burst: 20 };
/// Tier 3: 50 and more a minute.
const EDITS: Rate = Rate { every: Duration::from_millis(1_150), burst: 30 };

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
enum Queue {
    /// In a channel, for one kind.
    Of(String, What),
    /// In the workspace, for one method.
    Method(&'static str),
}

/// When something may be sent.
#[derive(Default)]
pub(crate) struct Pace {
    turns: sayso_channel::pace::Pace<Queue>,
}

/// The method by which it is sent.
pub(crate) fn method(what: What) -> &'static str {
    match what {
        What::Card | What::Words => "chat.postMessage",
        What::Edit => "chat.update",
    }
}

impl Pace {
    /// Waits for a turn in `channel`.
    ///
    /// # Errors
    ///
    /// The time to wait, if it is long; no turn is taken then.
    pub(crate) async fn turn(&self, channel: &str, what: What) -> Result<(), Duration> {
        let of_method = if what == What::Edit { EDITS } else { POSTS };
        let queues = [
            (Queue::Of(channel.to_owned(), what), CHANNEL),
            (Queue::Method(method(what)), of_method),
        ];
        self.turns.turn(&queues).await
    }

    /// The platform asked not to use the method for so long.
    pub(crate) fn pause(&self, what: What, span: Duration) {
        self.turns.pause(Queue::Method(method(what)), span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pause_holds_its_method_alone() {
        let pace = Pace::default();
        pace.pause(What::Edit, Duration::from_secs(10));
        assert!(pace.turn("D1", What::Edit).await.unwrap_err() > Duration::from_secs(9));
        assert!(pace.turn("D2", What::Edit).await.is_err());
        assert_eq!(pace.turn("D1", What::Card).await, Ok(()));
    }
}
