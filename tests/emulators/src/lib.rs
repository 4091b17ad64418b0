//! Stand-ins for the chat platforms: servers on this machine that speak their
//! wire format, hold what people and bots wrote, and refuse what the real ones
//! refuse, with their words. People are played by the test or by hand.
#![expect(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test a panic is the report"
)]

pub mod slack;
pub mod telegram;
