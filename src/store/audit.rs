//! `audit`: append-only, one row for each thing that happened, in the
//! transaction that made it so; linked into a hash chain in commit order.
//!
//! A row is written without its place in the chain, so that no transaction
//! holds the chain's end across its commit. [`link`] gives places afterwards,
//! within a second while a gateway runs; whoever reads the chain links first.

use serde_json::json;

use crate::clock::Timestamp;
use crate::ids::{AgentId, RequestId};
use crate::requests::{canonical, sha256_hex};
use crate::store::dialect::Dialect;
use crate::store::{StoreError, Tx};

/// What happened.
#[derive(Debug, Clone, Default)]
pub struct Event<'a> {
    /// What, as `thing.verb`.
    pub kind: &'a str,
    /// To which request.
    pub request: Option<RequestId>,
    /// Whose request.
    pub agent: Option<AgentId>,
    /// Who did it: a name, or an account no person is known for.
    pub actor: Option<&'a str>,
    /// Where.
    pub channel: Option<&'a str>,
    /// The status before.
    pub before: Option<&'a str>,
    /// The status after.
    pub after: Option<&'a str>,
    /// More, in words.
    pub detail: Option<&'a str>,
}

/// A linked row.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Record {
    /// Its place in the chain, from 1 without gaps.
    pub seq: i64,
    /// When.
    pub at: i64,
    /// See [`Event::kind`].
    pub kind: String,
    /// See [`Event::request`].
    pub request: Option<String>,
    /// See [`Event::agent`].
    pub agent: Option<String>,
    /// See [`Event::actor`].
    pub actor: Option<String>,
    /// See [`Event::channel`].
    pub channel: Option<String>,
    /// See [`Event::before`].
    pub before: Option<String>,
    /// See [`Event::after`].
    pub after: Option<String>,
    /// See [`Event::detail`].
    pub detail: Option<String>,
    /// The hash of the row before; empty for the first.
    pub prev: String,
    /// SHA-256, in hexadecimal digits, of `prev` and the canonical JSON of the
    /// row without `prev` and `hash`.
    pub hash: String,
}

impl Record {
    /// The hash that the row must have.
    pub fn expected_hash(&self) -> String {
        let record = json!({
            "seq": self.seq, "at": self.at, "kind": self.kind, "request": self.request,
            "agent": self.agent, "actor": self.actor, "channel": self.channel,
            "before": self.before, "after": self.after, "detail": self.detail,
        });
        sha256_hex(format!("{}{}", self.prev, canonical(&record)).as_bytes())
    }

    /// When, as an instant.
    pub fn at(&self) -> Timestamp {
        Timestamp::from_micros(self.at)
    }
}

/// An event that waits for its transaction's commit.
pub(super) struct Pending {
    at: i64,
    kind: String,
    request: Option<String>,
    agent: Option<String>,
    actor: Option<String>,
    channel: Option<String>,
    before: Option<String>,
    after: Option<String>,
    detail: Option<String>,
}

/// Writes down what happened. The rows of a transaction are written together
/// just before its commit, in the order in which they came.
pub fn insert(tx: &mut Tx, event: &Event<'_>) {
    let at = tx.now().micros();
    tx.audit.push(Pending {
        at,
        kind: event.kind.to_owned(),
        request: event.request.map(|id| id.to_string()),
        agent: event.agent.map(|id| id.to_string()),
        actor: event.actor.map(str::to_owned),
        channel: event.channel.map(str::to_owned),
        before: event.before.map(str::to_owned),
        after: event.after.map(str::to_owned),
        detail: event.detail.map(str::to_owned),
    });
}

/// Rows of one statement at most; smaller numbers of rows are cut into powers of
/// two, so that there are few different statements to keep prepared.
const ROWS: usize = 64;

/// Writes what waits.
pub(super) async fn flush(tx: &mut Tx) -> Result<(), StoreError> {
    let waiting = std::mem::take(&mut tx.audit);
    let mut rest = waiting.into_iter();
    while rest.len() > 0 {
        let count = if rest.len() >= ROWS { ROWS } else { 1 << rest.len().ilog2() };
        let mut query = sqlx::query(sqlx::AssertSqlSafe(insert_sql(count)));
        for row in rest.by_ref().take(count) {
            query = query
                .bind(row.at)
                .bind(row.kind)
                .bind(row.request)
                .bind(row.agent)
                .bind(row.actor)
                .bind(row.channel)
                .bind(row.before)
                .bind(row.after)
                .bind(row.detail);
        }
        query.execute(tx.conn()).await?;
    }
    Ok(())
}

