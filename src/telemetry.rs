//! Logs without secrets, and the names of all metrics.

use std::io::{self, Write};

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::LogFormat;
use crate::display::mask;

/// Starts logging to the standard error stream. Every line passes through the
/// masking of secrets.
pub fn start_logging(level: &str, format: LogFormat) {
    // Libraries may log addresses and statements in full below warnings.
    let filter = format!("warn,sayso={level},sayso_console={level},sayso_channel={level}");
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(MaskingWriter)
        .with_ansi(false);
    // A second start, as in tests, keeps the first.
    let _ = match format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
}

#[derive(Clone, Copy)]
struct MaskingWriter;

struct Line(Vec<u8>);

impl<'a> MakeWriter<'a> for MaskingWriter {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(Vec::new())
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let (line, _) = mask(&String::from_utf8_lossy(&self.0));
        // Nowhere is left to report that the log can't be written.
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StatusLabel {
    status: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ChannelLabel {
    channel: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabel {
    queue: &'static str,
}

/// Every metric.
pub struct Metrics {
    registry: Registry,
    settled: Family<StatusLabel, Counter>,
    pending: Gauge,
    decision_seconds: Histogram,
    delivery_seconds: Histogram,
    depth: Family<QueueLabel, Gauge>,
    lag_seconds: Family<QueueLabel, Gauge<f64, std::sync::atomic::AtomicU64>>,
    waits: Gauge,
    platforms: Family<ChannelLabel, Gauge>,
}

/// What is counted afresh at every scrape.
#[derive(Debug, Clone, Default)]
pub struct Levels {
    /// Open requests.
    pub pending: i64,
    /// Queue, items, age of the oldest in microseconds.
    pub queues: Vec<(&'static str, i64, i64)>,
    /// Held waits.
    pub waits: u64,
    /// Platforms, and whether their updates arrive.
    pub platforms: Vec<(String, bool)>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("sayso");
        let settled = Family::default();
        registry.register("requests_settled", "Requests that ended, since start", settled.clone());
        let pending = Gauge::default();
        registry.register("requests_pending", "Requests that wait now", pending.clone());
        let decision_seconds = Histogram::new(exponential_buckets(0.25, 2.0, 16));
        registry.register(
            "decision_seconds",
            "From asking to a person's decision",
            decision_seconds.clone(),
        );
        let delivery_seconds = Histogram::new(exponential_buckets(0.001, 2.0, 16));
        registry.register(
            "delivery_seconds",
            "From asking to the arrival of a card",
            delivery_seconds.clone(),
        );
        let depth = Family::default();
        registry.register("queue_items", "Items that wait in a queue", depth.clone());
        let lag_seconds = Family::default();
        registry.register("queue_lag_seconds", "Age of the oldest item", lag_seconds.clone());
        let waits = Gauge::default();
        registry.register("waits", "Waits for a decision that are held", waits.clone());
        let platforms = Family::default();
        let help = "Whether the updates of a platform arrive: 1 or 0";
        registry.register("channel_up", help, platforms.clone());
        Self {
            registry,
            settled,
            pending,
            decision_seconds,
            delivery_seconds,
            depth,
            lag_seconds,
            waits,
            platforms,
        }
    }
}

impl Metrics {
    /// A request ended.
    pub fn settled(&self, status: &str, seconds: f64, by_person: bool) {
        self.settled.get_or_create(&StatusLabel { status: status.to_owned() }).inc();
        if by_person {
            self.decision_seconds.observe(seconds);
        }
    }

    /// A card arrived.
    pub fn delivered(&self, seconds: f64) {
        self.delivery_seconds.observe(seconds);
    }

    /// The metrics in the text format of `OpenMetrics`.
    pub fn render(&self, levels: &Levels) -> String {
        self.pending.set(levels.pending);
        self.waits.set(i64::try_from(levels.waits).unwrap_or(i64::MAX));
        for (channel, is_up) in &levels.platforms {
            let label = ChannelLabel { channel: channel.clone() };
            self.platforms.get_or_create(&label).set(i64::from(*is_up));
        }
        for (queue, items, lag) in &levels.queues {
            let label = QueueLabel { queue };
            self.depth.get_or_create(&label).set(*items);
            #[expect(clippy::cast_precision_loss, reason = "a lag is small")]
            self.lag_seconds.get_or_create(&label).set(*lag as f64 / 1e6);
        }
        let mut rendered = String::new();
        // Writing to a String can't fail.
        let _ = text::encode(&mut rendered, &self.registry);
        rendered
    }
}
