//! Sayso: a gateway between AI agents and the people who answer for them.
//!
//! # The path of a request
//!
//! An agent parks a request ([`decisions::open()`], called by [`api`] or [`cli`]).
//! In one transaction there are the request, a delivery for each account of its
//! guardian, an audit row and an owed broadcast. The worker in [`jobs::owed`]
//! routes the deliveries ([`broadcaster`]), the one in [`jobs::deliver`] makes
//! each of them show the request as it stands, by a channel of the port
//! (`sayso-channel`). What a person does comes back through a channel into the
//! inbox ([`jobs::intake`]), is understood by the [`router`], and decided by
//! [`decisions::decide`]: one compare-and-set, together with everything that must
//! be true with it. [`resolvers`] say what is owed then; the [`jobs::feed`] wakes
//! whoever waits; every card converges.
//!
//! # Layers
//!
//! ```text
//! nouns   clock ids requests people pairing display  pure
//! store   one module an aggregate, one SQL text      the database
//! verbs   resolvers decisions wording broadcaster router admin
//! edges   wire desk jobs api · config telemetry lifecycle wakeups
//! wiring  the only place that knows the adapters, one file each · cli
//! ```
//!
//! A noun never queries, a verb never writes SQL, an edge never decides. A test
//! holds the table.
//!
//! # What is never so
//!
//! * A request leaves `pending` twice, or after its deadline.
//! * An error, a time-out, a default or an unread text approves anything.
//! * A code, a button or an agent's key authorises anybody.
//! * Bare words decide while more than one request could be meant.
//! * Something is acknowledged before it is committed.

pub mod admin;
pub mod api;
pub mod broadcaster;
pub mod cli;
pub mod clock;
pub mod config;
pub mod decisions;
pub mod desk;
pub mod display;
pub mod ids;
pub mod jobs;
pub mod lifecycle;
pub mod pairing;
pub mod people;
pub mod requests;
pub mod resolvers;
pub mod router;
pub mod secrets;
pub mod store;
pub mod telemetry;
pub mod wakeups;
pub mod wire;
pub mod wiring;
pub mod wording;
