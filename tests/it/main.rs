//! Whole-program tests: one binary.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "in a test a panic is the report")]

mod reading;
