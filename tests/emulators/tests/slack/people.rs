//! What people do, and how the app hears of it.

use std::time::Duration;

use sayso_emulators::slack::{Kind, Workspace};
use serde_json::{Value, json};

use crate::app::{Socket, call, card, post, start};

fn dialog() -> Value {
    json!({
        "type": "modal", "title": { "type": "plain_text", "text": "Why?" },
        "submit": { "type": "plain_text", "text": "Deny" }, "private_metadata": "request 1",
        "blocks": [{
            "type": "input", "block_id": "reason",
            "label": { "type": "plain_text", "text": "Reason" },
            "element": { "type": "plain_text_input", "action_id": "text", "max_length": 100 },
        }],
    })
}

/// A card with its press, and the trigger of that.
async fn pressed(slack: &Workspace) -> (String, String) {
    let ts = post(slack, "U1", json!({ "blocks": card() })).await["ts"].clone();
    let ts = ts.as_str().unwrap().to_owned();
    let trigger = slack.presses("U1", "D1", &ts, "deny");
    (ts, trigger)
}

#[tokio::test]
async fn a_trigger_opens_one_dialog_and_only_for_a_moment() {
    let slack = start().await;
    let (ts, trigger) = pressed(&slack).await;
    let open = json!({ "trigger_id": trigger, "view": dialog() });

    let first = call(&slack, "views.open", open.clone()).await;
    let second = call(&slack, "views.open", open).await;
    slack.trigger_lives(Duration::ZERO);
    let late = slack.presses("U1", "D1", &ts, "deny");
    let third = call(&slack, "views.open", json!({ "trigger_id": late, "view": dialog() })).await;

    assert_eq!(first["ok"], true, "{first}");
    assert_eq!(second["error"], "exchanged_trigger_id");
    assert_eq!(third["error"], "expired_trigger_id");
}

#[tokio::test]
async fn a_dialog_stays_until_the_app_has_nothing_against_it() {
    let slack = start().await;
    let mut socket = Socket::open(&slack).await;
    let (_, trigger) = pressed(&slack).await;
    call(&slack, "views.open", json!({ "trigger_id": trigger, "view": dialog() })).await;
    for _ in ["the card's echo", "the press"] {
        let envelope = socket.next().await;
        socket.ack(&envelope, None).await;
    }

    slack.submits("U1", &[("text", "a+b = c & d %41 é")]);
    let first = socket.next().await;
    let errors = json!({ "response_action": "errors", "errors": { "reason": "Not that" } });
    socket.ack(&first, Some(errors)).await;
    slack.until(|slack| slack.modal("U1").filter(|m| !m.errors.is_empty())).await;
    slack.submits("U1", &[("reason", "Fine")]);
    let second = socket.next().await;
    socket.ack(&second, None).await;
    slack.until(|slack| slack.modal("U1").is_none().then_some(())).await;

    assert_eq!(first["accepts_response_payload"], true);
    let view = &first["payload"]["view"];
    assert_eq!(view["private_metadata"], "request 1");
    assert_eq!(view["state"]["values"]["reason"]["text"]["value"], "a+b = c & d %41 é");
}

#[tokio::test]
async fn a_press_says_where_and_on_what() {
    let slack = start().await;
    let (ts, _) = pressed(&slack).await;

    slack.until(|slack| (slack.deliveries().len() == 2).then_some(())).await;
    let payload = slack.deliveries()[1].payload.clone();

    assert_eq!(payload["container"]["message_ts"], ts);
    assert_eq!(payload["channel"], json!({ "id": "D1", "name": "directmessage" }));
    assert_eq!(payload["message"]["ts"], ts);
    assert_eq!(payload["actions"][0]["value"], "token-deny");
    assert_eq!(payload["actions"][0]["text"]["emoji"], true);
    assert_eq!(payload["user"]["id"], "U1");
}

#[tokio::test]
async fn an_address_for_responses_is_good_for_five() {
    let slack = start().await;
    let (ts, _) = pressed(&slack).await;
    slack.until(|slack| (slack.deliveries().len() == 2).then_some(())).await;
    let url = slack.deliveries()[1].payload["response_url"].as_str().unwrap().to_owned();
    let respond = async |body: Value| {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let answer = client.post(&url).body(body.to_string()).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };

    let first = respond(json!({ "text": "Only for you" })).await;
    let second = respond(json!({ "text": "Done", "replace_original": true })).await;
    for _ in 0..3 {
        respond(json!({ "text": "More" })).await;
    }
    let sixth = respond(json!({ "text": "Too much" })).await;
    slack.response_url_lives(Duration::ZERO);

    assert_eq!(first, (200, "ok".to_owned()));
    assert_eq!(slack.ephemerals()[0].shown.text, "Only for you");
    assert_eq!(second.0, 200);
    assert_eq!(
        (slack.chat("D1")[0].ts.as_str(), slack.chat("D1")[0].text.as_str()),
        (&*ts, "Done")
    );
    assert_eq!((sixth.0, sixth.1.contains("used_url")), (404, true));
}

