//! The database: what is written is there, once, in order, on both engines.

use std::time::Duration;

use async_trait::async_trait;
use rstest::rstest;
use sayso::clock::Clock;
use sayso::ids::InboxId;
use sayso::jobs::intake::Accept;
use sayso::store::inbox::{Fate, Item};
use sayso::store::{self, Location, Store, StoreError, Tx, Write, audit};
use sqlx::Row as _;

use crate::support::{Database, World};

/// A write made of a closure's worth of steps.
struct Note(&'static str, Then);

#[derive(Clone, Copy, PartialEq)]
enum Then {
    Succeed,
    Fail,
    Panic,
}

#[async_trait]
impl Write for Note {
    type Out = &'static str;

    async fn run(&self, tx: &mut Tx) -> Result<&'static str, StoreError> {
        let event = audit::Event { kind: self.0, ..audit::Event::default() };
        audit::insert(tx, &event);
        match self.1 {
            Then::Succeed => Ok(self.0),
            Then::Fail => Err(StoreError::AlreadyDone),
            Then::Panic => panic!("on purpose"),
        }
    }
}

/// Links every row. On PostgreSQL that has to wait for older transactions of the
/// whole cluster, other tests' among them.
async fn link_all(store: &Store) {
    let linking = async {
        while audit::is_any_unlinked(&mut store.read().await.unwrap()).await.unwrap() {
            sayso::jobs::sweep::link(store).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), linking).await.expect("linked in time");
}

async fn notes(store: &Store) -> Vec<String> {
    link_all(store).await;
    let mut tx = store.read().await.unwrap();
    let all = audit::list_after(&mut tx, 0, None, 10_000).await.unwrap();
    all.into_iter().map(|r| r.kind).filter(|k| k.starts_with("note.")).collect()
}

#[rstest]
#[tokio::test]
async fn a_write_that_fails_takes_nobody_else_with_it(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(fresh) = database.fresh().await else { return };
    let store = fresh.open().await;
    let writes = (0..40).map(|i| {
        let then = match i % 4 {
            1 => Then::Fail,
            2 if database == Database::Sqlite => Then::Panic,
            _ => Then::Succeed,
        };
        let store = store.clone();
        async move { (then, store.write(Note("note.x", then)).await) }
    });

    let results = futures_util::future::join_all(writes).await;

    for (then, result) in &results {
        assert_eq!(*then == Then::Succeed, result.is_ok());
    }
    let succeeded = results.iter().filter(|(_, r)| r.is_ok()).count();
    assert_eq!(notes(&store).await.len(), succeeded);
}

#[rstest]
#[tokio::test]
async fn a_caller_that_goes_away_changes_nothing_about_its_write(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(fresh) = database.fresh().await else { return };
    let store = fresh.open().await;
    for _ in 0..20 {
        let writing = store.write(Note("note.y", Then::Succeed));
        // Polled once, then dropped: the write is under way.
        let _ = tokio::time::timeout(Duration::ZERO, writing).await;
    }
    let wait = async {
        while notes(&store).await.len() < 20 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait).await.expect("all of them happened");
}

#[rstest]
#[tokio::test]
async fn the_audit_chain_shows_every_kind_of_tampering(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(world) = World::new(database).await else { return };
    for i in 0..5 {
        let request = world.open(World::tool_call(&i.to_string())).await;
        world.says(&world.ada, &format!("{} approve", request.code)).await;
    }
    link_all(&world.store).await;
    assert_eq!(first_broken(&world.store).await, None);
    let raw = world.fresh.raw().await;

    let set = |sql: &'static str| {
        let raw = raw.clone();
        async move { sqlx::query(sql).execute(&raw).await.unwrap() }
    };
    set("UPDATE audit SET actor = 'mallory' WHERE seq = 4").await;
    assert_eq!(first_broken(&world.store).await, Some(4));
    set("UPDATE audit SET actor = 'robot' WHERE seq = 4").await;
    set("UPDATE audit SET seq = 1000 WHERE seq = 6").await;
    assert_eq!(first_broken(&world.store).await, Some(6));
    set("DELETE FROM audit WHERE seq = 3").await;
    assert_eq!(first_broken(&world.store).await, Some(3));
}

async fn first_broken(store: &Store) -> Option<i64> {
    let mut tx = store.read().await.unwrap();
    let (mut after, mut prev) = (0, String::new());
    for record in audit::list_after(&mut tx, 0, None, 10_000).await.unwrap() {
        let holds =
            record.seq == after + 1 && record.prev == prev && record.hash == record.expected_hash();
        if !holds {
            return Some(after + 1);
        }
        after = record.seq;
        prev = record.hash;
    }
    None
}

