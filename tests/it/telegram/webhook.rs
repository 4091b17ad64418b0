//! Updates that Telegram brings itself.

use reqwest::StatusCode;
use rstest::rstest;
use serde_json::json;

use crate::support::Database;
use crate::telegram::{ADA, World};

#[rstest]
#[tokio::test]
async fn a_webhook_takes_what_carries_its_secret_and_nothing_else(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    const SECRET: &str = "a-secret-of-the-webhook-1";
    let more = [
        ("SAYSO_TELEGRAM__MODE", "webhook"),
        ("SAYSO_TELEGRAM__WEBHOOK_SECRET", SECRET),
        ("SAYSO_SERVER__PUBLIC_URL", "https://gate.example"),
    ];
    let Some(world) = World::unbound(database, &more).await else { return };
    world.bind("owner", ADA).await;
    let parked = world.park("one").await;
    let card = world.card(ADA, &parked).await;
    let set = world
        .api
        .until(|api| api.calls().into_iter().find(|call| call.method == "setWebhook"))
        .await;
    assert_eq!(set.parameters["url"], "https://gate.example/telegram/webhook");
    assert_eq!(set.parameters["secret_token"], SECRET);
    let press = |data: &str| {
        json!({ "update_id": 77, "callback_query": {
            "id": "p", "from": { "id": ADA }, "data": data,
            "message": { "message_id": card.id, "date": 0, "chat": { "id": ADA, "type": "private" } },
        }})
        .to_string()
    };
    let call = async |secret: Option<&str>, body: String| {
        let mut call = world.gateway.http.post(world.gateway.url("/telegram/webhook")).body(body);
        if let Some(secret) = secret {
            call = call.header("x-telegram-bot-api-secret-token", secret);
        }
        call.send().await.unwrap().status()
    };
    let data = &card.buttons[0][0].1;
    for wrong in [None, Some(""), Some("a-secret"), Some("a-secret-of-the-webhook-2")] {
        assert_eq!(call(wrong, press(data)).await, StatusCode::UNAUTHORIZED);
    }
    assert_eq!(call(Some(SECRET), "{broken".to_owned()).await, StatusCode::OK);
    assert_eq!(call(Some(SECRET), "{}".to_owned()).await, StatusCode::OK);
    assert_eq!(world.status(&parked).await, "pending");
    assert_eq!(call(Some(SECRET), press(data)).await, StatusCode::OK);
    world.closed(ADA, &parked).await;
}

#[tokio::test]
async fn the_webhook_is_not_served_where_updates_are_polled() {
    let Some(world) = World::new(Database::Sqlite).await else { return };
    let call = world.gateway.http.post(world.gateway.url("/telegram/webhook"));
    let answer = call.header("x-telegram-bot-api-secret-token", "").send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
}
