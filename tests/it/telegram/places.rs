//! Groups and topics: what is heard and said where others read along.

use rstest::rstest;
use sayso::ids::BindingId;
use sayso::store;
use sayso::store::{StoreError, Tx, Write};
use sayso_emulators::telegram::{BotApi, Shown};
use serde_json::json;

use crate::support::Database;
use crate::telegram::{ADA, BOB, Parked, World};

const GROUP: i64 = -100_777;

impl World {
    /// A request that came from a conversation of a channel.
    async fn park_in(&self, session: &str, command: &str) -> Parked {
        let tool = json!({ "name": "shell", "input": { "command": command } });
        let body = json!({ "kind": "tool_approval", "tool": tool, "session": session });
        Parked::of(&self.gateway.park(body).await)
    }

    /// What the bot has said in a chat.
    fn said_in(&self, chat: i64) -> Vec<String> {
        let said = self.api.chat(chat).into_iter().filter(|shown| shown.from == 700);
        said.map(|shown| shown.text).collect()
    }
}

#[rstest]
#[tokio::test]
async fn the_group_a_request_came_from_hears_that_it_waits_how_it_ended_and_nothing_else(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    world.api.says_in(ADA, GROUP, "morning all", None);
    world.gateway.knows("-100777", |_| true).await;
    let session = format!("telegram:{GROUP}");
    let tapped = world.park_in(&session, "cat customers.csv").await;
    let waits = format!("Waiting for owner, code {}.", tapped.code);
    world.hears(GROUP, &waits).await;
    let card = world.card(ADA, &tapped).await;
    world.press(ADA, &card, "Approve").await;
    let approved = format!("{}: approved.", tapped.code);
    world.hears(GROUP, &approved).await;

    // Answered in the group itself it is said once all the same.
    let typed = world.park_in(&session, "rm customers.csv").await;
    let waits_too = format!("Waiting for owner, code {}.", typed.code);
    world.hears(GROUP, &waits_too).await;
    world.card(ADA, &typed).await;
    world.api.says_in(ADA, GROUP, &format!("@GateBot {} deny", typed.code), None);
    world.closed(ADA, &typed).await;
    let denied = format!("{}: denied.", typed.code);
    world.hears(GROUP, &denied).await;
    world.settled().await;
    assert_eq!(world.said_in(GROUP), [waits, approved, waits_too, denied]);
}

#[rstest]
#[tokio::test]
async fn a_group_that_nobody_we_know_led_us_to_hears_nothing(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    // Strangers talk there, and an agent only says that it is from there.
    world.api.says_in(BOB, GROUP, "hello bot", None);
    world.settled().await;
    for session in [format!("telegram:{GROUP}"), "telegram:".to_owned(), format!("telegram:{ADA}")]
    {
        let parked = world.park_in(&session, "one").await;
        let card = world.card(ADA, &parked).await;
        world.press(ADA, &card, "Approve").await;
        world.closed(ADA, &parked).await;
    }
    world.settled().await;
    assert_eq!(world.said_in(GROUP), [""; 0]);
    assert!(!world.said_in(ADA).iter().any(|text| text.starts_with("Waiting for owner, code")));
}

#[rstest]
#[tokio::test]
async fn what_does_not_work_in_a_group_is_known_and_forgotten_when_it_does(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    world.api.says_in(ADA, GROUP, "morning all", None);
    let has_limits = |place: &store::places::Place| {
        place.limits.as_ref().is_some_and(|limits| {
            limits.starts_with("reactions don't arrive there") && limits.contains("administrator")
        })
    };
    world.gateway.knows("-100777", has_limits).await;
    world.api.promotes(ADA, GROUP);
    world.gateway.knows("-100777", |place| place.limits.is_none()).await;
    world.api.refuses(GROUP, Some((403, "Forbidden: bot was kicked from the supergroup chat")));
    world.api.happens(
        "my_chat_member",
        json!({
            "chat": { "id": GROUP, "type": "supergroup", "title": "A group" },
            "from": { "id": BOB, "is_bot": false, "first_name": "Bob" }, "date": 1_760_000_000,
            "old_chat_member": { "status": "administrator" },
            "new_chat_member": { "status": "kicked" },
        }),
    );
    world.gateway.knows("-100777", |place| place.closed.is_some()).await;
    let parked = world.park_in(&format!("telegram:{GROUP}"), "one").await;
    world.card(ADA, &parked).await;
    world.settled().await;
    assert_eq!(world.said_in(GROUP), [""; 0]);
}

