//! Slack, end to end: a gateway, a stand-in for Slack, and people with nothing but
//! a phone.

mod both;
mod ingest;
mod places;

use std::time::Duration;

use rstest::rstest;
use sayso::admin::{AddPairing, BindGuardian};
use sayso::{pairing, store};
use sayso_emulators::slack::{Credentials, Fault, Shown, TEAM_ID, Workspace};
use serde_json::{Value, json};

use crate::support::Database;
use crate::support::gateway::Gateway;

const ADA: &str = "U0ADA0001";
const BOB: &str = "U0BOB0002";

/// A gateway whose owner lives in Slack.
struct World {
    gateway: Gateway,
    slack: Workspace,
}

impl World {
    /// With Ada as `owner`, bound by hand; she has written to nobody before.
    async fn new(database: Database) -> Option<Self> {
        let world = Self::unbound(database, &[]).await?;
        world.bind("owner", ADA).await;
        Some(world)
    }

    async fn unbound(database: Database, more: &[(&str, &str)]) -> Option<Self> {
        let slack = Workspace::start(Credentials::default()).await;
        slack.has_person(ADA, "Ada");
        slack.has_person(BOB, "Bob");
        let url = slack.api_url().to_string();
        let mut env = vec![
            ("SAYSO_SLACK__BOT_TOKEN", "xoxb-stand-in"),
            ("SAYSO_SLACK__APP_TOKEN", "xapp-stand-in"),
            ("SAYSO_SLACK__API_URL", &url),
        ];
        env.extend(more);
        let gateway = Gateway::start_with(database, &env).await?;
        Some(Self { gateway, slack })
    }

    async fn bind(&self, name: &str, user: &str) {
        let bind = BindGuardian {
            name: name.to_owned(),
            channel: "slack".to_owned(),
            realm: TEAM_ID.to_owned(),
            account: user.to_owned(),
            address: Some(format!("{TEAM_ID}:@{user}")),
        };
        self.gateway.store().write(bind).await.unwrap().unwrap();
    }

    async fn pairing(&self, name: &str) -> String {
        let code = pairing::random();
        let add = AddPairing {
            name: name.to_owned(),
            channel: "slack".to_owned(),
            hash: pairing::hash(&code),
        };
        self.gateway.store().write(add).await.unwrap().unwrap();
        code
    }

    async fn park(&self, command: &str) -> Parked {
        let tool = json!({ "name": "shell", "input": { "command": command } });
        Parked::of(&self.gateway.park(json!({ "kind": "tool_approval", "tool": tool })).await)
    }

    async fn ask(&self, title: &str, options: &[String], allow_text: bool) -> Parked {
        let options: Vec<Value> = options
            .iter()
            .enumerate()
            .map(|(i, label)| json!({ "id": format!("o{i}"), "label": label }))
            .collect();
        let body = json!({
            "kind": "question", "title": title, "options": options, "allow_text": allow_text,
        });
        Parked::of(&self.gateway.park(body).await)
    }

    /// The card of a request in somebody's direct messages, with buttons.
    async fn card(&self, who: &str, parked: &Parked) -> Shown {
        self.slack.until(|slack| card_of(slack, who, &parked.code)).await
    }

    /// Waits until the gateway knows that the card stands there: before that, words
    /// alone can't mean it.
    async fn stands(&self, parked: &Parked) {
        let is_sent = |delivery: &Value| {
            delivery["channel"] == "slack"
                && (delivery["state"] == "sent" || delivery["state"] == "seen")
        };
        let stands =
            |request: &Value| request["deliveries"].as_array().unwrap().iter().any(is_sent);
        self.gateway.until(&parked.id, stands).await;
    }

    /// Waits until the request has ended, and until its card says so.
    async fn closed(&self, who: &str, parked: &Parked) -> String {
        self.gateway.until(&parked.id, |r| r["status"] != "pending").await;
        let code = format!("Code {}", parked.code);
        let closed = |slack: &Workspace| {
            let mut cards = slack.chat(&slack.dm(who)).into_iter();
            let card = cards.rfind(|shown| shown.is_ours() && shown.read().contains(&code))?;
            (card.buttons().is_empty() && !card.read().contains('⏳')).then(|| card.read())
        };
        self.slack.until(closed).await
    }

    /// Presses the button with that label.
    fn press(&self, who: &str, card: &Shown, label: &str) {
        self.slack.presses(who, &self.slack.dm(who), &card.ts, label);
    }

