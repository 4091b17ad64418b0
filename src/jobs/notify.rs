//! Tells an agent how its request ended, by its callback: signed as Standard
//! Webhooks, repeated with the same id until it answers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use rand::RngExt;
use reqwest::StatusCode;
use serde_json::json;
use sha2::Sha256;
use tokio::sync::Semaphore;

use crate::clock::Timestamp;
use crate::jobs::Bench;
use crate::jobs::fence::Fence;
use crate::people::WebhookSecret;
use crate::store::jobs::{Job, Progress};
use crate::store::{self, StoreError, Tx, Write};
use crate::wire;

/// Calls under way at the same time.
const AT_ONCE: usize = 32;
/// Seconds to wait after each failed attempt, ± 20 %; then it is given up.
const SCHEDULE: [u64; 9] = [5, 30, 120, 600, 1_800, 7_200, 21_600, 43_200, 86_400];
/// A receiver can ask for at most so much patience.
const LONGEST_WISH: Duration = Duration::from_hours(1);

/// Calls agents.
#[derive(Clone)]
pub struct Notifier {
    fence: Fence,
    slots: Arc<Semaphore>,
}

impl Notifier {
    /// Calls through `fence`.
    pub fn new(fence: Fence) -> Self {
        Self { fence, slots: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// How many calls can be started now.
    pub fn free(&self) -> i64 {
        i64::try_from(self.slots.available_permits()).unwrap_or(i64::MAX)
    }

    /// Starts one call, of which [`Notifier::free`] said that it can be; it
    /// records its own result.
    pub fn start(&self, bench: Bench, job: Job) {
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else { return };
        let notifier = self.clone();
        let lifecycle = bench.lifecycle.clone();
        lifecycle.spawn("notify", async move {
            let _slot = slot;
            let id = job.id;
            if let Err(error) = notifier.tell(&bench, job).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(job.id = %id, error, "Job `{id}` was not recorded");
            }
        });
    }

    async fn tell(&self, bench: &Bench, job: Job) -> Result<(), StoreError> {
        let now = bench.store.clock().now();
        let (progress, error) = match self.call(bench, &job, now).await? {
            Told::Yes => (Progress::Done, None),
            Told::Never(why) => (Progress::Dead, Some(why)),
            Told::NotYet(why, wish) => match SCHEDULE
                .get(usize::try_from(job.attempts - 1).unwrap_or(0))
            {
                Some(seconds) => {
                    let wait = jittered(Duration::from_secs(*seconds)).max(wish.min(LONGEST_WISH));
                    (Progress::Later(now.plus(wait)), Some(why))
                }
                None => (Progress::Dead, Some(why)),
            },
        };
        bench.store.write(Settle { job, progress, error }).await
    }

    async fn call(&self, bench: &Bench, job: &Job, now: Timestamp) -> Result<Told, StoreError> {
        let mut tx = bench.store.read().await?;
        let Some(request) = store::requests::find(&mut tx, job.request).await? else {
            return Ok(Told::Never("the request is gone".to_owned()));
        };
        let agent = store::agents::find(&mut tx, request.agent).await?;
        let resource = wire::read(&mut tx, &request).await?;
        drop(tx);
        let (Some(agent), Some(callback)) = (agent, &request.callback_url) else {
            return Ok(Told::Never("there is nobody to tell".to_owned()));
        };
        let url = match self.fence.check(callback) {
            Ok(url) => url,
            Err(why) => return Ok(Told::Never(format!("the callback is refused: {why}"))),
        };
        let body = json!({
            "type": "request.settled",
            "timestamp": now.rfc3339(),
            "data": resource,
        })
        .to_string();
        let id = job.id.to_string();
        let seconds = (now.micros() / 1_000_000).to_string();
        let Some(signature) = sign(&agent.webhook_secret, &id, &seconds, &body) else {
            return Ok(Told::Never("the agent's webhook secret can't be used".to_owned()));
        };
        let sent = self
            .fence
            .client(&url)
            .post(url)
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", signature)
            .body(body)
            .send()
            .await;
        Ok(match sent {
            Ok(response) => answered(&response),
            // Its text may hold the address with a token in it.
            Err(error) => Told::NotYet(reason(&error).to_owned(), Duration::ZERO),
        })
    }
}

enum Told {
    Yes,
    NotYet(String, Duration),
    Never(String),
}

fn answered(response: &reqwest::Response) -> Told {
    let status = response.status();
    if status.is_success() {
        return Told::Yes;
    }
    if status == StatusCode::GONE {
        return Told::Never("the receiver answered 410 Gone".to_owned());
    }
    let wish = response
        .headers()
        .get("retry-after")
        .and_then(|value| value.to_str().ok())
        .and_then(|seconds| seconds.parse().ok())
        .map_or(Duration::ZERO, Duration::from_secs);
    Told::NotYet(format!("the receiver answered {}", status.as_u16()), wish)
}

fn reason(error: &reqwest::Error) -> &'static str {
    let is_fenced =
        std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source())
            .any(<dyn std::error::Error + 'static>::is::<crate::jobs::fence::Refused>);
    if is_fenced {
        "the name leads into a private network"
    } else if error.is_timeout() {
        "the receiver took too long"
    } else if error.is_connect() {
        "the receiver can't be reached"
    } else {
        "the call failed"
    }
}

fn jittered(wait: Duration) -> Duration {
    wait.mul_f64(rand::rng().random_range(0.8..1.2))
}

/// The signature header of Standard Webhooks: `v1,` and the HMAC-SHA256 of
/// `id.timestamp.body` in base64.
fn sign(secret: &WebhookSecret, id: &str, seconds: &str, body: &str) -> Option<String> {
    let key = STANDARD.decode(secret.expose().strip_prefix("whsec_")?).ok()?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).ok()?;
    for part in [id, ".", seconds, ".", body] {
        mac.update(part.as_bytes());
    }
    Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

/// Records what came of a call.
struct Settle {
    job: Job,
    progress: Progress,
    error: Option<String>,
}

#[async_trait]
impl Write for Settle {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let is_current =
            store::jobs::record(tx, &self.job, &self.progress, self.error.as_deref()).await?;
        if !is_current {
            return Ok(());
        }
        let kind = match &self.progress {
            Progress::Done => "agent.told",
            Progress::Later(_) if self.job.attempts == 1 => "agent.not_reached",
            Progress::Later(_) => return Ok(()),
            Progress::Dead => "agent.given_up",
        };
        let agent = store::requests::find(tx, self.job.request).await?.map(|r| r.agent);
        store::audit::insert(
            tx,
            &store::audit::Event {
                kind,
                request: Some(self.job.request),
                agent,
                detail: self.error.as_deref(),
                ..store::audit::Event::default()
            },
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vector published with the specification.
    #[test]
    fn the_signature_is_that_of_standard_webhooks() {
        let secret = WebhookSecret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned());
        let signature =
            sign(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", r#"{"test": 2432232314}"#);
        assert_eq!(signature.unwrap(), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
