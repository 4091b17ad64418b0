//! The Web API and its refusals.

use std::time::Duration;

use rstest::rstest;
use sayso_emulators::slack::{Fault, Kind};
use serde_json::{Value, json};

use crate::app::{call, card, post, start};

fn text(length: usize) -> Value {
    json!({ "type": "mrkdwn", "text": "é".repeat(length) })
}

fn plain(length: usize) -> Value {
    json!({ "type": "plain_text", "text": "é".repeat(length) })
}

fn button(id: &str) -> Value {
    json!({ "type": "button", "text": plain(1), "action_id": id })
}

fn with(mut value: Value, name: &str, field: Value) -> Value {
    value[name] = field;
    value
}

fn actions(elements: Vec<Value>) -> Value {
    json!([{ "type": "actions", "elements": elements }])
}

fn option(label: usize, value: usize) -> Value {
    json!({ "text": plain(label), "value": "v".repeat(value) })
}

fn select(options: Vec<Value>) -> Value {
    actions(vec![json!({ "type": "static_select", "action_id": "a", "options": options })])
}

fn rich(inline: Value) -> Value {
    let section = json!({ "type": "rich_text_section", "elements": [inline] });
    json!([{ "type": "rich_text", "elements": [section] }])
}

fn confirm(title: usize, yes: usize) -> Value {
    json!({ "title": plain(title), "text": text(300), "confirm": plain(yes), "deny": plain(30) })
}

fn many(count: usize, of: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..count).map(of).collect()
}

#[rstest]
#[case::section(json!([{ "type": "section", "text": text(3_000) }]))]
#[case::fields(json!([{ "type": "section", "fields": many(4, |_| text(2_000)) }]))]
#[case::header(json!([{ "type": "header", "text": plain(150) }]))]
#[case::blocks(Value::Array(many(50, |_| json!({ "type": "divider" }))))]
#[case::buttons(actions(many(25, |n| button(&n.to_string()))))]
#[case::label(actions(vec![with(button("a"), "text", plain(75))]))]
#[case::value(actions(vec![with(button("a"), "value", "v".repeat(2_000).into())]))]
#[case::confirmed(actions(vec![with(button("a"), "confirm", confirm(100, 30))]))]
#[case::options(select(many(100, |n| option(1, n + 1))))]
#[case::the_same_name_in_two_blocks(json!([
    { "type": "actions", "elements": [button("a")] },
    { "type": "actions", "elements": [button("a")] },
]))]
#[case::rich_text(rich(json!({ "type": "text", "text": "a", "style": { "bold": true } })))]
#[case::markdown(json!([{ "type": "markdown", "text": "m".repeat(12_000) }]))]
#[tokio::test]
async fn what_just_fits_is_taken(#[case] blocks: Value) {
    let slack = start().await;

    let answer = post(&slack, "U1", json!({ "text": "t", "blocks": blocks })).await;

    assert_eq!(answer["ok"], true, "{answer}");
}