#[rstest]
#[tokio::test]
async fn a_topic_is_a_place_of_its_own(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let message = json!({
        "message_id": 9_001, "date": 1_760_000_000, "text": "morning all",
        "chat": { "id": GROUP, "type": "supergroup", "title": "A group", "is_forum": true },
        "from": { "id": ADA, "is_bot": false, "first_name": "Ada" },
        "message_thread_id": 12, "is_topic_message": true,
    });
    world.api.opens_topic(GROUP, 12);
    world.api.happens("message", message);
    world.gateway.knows("-100777:12", |_| true).await;
    let parked = world.park_in(&format!("telegram:{GROUP}:12"), "one").await;
    let waits = |api: &BotApi| {
        let mut all = api.chat(GROUP).into_iter();
        all.find(|shown: &Shown| shown.text.contains(&parked.code) && shown.topic == Some(12))
    };
    world.api.until(waits).await;
}

#[rstest]
#[tokio::test]
async fn a_group_hears_which_request_ended_and_nothing_else(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    world.gateway.add_guardian("bob").await;
    world.bind("bob", BOB).await;
    let parked = world.park("cat customers.csv").await;
    world.card(ADA, &parked).await;
    world.api.says_in(BOB, GROUP, &format!("{} approve", parked.code), None);
    world.hears(BOB, "no open request with that code").await;
    world.api.says_in(ADA, GROUP, "yes", None);
    world.settled().await;
    assert_eq!(world.status(&parked).await, "pending");
    world.api.says_in(ADA, GROUP, &format!("@GateBot {} approve", parked.code), None);
    world.closed(ADA, &parked).await;
    world.hears(ADA, "Approved: shell: cat customers.csv").await;
    let said = world.hears(GROUP, &parked.code).await;
    assert_eq!(said.text, format!("{}: approved.", parked.code));
    let all: Vec<Shown> =
        world.api.chat(GROUP).into_iter().filter(|shown| shown.from == 700).collect();
    assert_eq!(all.len(), 1, "{all:?}");
}

struct Bind(sayso::people::Binding);
#[async_trait::async_trait]
impl Write for Bind {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        store::people::bind(tx, &self.0).await
    }
}

#[rstest]
#[tokio::test]
async fn a_group_that_becomes_a_supergroup_keeps_what_is_bound_to_it(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    const OLD: i64 = -880_001;
    const NEW: i64 = -1_009_990_009;
    let Some(world) = World::new(database).await else { return };
    world.gateway.add_guardian("bob").await;
    let mut tx = world.gateway.store().read().await.unwrap();
    let bob = store::people::find_by_name(&mut tx, "bob").await.unwrap().unwrap();
    drop(tx);
    let binding = sayso::people::Binding {
        id: BindingId::new(),
        principal: bob.id,
        channel: "telegram".to_owned(),
        realm: String::new(),
        account: BOB.to_string(),
        address: Some(OLD.to_string()),
        last_seen_at: None,
        trouble: None,
        has_failed: false,
    };
    world.gateway.store().write(Bind(binding)).await.unwrap();
    world.api.migrates(OLD, NEW);
    world.settled().await;
    let mut tx = world.gateway.store().read().await.unwrap();
    let binding = store::people::find_binding(&mut tx, "telegram", "", &BOB.to_string()).await;
    assert_eq!(binding.unwrap().unwrap().address, Some(NEW.to_string()));
}
