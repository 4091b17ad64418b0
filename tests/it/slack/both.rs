//! Somebody on Telegram and on Slack at once: answered on one, closed on the other.

use rstest::rstest;
use sayso::admin::BindGuardian;
use sayso_emulators::slack::{Credentials, Workspace};
use sayso_emulators::telegram::{BotApi, Shown};

use crate::slack::{ADA, World};
use crate::support::Database;
use crate::support::gateway::Gateway;

const ADA_ON_TELEGRAM: i64 = 1_001;

/// Ada's card on Telegram once `holds` is true of it.
async fn on_telegram(api: &BotApi, code: &str, holds: impl Fn(&Shown) -> bool) -> Shown {
    let card = |api: &BotApi| {
        let mut all = api.chat(ADA_ON_TELEGRAM).into_iter();
        all.rfind(|shown| shown.text.contains(&format!("Code {code}")) && holds(shown))
    };
    api.until(card).await
}

#[rstest]
#[tokio::test]
async fn what_is_answered_on_one_is_closed_on_the_other(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let api = BotApi::start("700:stand-in").await;
    let slack = Workspace::start(Credentials::default()).await;
    slack.has_person(ADA, "Ada");
    let (telegram_url, slack_url) = (api.url.to_string(), slack.api_url().to_string());
    let env = [
        ("SAYSO_TELEGRAM__TOKEN", "700:stand-in"),
        ("SAYSO_TELEGRAM__API_URL", &telegram_url),
        ("SAYSO_SLACK__BOT_TOKEN", "xoxb-stand-in"),
        ("SAYSO_SLACK__APP_TOKEN", "xapp-stand-in"),
        ("SAYSO_SLACK__API_URL", &slack_url),
    ];
    let Some(gateway) = Gateway::start_with(database, &env).await else { return };
    let world = World { gateway, slack };
    world.bind("owner", ADA).await;
    api.opens(ADA_ON_TELEGRAM);
    let bind = BindGuardian {
        name: "owner".to_owned(),
        channel: "telegram".to_owned(),
        realm: String::new(),
        account: ADA_ON_TELEGRAM.to_string(),
        address: None,
    };
    world.gateway.store().write(bind).await.unwrap().unwrap();

    // Pressed on Slack.
    let first = world.park("one").await;
    on_telegram(&api, &first.code, |shown| !shown.buttons.is_empty()).await;
    let card = world.card(ADA, &first).await;
    world.press(ADA, &card, "Approve once");
    world.closed(ADA, &first).await;
    let closed = on_telegram(&api, &first.code, |shown| shown.buttons.is_empty()).await;
    assert!(closed.text.contains("Approved by owner via slack"), "{}", closed.text);

    // Pressed on Telegram, and then on the card on Slack as it was.
    let second = world.park("two").await;
    let on_slack = world.card(ADA, &second).await;
    let card = on_telegram(&api, &second.code, |shown| !shown.buttons.is_empty()).await;
    let deny = card.buttons.iter().flatten().find(|(label, _)| label.contains("Deny")).unwrap();
    api.presses(ADA_ON_TELEGRAM, ADA_ON_TELEGRAM, card.id, &deny.1);
    let closed = world.closed(ADA, &second).await;
    assert!(closed.contains("Denied by owner via telegram"), "{closed}");
    world.slack.presses_on(ADA, &world.slack.dm(ADA), &on_slack, "Approve once");
    world.told(ADA, "Too late").await;
    assert_eq!(world.status(&second).await, "denied");

    // Both at the same moment: one decides, both say which.
    let third = world.park("three").await;
    let on_slack = world.card(ADA, &third).await;
    let card = on_telegram(&api, &third.code, |shown| !shown.buttons.is_empty()).await;
    let deny = card.buttons.iter().flatten().find(|(label, _)| label.contains("Deny")).unwrap();
    api.presses(ADA_ON_TELEGRAM, ADA_ON_TELEGRAM, card.id, &deny.1);
    world.press(ADA, &on_slack, "Approve once");
    let slack_says = world.closed(ADA, &third).await;
    let telegram_says = on_telegram(&api, &third.code, |shown| shown.buttons.is_empty()).await.text;
    let outcome = match world.status(&third).await.as_str() {
        "approved" => "Approved by owner via slack",
        _ => "Denied by owner via telegram",
    };
    assert!(slack_says.contains(outcome) && telegram_says.contains(outcome), "{slack_says}");
}
