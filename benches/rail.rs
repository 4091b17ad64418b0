//! Speed and size, each next to what the machine can do at all in the same run.
//!
//! `cargo bench` runs everything; `cargo bench -- NAME` only what is named:
//! decide, read, wake, idle, size, scale. `SCALE_ROWS` changes the size of the
//! larger history (default 1,000,000).
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "a benchmark prints, and a panic is its report"
)]

mod support;

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sayso::admin::{AddAgent, AddGuardian};
use sayso::api::requests::Open;
use sayso::clock::Clock;
use sayso::decisions::{self, Actor, Attempt, Means, NewRequest, Opening, Policy, Ruling, Verdict};
use sayso::ids::RequestId;
use sayso::people::{Agent, Principal};
use sayso::requests::{Content, Kind, Risk, Tool};
use sayso::store::{self, Location, Store, StoreError, Tx, Write, audit};
use serde_json::json;
use sqlx::{Connection as _, Executor as _};
use tokio::net::TcpStream;

use crate::support::{Line, Program, flush_micros, id_of, quantile};

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    if wants("read") {
        reading();
    }
    if wants("decide") {
        runtime.block_on(deciding());
    }
    if wants("size") {
        size();
    }
    if wants("wake") {
        runtime.block_on(waking());
    }
    if wants("idle") {
        runtime.block_on(idle_waits());
    }
    if wants("scale") {
        runtime.block_on(scale());
    }
}

// ---------------------------------------------------------------- reading

fn reading() {
    println!("\nread: a reply, pure");
    for text in [
        "yes",
        "K7M2Q9 approve",
        "no, use the staging cluster instead please",
        "Just tell me more about the 4th news from your news list",
        "sure, but change the title first and then send it to Bob, not before tomorrow morning",
    ] {
        let rounds = 200_000;
        let started = Instant::now();
        for _ in 0..rounds {
            black_box(sayso::router::reading::read(black_box(text)));
            black_box(sayso::requests::code::Code::find_all(black_box(text)));
        }
        let nanos = started.elapsed().as_nanos() as f64 / f64::from(rounds);
        println!("  {nanos:>7.0} ns (target 2,000)  {text:?}");
    }
}

// ---------------------------------------------------------------- deciding

struct World {
    store: Store,
    agent: Agent,
    ada: Principal,
    dir: tempfile::TempDir,
}

