//! What becomes of words, taps and reactions.

use std::time::Duration;

use proptest::prelude::*;
use rstest::rstest;
use sayso::decisions::{NewRequest, Verdict};
use sayso::requests::status::Status;
use sayso::requests::{Request, Risk};
use sayso_channel::{Account, Event};
use serde::Deserialize;

use crate::support::{Database, World};

#[derive(Deserialize)]
struct Case {
    id: String,
    given: Vec<String>,
    input: String,
    expect: String,
    then: Vec<String>,
    #[serde(default)]
    says: Vec<String>,
    #[serde(default)]
    never: Vec<String>,
    answer: Option<String>,
    reason: Option<String>,
}

fn cases() -> Vec<Case> {
    let path = format!("{}/tests/vectors/router.yaml", env!("CARGO_MANIFEST_DIR"));
    serde_yaml_ng::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

async fn given(world: &World, what: &str) -> Request {
    let new = match what {
        "tool" => World::tool_call(&sayso::ids::JobId::new().to_string()),
        "high" => NewRequest { risk: Risk::High, ..World::tool_call("rm -rf /") },
        "question" => World::question("What should I call it?", &[]),
        "question2" => World::question("And where does it go?", &[]),
        "choice" => World::question("Which colour?", &["Blue", "Green"]),
        "choice2" => World::question("Which size?", &["Small", "Large"]),
        "access" => World::access("a stranger wants in"),
        "foreign" => NewRequest { guardian: Some("bob".into()), ..World::tool_call("his") },
        other => panic!("{other}"),
    };
    world.open(new).await
}

fn with_codes(text: &str, requests: &[Request]) -> String {
    let place = regex::Regex::new(r"\b([Cc])([1-9])\b").unwrap();
    let code = |found: &regex::Captures<'_>| {
        let code = requests[found[2].parse::<usize>().unwrap() - 1].code.to_string();
        if &found[1] == "c" { code.to_lowercase() } else { code }
    };
    place.replace_all(text, code).into_owned()
}

/// What is wrong with a case; nothing if it holds.
async fn check(world: &World, case: &Case) -> Option<String> {
    let mut requests = Vec::new();
    for what in &case.given {
        requests.push(given(world, what).await);
    }
    let text = with_codes(&case.input, &requests);

    let routed = world.says(&world.ada, &text).await;

    let mut stands = Vec::new();
    for request in &requests {
        stands.push(world.get(request).await);
    }
    let statuses: Vec<&str> = stands.iter().map(|r| r.status.as_str()).collect();
    let reply = routed.reply.clone().unwrap_or_default();
    let answers = stands.iter().find_map(sayso::wording::answer_words);
    let reasons = stands.iter().find_map(|r| r.outcome.as_ref()?.reason.clone());
    let holds = routed.outcome.as_str() == case.expect
        && statuses == case.then
        && case.says.iter().all(|part| reply.contains(&with_codes(part, &requests)))
        && !case.never.iter().any(|part| reply.contains(part.as_str()))
        && (case.answer.is_none() || case.answer == answers)
        && (case.reason.is_none() || case.reason == reasons);
    for request in requests {
        let owner = if request.guardian == world.bob.id { &world.bob } else { &world.ada };
        world.decide(owner, &request, Verdict::Deny { reason: None }).await;
        world.decide(owner, &request, Verdict::Skip).await;
    }
    (!holds).then(|| {
        format!(
            "{} {text:?}: {} {statuses:?} {answers:?} {reply:?}",
            case.id,
            routed.outcome.as_str()
        )
    })
}