fn item(lane: &str, key: &str) -> Item {
    Item {
        id: InboxId::new(),
        channel: "console".into(),
        receiver: "r".into(),
        dedup_key: key.into(),
        lane: lane.into(),
        raw: b"\x00\xff raw".to_vec(),
        attempts: 0,
    }
}

struct ClaimInbox;

#[async_trait]
impl Write for ClaimInbox {
    type Out = Vec<Item>;

    async fn run(&self, tx: &mut Tx) -> Result<Vec<Item>, StoreError> {
        store::inbox::claim(tx, 100).await
    }
}

struct Finish(InboxId);

#[async_trait]
impl Write for Finish {
    type Out = bool;

    async fn run(&self, tx: &mut Tx) -> Result<bool, StoreError> {
        store::inbox::finish(tx, self.0, &Fate::default()).await
    }
}

#[rstest]
#[tokio::test]
async fn what_comes_twice_is_stored_once_and_dealt_with_in_order(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(fresh) = database.fresh().await else { return };
    let store = fresh.open().await;
    let accept = |lane, key| store.write(Accept { item: item(lane, key), hold: false });
    let first = accept("a", "1").await.unwrap();
    let again = accept("a", "1").await.unwrap();
    accept("a", "2").await.unwrap();
    accept("b", "3").await.unwrap();

    assert!(!first.is_duplicate && again.is_duplicate);
    assert_eq!(first.id, again.id);
    let claimed = store.write(ClaimInbox).await.unwrap();
    let keys: Vec<&str> = claimed.iter().map(|i| i.dedup_key.as_str()).collect();
    assert_eq!(keys, ["1", "3"], "the oldest of each conversation");
    assert_eq!(claimed[0].raw, b"\x00\xff raw");
    assert!(store.write(ClaimInbox).await.unwrap().is_empty(), "they are under way");

    assert!(store.write(Finish(claimed[0].id)).await.unwrap());
    assert!(!store.write(Finish(claimed[0].id)).await.unwrap(), "only once");
    let next = store.write(ClaimInbox).await.unwrap();
    assert_eq!(next[0].dedup_key, "2");
}

#[rstest]
#[tokio::test]
async fn an_item_whose_worker_died_is_claimed_again(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(fresh) = database.fresh().await else { return };
    let store = fresh.open().await;
    store.write(Accept { item: item("a", "1"), hold: false }).await.unwrap();
    store.write(ClaimInbox).await.unwrap();

    store.clock().advance(Duration::from_secs(31));

    assert_eq!(store.write(ClaimInbox).await.unwrap()[0].attempts, 2);
}

struct Hold(&'static str);

#[async_trait]
impl Write for Hold {
    type Out = Option<i64>;

    async fn run(&self, tx: &mut Tx) -> Result<Option<i64>, StoreError> {
        store::leases::hold(tx, "poller", self.0, Duration::from_secs(15)).await
    }
}

#[rstest]
#[tokio::test]
async fn a_lease_has_one_holder_and_a_fence_that_grows(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(fresh) = database.fresh().await else { return };
    let store = fresh.open().await;

    let first = store.write(Hold("a")).await.unwrap().unwrap();
    assert_eq!(store.write(Hold("b")).await.unwrap(), None);
    assert_eq!(store.write(Hold("a")).await.unwrap(), Some(first), "renewing keeps the fence");
    store.clock().advance(Duration::from_secs(16));
    let second = store.write(Hold("b")).await.unwrap().unwrap();

    assert!(second > first);
    assert_eq!(store.write(Hold("a")).await.unwrap(), None, "the zombie is told");

    // Whoever starts alone on the database takes up what a killed process held.
    store.write(sayso::jobs::TakeUp).await.unwrap();
    store.clock().advance(Duration::from_millis(1));
    assert!(store.write(Hold("c")).await.unwrap().is_some());
}

#[tokio::test]
async fn an_older_database_is_copied_and_then_brought_up_to_date() {
    const FIRST: &str = include_str!("../../migrations/sqlite/0001_rail.sql");
    let fresh = Database::Sqlite.fresh().await.unwrap();
    let sayso::store::Location::Sqlite(path) = &fresh.location else { panic!() };
    std::fs::write(path, "").unwrap();
    let raw = fresh.raw().await;
    sqlx::raw_sql(FIRST).execute(&raw).await.unwrap();
    sqlx::raw_sql(
        "CREATE TABLE schema_migrations (version BIGINT PRIMARY KEY, name TEXT, checksum TEXT,
                                         applied_at BIGINT);
         INSERT INTO principals (id, name, created_at)
         VALUES ('prn_00000000000000000000000000000001', 'ada', 1);",
    )
    .execute(&raw)
    .await
    .unwrap();
    sqlx::query("INSERT INTO schema_migrations VALUES (1, 'rail', $1, 1)")
        .bind(sayso::requests::sha256_hex(FIRST.as_bytes()))
        .execute(&raw)
        .await
        .unwrap();
    raw.close().await;

    let store = fresh.open().await;
    let people = store::people::list(&mut store.read().await.unwrap()).await.unwrap();
    assert_eq!(people[0].name, "ada");
    store::readers::list(&mut store.read().await.unwrap()).await.unwrap();
    store.close().await;

    let copy = path.with_extension("schema-1");
    let url = format!("sqlite://{}", copy.display());
    let copied = sqlx::AnyPool::connect(&url).await.unwrap();
    let versions: Vec<i64> = sqlx::query_scalar("SELECT version FROM schema_migrations")
        .fetch_all(&copied)
        .await
        .unwrap();
    assert_eq!(versions, [1]);
}