    /// Waits for words that somebody alone is shown.
    async fn told(&self, who: &str, words: &str) -> String {
        let told = |slack: &Workspace| {
            let mut all = slack.ephemerals().into_iter().filter(|told| told.user == who);
            all.find(|told| told.shown.read().contains(words)).map(|told| told.shown.read())
        };
        self.slack.until(told).await
    }

    /// Waits for the bot to say something with these words in a conversation.
    async fn hears(&self, channel: &str, words: &str) -> Shown {
        let said = |slack: &Workspace| {
            let mut all = slack.chat(channel).into_iter();
            all.rfind(|shown| shown.is_ours() && shown.read().contains(words))
        };
        self.slack.until(said).await
    }

    async fn status(&self, parked: &Parked) -> String {
        let (_, value) = self.gateway.get(&format!("/v1/requests/{}", parked.id)).await;
        value["status"].as_str().unwrap().to_owned()
    }

    /// Waits until everything that was sent to the app was dealt with and said.
    async fn settled(&self) {
        use sayso_emulators::slack::Outcome;
        let wait = async {
            loop {
                let mut tx = self.gateway.store().read().await.unwrap();
                let (waiting, _, _) = store::inbox::backlog(&mut tx).await.unwrap();
                let (owed, _) = store::notices::backlog(&mut tx).await.unwrap();
                drop(tx);
                let deliveries = self.slack.deliveries();
                let is_taken =
                    |d: &sayso_emulators::slack::Delivery| !matches!(d.outcome, Outcome::Waiting);
                if waiting == 0 && owed == 0 && deliveries.iter().all(is_taken) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), wait).await.expect("it settles in time");
    }
}

fn card_of(slack: &Workspace, who: &str, code: &str) -> Option<Shown> {
    let code = format!("Code {code}");
    let mut cards = slack.chat(&slack.dm(who)).into_iter();
    cards.rfind(|shown| {
        shown.is_ours() && shown.read().contains(&code) && !shown.buttons().is_empty()
    })
}

struct Parked {
    id: String,
    code: String,
}

impl Parked {
    fn of(value: &Value) -> Self {
        let text = |name: &str| value[name].as_str().unwrap().to_owned();
        Self { id: text("id"), code: text("code") }
    }
}

#[rstest]
#[tokio::test]
async fn a_click_decides_is_answered_and_closes_the_card(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let parked = world.park("rm -rf / <!channel> & co").await;
    let card = world.card(ADA, &parked).await;
    assert!(card.read().contains("rm -rf / <!channel> & co"), "{}", card.read());
    assert!(!card.text.contains("<!channel>"), "{}", card.text);
    world.press(ADA, &card, "Approve once");
    world.told(ADA, "Approved").await;
    let closed = world.closed(ADA, &parked).await;
    assert!(closed.contains("Approved by owner via slack"), "{closed}");
    assert!(closed.contains("rm -rf / <!channel> & co"), "{closed}");
    // Once more, on the card as it was.
    world.slack.presses_on(ADA, &world.slack.dm(ADA), &card, "Deny");
    world.told(ADA, "Too late").await;
    assert_eq!(world.status(&parked).await, "approved");
}

#[rstest]
#[tokio::test]
async fn codes_words_reactions_and_threads_decide_in_the_direct_messages(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let dm = world.slack.dm(ADA);

    let coded = world.park("one").await;
    world.card(ADA, &coded).await;
    world.slack.says(ADA, &format!("{} approve", coded.code));
    assert!(world.closed(ADA, &coded).await.contains("Approved by owner"));
    world.hears(&dm, "Approved: shell: one").await;

    let bare = world.park("two").await;
    world.card(ADA, &bare).await;
    world.stands(&bare).await;
    world.slack.says(ADA, "no");
    assert!(world.closed(ADA, &bare).await.contains("Denied by owner"));

    let quoted = world.park("three").await;
    let other = world.park("four").await;
    let card = world.card(ADA, &quoted).await;
    let second = world.card(ADA, &other).await;
    world.stands(&quoted).await;
    world.stands(&other).await;
    world.slack.says_in(ADA, &dm, "go ahead", Some(&card.ts));
    assert!(world.closed(ADA, &quoted).await.contains("Approved by owner"));
    assert_eq!(world.status(&other).await, "pending");

    world.slack.names_item_user(false);
    world.slack.reacts(ADA, &dm, &second.ts, "-1::skin-tone-3");
    assert!(world.closed(ADA, &other).await.contains("Denied by owner"));

    let thumbed = world.park("five").await;
    let card = world.card(ADA, &thumbed).await;
    world.stands(&thumbed).await;
    world.slack.unreacts(ADA, &dm, &card.ts, "+1");
    world.slack.reacts(ADA, &dm, &card.ts, "eyes");
    world.settled().await;
    assert_eq!(world.status(&thumbed).await, "pending");
    world.slack.reacts(ADA, &dm, &card.ts, "thumbsup");
    assert!(world.closed(ADA, &thumbed).await.contains("Approved by owner"));
}

