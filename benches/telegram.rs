//! Telegram: presses that come by the webhook, cards that are closed, memory.
//!
//! `cargo bench --bench telegram -- [taps close memory]`. The stand-in for the
//! Bot API and the clients run in this process; the gateway is the real program,
//! kept on one core where `taskset` is there.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    dead_code,
    reason = "a benchmark prints, and a panic is its report"
)]

mod support;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sayso::clock::Clock;
use sayso::store::{Location, Store};
use sayso_emulators::telegram::BotApi;
use serde_json::{Value, json};
use sqlx::{Connection as _, Executor as _};

use crate::support::{Line, Program, flush_micros, id_of, quantile};

const TOKEN: &str = "700:stand-in";
const SECRET: &str = "a-secret-of-the-webhook";
const ADA: i64 = 1_001;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if wants("taps") {
        runtime.block_on(taps());
    }
    if wants("close") {
        runtime.block_on(closing());
    }
    if wants("memory") {
        runtime.block_on(memory());
    }
}

/// A gateway with Telegram and requests that wait for Ada.
struct Setting {
    program: Program,
    key: String,
}

impl Setting {
    fn new(api: &BotApi, mode: &str, people: &[(&str, i64)]) -> Self {
        let home = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR").to_owned() + "/target").unwrap();
        let settings = format!(
            "[server]\npublic_url = \"https://gate.example\"\nallowed_hosts = [\"127.0.0.1\"]\n\
             [telegram]\ntoken = \"{TOKEN}\"\nmode = \"{mode}\"\nwebhook_secret = \"{SECRET}\"\n\
             api_url = \"{}\"\n",
            api.url
        );
        std::fs::write(home.path().join("sayso.toml"), settings).unwrap();
        for (name, id) in people {
            api.opens(*id);
            let id = id.to_string();
            for args in [
                vec!["guardian", "add", name],
                vec!["guardian", "bind", name, "--channel", "telegram", "--user", &id],
            ] {
                let done = Program::command(home.path()).args(&args).output().unwrap();
                assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            }
        }
        let program = Program::start(home);
        // One core for the gateway, the other for the rest.
        let pinned = Command::new("taskset")
            .args(["-a", "-p", "-c", "0", &program.child.id().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !pinned.is_ok_and(|status| status.success()) {
            println!("  (the gateway is not kept on one core: no taskset)");
        }
        let key = program.agent();
        Self { program, key }
    }

    async fn park(&self, count: usize, guardian: impl Fn(usize) -> String) -> Vec<String> {
        let mut line = Line::open(&self.program.address).await;
        let mut ids = Vec::with_capacity(count);
        for i in 0..count {
            let body = json!({
                "kind": "tool_approval", "tool": { "name": "x", "input": i },
                "guardian": guardian(i), "expires_in": 3_600,
            });
            let (address, body) = (&self.program.address, body.to_string());
            let answer = line.ask(address, &self.key, "POST /v1/requests", &body).await;
            ids.push(id_of(&answer));
        }
        ids
    }

    /// Seconds of processor time that the gateway has used.
    fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.program.child.id()));
        let stat = stat.unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        ticks / 100.0
    }

    async fn store(&self) -> Store {
        let path = self.program.home.path().join("sayso.db");
        Store::open(&Location::Sqlite(path), Clock::system()).await.unwrap()
    }
}

fn update(number: usize, (request, message): &(String, String)) -> String {
    let message: i64 = message.parse().unwrap();
    json!({ "update_id": number, "callback_query": {
        "id": format!("p{number}"), "from": { "id": ADA, "is_bot": false, "first_name": "Ada" },
        "chat_instance": "ci", "data": format!("apr:{request}:reject"),
        "message": { "message_id": message, "date": 0, "chat": { "id": ADA, "type": "private" } },
    }})
    .to_string()
}

/// One press by the webhook: the status.
async fn press(line: &mut Line, address: &str, body: &str) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let call = format!(
        "POST /telegram/webhook HTTP/1.1\r\nhost: {address}\r\n\
         x-telegram-bot-api-secret-token: {SECRET}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    line.0.write_all(call.as_bytes()).await.unwrap();
    let mut buffer = [0; 1024];
    let count = line.0.read(&mut buffer).await.unwrap();
    let head = String::from_utf8_lossy(&buffer[..count]);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}