fn insert_sql(rows: usize) -> String {
    let row = |i: usize| {
        let places: Vec<String> = (1..=9).map(|column| format!("${}", i * 9 + column)).collect();
        format!("({})", places.join(", "))
    };
    let values: Vec<String> = (0..rows).map(row).collect();
    format!(
        "INSERT INTO audit (at, kind, request, agent, actor, channel, before, after, detail)
         VALUES {}",
        values.join(", ")
    )
}

/// The place and the hash of the last linked row.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn last(tx: &mut Tx) -> Result<Option<(i64, String)>, StoreError> {
    Ok(sqlx::query_as(
        "SELECT seq, hash FROM audit WHERE seq IS NOT NULL ORDER BY seq DESC LIMIT 1",
    )
    .fetch_optional(tx.conn())
    .await?)
}

#[derive(sqlx::FromRow)]
struct Unlinked {
    ord: i64,
    at: i64,
    kind: String,
    request: Option<String>,
    agent: Option<String>,
    actor: Option<String>,
    channel: Option<String>,
    before: Option<String>,
    after: Option<String>,
    detail: Option<String>,
}

/// Gives up to 500 rows their place in the chain; how many it were.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn link(tx: &mut Tx) -> Result<usize, StoreError> {
    if tx.dialect == Dialect::Postgres {
        // One linker at a time, whichever replica it runs in.
        sqlx::query("SELECT pg_advisory_xact_lock(1519779842)").execute(tx.conn()).await?;
    }
    // On PostgreSQL rows become visible out of order; below the oldest running
    // transaction nothing can appear any more.
    let unlinked: &str = match tx.dialect {
        Dialect::Sqlite => {
            "SELECT ord, at, kind, request, agent, actor, channel, before, after, detail
               FROM audit
              WHERE seq IS NULL
              ORDER BY ord
              LIMIT 500"
        }
        Dialect::Postgres => {
            "SELECT ord, at, kind, request, agent, actor, channel, before, after, detail
               FROM audit
              WHERE seq IS NULL AND xid < pg_snapshot_xmin(pg_current_snapshot())
              ORDER BY xid, ord
              LIMIT 500"
        }
    };
    let rows: Vec<Unlinked> = sqlx::query_as(unlinked).fetch_all(tx.conn()).await?;
    if rows.is_empty() {
        return Ok(0);
    }
    let (mut seq, mut prev) = last(tx).await?.unwrap_or_default();
    let count = rows.len();
    for row in rows {
        seq += 1;
        let record = Record {
            seq,
            at: row.at,
            kind: row.kind,
            request: row.request,
            agent: row.agent,
            actor: row.actor,
            channel: row.channel,
            before: row.before,
            after: row.after,
            detail: row.detail,
            prev: prev.clone(),
            hash: String::new(),
        };
        let hash = record.expected_hash();
        sqlx::query("UPDATE audit SET seq = $2, prev = $3, hash = $4 WHERE ord = $1")
            .bind(row.ord)
            .bind(seq)
            .bind(std::mem::replace(&mut prev, hash.clone()))
            .bind(hash)
            .execute(tx.conn())
            .await?;
    }
    Ok(count)
}

/// The linked rows after place `after`, in order, at most `limit`; of one agent
/// only, if asked.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn list_after(
    tx: &mut Tx,
    after: i64,
    agent: Option<AgentId>,
    limit: i64,
) -> Result<Vec<Record>, StoreError> {
    let Some(agent) = agent else {
        return Ok(sqlx::query_as(
            "SELECT seq, at, kind, request, agent, actor, channel, before, after, detail, prev, hash
               FROM audit
              WHERE seq > $1
              ORDER BY seq
              LIMIT $2",
        )
        .bind(after)
        .bind(limit)
        .fetch_all(tx.conn())
        .await?);
    };
    Ok(sqlx::query_as(
        "SELECT seq, at, kind, request, agent, actor, channel, before, after, detail, prev, hash
           FROM audit
          WHERE agent = $2 AND seq > $1 AND seq IS NOT NULL
          ORDER BY seq
          LIMIT $3",
    )
    .bind(after)
    .bind(agent.to_string())
    .bind(limit)
    .fetch_all(tx.conn())
    .await?)
}

