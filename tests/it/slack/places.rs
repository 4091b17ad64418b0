//! Channels and threads: what is heard and said where others read along.

use rstest::rstest;
use sayso_emulators::slack::{Kind, Shown, TEAM_ID};
use serde_json::json;

use crate::slack::{ADA, BOB, Parked, World};
use crate::support::Database;

const OPS: &str = "C0OPS0001";

impl World {
    async fn park_in(&self, session: &str, command: &str) -> Parked {
        let tool = json!({ "name": "shell", "input": { "command": command } });
        let body = json!({ "kind": "tool_approval", "tool": tool, "session": session });
        Parked::of(&self.gateway.park(body).await)
    }

    fn said_in(&self, channel: &str) -> Vec<Shown> {
        self.slack.chat(channel).into_iter().filter(Shown::is_ours).collect()
    }
}

#[rstest]
#[tokio::test]
async fn a_channel_hears_which_request_ended_and_nothing_else(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    world.gateway.add_guardian("bob").await;
    world.bind("bob", BOB).await;
    world.slack.has_channel(OPS, Kind::Public, "ops", &[ADA, BOB, "U0BOT"]);
    let parked = world.park("cat customers.csv").await;
    world.card(ADA, &parked).await;
    world.slack.says_in(BOB, OPS, &format!("{} approve", parked.code), None);
    world.hears(&world.slack.dm(BOB), "no open request with that code").await;
    world.slack.says_in(ADA, OPS, "yes", None);
    world.settled().await;
    assert_eq!(world.status(&parked).await, "pending");
    let ts = world.slack.mentions(ADA, OPS, &format!("{} approve", parked.code), None);
    world.closed(ADA, &parked).await;
    world.hears(&world.slack.dm(ADA), "Approved: shell: cat customers.csv").await;
    let said = world.hears(OPS, &parked.code).await;
    assert_eq!(said.text, format!("{}: approved.", parked.code));
    assert_eq!(said.thread_ts.as_deref(), Some(ts.as_str()), "in the thread of the mention");
    assert_eq!(world.said_in(OPS).len(), 1);
}

#[rstest]
#[tokio::test]
async fn the_thread_a_request_came_from_hears_that_it_waits_and_how_it_ended(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    world.slack.has_channel(OPS, Kind::Public, "ops", &[ADA, BOB, "U0BOT"]);
    let ts = world.slack.mentions(ADA, OPS, "morning", None);
    world.gateway.knows(&format!("{TEAM_ID}:{OPS}:{ts}"), |_| true).await;
    let parked = world.park_in(&format!("slack:{TEAM_ID}:{OPS}:{ts}"), "cat customers.csv").await;
    let waits = world.hears(OPS, &format!("Waiting for owner, code {}.", parked.code)).await;
    assert_eq!(waits.thread_ts.as_deref(), Some(ts.as_str()));
    let card = world.card(ADA, &parked).await;
    world.press(ADA, &card, "Approve once");
    world.hears(OPS, &format!("{}: approved.", parked.code)).await;
    assert!(world.said_in(OPS).iter().all(|shown| !shown.read().contains("customers")));
}

#[rstest]
#[tokio::test]
async fn somebody_who_can_not_be_reached_is_known_as_such(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    world.slack.deactivates(ADA);
    let parked = world.park("one").await;
    let is_failed = |request: &serde_json::Value| {
        request["deliveries"].as_array().unwrap().iter().any(|delivery| {
            delivery["channel"] == "slack"
                && delivery["state"] == "failed"
                && delivery["detail"].as_str().is_some_and(|why| why.contains("switched off"))
        })
    };
    world.gateway.until(&parked.id, is_failed).await;
}