/// Makes it so that every card stands, as if there were no limits to posting;
/// each request with its message.
async fn let_cards_stand(setting: &Setting) -> Vec<(String, String)> {
    let path = setting.program.home.path().join("sayso.db");
    let url = format!("sqlite://{}", path.display());
    let mut conn = sqlx::AnyConnection::connect(&url).await.unwrap();
    conn.execute(sqlx::raw_sql(
        "PRAGMA busy_timeout = 5000;
         UPDATE deliveries
            SET message = CAST(rowid AS TEXT), state = 'sent', sent_at = 1, shown_version = 1, is_whole = 1
          WHERE channel = 'telegram';",
    ))
    .await
    .unwrap();
    let cards = sqlx::query_as(
        "SELECT request, message FROM deliveries WHERE channel = 'telegram' ORDER BY rowid",
    );
    let cards = cards.fetch_all(&mut conn).await.unwrap();
    conn.close().await.unwrap();
    cards
}

/// Waits until every one of the requests has ended; how long after `since`.
async fn drained(store: &Store, since: Instant) -> f64 {
    loop {
        let mut tx = store.read().await.unwrap();
        if sayso::store::requests::count_pending(&mut tx).await.unwrap() == 0 {
            return since.elapsed().as_secs_f64();
        }
        drop(tx);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn taps() {
    println!("\ntaps: presses by the webhook, stored before they are answered with 200, decided");
    let count = 3_200;
    for (title, clients) in [("64 clients", 64), ("8 clients", 8), ("1 client", 1)] {
        let api = BotApi::start(TOKEN).await;
        let setting = Setting::new(&api, "webhook", &[("ada", ADA)]);
        let count = if clients == 1 { 800 } else { count };
        setting.park(count, |_| "ada".to_owned()).await;
        let store = setting.store().await;
        let cards = let_cards_stand(&setting).await;
        let flush = flush_micros(setting.program.home.path());
        let cpu = setting.cpu_seconds();
        let started = Instant::now();
        let address = &setting.program.address;
        let work =
            cards.chunks(cards.len() / clients).enumerate().map(|(client, chunk)| async move {
                let mut line = Line::open(address).await;
                for (i, card) in chunk.iter().enumerate() {
                    press(&mut line, address, &update(1 + client * 100_000 + i, card)).await;
                }
            });
        futures_util::future::join_all(work).await;
        let taken = started.elapsed().as_secs_f64();
        let decided = drained(&store, started).await;
        let cpu = (setting.cpu_seconds() - cpu) / count as f64 * 1e3;
        println!(
            "  {title:<10} {:>6.0}/s answered, {:>5.0}/s decided, {cpu:.2} CPU s per 1,000; flush \
             {flush:.0} µs (targets 8,000/s at 64 clients, 0.08 CPU s)",
            count as f64 / taken,
            count as f64 / decided,
        );
        store.close().await;
    }
    at_rate().await;
}

/// 500 presses a second, sent on schedule; each measured from its scheduled
/// instant.
async fn at_rate() {
    let api = BotApi::start(TOKEN).await;
    let setting = Setting::new(&api, "webhook", &[("ada", ADA)]);
    setting.park(2_000, |_| "ada".to_owned()).await;
    let store = setting.store().await;
    let cards = let_cards_stand(&setting).await;
    let start = Instant::now() + Duration::from_millis(100);
    let wall = Clock::system().now();
    let lanes = 32;
    let address = &setting.program.address;
    let work = (0..lanes).map(|lane| {
        let cards = &cards;
        async move {
            let mut line = Line::open(address).await;
            let mut times = Vec::new();
            for index in (lane..cards.len()).step_by(lanes) {
                let due = start + Duration::from_millis(2) * index as u32;
                tokio::time::sleep_until(due.into()).await;
                press(&mut line, address, &update(1 + index, &cards[index])).await;
                times.push(due.elapsed().as_secs_f64() * 1e3);
            }
            times
        }
    });
    let mut answered: Vec<f64> =
        futures_util::future::join_all(work).await.into_iter().flatten().collect();
    drained(&store, start).await;
    let mut decided = Vec::new();
    let mut tx = store.read().await.unwrap();
    for (index, (id, _)) in cards.iter().enumerate() {
        let ids = [id.parse().unwrap()];
        let ended = sayso::store::requests::times(&mut tx, &ids).await.unwrap()[0].ended_at;
        let due = wall.plus(Duration::from_millis(100) + Duration::from_millis(2) * index as u32);
        decided.push(ended.since(due).as_secs_f64() * 1e3);
    }
    let mut raw = raw_round_trips(address).await;
    println!(
        "  500/s: answered p50 {:.1}, p99 {:.1} ms; decided p50 {:.1}, p99 {:.1} ms (target p99 15); \
         a bare round trip p99 {:.1}",
        quantile(&mut answered, 0.5),
        quantile(&mut answered, 0.99),
        quantile(&mut decided, 0.5),
        quantile(&mut decided, 0.99),
        quantile(&mut raw, 0.99),
    );
}

async fn raw_round_trips(address: &str) -> Vec<f64> {
    let mut line = Line::open(address).await;
    let mut raw = Vec::new();
    for _ in 0..500 {
        let started = Instant::now();
        line.ask(address, "", "GET /livez", "").await;
        raw.push(started.elapsed().as_secs_f64() * 1e3);
    }
    raw
}

async fn closing() {
    println!("\nclose: 500 cards over 50 chats lose their buttons");
    let api = BotApi::start(TOKEN).await;
    let people: Vec<(String, i64)> =
        (0..50).map(|i| (format!("person{i}"), 2_000 + i64::from(i))).collect();
    let named: Vec<(&str, i64)> = people.iter().map(|(name, id)| (name.as_str(), *id)).collect();
    let setting = Setting::new(&api, "poll", &named);
    let ids = setting.park(500, |i| format!("person{}", i % 50)).await;
    let standing = |api: &BotApi| {
        people
            .iter()
            .flat_map(|(_, id)| api.chat(*id))
            .filter(|shown| !shown.buttons.is_empty())
            .count()
    };
    let started = Instant::now();
    while standing(&api) < 500 {
        assert!(started.elapsed() < Duration::from_mins(2), "{} cards stand", standing(&api));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("  posted in {:.1} s", started.elapsed().as_secs_f64());
    let started = Instant::now();
    let mut line = Line::open(&setting.program.address).await;
    for id in &ids {
        let start = format!("POST /v1/requests/{id}/cancel");
        line.ask(&setting.program.address, &setting.key, &start, "{}").await;
    }
    while standing(&api) > 0 {
        assert!(started.elapsed() < Duration::from_mins(2), "{} cards stand", standing(&api));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let taken = started.elapsed().as_secs_f64();
    let least = 500.0 / 30.0;
    println!(
        "  closed in {taken:.1} s; 30 a second allow {least:.1}: {:.2} times (target 1.1)",
        taken / least
    );
}

async fn memory() {
    println!("\nmemory: 100,000 updates by the webhook");
    let api = BotApi::start(TOKEN).await;
    let setting = Setting::new(&api, "webhook", &[("ada", ADA)]);
    let address = setting.program.address.clone();
    let mut last = 0;
    for step in 0..5 {
        let work = (0..32).map(|lane| {
            let address = address.clone();
            async move {
                let mut line = Line::open(&address).await;
                for i in 0..625 {
                    let number = step * 20_000 + lane * 625 + i + 1;
                    let body: Value = json!({ "update_id": number, "message": {
                        "message_id": number, "date": 0, "text": format!("chatter {number}"),
                        "from": { "id": 5_000 + lane, "is_bot": false, "first_name": "x" },
                        "chat": { "id": -4_000, "type": "group", "title": "g" },
                    }});
                    press(&mut line, &address, &body.to_string()).await;
                }
            }
        });
        futures_util::future::join_all(work).await;
        last = setting.program.resident_kib();
        println!(
            "  after {:>6} updates: resident {:.1} MiB",
            (step + 1) * 20_000,
            last as f64 / 1024.0
        );
    }
    assert!(last < 256 * 1024, "memory stays flat");
}
