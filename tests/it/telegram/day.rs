//! The scripted day.

use std::time::Duration;

use sayso_emulators::telegram::BotApi;
use serde_json::json;

use crate::support::Database;
use crate::telegram::{ADA, World};

/// A day in a chat: twenty requests, every way of answering, a restart in the
/// middle, a blocked bot; what Ada's phone shows in the end is reviewed.
#[tokio::test]
async fn a_day_in_a_chat_reads_like_this() {
    let Some(mut world) = World::unbound(Database::Sqlite, &[]).await else { return };
    let code = world.pairing("owner").await;
    world.api.says(ADA, &format!("/start {code}"));
    world.hears(ADA, "Welcome").await;
    let mut codes = vec![code];
    let mut day = Vec::new();

    // Buttons.
    for (command, label) in [("cargo test", "Approve"), ("rm -rf /", "✖ Deny")] {
        let parked = world.park(command).await;
        let card = world.card(ADA, &parked).await;
        world.press(ADA, &card, label).await;
        world.closed(ADA, &parked).await;
        day.push(parked);
    }
    // A code, words, a quote, a reason.
    for words in ["{} approve", "yes", "no", "/deny {}", "{} no, use staging"] {
        let parked = world.park("kubectl apply -f prod.yaml").await;
        world.card(ADA, &parked).await;
        world.api.says(ADA, &words.replace("{}", &parked.code));
        world.closed(ADA, &parked).await;
        world.replied(&parked).await;
        day.push(parked);
    }
    let quoted = world.park("git push --force").await;
    let card = world.card(ADA, &quoted).await;
    world.api.says_in(ADA, ADA, "nope", Some(card.id));
    world.closed(ADA, &quoted).await;
    world.replied(&quoted).await;
    day.push(quoted);
    // Questions: a button, a number, a label, own words, no answer.
    for (answer, is_press) in
        [("EU", true), ("2", false), ("eu (frankfurt)", false), ("Skip", true)]
    {
        let parked = world.ask("Which region?", &["EU (Frankfurt)", "US (Virginia)"]).await;
        let card = world.card(ADA, &parked).await;
        if is_press {
            world.press(ADA, &card, answer).await;
        } else {
            world.api.says(ADA, answer);
            world.replied(&parked).await;
        }
        world.closed(ADA, &parked).await;
        day.push(parked);
    }
    let open = world.ask("What should the branch be called?", &[]).await;
    world.card(ADA, &open).await;
    world.api.says(ADA, "feature/telegram");
    world.closed(ADA, &open).await;
    world.replied(&open).await;
    day.push(open);

    // Two at once, and a restart between the question and the answer.
    let left = world.park("make left").await;
    world.card(ADA, &left).await;
    let right = world.park("make right").await;
    world.card(ADA, &right).await;
    world.gateway.restart().await;
    world.api.says(ADA, "yes");
    world.hears(ADA, "which one do you mean").await;
    for parked in [left, right] {
        world.api.says(ADA, &format!("{} ok", parked.code));
        world.closed(ADA, &parked).await;
        world.replied(&parked).await;
        day.push(parked);
    }
    // Withdrawn by the agent, too late for a press.
    let gone = world.park("sleep 1").await;
    let card = world.card(ADA, &gone).await;
    world.gateway.post(&format!("/v1/requests/{}/cancel", gone.id), &json!({})).await;
    world.closed(ADA, &gone).await;
    let (words, _) = world.press(ADA, &card, "Approve").await;
    assert!(words.contains("Too late"), "{words}");
    day.push(gone);
    // Decided at another place.
    let elsewhere = world.park("touch elsewhere").await;
    let card = world.card(ADA, &elsewhere).await;
    let cookie = world.gateway.log_in("owner").await;
    let (_, page) = world.gateway.page(&cookie, "/console/").await;
    let form_key = page.split("name=\"form_key\" value=\"").nth(1).unwrap();
    let form_key = form_key.split('"').next().unwrap();
    let words = format!("{} approve", elsewhere.code);
    let fields = [("form_key", form_key), ("text", words.as_str()), ("once", "k1")];
    world.gateway.submit(&cookie, "/console/say", &fields).await;
    let closed = world.closed(ADA, &elsewhere).await;
    assert!(closed.id == card.id && closed.text.contains("via console"), "{}", closed.text);
    day.push(elsewhere);
    // Blocked and unblocked.
    world.api.blocks(ADA);
    world.settled().await;
    let late = world.park("echo late").await;
    world
        .gateway
        .until(&late.id, |r| {
            let deliveries = r["deliveries"].as_array().unwrap();
            deliveries.iter().any(|d| d["channel"] == "telegram" && d["state"] == "failed")
        })
        .await;
    world.api.unblocks(ADA);
    let card = world.card(ADA, &late).await;
    world.press(ADA, &card, "Approve").await;
    world.closed(ADA, &late).await;
    day.push(late);
    // A card that was removed.
    let removed = world.park("echo removed").await;
    let card = world.card(ADA, &removed).await;
    world.api.removes(ADA, card.id);
    world.api.says(ADA, &format!("{} approve", removed.code));
    world.replied(&removed).await;
    world.hears(ADA, "(shell: echo removed): Approved").await;
    day.push(removed);

    // Nobody answers in time.
    let slept = world.park("echo slept").await;
    world.card(ADA, &slept).await;
    world.gateway.store().clock().advance(Duration::from_mins(16));
    world.closed(ADA, &slept).await;
    day.push(slept);

    assert_eq!(day.len(), 20);
    let mut transcript = transcript(&world.api);
    codes.extend(day.iter().map(|parked| parked.code.clone()));
    for (index, code) in codes.iter().enumerate() {
        transcript = transcript.replace(code.as_str(), &format!("CODE{index}"));
    }
    let digest = regex::Regex::new(r"Digest [0-9a-f]{8}").unwrap();
    let instant = regex::Regex::new(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}(:\d{2})? UTC").unwrap();
    let transcript = digest.replace_all(&transcript, "Digest D");
    let transcript = instant.replace_all(&transcript, "THEN");
    insta::assert_snapshot!("a_day_in_a_chat", transcript);
}

/// What Ada's phone shows, in order.
fn transcript(api: &BotApi) -> String {
    let mut lines = Vec::new();
    for shown in api.chat(ADA) {
        let who = if shown.from == 700 { "bot" } else { "Ada" };
        let quoted = shown.reply_to.map_or("", |_| " (quoting a card)");
        lines.push(format!("{who}{quoted}:"));
        lines.extend(shown.text.lines().map(|line| format!("    {line}")));
        for row in &shown.buttons {
            let labels: Vec<String> = row.iter().map(|(label, _)| format!("[ {label} ]")).collect();
            lines.push(format!("    {}", labels.join(" ")));
        }
    }
    lines.join("\n")
}