#[rstest]
#[case::section(
    json!([{ "type": "section", "text": text(3_001) }]),
    "must be less than 3001 characters [json-pointer:/blocks/0/text/text]"
)]
#[case::no_text(
    json!([{ "type": "section", "text": text(0) }]),
    "must be more than 0 characters [json-pointer:/blocks/0/text/text]"
)]
#[case::blocks(
    Value::Array(many(51, |_| json!({ "type": "divider" }))),
    "no more than 50 items allowed [json-pointer:/blocks]"
)]
#[case::kind(
    json!([{ "type": "sections" }]),
    "unsupported type: sections [json-pointer:/blocks/0/type]"
)]
#[case::field(
    json!([{ "type": "divider", "colour": "red" }]),
    "invalid additional property: colour [json-pointer:/blocks/0]"
)]
#[case::elements(
    actions(many(26, |n| button(&n.to_string()))),
    "no more than 25 items allowed [json-pointer:/blocks/0/elements]"
)]
#[case::context(
    json!([{ "type": "context", "elements": many(11, |_| text(1)) }]),
    "no more than 10 items allowed [json-pointer:/blocks/0/elements]"
)]
#[case::label(
    actions(vec![with(button("a"), "text", plain(76))]),
    "must be less than 76 characters [json-pointer:/blocks/0/elements/0/text/text]"
)]
#[case::markup_on_a_button(
    actions(vec![with(button("a"), "text", text(1))]),
    "must be a valid enum value [json-pointer:/blocks/0/elements/0/text/type]"
)]
#[case::value(
    actions(vec![with(button("a"), "value", "v".repeat(2_001).into())]),
    "must be less than 2001 characters [json-pointer:/blocks/0/elements/0/value]"
)]
#[case::name(
    actions(vec![button(&"a".repeat(256))]),
    "must be less than 256 characters [json-pointer:/blocks/0/elements/0/action_id]"
)]
#[case::the_same_name_twice(
    actions(vec![button("a"), button("a")]),
    "action_id \"a\" already exists in the block [json-pointer:/blocks/0/elements/1/action_id]"
)]
#[case::style(
    actions(vec![with(button("a"), "style", "default".into())]),
    "must be a valid enum value [json-pointer:/blocks/0/elements/0/style]"
)]
#[case::confirm(
    actions(vec![with(button("a"), "confirm", confirm(100, 31))]),
    "must be less than 31 characters [json-pointer:/blocks/0/elements/0/confirm/confirm/text]"
)]
#[case::options(
    select(many(101, |n| option(1, n + 1))),
    "no more than 100 items allowed [json-pointer:/blocks/0/elements/0/options]"
)]
#[case::option_value(
    select(vec![option(1, 151)]),
    "must be less than 151 characters [json-pointer:/blocks/0/elements/0/options/0/value]"
)]
#[case::nothing_in_rich_text(
    rich(json!({ "type": "text", "text": "" })),
    "must be more than 0 characters [json-pointer:/blocks/0/elements/0/elements/0/text]"
)]
#[tokio::test]
async fn what_does_not_fit_is_refused_with_a_pointer(#[case] blocks: Value, #[case] words: &str) {
    let slack = start().await;

    let answer = post(&slack, "U1", json!({ "text": "t", "blocks": blocks })).await;

    assert_eq!(answer["error"], "invalid_blocks");
    let messages = answer["response_metadata"]["messages"].as_array().unwrap();
    assert_eq!(messages[0], format!("[ERROR] {words}"), "{messages:#?}");
    assert_eq!(slack.chat("D1"), []);
}

#[tokio::test]
async fn blocks_that_fit_one_by_one_can_be_too_long_together() {
    let slack = start().await;
    let section = json!({ "type": "section", "text": text(2_900) });

    let answer = post(&slack, "U1", json!({ "blocks": vec![section; 5] })).await;

    assert_eq!(answer["error"], "msg_blocks_too_long");
}

#[rstest]
#[case::nowhere("chat.postMessage", json!({ "channel": "C9", "text": "t" }), "channel_not_found")]
#[case::hidden("chat.postMessage", json!({ "channel": "C3", "text": "t" }), "channel_not_found")]
#[case::outside("chat.postMessage", json!({ "channel": "C2", "text": "t" }), "not_in_channel")]
#[case::archived("chat.postMessage", json!({ "channel": "C4", "text": "t" }), "is_archived")]
#[case::nothing("chat.postMessage", json!({ "channel": "C1", "blocks": [] }), "no_text")]
#[case::no_blocks(
    "chat.postMessage",
    json!({ "channel": "C1", "text": "t", "blocks": { "type": "divider" } }),
    "invalid_blocks_format"
)]
#[case::long_update(
    "chat.update",
    json!({ "channel": "C1", "ts": "OURS", "text": "t".repeat(4_001) }),
    "msg_too_long"
)]
#[case::no_message(
    "chat.update",
    json!({ "channel": "C1", "ts": "1.1", "text": "t" }),
    "message_not_found"
)]
#[case::of_others(
    "chat.update",
    json!({ "channel": "C1", "ts": "THEIRS", "text": "t" }),
    "cant_update_message"
)]
#[case::taken_from_others(
    "chat.delete",
    json!({ "channel": "C1", "ts": "THEIRS" }),
    "cant_delete_message"
)]
#[case::to_an_outsider(
    "chat.postEphemeral",
    json!({ "channel": "C1", "user": "U2", "text": "t" }),
    "user_not_in_channel"
)]
#[case::to_a_person_as_channel(
    "chat.postEphemeral",
    json!({ "channel": "U1", "user": "U1", "text": "t" }),
    "channel_not_found"
)]
#[case::no_reaction(
    "reactions.remove",
    json!({ "channel": "C1", "timestamp": "OURS", "name": "eyes" }),
    "no_reaction"
)]
#[case::emoji(
    "reactions.add",
    json!({ "channel": "C1", "timestamp": "OURS", "name": "👍" }),
    "invalid_name"
)]
#[case::nobody("conversations.open", json!({ "users": "U9" }), "user_not_found")]
#[case::no_trigger(
    "views.open",
    json!({ "trigger_id": "1.2.3", "view": {
        "type": "modal", "title": { "type": "plain_text", "text": "t" }, "blocks": [],
    } }),
    "invalid_trigger_id"
)]
#[case::token("apps.connections.open", json!({}), "not_allowed_token_type")]
#[case::method("chat.shout", json!({}), "unknown_method")]
#[tokio::test]
async fn a_call_that_cannot_be_is_refused(
    #[case] method: &str,
    #[case] body: Value,
    #[case] error: &str,
) {
    let slack = start().await;
    slack.has_channel("C1", Kind::Public, "ours", &["U0BOT", "U1"]);
    slack.has_channel("C2", Kind::Public, "theirs", &["U1", "U2"]);
    slack.has_channel("C3", Kind::Private, "secret", &["U1", "U2"]);
    slack.has_channel("C4", Kind::Public, "old", &["U0BOT"]);
    slack.archives("U1", "C4");
    let ours = call(&slack, "chat.postMessage", json!({ "channel": "C1", "text": "ours" })).await;
    let theirs = slack.says_in("U1", "C1", "theirs", None);
    let body = body.to_string().replace("OURS", ours["ts"].as_str().unwrap());
    let body = serde_json::from_str(&body.replace("THEIRS", &theirs)).unwrap();

    let answer = call(&slack, method, body).await;

    assert_eq!(answer["error"], error, "{answer}");
}