#[rstest]
#[tokio::test]
async fn a_no_with_a_reason_is_typed_into_a_window(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let parked = world.park("one").await;
    let card = world.card(ADA, &parked).await;
    world.press(ADA, &card, "Deny with reason");
    world.slack.until(|slack| slack.modal(ADA)).await;
    assert_eq!(world.status(&parked).await, "pending");
    world.slack.submits(ADA, &[("words", "a+b = c & d %41 é")]);
    let closed = world.closed(ADA, &parked).await;
    assert!(
        closed.contains("Denied by owner") && closed.contains(": a+b = c & d %41 é"),
        "{closed}"
    );
    world.told(ADA, "Denied").await;
}

#[rstest]
#[tokio::test]
async fn where_no_window_opens_the_reason_is_asked_for_in_words(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let parked = world.park("one").await;
    let card = world.card(ADA, &parked).await;
    world.slack.fail("views.open", [Fault::refusal("expired_trigger_id")]);
    world.press(ADA, &card, "Deny with reason");
    world.hears(&world.slack.dm(ADA), "Why not").await;
    world.slack.says(ADA, "it is too early");
    assert!(world.closed(ADA, &parked).await.contains(": it is too early"));
}

#[rstest]
#[tokio::test]
async fn questions_are_answered_by_buttons_by_a_list_and_in_words(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let dm = world.slack.dm(ADA);
    let few = ["Neo4j".to_owned(), "Stardog".to_owned()];
    let buttons = world.ask("Which one?", &few, false).await;
    let card = world.card(ADA, &buttons).await;
    world.press(ADA, &card, "2. Stardog");
    assert!(world.closed(ADA, &buttons).await.contains("Answered by owner"));

    let many: Vec<String> = (1..=12).map(|i| format!("Choice {i} & more")).collect();
    let list = world.ask("Which of many?", &many, false).await;
    let card = world.card(ADA, &list).await;
    let ninth = format!("apr:{}:answer_8", list.id);
    world.slack.selects(ADA, &dm, &card.ts, "choose", &ninth);
    assert!(world.closed(ADA, &list).await.contains("Choice 9 & more"));

    let open = world.ask("What shall it be called?", &[], true).await;
    let card = world.card(ADA, &open).await;
    world.press(ADA, &card, "Answer in words");
    world.slack.until(|slack| slack.modal(ADA)).await;
    world.slack.submits(ADA, &[("words", "Fluffy <3")]);
    assert!(world.closed(ADA, &open).await.contains("Fluffy <3"));
}

#[rstest]
#[tokio::test]
async fn a_long_text_is_read_in_the_thread_before_it_can_be_approved(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let dm = world.slack.dm(ADA);
    let command = format!("{}| sh <@U0BOB0002> & more", "echo safe; ".repeat(1_200));
    let parked = world.park(&command).await;
    let card = world.card(ADA, &parked).await;
    assert!(card.buttons().iter().all(|button| !button.label.contains("Approve")));
    world.slack.says(ADA, &format!("{} approve", parked.code));
    world.hears(&dm, "was not shown whole").await;
    world.press(ADA, &card, "Show all");
    let armed = |slack: &Workspace| {
        let card = card_of(slack, ADA, &parked.code)?;
        card.buttons().iter().any(|button| button.label.contains("Approve")).then_some(card)
    };
    let armed = world.slack.until(armed).await;
    assert_eq!(armed.ts, card.ts, "it is the same card");
    let thread: Vec<Shown> = world
        .slack
        .chat(&dm)
        .into_iter()
        .filter(|shown| shown.thread_ts.as_deref() == Some(&card.ts) && shown.ts != card.ts)
        .collect();
    let whole: String = thread.iter().map(Shown::read).collect();
    assert_eq!(whole.matches("safe;").count(), 1_200);
    assert!(whole.contains("| sh <@U0BOB0002> & more"));
    world.press(ADA, &armed, "Approve once");
    assert!(world.closed(ADA, &parked).await.contains("Approved by owner"));
}

