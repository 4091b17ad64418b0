//! Whole-program tests: one binary.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::expect_used,
    clippy::string_slice,
    clippy::too_many_lines,
    clippy::print_stdout,
    reason = "in a test a panic is the report"
)]

mod api;
mod architecture;
mod cards;
mod console;
mod crash;
mod decisions;
mod disk_full;
mod explain;
mod foreign;
mod foreign_slack;
mod operations;
mod reading;
mod router;
mod slack;
mod store;
mod support;
mod telegram;
mod webhooks;