#[rstest]
#[tokio::test]
async fn a_database_of_a_newer_version_is_refused(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(fresh) = database.fresh().await else { return };
    fresh.open().await.close().await;
    let raw = fresh.raw().await;
    sqlx::query("INSERT INTO schema_migrations VALUES (99, 'later', 'x', 0)")
        .execute(&raw)
        .await
        .unwrap();

    let error = Store::open(&fresh.location, Clock::system()).await.err().unwrap();

    assert!(error.to_string().contains("newer than this program"), "{error}");
}

#[rstest]
#[tokio::test]
async fn a_changed_migration_is_refused(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(fresh) = database.fresh().await else { return };
    fresh.open().await.close().await;
    let raw = fresh.raw().await;
    sqlx::query("UPDATE schema_migrations SET checksum = 'x'").execute(&raw).await.unwrap();

    let error = Store::open(&fresh.location, Clock::system()).await.err().unwrap();

    assert!(error.to_string().contains("differs"), "{error}");
}

#[rstest]
#[tokio::test]
async fn several_processes_may_open_a_new_database_at_once(
    #[values(Database::Sqlite, Database::Postgres)] database: Database,
) {
    let Some(fresh) = database.fresh().await else { return };
    let opens = (0..6).map(|_| Store::open(&fresh.location, Clock::system()));

    let opened = futures_util::future::join_all(opens).await;

    assert!(opened.iter().all(Result::is_ok));
}

#[tokio::test]
async fn both_engines_have_the_same_tables_and_columns() {
    let (Some(lite), Some(post)) =
        (Database::Sqlite.fresh().await, Database::Postgres.fresh().await)
    else {
        return;
    };
    lite.open().await.close().await;
    post.open().await.close().await;
    let columns = |pool: sqlx::AnyPool, sql: &'static str| async move {
        let rows = sqlx::query(sql).fetch_all(&pool).await.unwrap();
        let mut all: Vec<String> = rows.iter().map(|row| row.get::<String, _>(0)).collect();
        all.sort();
        all
    };
    let of_lite = columns(
        lite.raw().await,
        "SELECT m.name || '.' || p.name
           FROM sqlite_master m JOIN pragma_table_info(m.name) p
          WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'",
    );
    let of_post = columns(
        post.raw().await,
        "SELECT CAST(table_name || '.' || column_name AS TEXT)
           FROM information_schema.columns
          WHERE table_schema = 'public'",
    );
    let (of_lite, of_post) = (of_lite.await, of_post.await);
    assert!(of_lite.len() > 100);
    assert_eq!(of_lite, of_post);
}

#[tokio::test]
async fn a_clock_set_back_while_the_gateway_was_down_lengthens_nothing() {
    let fresh = Database::Sqlite.fresh().await.unwrap();
    let store = fresh.open().await;
    store.clock().advance(Duration::from_hours(1));
    let late = store.clock().now();
    store.write(Raise).await.unwrap();
    store.close().await;

    let store = fresh.open().await;

    assert!(store.clock().now() >= late);
}

struct Raise;

#[async_trait]
impl Write for Raise {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        store::leases::raise_high_water(tx).await
    }
}

#[tokio::test]
async fn a_backup_is_a_whole_database_and_never_overwrites() {
    let world = World::new(Database::Sqlite).await.unwrap();
    let request = world.open(World::tool_call("ls")).await;
    let copy = world.fresh.dir.path().join("copy.db");

    world.store.backup(&copy).await.unwrap();
    assert!(world.store.backup(&copy).await.is_err());

    let restored = Store::open(&Location::Sqlite(copy), Clock::system()).await.unwrap();
    let mut tx = restored.read().await.unwrap();
    assert!(store::requests::find(&mut tx, request.id).await.unwrap().is_some());
}
