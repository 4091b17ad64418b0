//! A Bot API on this machine, to try Sayso with Telegram without Telegram:
//! `cargo run -p sayso-emulators --bin telegram`.
#![expect(clippy::print_stdout, reason = "it says where it listens")]

use sayso_emulators::telegram::BotApi;

#[tokio::main]
async fn main() {
    let token = "700:stand-in";
    let api = BotApi::start_at(token, 8081).await;
    #[expect(clippy::disallowed_methods, reason = "any number that only grows")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    api.number_from(i64::try_from(now.unwrap_or_default().as_secs()).unwrap_or(0));
    println!("SAYSO_TELEGRAM__TOKEN={token} SAYSO_TELEGRAM__API_URL={}", api.url);
    println!("You are 1001. Write:  curl -d '/start CODE' {}people/1001/says", api.url);
    println!("Press:                curl -d 'Approve' {}people/1001/presses", api.url);
    println!("Look:                 curl {}people/1001", api.url);
    std::future::pending::<()>().await;
}