#[tokio::test]
async fn a_mention_is_two_events_about_one_message() {
    let slack = start().await;
    slack.has_channel("C1", Kind::Public, "ops", &["U0BOT", "U1"]);

    let ts = slack.mentions("U1", "C1", "a < b && c", None);

    slack.until(|slack| (slack.deliveries().len() == 2).then_some(())).await;
    let events = slack.deliveries();
    let [message, mention] = [0, 1].map(|index: usize| &events[index].payload["event"]);
    assert_eq!((&message["type"], &mention["type"]), (&json!("message"), &json!("app_mention")));
    assert_eq!((&message["ts"], &mention["ts"]), (&json!(ts), &json!(ts)));
    assert_eq!(message["text"], "<@U0BOT> a &lt; b &amp;&amp; c");
    assert_eq!(
        (&message["channel_type"], &mention["channel_type"]),
        (&json!("channel"), &json!(null))
    );
    assert_ne!(events[0].event_id, events[1].event_id);
}

#[tokio::test]
async fn the_bot_hears_itself_and_what_it_changes() {
    let slack = start().await;
    let posted = post(&slack, "U1", json!({ "text": "t", "blocks": card() })).await;
    let mut update = json!({ "channel": posted["channel"], "ts": posted["ts"] });
    update["blocks"] = json!([{ "type": "divider" }]);
    call(&slack, "chat.update", update.clone()).await;
    update["text"] = "Done".into();
    update["blocks"] = json!([]);
    call(&slack, "chat.update", update).await;

    slack.until(|slack| (slack.deliveries().len() == 3).then_some(())).await;
    let events = slack.deliveries();
    let [own, by_blocks, by_text] = [0, 1, 2].map(|index: usize| &events[index].payload["event"]);
    assert_eq!((&own["bot_id"], &own["subtype"]), (&json!("B0BOT"), &Value::Null));
    assert_eq!(by_blocks["subtype"], "message_changed");
    assert_eq!(by_blocks["previous_message"]["blocks"][1]["elements"][0]["value"], "token-approve");
    assert_eq!(by_blocks["message"]["edited"], Value::Null);
    assert_eq!(by_text["message"]["edited"]["user"], "U0BOT");
    assert_ne!(by_text["ts"], by_text["message"]["ts"]);
}

#[tokio::test]
async fn a_file_stands_where_it_was_shared() {
    let slack = start().await;
    let channel = slack.dm("U1");
    let begin = json!({ "filename": "whole.txt", "length": 5 });
    let begun = call(&slack, "files.getUploadURLExternal", begin).await;
    let done = json!({ "files": [{ "id": begun["file_id"] }], "channel_id": channel });

    let early = call(&slack, "files.completeUploadExternal", done.clone()).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = begun["upload_url"].as_str().unwrap();
    let sent = client.post(url).body("whole").send().await.unwrap();
    let shared = call(&slack, "files.completeUploadExternal", done).await;

    assert_eq!((&early["error"], &shared["ok"]), (&json!("file_not_found"), &json!(true)));
    assert_eq!(sent.text().await.unwrap(), "OK - 5");
    assert_eq!(slack.files()[0].content, b"whole");
    assert_eq!(slack.chat("D1")[0].files[0]["name"], "whole.txt");
}

#[tokio::test]
async fn an_app_that_is_thrown_out_is_told_and_its_token_is_dead() {
    let slack = start().await;

    slack.uninstalls();
    let answer = call(&slack, "auth.test", json!({})).await;

    assert_eq!(answer["error"], "account_inactive");
    slack.until(|slack| slack.deliveries().first().cloned()).await;
    assert_eq!(slack.deliveries()[0].payload["event"]["type"], "app_uninstalled");
}

#[tokio::test]
async fn what_happens_where_the_bot_is_not_stays_there() {
    let slack = start().await;
    slack.has_channel("C1", Kind::Public, "theirs", &["U1"]);

    let ts = slack.says_in("U1", "C1", "between us", None);
    slack.reacts("U1", "C1", &ts, "eyes");
    slack.says("U1", "for the bot");

    slack.until(|slack| slack.deliveries().first().cloned()).await;
    assert_eq!(slack.deliveries()[0].payload["event"]["text"], "for the bot");
}

#[tokio::test]
async fn what_is_kept_back_comes_in_the_order_that_is_wanted() {
    let slack = start().await;
    let mut socket = Socket::open(&slack).await;
    slack.holds_back();
    slack.says("U1", "one");
    slack.says("U1", "two");

    slack.lets_go(&[1, 0, 1]);

    for word in ["two", "one", "two"] {
        assert_eq!(socket.next().await["payload"]["event"]["text"], word);
    }
}