impl World {
    async fn new() -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR").to_owned() + "/target").unwrap();
        let location = Location::Sqlite(dir.path().join("sayso.db"));
        let store = Store::open(&location, Clock::system()).await.unwrap();
        let ada = store.write(AddGuardian { name: "ada".into() }).await.unwrap().unwrap();
        let add = AddAgent { name: "robot".into(), guardian: Some("ada".into()) };
        let agent = store.write(add).await.unwrap().unwrap().agent;
        Self { store, agent, ada, dir }
    }

    async fn park(&self, count: usize) -> Vec<RequestId> {
        let opens = (0..count).map(|i| {
            let content = Content {
                kind: Kind::ToolApproval,
                title: None,
                body: None,
                tool: Some(Tool { name: "x".into(), input: json!(i) }),
                options: Vec::new(),
                allow_text: false,
            };
            let new = NewRequest {
                content,
                session: None,
                run: None,
                guardian: None,
                risk: Risk::Medium,
                deadline: None,
                callback_url: None,
                supersedes: None,
                metadata: json!({}),
            };
            let opening = Opening { agent: self.agent.clone(), new, idempotency: None };
            let policy = Policy { max_open: u32::MAX, ..Policy::default() };
            self.store.write(Open { opening, policy })
        });
        let opened = futures_util::future::join_all(opens).await;
        opened.into_iter().map(|o| o.unwrap().unwrap().into_request().id).collect()
    }

    async fn decide(&self, id: RequestId) {
        let actor = Actor {
            principal: self.ada.id,
            name: self.ada.name.clone(),
            binding: None,
            channel: "cli".into(),
        };
        let attempt = Attempt {
            request: id,
            revision: Some(1),
            verdict: Verdict::Approve,
            means: Means::Keyboard,
        };
        let ruling = self.store.write(Decide(actor, attempt)).await.unwrap();
        assert!(matches!(ruling, Ruling::Applied(_)));
    }

    /// Decisions a second with `clients` at once, and how many shared a commit.
    async fn rate(&self, clients: usize, each: usize) -> (f64, f64) {
        let ids = self.park(clients * each).await;
        let commits = *self.store.commits().borrow();
        let started = Instant::now();
        let work = ids.chunks(each).map(|chunk| async move {
            for id in chunk {
                self.decide(*id).await;
            }
        });
        futures_util::future::join_all(work).await;
        let seconds = started.elapsed().as_secs_f64();
        let commits = *self.store.commits().borrow() - commits;
        (ids.len() as f64 / seconds, ids.len() as f64 / commits as f64)
    }

    /// The same rows by bare statements, `group` decisions a transaction.
    async fn bare_rate(&self, group: usize, count: usize) -> f64 {
        let ids = self.park(count).await;
        let file = self.store_path();
        let url = format!("sqlite://{}", file.display());
        let mut conn = sqlx::AnyConnection::connect(&url).await.unwrap();
        conn.execute("PRAGMA synchronous = FULL").await.unwrap();
        conn.execute("PRAGMA busy_timeout = 5000").await.unwrap();
        let started = Instant::now();
        for chunk in ids.chunks(group) {
            let mut tx = conn.begin_with("BEGIN IMMEDIATE").await.unwrap();
            for id in chunk {
                bare_decision(&mut tx, &id.to_string(), &self.ada.id.to_string()).await;
            }
            tx.commit().await.unwrap();
        }
        count as f64 / started.elapsed().as_secs_f64()
    }

    fn store_path(&self) -> std::path::PathBuf {
        self.dir.path().join("sayso.db")
    }
}

/// The rows of one decision, without reading or checking anything: the request,
/// the audit row, what the card has to show.
async fn bare_decision(tx: &mut sqlx::Transaction<'_, sqlx::Any>, id: &str, by: &str) {
    sqlx::query(
        "UPDATE requests SET status = 'approved', version = version + 1, decided_by = $2,
                decided_channel = 'cli', ended_at = 1
          WHERE id = $1 AND status = 'pending'",
    )
    .bind(id.to_owned())
    .bind(by.to_owned())
    .execute(&mut **tx)
    .await
    .unwrap();
    sqlx::query(
        "INSERT INTO audit (at, kind, request, actor, channel, before, after, detail)
         VALUES (1, 'request.approved', $1, 'ada', 'cli', 'pending', 'approved', 'keyboard')",
    )
    .bind(id.to_owned())
    .execute(&mut **tx)
    .await
    .unwrap();
    sqlx::query(
        "UPDATE deliveries SET desired_version = 2, attempts = 0, next_at = 1 WHERE request = $1",
    )
    .bind(id.to_owned())
    .execute(&mut **tx)
    .await
    .unwrap();
}

struct Decide(Actor, Attempt);

#[async_trait]
impl Write for Decide {
    type Out = Ruling;

    fn reads(&self) -> Option<RequestId> {
        Some(self.1.request)
    }

    async fn run(&self, tx: &mut Tx) -> Result<Ruling, StoreError> {
        decisions::decide(tx, &self.0, &self.1, Policy::default()).await
    }
}

async fn deciding() {
    println!("\ndecide: durable commits on SQLite (WAL, synchronous=FULL), decisions a second");
    let world = World::new().await;
    let dir = world.store_path().parent().unwrap().to_owned();
    for round in 1..=3 {
        let flush = flush_micros(&dir);
        let bare_one = world.bare_rate(1, 400).await;
        let (one, _) = world.rate(1, 400).await;
        let (many, group) = world.rate(64, 100).await;
        let bare_many = world.bare_rate((group.round() as usize).max(1), 6_400).await;
        println!(
            "  round {round}, flush {flush:.0} µs\n    1 client   {one:>7.0}  bare {bare_one:>7.0}  \
             ratio {:.2} (target 0.50)\n    64 clients {many:>7.0}  bare {bare_many:>7.0}  \
             ratio {:.2} (target 0.80), {group:.0} a commit",
            one / bare_one,
            many / bare_many
        );
    }
    world.store.close().await;
}

