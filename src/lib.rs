//! Sayso: a gateway between AI agents and the people who answer for them.
pub mod broadcaster;
pub mod clock;
pub mod decisions;
pub mod display;
pub mod ids;
pub mod people;
pub mod requests;
pub mod resolvers;
pub mod router;
pub mod store;
pub mod wording;
