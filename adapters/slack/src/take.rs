//! What is done with a payload before anybody is told that it arrived.

use std::time::Duration;

use sayso_channel::{Inbox, Privacy};
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::api::Fault;
use crate::envelope::{Route, channel, store, text};
use crate::modal::{Asked, REPLY, asks_for, window};
use crate::{NAME, Slack};

/// How long a window may take to open: the click has to be answered within three
/// seconds.
const WINDOW: Duration = Duration::from_millis(1_500);

/// It could not be stored; the platform has to send it again.
pub(crate) struct NotTaken;

impl Slack {
    /// Takes a payload: it is stored when this returns, or a window is open in
    /// which somebody types what is stored then.
    pub(crate) async fn take(
        &self,
        inbox: &dyn Inbox,
        route: Route,
        payload: Value,
    ) -> Result<(), NotTaken> {
        let me = self.me().await.map_err(|_| NotTaken)?;
        let privacy = self.privacy_of(route, &payload).await;
        if route == Route::Interactive
            && let Some(words) = asks_for(&payload)
            && self.asked(&payload, words, privacy).await
        {
            return Ok(());
        }
        let raw = store(me, route, privacy, payload);
        // A repetition that was stored before is as good as stored now.
        inbox.accept(NAME, raw).await.map(|_| ()).map_err(|_| NotTaken)
    }

    async fn privacy_of(&self, route: Route, payload: &Value) -> Privacy {
        let Some(channel) = channel(route, payload) else { return Privacy::Shared };
        match text(payload, "/event/channel_type") {
            Some("im") => {
                self.shared.kinds.learn(channel, Privacy::Private);
                Privacy::Private
            }
            Some(_) => Privacy::Shared,
            None => match text(payload, "/event/type") {
                // Only what is read privately is worth a question.
                Some("app_mention") => Privacy::Shared,
                _ => self.privacy(channel).await,
            },
        }
    }

    /// Opens the window that a click asks for; whether it is open.
    async fn asked(&self, payload: &Value, words: &str, privacy: Privacy) -> bool {
        let Some(trigger) = text(payload, "/trigger_id") else { return false };
        let Some(channel) = channel(Route::Interactive, payload) else { return false };
        let token = text(payload, "/actions/0/action_id").filter(|token| *token != REPLY);
        let asked = Asked {
            token: token.map(str::to_owned),
            channel: channel.to_owned(),
            is_private: privacy == Privacy::Private,
            message: text(payload, "/container/message_ts").map(str::to_owned),
        };
        let call = window(trigger, words, &asked);
        let opening = self.call::<_, IgnoredAny>("views.open", &call);
        let fault = match tokio::time::timeout(WINDOW, opening).await {
            Ok(Ok(_)) => return true,
            Ok(Err(fault)) => fault,
            Err(_) => Fault::Lost("it took too long".to_owned()),
        };
        // The reason is then asked for in words.
        let error = &fault as &dyn std::error::Error;
        tracing::info!(error, "Slack: a window could not be opened");
        false
    }
}
