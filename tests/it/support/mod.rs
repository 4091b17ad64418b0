//! What tests stand on: databases of both kinds, a world of people and requests,
//! and a gateway that runs.

pub(crate) mod database;
pub(crate) mod gateway;
pub(crate) mod world;

pub(crate) use database::Database;
pub(crate) use gateway::Gateway;
pub(crate) use world::World;