#[rstest]
#[tokio::test]
async fn every_router_vector_holds(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let cases = cases();
    assert!(cases.len() > 80);
    let mut wrong = Vec::new();
    for case in &cases {
        wrong.extend(check(&world, case).await);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[rstest]
#[case::approve("approve_once", "applied", Status::Approved)]
#[case::deny("reject", "applied", Status::Denied)]
#[case::an_option_on_an_approval("answer_0", "wrong_action", Status::Pending)]
#[case::a_verb_for_strangers("trust", "wrong_action", Status::Pending)]
#[case::another_verb_for_strangers("block", "wrong_action", Status::Pending)]
#[case::a_verb_of_another_kind("answer_skip", "wrong_action", Status::Pending)]
#[case::a_reason_is_asked_for("reject_reason", "clarify", Status::Pending)]
#[tokio::test]
async fn a_button_of_a_tool_approval(
    #[case] action: &str,
    #[case] outcome: &str,
    #[case] status: Status,
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let request = given(&world, "tool").await;

    let routed = world.taps(&world.ada, &request, action).await;

    assert_eq!(routed.outcome.as_str(), outcome, "{routed:?}");
    assert_eq!(world.get(&request).await.status, status);
    assert!(routed.reply.is_some(), "no press is met with silence");
}

#[rstest]
#[tokio::test]
async fn buttons_of_a_question(#[values(Database::Sqlite, Database::Postgres)] database: Database) {
    let Some(world) = World::new(database).await else { return };
    let request = given(&world, "choice").await;
    for wrong in ["answer_2", "answer_999", "approve_once", "reject"] {
        let routed = world.taps(&world.ada, &request, wrong).await;
        assert_ne!(routed.outcome.as_str(), "applied", "{wrong}");
    }

    assert_eq!(world.taps(&world.ada, &request, "answer_1").await.outcome.as_str(), "applied");

    let answered = world.get(&request).await;
    assert_eq!(sayso::wording::answer_words(&answered).as_deref(), Some("Green"));
    let skipped = given(&world, "question").await;
    world.taps(&world.ada, &skipped, "answer_skip").await;
    assert_eq!(world.get(&skipped).await.status, Status::Skipped);
}

#[rstest]
#[tokio::test]
async fn a_button_decides_exactly_its_own_request(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let (first, second) = (given(&world, "tool").await, given(&world, "tool").await);

    world.taps(&world.ada, &second, "approve_once").await;

    assert_eq!(world.get(&first).await.status, Status::Pending);
    assert_eq!(world.get(&second).await.status, Status::Approved);
    let again = world.taps(&world.ada, &second, "reject").await;
    assert_eq!(again.outcome.as_str(), "already_decided");
    let reply = again.reply.unwrap();
    assert!(reply.contains("Approved by ada via console"), "{reply}");
    assert_eq!(world.get(&first).await.status, Status::Pending, "and no other");
}

#[rstest]
#[tokio::test]
async fn a_button_of_nothing_gets_a_plain_answer(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    for token in ["yes", "apr:req_00000000000070008000000000000000:approve_once", "con:x:approve"] {
        let event = Event::Tap { token: token.parse().unwrap(), message: None, text: None };
        let routed = world.does(&world.ada, event).await;
        assert_eq!(routed.outcome.as_str(), "not_found", "{token}");
        assert!(routed.reply.is_some());
    }
}

#[rstest]
#[tokio::test]
async fn a_thumb_decides_the_card_it_is_put_on(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let (first, second) = (given(&world, "tool").await, given(&world, "tool").await);
    let on = |emoji: &str, message: String| Event::Reaction { emoji: emoji.into(), message };

    let message = world.message(&second).await;
    world.does(&world.ada, on("🎉", message.clone())).await;
    let foreign = world.does(&world.bob, on("👍", message.clone())).await;
    assert_eq!(world.get(&second).await.status, Status::Pending);
    assert_ne!(foreign.outcome.as_str(), "applied");
    world.does(&world.ada, on("👍🏽", message.clone())).await;

    assert_eq!(world.get(&second).await.status, Status::Approved);
    assert_eq!(world.get(&first).await.status, Status::Pending);
    world.does(&world.ada, on("-1", world.message(&first).await)).await;
    assert_eq!(world.get(&first).await.status, Status::Denied);

    let question = given(&world, "choice").await;
    let asked = world.does(&world.ada, on("👍", world.message(&question).await)).await;
    assert_eq!(asked.outcome.as_str(), "clarify", "a thumb is no answer");
    assert_eq!(world.get(&question).await.status, Status::Pending);
    let nothing = world.does(&world.ada, on("👍", "no such message".into())).await;
    assert_eq!((nothing.outcome.as_str(), nothing.reply), ("passed", None));
}

#[rstest]
#[tokio::test]
async fn a_reply_to_something_else_decides_nothing_of_what_waits(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let only = given(&world, "tool").await;
    let reply_to = Some("a-message-that-is-no-card".to_owned());
    let yes = Event::Text { text: "yes".into(), reply_to: reply_to.clone(), is_secondhand: false };
    let routed = world.does(&world.ada, yes).await;
    assert_eq!(routed.outcome.as_str(), "passed");
    assert!(routed.reply.unwrap().contains("not taken as a decision"));
    assert_eq!(world.get(&only).await.status, Status::Pending);
    // The code says which, wherever it stands.
    let text = format!("{} yes", only.code);
    world.does(&world.ada, Event::Text { text, reply_to, is_secondhand: false }).await;
    assert_eq!(world.get(&only).await.status, Status::Approved);
}

#[rstest]
#[tokio::test]
async fn replying_to_a_card_selects_it(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let (first, second) = (given(&world, "tool").await, given(&world, "tool").await);
    let reply = |text: &str, to: String| Event::Text {
        text: text.into(),
        reply_to: Some(to),
        is_secondhand: false,
    };

    world.does(&world.ada, reply("approve", world.message(&second).await)).await;

    assert_eq!(world.get(&second).await.status, Status::Approved);
    assert_eq!(world.get(&first).await.status, Status::Pending);
    let late = world.does(&world.ada, reply("approve", world.message(&second).await)).await;
    assert_eq!(late.outcome.as_str(), "already_decided");
}

#[rstest]
#[tokio::test]
async fn robots_edits_and_strangers_never_decide(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let request = given(&world, "tool").await;
    let text = format!("{} approve", request.code);
    let ada = Account { realm: String::new(), id: world.ada.id.to_string(), is_automated: false };
    let said = |is_secondhand| Event::Text { text: text.clone(), reply_to: None, is_secondhand };

    let robot = Account { is_automated: true, ..ada.clone() };
    assert_eq!(world.happens(robot, &ada.id, said(false)).await.outcome.as_str(), "passed");
    let stranger = Account { id: "nobody".into(), ..ada.clone() };
    let ignored = world.happens(stranger.clone(), &ada.id, said(false)).await;
    assert_eq!((ignored.outcome.as_str(), ignored.reply), ("passed", None));
    let token = format!("apr:{}:approve_once", request.id).parse().unwrap();
    let tap = Event::Tap { token, message: None, text: None };
    assert_eq!(world.happens(stranger, &ada.id, tap).await.outcome.as_str(), "not_permitted");
    let edited = world.happens(ada.clone(), &ada.id, said(true)).await;
    assert!(edited.reply.unwrap().contains("Edited"), "it is explained");

    assert_eq!(world.get(&request).await.status, Status::Pending);
}

#[rstest]
#[tokio::test]
async fn only_live_requests_are_candidates(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    for _ in 0..20 {
        let old = given(&world, "tool").await;
        world.decide(&world.ada, &old, Verdict::Deny { reason: None }).await;
    }
    let past = given(&world, "tool").await;
    world.store.clock().advance(Duration::from_mins(16));
    let live = given(&world, "tool").await;

    let routed = world.says(&world.ada, "approve").await;

    assert_eq!(routed.outcome.as_str(), "applied");
    assert_eq!(world.get(&live).await.status, Status::Approved);
    assert_eq!(world.get(&past).await.status, Status::Pending, "past its deadline, not swept");
    let late = world.says(&world.ada, &format!("{} approve", past.code)).await;
    assert_eq!(late.outcome.as_str(), "expired");
}

#[rstest]
#[tokio::test]
async fn unknown_and_foreign_codes_get_the_same_words(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    let foreign = given(&world, "foreign").await;
    let unknown = sayso::requests::code::Code::random();

    let of_foreign = world.says(&world.ada, &format!("{} approve", foreign.code)).await;
    let of_unknown = world.says(&world.ada, &format!("{unknown} approve")).await;

    assert_eq!(of_foreign, of_unknown);
    assert_eq!(of_foreign.outcome.as_str(), "not_found");
}

#[test]
fn no_text_ever_approves_two_requests_and_only_clean_ones_approve_any() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let world = runtime.block_on(World::new(Database::Sqlite)).unwrap();
    let words = prop::sample::select(vec![
        "yes", "no", "approve", "C1", "C2", "ok", "deny", ",", "and", "not", "please", "2", "the",
        "first", "?", "C3", "but", "go", "ahead", "👍", "trust", "skip",
    ]);
    let config = ProptestConfig { cases: 150, failure_persistence: None, ..Default::default() };
    proptest!(config, |(text in prop::collection::vec(words, 0..7))| {
        let text = text.join(" ");
        runtime.block_on(async {
            let mut requests = Vec::new();
            for what in ["tool", "tool", "choice"] {
                requests.push(given(&world, what).await);
            }
            let typed = with_codes(&text, &requests);
            let routed = world.says(&world.ada, &typed).await;
            let mut ended = 0;
            for request in requests {
                let now = world.get(&request).await;
                ended += usize::from(now.status.is_final());
                if now.status == Status::Approved {
                    assert!(typed.contains(request.code.as_str()), "{typed}: named by its code");
                }
                world.decide(&world.ada, &request, Verdict::Deny { reason: None }).await;
                world.decide(&world.ada, &request, Verdict::Skip).await;
            }
            assert!(ended <= 1, "{typed}");
            assert_eq!(ended == 1, routed.outcome.as_str() == "applied", "{typed}");
        });
    });
}
