//! A Slack workspace on this machine, to try Sayso with Slack without Slack:
//! `cargo run -p sayso-emulators --bin slack`.
#![expect(clippy::print_stdout, reason = "it says where it listens")]

use sayso_emulators::slack::{Credentials, Workspace};

#[tokio::main]
async fn main() {
    let credentials = Credentials::default();
    let slack = Workspace::start_at(credentials.clone(), 8082).await;
    #[expect(clippy::disallowed_methods, reason = "any number that only grows")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    slack.number_from(now.unwrap_or_default().as_secs());
    slack.has_person("U1001", "ada");
    println!("API:                  {}", slack.api_url());
    println!("Bot token:            {}", credentials.bot_token);
    println!("App token:            {}", credentials.app_token);
    println!("Signing secret:       {}", credentials.signing_secret);
    println!("You are U1001. Write: curl -d 'hello' {}people/U1001/says", slack.url);
    println!("Press:                curl -d 'Approve' {}people/U1001/presses", slack.url);
    println!("React:                curl -d '+1' {}people/U1001/reacts", slack.url);
    println!("Fill in a dialog:     curl -d 'FIELD=text' {}people/U1001/submits", slack.url);
    println!("Close it:             curl -X POST {}people/U1001/closes", slack.url);
    println!("Command:              curl -d 'help' {}people/U1001/commands", slack.url);
    println!("Look:                 curl {}people/U1001", slack.url);
    std::future::pending::<()>().await;
}
