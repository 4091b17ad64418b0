//! What kind of conversation a channel is. The platform says so in some events
//! and otherwise when asked; an id or a name says nothing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sayso_channel::Privacy;
use serde::Deserialize;

use crate::Slack;

/// How long input waits for it; then the conversation counts as one that others
/// read too.
const PATIENCE: Duration = Duration::from_secs(1);
/// Conversations that are remembered.
const MOST: usize = 10_000;

#[derive(Default)]
pub(crate) struct Kinds {
    known: Mutex<HashMap<String, Privacy>>,
}

/// What is read of the server's account of a conversation.
#[derive(Deserialize)]
pub(crate) struct Conversation {
    #[serde(default, rename = "is_im")]
    direct: bool,
    #[serde(default, rename = "is_archived")]
    pub(crate) archived: bool,
    /// Not said of private conversations.
    #[serde(default, rename = "is_member")]
    pub(crate) member: Option<bool>,
}

#[derive(Deserialize)]
pub(crate) struct Told {
    pub(crate) channel: Conversation,
}

impl Kinds {
    /// Remembers what the platform said of a conversation.
    pub(crate) fn learn(&self, channel: &str, privacy: Privacy) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(channel.to_owned(), privacy);
    }

    fn known(&self, channel: &str) -> Option<Privacy> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(channel).copied()
    }
}

impl Slack {
    /// Whether only one person and we read a conversation.
    pub(crate) async fn privacy(&self, channel: &str) -> Privacy {
        let kinds = &self.shared.kinds;
        if let Some(known) = kinds.known(channel) {
            return known;
        }
        let fields = [("channel", channel)];
        let asked = self.form::<Told>("conversations.info", &fields);
        let Ok(Ok(told)) = tokio::time::timeout(PATIENCE, asked).await else {
            return Privacy::Shared;
        };
        let privacy = if told.channel.direct { Privacy::Private } else { Privacy::Shared };
        kinds.learn(channel, privacy);
        privacy
    }
}
