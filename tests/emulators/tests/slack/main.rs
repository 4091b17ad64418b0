//! Whether the stand-in for Slack does what Slack does.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "in a test a panic is the report"
)]

mod api;
mod app;
mod http;
mod people;
mod socket;
