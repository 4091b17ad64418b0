//! Time: one instant type, one place where it comes from.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, SecondsFormat, Utc};

/// An instant in UTC, in microseconds since 1970; what both databases store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The instant `micros` microseconds after 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The instant `span` later.
    #[must_use]
    pub fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }

    /// The instant `span` earlier.
    #[must_use]
    pub fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }

    /// The time from `earlier` until this instant; zero when it lies after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// As RFC 3339 in UTC with milliseconds: `2026-11-30T20:15:00.000Z`.
    pub fn rfc3339(self) -> String {
        self.to_chrono().to_rfc3339_opts(SecondsFormat::Millis, true)
    }

    /// As a person reads it: `2026-11-30 20:15 UTC`.
    pub fn readable(self) -> String {
        self.to_chrono().format("%Y-%m-%d %H:%M UTC").to_string()
    }

    /// Reads RFC 3339 with a zone; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        DateTime::parse_from_rfc3339(text).ok().map(|at| Self(at.timestamp_micros()))
    }

    /// For the port, which knows standard types only. Instants before 1970
    /// become 1970.
    pub fn to_system(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_micros(u64::try_from(self.0).unwrap_or(0))
    }

    fn to_chrono(self) -> DateTime<Utc> {
        DateTime::from_timestamp_micros(self.0).unwrap_or(DateTime::UNIX_EPOCH)
    }
}

/// Where the time comes from: the system's clock, never running backwards
/// within this process, shifted by an offset that is zero except in tests.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    offset: AtomicI64,
    latest: AtomicI64,
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self::default()
    }

    /// The instant now; never earlier than one given before or than
    /// [`Clock::not_before`] asked for.
    pub fn now(&self) -> Timestamp {
        let now = self.wall().0.saturating_add(self.offset());
        Timestamp(self.shared.latest.fetch_max(now, Ordering::SeqCst).max(now))
    }

    /// What the machine's clock says, also where it was set back.
    #[expect(clippy::unused_self, reason = "whoever asks has a clock")]
    pub fn wall(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "this is the one place")]
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(wall.as_micros()).unwrap_or(i64::MAX))
    }

    /// Never gives an instant before `floor` from now on: a clock set back
    /// while the process was down must not lengthen any deadline.
    pub fn not_before(&self, floor: Timestamp) {
        self.shared.latest.fetch_max(floor.0, Ordering::SeqCst);
    }

    /// Microseconds by which this clock is ahead of the system's.
    pub fn offset(&self) -> i64 {
        self.shared.offset.load(Ordering::SeqCst)
    }

    /// Moves this clock forward, for tests that can't wait.
    pub fn advance(&self, span: Duration) {
        let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
        self.shared.offset.fetch_add(micros, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_runs_backwards_and_never_starts_before_the_high_water_mark() {
        let clock = Clock::system();
        let future = clock.now().plus(Duration::from_mins(1));
        clock.not_before(future);

        assert!(clock.now() >= future);
    }

    #[test]
    fn a_zone_is_needed_to_read_an_instant() {
        let at = Timestamp::parse("2026-11-30T21:15:00+01:00").unwrap();
        assert_eq!(at.rfc3339(), "2026-11-30T20:15:00.000Z");
        assert_eq!(at.readable(), "2026-11-30 20:15 UTC");
        for bad in ["2026-11-30T21:15:00", "2026-11-30", "soon", ""] {
            assert_eq!(Timestamp::parse(bad), None, "{bad:?}");
        }
    }
}