/// A place in the order of commits, after which [`feed`] goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Cursor {
    /// The transaction; zero on SQLite, where rows are numbered in the order
    /// of commit.
    pub xid: i64,
    /// The row.
    pub ord: i64,
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.xid, self.ord)
    }
}

impl std::str::FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (xid, ord) = text.split_once('-').ok_or(())?;
        Ok(Self { xid: xid.parse().map_err(|_| ())?, ord: ord.parse().map_err(|_| ())? })
    }
}

/// Something that happened, as a reader of the feed sees it.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct News {
    xid: i64,
    ord: i64,
    /// See [`Event::kind`].
    pub kind: String,
    /// See [`Event::request`].
    pub request: Option<String>,
    /// See [`Event::agent`].
    pub agent: Option<String>,
    /// See [`Event::channel`].
    pub channel: Option<String>,
    /// See [`Event::detail`].
    pub detail: Option<String>,
}

impl News {
    /// Its place.
    pub fn cursor(&self) -> Cursor {
        Cursor { xid: self.xid, ord: self.ord }
    }
}

/// What happened after `after`, in the order of commit, at most 500; of one
/// agent only, if asked. Nothing can appear later before a row given here.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn feed(
    tx: &mut Tx,
    after: Cursor,
    agent: Option<AgentId>,
) -> Result<Vec<News>, StoreError> {
    let sql = match tx.dialect {
        Dialect::Sqlite => {
            "SELECT xid, ord, kind, request, agent, channel, detail
               FROM audit
              WHERE $1 >= 0 AND ord > $2 AND ($3 IS NULL OR agent = $3)
              ORDER BY ord
              LIMIT 500"
        }
        Dialect::Postgres => {
            "SELECT CAST(CAST(xid AS TEXT) AS BIGINT) AS xid, ord, kind, request, agent,
                    channel, detail
               FROM audit
              WHERE (audit.xid, audit.ord) > (CAST(CAST($1 AS TEXT) AS xid8), $2)
                AND audit.xid < pg_snapshot_xmin(pg_current_snapshot())
                AND ($3 IS NULL OR agent = $3)
              ORDER BY audit.xid, audit.ord
              LIMIT 500"
        }
    };
    Ok(sqlx::query_as(sql)
        .bind(after.xid)
        .bind(after.ord)
        .bind(agent.map(|id| id.to_string()))
        .fetch_all(tx.conn())
        .await?)
}

/// The place after everything that [`feed`] could give now.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn feed_end(tx: &mut Tx) -> Result<Cursor, StoreError> {
    let sql = match tx.dialect {
        Dialect::Sqlite => "SELECT xid, ord FROM audit ORDER BY ord DESC LIMIT 1",
        Dialect::Postgres => {
            "SELECT CAST(CAST(xid AS TEXT) AS BIGINT) AS xid, ord
               FROM audit
              WHERE audit.xid < pg_snapshot_xmin(pg_current_snapshot())
              ORDER BY audit.xid DESC, audit.ord DESC
              LIMIT 1"
        }
    };
    let row: Option<(i64, i64)> = sqlx::query_as(sql).fetch_optional(tx.conn()).await?;
    Ok(row.map_or(Cursor::default(), |(xid, ord)| Cursor { xid, ord }))
}

/// One line of the story of a request.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Line {
    /// When.
    pub at: i64,
    /// See [`Event::kind`].
    pub kind: String,
    /// See [`Event::actor`].
    pub actor: Option<String>,
    /// See [`Event::channel`].
    pub channel: Option<String>,
    /// See [`Event::after`].
    pub after: Option<String>,
    /// See [`Event::detail`].
    pub detail: Option<String>,
}

/// The story of one request, oldest first.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn story(tx: &mut Tx, request: RequestId) -> Result<Vec<Line>, StoreError> {
    Ok(sqlx::query_as(
        "SELECT at, kind, actor, channel, after, detail
           FROM audit
          WHERE request = $1
          ORDER BY ord",
    )
    .bind(request.to_string())
    .fetch_all(tx.conn())
    .await?)
}

/// Whether any row has no place in the chain yet.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn is_any_unlinked(tx: &mut Tx) -> Result<bool, StoreError> {
    let ord: Option<i64> =
        sqlx::query_scalar("SELECT ord FROM audit WHERE seq IS NULL ORDER BY ord LIMIT 1")
            .fetch_optional(tx.conn())
            .await?;
    Ok(ord.is_some())
}
