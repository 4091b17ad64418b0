//! Whole-program tests: one binary.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "in a test a panic is the report"
)]

mod api;
mod architecture;
mod cards;
mod console;
mod crash;
mod decisions;
mod explain;
mod operations;
mod reading;
mod router;
mod store;
mod support;
mod webhooks;
