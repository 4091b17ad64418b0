//! How payloads come: by the connection, by calls, twice, late and broken.

use std::time::Duration;

use reqwest::StatusCode;
use rstest::rstest;
use sayso_emulators::slack::{RequestUrls, sign};
use serde_json::json;

use crate::slack::{ADA, World};
use crate::support::Database;

const SECRET: &str = "stand-in-secret-of-the-app";

#[rstest]
#[tokio::test]
async fn what_comes_twice_under_any_name_counts_once(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let parked = world.park("one").await;
    world.card(ADA, &parked).await;
    let ts = world.slack.says(ADA, &format!("{} approve", parked.code));
    world.closed(ADA, &parked).await;
    let event = world
        .slack
        .deliveries()
        .into_iter()
        .find(|delivery| delivery.payload.pointer("/event/ts").is_some_and(|at| *at == ts.as_str()))
        .unwrap();
    let id = event.event_id.unwrap();
    world.slack.repeats(&id);
    world.slack.retries(&id, 2);
    world.slack.repeats_anew(&id);
    world.settled().await;
    let dm = world.slack.dm(ADA);
    let answers = world.slack.chat(&dm);
    let answers = answers.iter().filter(|shown| shown.read().starts_with("Approved: ")).count();
    assert_eq!(answers, 1);
}

#[rstest]
#[tokio::test]
async fn a_connection_is_renewed_before_the_old_one_goes_and_after_it_is_lost(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    // Connections that last so short a time are opened ever more slowly.
    world.slack.retries_after([50, 3_000, 8_000].map(Duration::from_millis));
    world.slack.until(|slack| (slack.connections() == 1).then_some(())).await;
    for reason in ["warning", "refresh_requested"] {
        world.slack.disconnects(reason);
        let parked = world.park(reason).await;
        world.card(ADA, &parked).await;
        world.slack.says(ADA, &format!("{} approve", parked.code));
        world.closed(ADA, &parked).await;
    }
    world.slack.drops_connections();
    let parked = world.park("after a loss").await;
    world.card(ADA, &parked).await;
    // It comes when somebody is connected again.
    world.slack.says(ADA, &format!("{} approve", parked.code));
    world.closed(ADA, &parked).await;
}

#[rstest]
#[tokio::test]
async fn odd_payloads_stand_in_nobodys_way(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let parked = world.park("one").await;
    let card = world.card(ADA, &parked).await;
    let dm = world.slack.dm(ADA);
    world.slack.envelope("{broken".to_owned());
    world.slack.envelope(json!({ "type": "brand_new", "envelope_id": "e1" }).to_string());
    world.slack.envelope(json!({ "type": "events_api", "envelope_id": "e2" }).to_string());
    world.slack.bytes(vec![0, 159, 146, 150]);
    world.slack.happens(json!({ "type": "brand_new", "channel": 7 }));
    // A click is read from its action, its user and its message, whatever is
    // around it.
    world.slack.interacts(json!({
        "type": "block_actions", "user": { "id": ADA }, "team": null, "brand_new": [{}],
        "message": { "blocks": "none" }, "container": { "message_ts": card.ts, "channel_id": dm },
        "actions": [{ "action_id": format!("apr:{}:reject", parked.id), "type": "brand_new" }],
    }));
    assert!(world.closed(ADA, &parked).await.contains("Denied by owner"));
}

#[rstest]
#[tokio::test]
async fn programs_edits_and_people_of_other_organisations_decide_nothing(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let parked = world.park("one").await;
    let card = world.card(ADA, &parked).await;
    let dm = world.slack.dm(ADA);
    let words = format!("{} approve", parked.code);
    world.slack.bot_says(&dm, &words, None);
    world.slack.workflow_says(&dm, &words, None);
    world.slack.says_by_token(ADA, &dm, &words, Some("A0OTHER"));
    world.slack.bot_user_says(&dm, &words);
    let ts = world.slack.says(ADA, "what is this?");
    world.slack.edits(&dm, &ts, &words);
    world.slack.unfurls(&dm, &ts);
    // The same id, said to be of another organisation.
    world.slack.happens(json!({
        "type": "message", "channel": dm, "channel_type": "im", "user": ADA, "text": words,
        "ts": "1760000900.000100", "event_ts": "1760000900.000100", "user_team": "T0OTHER",
        "source_team": "T0OTHER", "team": "T0OTHER",
    }));
    world.settled().await;
    assert_eq!(world.status(&parked).await, "pending");
    world.press(ADA, &card, "Approve once");
    assert!(world.closed(ADA, &parked).await.contains("Approved by owner"));
}

#[rstest]
#[tokio::test]
async fn calls_are_taken_when_slack_has_signed_them_lately(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let more = [("SAYSO_SLACK__MODE", "http"), ("SAYSO_SLACK__SIGNING_SECRET", SECRET)];
    let Some(world) = World::unbound(database, &more).await else { return };
    world.bind("owner", ADA).await;
    world.slack.signs_with(Some(SECRET));
    let url = |path: &str| world.gateway.url(path).parse().unwrap();
    world.slack.delivers_to(Some(RequestUrls {
        events: url("/slack/events"),
        interactivity: url("/slack/interactivity"),
        commands: url("/slack/commands"),
    }));
    world.slack.verifies_url().await.unwrap();

    let clicked = world.park("one").await;
    let card = world.card(ADA, &clicked).await;
    world.press(ADA, &card, "Approve once");
    world.closed(ADA, &clicked).await;
    let typed = world.park("two").await;
    world.card(ADA, &typed).await;
    world.slack.commands(ADA, &world.slack.dm(ADA), "/sayso", &format!("{} deny", typed.code));
    world.closed(ADA, &typed).await;
    let said = world.park("three").await;
    world.card(ADA, &said).await;
    world.slack.says(ADA, &format!("{} approve", said.code));
    world.closed(ADA, &said).await;

    let parked = world.park("four").await;
    let body = json!({
        "type": "event_callback", "event_id": "Ev9", "event": {
            "type": "message", "channel": world.slack.dm(ADA), "channel_type": "im", "user": ADA,
            "text": format!("{} approve", parked.code), "ts": "1760000950.000100",
        },
    })
    .to_string();
    #[expect(clippy::disallowed_methods, reason = "a signature is of the wall clock")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = i64::try_from(now.unwrap().as_secs()).unwrap();
    for path in ["/slack/events", "/slack/interactivity", "/slack/commands"] {
        for (at, secret) in [(now, "another-secret"), (now - 301, SECRET), (now + 301, SECRET)] {
            let call = world.gateway.http.post(world.gateway.url(path)).body(body.clone());
            let call = call.header("x-slack-request-timestamp", at.to_string());
            let call = call.header("x-slack-signature", sign(secret, at, &body));
            assert_eq!(call.send().await.unwrap().status(), StatusCode::UNAUTHORIZED, "{path}");
        }
        let unsigned = world.gateway.http.post(world.gateway.url(path)).body(body.clone());
        assert_eq!(unsigned.send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    }
    assert_eq!(world.status(&parked).await, "pending");
}

#[tokio::test]
async fn calls_are_not_served_where_a_connection_is_open() {
    let Some(world) = World::new(Database::Sqlite).await else { return };
    let call = world.gateway.http.post(world.gateway.url("/slack/events")).body("{}");
    assert_eq!(call.send().await.unwrap().status(), StatusCode::NOT_FOUND);
}
