//! What people see: cards, and the words that answer them, as snapshots.

use std::fmt::Write as _;

use sayso::broadcaster::cards::{View, draw};
use sayso::decisions::{NewRequest, Verdict};
use sayso::requests::Risk;
use sayso_channel::{Block, Card};
use serde_json::json;

use crate::support::{Database, World};

/// A card as plain text, with its changing parts replaced.
fn picture(card: &Card, code: &str) -> String {
    let mut text = format!("[{:?}] {}\n{}\n", card.tone, card.title, card.status);
    for block in &card.blocks {
        match block {
            Block::Exact { label, text: exact } => write!(text, "{label}:\n| {exact}\n").unwrap(),
            Block::Quote { label, text: words } => write!(text, "{label}:\n> {words}\n").unwrap(),
            Block::Items(items) => {
                for (i, item) in items.iter().enumerate() {
                    writeln!(text, "{}. {item}", i + 1).unwrap();
                }
            }
            Block::Warning(words) => writeln!(text, "! {words}").unwrap(),
            Block::Facts(facts) => {
                let facts = facts.iter().filter(|fact| fact.label != "Digest");
                let facts: Vec<String> =
                    facts.map(|f| format!("{} {}", f.label, f.value)).collect();
                writeln!(text, "{}", facts.join(" · ")).unwrap();
            }
        }
    }
    for action in &card.actions {
        let name = action.token.as_str().rsplit(':').next().unwrap();
        writeln!(text, "({:?}) {} -> {name}", action.emphasis, action.label).unwrap();
    }
    if let Some(words) = &card.invites_reply {
        writeln!(text, "reply: {words}").unwrap();
    }
    writeln!(text, "{} {}", card.reference, card.fallback).unwrap();
    without_times(&text.replace(code, "CODE"))
}

fn without_times(text: &str) -> String {
    let time = regex::Regex::new(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC").unwrap();
    time.replace_all(text, "TIME").into_owned()
}

#[tokio::test]
async fn cards_look_like_this() {
    let world = World::new(Database::Sqlite).await.unwrap();
    let view = View { exact_units: 400, is_opened: false };
    let mut pictures = String::new();
    let mut titled = World::tool_call("kubectl apply -f prod.yaml");
    titled.content.title = Some("Deploy to production".into());
    titled.content.body = Some("All green.\n✅ Approved by Ada — reply \"K7M2Q9 approve\"".into());
    titled.risk = Risk::High;
    titled.session = Some("release 42".into());
    let mut odd = World::tool_call("x");
    odd.content.tool.as_mut().unwrap().input = json!({
        "url": "https://p\u{430}ypal.com/x",
        "retries": 3,
        "enabled": "true",
        "nothing": null,
        "headers": { "authorization": "Bearer sk-live-EXAMPLE1234567890" },
        "note": "rm -rf ./build\u{202e}/cba\r\n\ttail",
    });
    for (name, new) in [
        ("a tool call", World::tool_call("ls -l")),
        ("a titled, risky one with words of the agent", titled),
        ("one with hidden, secret and odd parts", odd),
        ("a long one", World::tool_call(&format!("echo {} | sh", "x".repeat(900)))),
        ("an open question", World::question("What should I call the branch?", &[])),
        ("a question with options", World::question("Where?", &["EU (Frankfurt)", "US"])),
        ("somebody at the door", World::access("Let Bob in?")),
    ] {
        let request = world.open(new).await;
        let card = draw(&request, view).card;
        let code = request.code.to_string();
        writeln!(pictures, "== {name}\n{}", picture(&card, &code)).unwrap();
    }

    let opened = world.open(World::tool_call(&format!("echo {}", "y".repeat(500)))).await;
    let card = draw(&opened, View { is_opened: true, ..view }).card;
    let shown = picture(&card, opened.code.as_str()).replace(&"y".repeat(500), "yyy…");
    writeln!(pictures, "== the long one, opened\n{shown}").unwrap();

    let denied = world.open(World::tool_call("rm -rf /")).await;
    world.decide(&world.ada, &denied, Verdict::Deny { reason: Some("not on Friday".into()) }).await;
    let card = draw(&world.get(&denied).await, view).card;
    writeln!(pictures, "== a denied one\n{}", picture(&card, denied.code.as_str())).unwrap();

    let old = world.open(World::tool_call("v1")).await;
    world.open(NewRequest { supersedes: Some(old.id), ..World::tool_call("v2") }).await;
    let card = draw(&world.get(&old).await, view).card;
    writeln!(pictures, "== a replaced one\n{}", picture(&card, old.code.as_str())).unwrap();
    insta::assert_snapshot!("cards", pictures);
}

#[tokio::test]
async fn a_conversation_reads_like_this() {
    let world = World::new(Database::Sqlite).await.unwrap();
    let mut transcript = String::new();
    let tool = world.open(World::tool_call("deploy")).await;
    let question = world.open(World::question("Where?", &["EU", "US"])).await;
    let branch = world.open(World::question("Branch name?", &[])).await;
    let codes = [&tool, &question, &branch].map(|r| r.code.to_string());
    let hide = |text: &str| {
        let named = codes.iter().enumerate().fold(text.to_owned(), |text, (i, code)| {
            text.replace(code.as_str(), &format!("CODE{}", i + 1))
        });
        without_times(&named)
    };
    for said in [
        "yes",
        "what is going on?",
        "CODE1",
        "CODE1 yes if the tests pass",
        "CODE2 3",
        "CODE2 US",
        "CODE2 EU",
        "CODE1 no, not on Friday",
        "CODE1 approve",
        "CODE3 feature/x",
        "thanks!",
    ] {
        let typed = codes
            .iter()
            .enumerate()
            .fold(said.to_owned(), |text, (i, code)| text.replace(&format!("CODE{}", i + 1), code));
        let routed = world.says(&world.ada, &typed).await;
        let reply = routed.reply.map_or("(to the agent)".to_owned(), |reply| hide(&reply));
        writeln!(transcript, "ada: {said}\n  {} | {reply}", routed.outcome.as_str()).unwrap();
    }
    insta::assert_snapshot!("conversation", transcript);
}
