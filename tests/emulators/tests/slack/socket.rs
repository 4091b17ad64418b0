//! Socket Mode.

use std::time::Duration;

use sayso_emulators::slack::{Outcome, Route, Workspace};
use serde_json::json;

use crate::app::{Socket, card, post, socket_url, start, start_impatient};

fn attempts(slack: &Workspace, event_id: &str) -> usize {
    slack.deliveries().iter().filter(|d| d.event_id.as_deref() == Some(event_id)).count()
}

#[tokio::test]
async fn what_is_not_acknowledged_comes_again_in_another_envelope() {
    let slack = start_impatient().await;
    slack.ack_within(Duration::from_millis(20));
    let mut socket = Socket::open(&slack).await;

    slack.says("U1", "yes");
    let first = socket.next().await;
    slack.ack_within(Duration::from_secs(10));
    let again = socket.next().await;
    socket.ack(&again, None).await;

    assert_eq!((&first["retry_attempt"], &again["retry_attempt"]), (&json!(0), &json!(1)));
    assert_eq!(again["retry_reason"], "timeout");
    assert_eq!(first["payload"], again["payload"]);
    assert_ne!(first["envelope_id"], again["envelope_id"]);
    let event_id = first["payload"]["event_id"].as_str().unwrap();
    slack.until(|slack| (slack.deliveries()[1].outcome == Outcome::Taken).then_some(())).await;
    assert_eq!(attempts(&slack, event_id), 2);
    assert_eq!(slack.acked(), [again["envelope_id"].as_str().unwrap()]);
}

#[tokio::test]
async fn an_event_is_given_up_after_three_more_attempts() {
    let slack = start_impatient().await;

    slack.says("U1", "is anybody there?");

    slack
        .until(|slack| {
            let all = slack.deliveries();
            (all.len() == 4 && all.iter().all(|d| d.outcome == Outcome::Unreachable)).then_some(())
        })
        .await;
    assert_eq!(slack.deliveries()[3].attempt, 3);
}

#[tokio::test]
async fn what_happened_while_nobody_was_connected_comes_as_a_retry_and_a_press_never() {
    let slack = start_impatient().await;
    slack.retries_after([Duration::from_millis(300); 3]);
    let ts = post(&slack, "U1", json!({ "blocks": card() })).await["ts"].clone();
    slack.presses("U1", &slack.dm("U1"), ts.as_str().unwrap(), "approve");
    slack.until(|slack| (slack.deliveries().len() >= 2).then_some(())).await;

    let mut socket = Socket::open(&slack).await;
    let echo = socket.next().await;
    socket.ack(&echo, None).await;
    slack.says("U1", "later");
    let later = socket.next().await;

    assert_eq!(
        (&echo["type"], &echo["retry_reason"]),
        (&json!("events_api"), &json!("connection_failed"))
    );
    assert_eq!(later["payload"]["event"]["text"], "later");
    let presses = slack.deliveries().into_iter().filter(|d| d.route == Route::Interactive);
    let outcomes: Vec<Outcome> = presses.map(|press| press.outcome).collect();
    assert_eq!(outcomes, [Outcome::Unreachable]);
}

#[tokio::test]
async fn an_address_is_good_for_one_connection() {
    let slack = start().await;
    let url = socket_url(&slack).await;

    let first = Socket::at(&url).await;
    let second = Socket::at(&url).await;

    assert!(first.is_ok());
    assert!(second.is_err());
}

#[tokio::test]
async fn each_envelope_goes_to_one_connection() {
    let slack = start().await;
    let mut one = Socket::open(&slack).await;
    let mut other = Socket::open(&slack).await;

    slack.says("U1", "first");
    slack.says("U1", "second");

    assert_eq!(one.next().await["payload"]["event"]["text"], "first");
    assert_eq!(other.next().await["payload"]["event"]["text"], "second");
    assert_eq!(slack.deliveries().len(), 2);
}

#[tokio::test]
async fn the_eleventh_connection_is_one_too_many() {
    let slack = start().await;
    let mut open = Vec::new();
    for _ in 0..10 {
        open.push(Socket::open(&slack).await);
    }

    let mut eleventh = Socket::at(&socket_url(&slack).await).await.unwrap();

    assert_eq!(eleventh.next().await["reason"], "too_many_websockets");
    assert!(eleventh.next().await["ended"].is_string());
    assert_eq!(slack.connections(), 10);
}

#[tokio::test]
async fn a_ghost_gets_its_share_and_answers_nothing() {
    let slack = start_impatient().await;
    slack.ack_within(Duration::from_millis(20));
    let _ghost = Socket::open(&slack).await;
    slack.haunts_connections();
    let mut alive = Socket::open(&slack).await;

    slack.says("U1", "yes");
    let envelope = alive.next().await;

    assert_eq!(envelope["retry_attempt"], 1);
    assert_eq!(slack.connections(), 2);
}

#[tokio::test]
async fn a_warned_connection_still_gets_what_happens_before_its_end() {
    let slack = start().await;
    slack.warns_before(Duration::from_millis(300));
    let mut socket = Socket::open(&slack).await;

    slack.disconnects("warning");
    slack.says("U1", "quickly");

    assert_eq!(socket.next().await["reason"], "warning");
    assert_eq!(socket.next().await["payload"]["event"]["text"], "quickly");
    assert!(socket.next().await["ended"].is_string());
}