#[tokio::test]
async fn a_text_alone_takes_the_place_of_the_blocks() {
    let slack = start().await;
    let posted = post(&slack, "U1", json!({ "text": "t", "blocks": card() })).await;
    let mut update = json!({ "channel": posted["channel"], "ts": posted["ts"], "text": "Done" });

    let answer = call(&slack, "chat.update", update.clone()).await;
    let shown = slack.chat("D1").remove(0);
    update["text"] = "".into();
    let nothing = call(&slack, "chat.update", update).await;

    assert_eq!(answer["message"]["edited"]["user"], "U0BOT");
    assert_eq!((shown.read().as_str(), shown.buttons()), ("Done", vec![]));
    assert_eq!(nothing["error"], "no_text");
}

#[tokio::test]
async fn too_long_a_text_is_cut_with_a_warning() {
    let slack = start().await;

    let answer = post(&slack, "U1", json!({ "text": "t".repeat(40_001) })).await;

    assert_eq!(answer["warning"], "message_truncated");
    assert_eq!(slack.chat("D1")[0].text.len(), 40_000);
}

#[tokio::test]
async fn posting_faster_than_once_a_second_is_refused_after_a_burst() {
    let slack = start().await;
    slack.enforce_rates(true);

    let mut errors = Vec::new();
    for _ in 0..6 {
        errors.push(post(&slack, "U1", json!({ "text": "t" })).await["error"].clone());
    }

    assert_eq!(errors[..4], [Value::Null, Value::Null, Value::Null, Value::Null]);
    assert_eq!(errors[5], "ratelimited");
}

#[tokio::test]
async fn a_fault_is_over_after_its_call() {
    let slack = start().await;
    slack.fail("chat.postMessage", [Fault::flood(7), Fault::Slow(Duration::from_millis(1))]);

    let refused = post(&slack, "U1", json!({ "text": "t" })).await;
    let taken = post(&slack, "U1", json!({ "text": "t" })).await;

    assert_eq!((&refused["error"], &taken["ok"]), (&json!("ratelimited"), &json!(true)));
    assert_eq!(slack.chat("D1").len(), 1);
}

#[tokio::test]
async fn a_scope_that_is_missing_is_named() {
    let slack = start().await;
    slack.scopes(&["im:write"]);

    let answer = post(&slack, "U1", json!({ "text": "t" })).await;

    let named = (&answer["error"], &answer["needed"], &answer["provided"]);
    assert_eq!(named, (&json!("missing_scope"), &json!("chat:write"), &json!("im:write")));
}