#[rstest]
#[tokio::test]
async fn somebody_elses_click_is_refused_and_so_is_one_on_nothing_of_ours(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    world.gateway.add_guardian("bob").await;
    world.bind("bob", BOB).await;
    let parked = world.park("one").await;
    let card = world.card(ADA, &parked).await;
    world.slack.presses_on(BOB, &world.slack.dm(BOB), &card, "Approve once");
    world.told(BOB, "Only the person this request is for").await;
    let mut foreign = card.clone();
    foreign.blocks = json!([{ "type": "actions", "block_id": "x", "elements": [{
        "type": "button", "action_id": "deploy", "value": "v",
        "text": { "type": "plain_text", "text": "Deploy" },
    }]}])
    .as_array()
    .unwrap()
    .clone();
    world.slack.presses_on(ADA, &world.slack.dm(ADA), &foreign, "Deploy");
    world.told(ADA, "belongs to nothing that still exists").await;
    assert_eq!(world.status(&parked).await, "pending");
}

#[rstest]
#[tokio::test]
async fn a_person_pairs_by_a_code_and_sees_what_waits_already(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::unbound(database, &[]).await else { return };
    let parked = world.park("one").await;
    let dm = world.slack.dm(ADA);
    world.slack.says(ADA, "hello?");
    world.hears(&dm, "This is a private gateway").await;
    let code = world.pairing("owner").await;
    world.slack.says(ADA, &code);
    world.hears(&dm, "Welcome, owner").await;
    let card = world.card(ADA, &parked).await;
    world.press(ADA, &card, "Approve once");
    assert!(world.closed(ADA, &parked).await.contains("Approved by owner"));
}

#[rstest]
#[tokio::test]
async fn a_card_that_was_removed_is_replaced_by_a_word(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let dm = world.slack.dm(ADA);
    let parked = world.park("one").await;
    let card = world.card(ADA, &parked).await;
    world.slack.deletes(&dm, &card.ts);
    world.slack.says(ADA, &format!("{} approve", parked.code));
    world.hears(&dm, &format!("{} (shell: one): Approved by owner", parked.code)).await;
}

#[rstest]
#[tokio::test]
async fn a_refused_form_is_sent_in_words_and_takes_the_code(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let dm = world.slack.dm(ADA);
    world.slack.fail("chat.postMessage", [Fault::refusal("invalid_blocks")]);
    let parked = world.park("echo <hi> & bye").await;
    let said = world.hears(&dm, &parked.code).await;
    assert!(said.text.contains("echo &lt;hi&gt; &amp; bye"), "{}", said.text);
    assert!(said.buttons().is_empty());
    world.slack.says(ADA, &format!("{} approve", parked.code));
    world.gateway.until(&parked.id, |r| r["status"] == "approved").await;
}

#[rstest]
#[tokio::test]
async fn trouble_of_the_server_delays_and_loses_nothing(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let faults =
        [Fault::flood(1), Fault::CutBefore, Fault::bad_gateway(), Fault::refusal("ratelimited")];
    world.slack.fail("chat.update", faults);
    let parked = world.park("one").await;
    let card = world.card(ADA, &parked).await;
    world.press(ADA, &card, "Approve once");
    // The click is answered although edits have to wait.
    world.told(ADA, "Approved").await;
    assert!(world.closed(ADA, &parked).await.contains("Approved by owner"));
}

#[rstest]
#[tokio::test]
async fn a_card_whose_sending_is_in_doubt_is_adopted_by_the_first_click(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    world.slack.says(ADA, "hello");
    world.settled().await;
    world.slack.fail("chat.postMessage", [Fault::CutAfter]);
    let parked = world.park("one").await;
    let card = world.card(ADA, &parked).await;
    world.press(ADA, &card, "Approve once");
    assert!(world.closed(ADA, &parked).await.contains("Approved by owner"));
}

#[rstest]
#[tokio::test]
async fn words_in_a_thread_that_is_no_cards_decide_nothing(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let dm = world.slack.dm(ADA);
    let own = world.slack.says(ADA, "what was that?");
    let parked = world.park("one").await;
    world.card(ADA, &parked).await;
    world.stands(&parked).await;
    world.slack.says_in(ADA, &dm, "yes", Some(&own));
    world.hears(&dm, "not taken as a decision").await;
    assert_eq!(world.status(&parked).await, "pending");
    world.slack.says(ADA, "yes");
    assert!(world.closed(ADA, &parked).await.contains("Approved by owner"));
}