// ---------------------------------------------------------------- the program

fn size() {
    println!("\nsize: the program");
    let binary = std::fs::metadata(env!("CARGO_BIN_EXE_sayso")).unwrap().len();
    println!("  binary {:.1} MiB (target 30)", binary as f64 / 1_048_576.0);
    let mut ready: Vec<f64> = (0..9).map(|_| Program::fresh().ready.as_secs_f64() * 1e3).collect();
    let raw = {
        let started = Instant::now();
        Command::new("/bin/true").status().unwrap();
        started.elapsed().as_secs_f64() * 1e3
    };
    println!(
        "  start to ready, new database: median {:.0} ms (target 100; starting /bin/true {raw:.1})",
        quantile(&mut ready, 0.5)
    );
    let program = Program::fresh();
    std::thread::sleep(Duration::from_secs(3));
    println!("  resident when idle {:.1} MiB (target 30)", program.resident_kib() as f64 / 1024.0);
}

async fn waking() {
    println!("\nwake: from the end's commit acknowledged to the waiting agent's answer");
    let program = Program::fresh();
    let (key, address) = (program.agent(), program.address.clone());
    let (mut asker, mut ender) = (Line::open(&address).await, Line::open(&address).await);
    let (mut waits, mut raw) = (Vec::new(), Vec::new());
    for i in 0..500 {
        let body = format!(r#"{{"kind":"question","title":"n {i}"}}"#);
        let id = id_of(&asker.ask(&address, &key, "POST /v1/requests", &body).await);
        asker.send(&address, &key, &format!("GET /v1/requests/{id}?wait=30"), "").await;
        tokio::time::sleep(Duration::from_millis(2)).await;
        let cancel = format!("POST /v1/requests/{id}/cancel");
        let waiting = async {
            asker.receive().await;
            Instant::now()
        };
        let ending = async {
            ender.ask(&address, &key, &cancel, "{}").await;
            Instant::now()
        };
        let (woken, committed) = tokio::join!(waiting, ending);
        waits.push(woken.saturating_duration_since(committed).as_secs_f64() * 1e3);
        let started = Instant::now();
        ender.ask(&address, &key, "GET /livez", "").await;
        raw.push(started.elapsed().as_secs_f64() * 1e3);
    }
    println!(
        "  p50 {:.2} ms, p99 {:.2} ms (target p99 20); a bare round trip p50 {:.2}, p99 {:.2}",
        quantile(&mut waits, 0.5),
        quantile(&mut waits, 0.99),
        quantile(&mut raw, 0.5),
        quantile(&mut raw, 0.99)
    );
}

async fn idle_waits() {
    println!("\nidle: 10,000 waits held");
    let program = Program::fresh();
    let (key, address) = (program.agent(), program.address.clone());
    let id = {
        let mut line = Line::open(&address).await;
        id_of(
            &line
                .ask(&address, &key, "POST /v1/requests", r#"{"kind":"question","title":"?"}"#)
                .await,
        )
    };
    let before = program.resident_kib();
    let start = format!("GET /v1/requests/{id}?wait=120");
    let mut lines = Vec::new();
    for _ in 0..10_000 {
        let Ok(stream) = TcpStream::connect(&address).await else { break };
        let mut line = Line(stream);
        line.send(&address, &key, &start, "").await;
        lines.push(line);
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = program.resident_kib();
    println!(
        "  {} waits, {:.1} KiB each (target 12); resident {:.0} → {:.0} MiB",
        lines.len(),
        (after - before) as f64 / lines.len() as f64,
        before as f64 / 1024.0,
        after as f64 / 1024.0
    );
}

// ---------------------------------------------------------------- history

async fn fill(path: &Path, rows: usize, pending: usize) {
    let location = Location::Sqlite(path.to_owned());
    let store = Store::open(&location, Clock::system()).await.unwrap();
    let ada = store.write(AddGuardian { name: "owner".into() }).await.unwrap().unwrap();
    let add = AddAgent { name: "history".into(), guardian: None };
    let agent = store.write(add).await.unwrap().unwrap().agent;
    let bindings =
        store::people::bindings_of(&mut store.read().await.unwrap(), ada.id).await.unwrap();
    store.close().await;
    let url = format!("sqlite://{}", path.display());
    let mut conn = sqlx::AnyConnection::connect(&url).await.unwrap();
    conn.execute("PRAGMA synchronous = OFF").await.unwrap();
    let mut made = 0;
    while made < rows {
        let mut tx = conn.begin().await.unwrap();
        for _ in 0..10_000.min(rows - made) {
            let is_pending = made < pending;
            let id = RequestId::new().to_string();
            sqlx::query(
                "INSERT INTO requests (id, code, kind, status, revision, version, agent, guardian,
                     title, options, allow_text, risk, digest, metadata, asked, created_at, deadline,
                     ended_at)
                 VALUES ($1, $2, 'question', $3, 1, 1, $4, $5, 't', '[]', 1, 'low', $1, '{}', 1, $6,
                     9000000000000000, $7)",
            )
            .bind(id.clone())
            .bind(if is_pending { format!("P{made}") } else { sayso::requests::code::Code::random().to_string() })
            .bind(if is_pending { "pending" } else { "expired" })
            .bind(agent.id.to_string())
            .bind(ada.id.to_string())
            .bind(made as i64)
            .bind((!is_pending).then_some(2_i64))
            .execute(&mut *tx)
            .await
            .unwrap();
            sqlx::query(
                "INSERT INTO deliveries (id, request, binding, channel, address, message, state,
                     shown_version, desired_version, is_whole, attempts, next_at, lease_until, fence)
                 VALUES ($1, $1, $2, 'telegram', '4242', $3, 'sent', 1, 1, 1, 0, 0, 0, 0)",
            )
            .bind(id)
            .bind(bindings[0].id.to_string())
            .bind(made.to_string())
            .execute(&mut *tx)
            .await
            .unwrap();
            made += 1;
        }
        tx.commit().await.unwrap();
    }
    conn.close().await.unwrap();
}

async fn scale() {
    println!("\nscale: what history costs");
    let rows: usize =
        std::env::var("SCALE_ROWS").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let target = env!("CARGO_MANIFEST_DIR").to_owned() + "/target";
    for count in [1_000, rows] {
        let home = tempfile::tempdir_in(&target).unwrap();
        let path = home.path().join("sayso.db");
        fill(&path, count, 0).await;
        let store = Store::open(&Location::Sqlite(path), Clock::system()).await.unwrap();
        let mut tx = store.read().await.unwrap();
        let (mut codes, mut messages, mut raw) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..2_000_usize {
            let code = sayso::requests::code::Code::random();
            let message = (i * 7 % count).to_string();
            let started = Instant::now();
            store::requests::find_by_code(&mut tx, code).await.unwrap();
            codes.push(started.elapsed().as_secs_f64() * 1e6);
            let started = Instant::now();
            store::requests::find_by_message(&mut tx, "telegram", "4242", &message).await.unwrap();
            messages.push(started.elapsed().as_secs_f64() * 1e6);
            let started = Instant::now();
            audit::feed_end(&mut tx).await.unwrap();
            raw.push(started.elapsed().as_secs_f64() * 1e6);
        }
        println!(
            "  {count:>9} rows: by code p50 {:.0} µs, by message p50 {:.0} µs; an empty look-up {:.0} µs",
            quantile(&mut codes, 0.5),
            quantile(&mut messages, 0.5),
            quantile(&mut raw, 0.5)
        );
        drop(tx);
        store.close().await;
    }
    let home = tempfile::tempdir_in(&target).unwrap();
    fill(&home.path().join("sayso.db"), 100_000, 100_000).await;
    let program = Program::start(home);
    println!(
        "  100,000 pending: start to ready {:.0} ms (target 5,000)",
        program.ready.as_secs_f64() * 1e3
    );
}
