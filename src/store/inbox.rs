//! `inbox`: what came in, once, before anybody was told that it arrived.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::ids::InboxId;
use crate::store::{StoreError, Tx};

/// How long one attempt may take before another worker tries.
pub const LEASE: Duration = Duration::from_secs(30);
/// Attempts after which an item is set aside for the operator.
pub const MAX_ATTEMPTS: i64 = 20;

/// Something that came in and waits to be dealt with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its id.
    pub id: InboxId,
    /// The channel.
    pub channel: String,
    /// Which of our accounts received it.
    pub receiver: String,
    /// What makes it the same item when it comes again.
    pub dedup_key: String,
    /// The conversation whose items are dealt with in order.
    pub lane: String,
    /// The bytes.
    pub raw: Vec<u8>,
    /// How often it was tried.
    pub attempts: i64,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: String,
    channel: String,
    receiver: String,
    dedup_key: String,
    lane: String,
    raw: Vec<u8>,
    attempts: i64,
}

/// What became of an item.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fate {
    /// The result, one word.
    pub outcome: String,
    /// The words for the person, if any.
    pub reply: Option<String>,
    /// The request that it was about, if any.
    pub request: Option<String>,
}

/// Stores an item; `None` when it is there already, whose id [`find`] gives.
/// `hold` keeps workers away for a while, for a caller that deals with it
/// itself.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn insert(tx: &mut Tx, item: &Item, hold: bool) -> Result<bool, StoreError> {
    let now = tx.now();
    let lease_until = if hold { now.plus(LEASE).micros() } else { 0 };
    let done = sqlx::query(
        "INSERT INTO inbox (id, channel, receiver, dedup_key, lane, raw, state, attempts,
                            lease_until, received_at)
         VALUES ($1, $2, $3, $4, $5, $6, 'new', 0, $7, $8)
         ON CONFLICT (channel, receiver, dedup_key) DO NOTHING",
    )
    .bind(item.id.to_string())
    .bind(item.channel.clone())
    .bind(item.receiver.clone())
    .bind(item.dedup_key.clone())
    .bind(item.lane.clone())
    .bind(item.raw.clone())
    .bind(lease_until)
    .bind(now.micros())
    .execute(tx.conn())
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Stores an item that was dealt with in this transaction, and what became of it;
/// `false` when it is there already, or when others of its lane wait: it has to
/// wait its turn then, and what it did is to be undone.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn insert_done(tx: &mut Tx, item: &Item, fate: &Fate) -> Result<bool, StoreError> {
    let now = tx.now();
    let done = sqlx::query(
        "INSERT INTO inbox (id, channel, receiver, dedup_key, lane, raw, state, attempts,
                            lease_until, received_at, outcome, reply, request)
         SELECT $1, $2, $3, $4, $5, $6, 'done', 1, 0, $7, $8, $9, $10
          WHERE NOT EXISTS (SELECT 1 FROM inbox o WHERE o.state = 'new' AND o.lane = $5)
         ON CONFLICT (channel, receiver, dedup_key) DO NOTHING",
    )
    .bind(item.id.to_string())
    .bind(item.channel.clone())
    .bind(item.receiver.clone())
    .bind(item.dedup_key.clone())
    .bind(item.lane.clone())
    .bind(item.raw.clone())
    .bind(now.micros())
    .bind(fate.outcome.clone())
    .bind(fate.reply.clone())
    .bind(fate.request.clone())
    .execute(tx.conn())
    .await?;
    Ok(done.rows_affected() == 1)
}

/// The id of the item with this key.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find(
    tx: &mut Tx,
    channel: &str,
    receiver: &str,
    dedup_key: &str,
) -> Result<Option<String>, StoreError> {
    Ok(sqlx::query_scalar(
        "SELECT id FROM inbox WHERE channel = $1 AND receiver = $2 AND dedup_key = $3",
    )
    .bind(channel.to_owned())
    .bind(receiver.to_owned())
    .bind(dedup_key.to_owned())
    .fetch_optional(tx.conn())
    .await?)
}

/// What became of the item; `None` while it waits or when it is unknown.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn fate(tx: &mut Tx, id: &str) -> Result<Option<Fate>, StoreError> {
    let row: Option<(String, Option<String>, Option<String>)> = sqlx::query_as(
        "SELECT COALESCE(outcome, state), reply, request
           FROM inbox
          WHERE id = $1 AND state <> 'new'",
    )
    .bind(id.to_owned())
    .fetch_optional(tx.conn())
    .await?;
    Ok(row.map(|(outcome, reply, request)| Fate { outcome, reply, request }))
}

/// Claims up to `limit` items: of each lane only the oldest, so that the items
/// of one conversation are dealt with in order.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn claim(tx: &mut Tx, limit: i64) -> Result<Vec<Item>, StoreError> {
    let now: Timestamp = tx.now();
    let sql = format!(
        "UPDATE inbox
            SET lease_until = $2, attempts = attempts + 1
          WHERE id IN (SELECT i.id
                         FROM inbox i
                        WHERE i.state = 'new' AND i.lease_until <= $1
                          AND NOT EXISTS (SELECT 1
                                            FROM inbox o
                                           WHERE o.state = 'new' AND o.lane = i.lane
                                             AND o.id < i.id)
                        ORDER BY i.id
                        LIMIT $3 {})
         RETURNING id, channel, receiver, dedup_key, lane, raw, attempts",
        tx.dialect.skip_locked()
    );
    let mut rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(sql))
        .bind(now.micros())
        .bind(now.plus(LEASE).micros())
        .bind(limit)
        .fetch_all(tx.conn())
        .await?;
    // What comes back from an update has no order of its own.
    rows.sort_by(|a, b| a.id.cmp(&b.id));
    rows.into_iter()
        .map(|row| {
            let id = row.id.parse().map_err(|_| StoreError::Corrupt {
                table: "inbox",
                column: "id",
                row: row.id.clone(),
            })?;
            let Row { channel, receiver, dedup_key, lane, raw, attempts, .. } = row;
            Ok(Item { id, channel, receiver, dedup_key, lane, raw, attempts })
        })
        .collect()
}

/// Marks an item as dealt with, if it still waits; says whether it did. In the
/// transaction of its effect this makes a second processing undo itself.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn finish(tx: &mut Tx, id: InboxId, fate: &Fate) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "UPDATE inbox
            SET state = 'done', outcome = $2, reply = $3, request = $4, lease_until = 0
          WHERE id = $1 AND state = 'new'",
    )
    .bind(id.to_string())
    .bind(fate.outcome.clone())
    .bind(fate.reply.clone())
    .bind(fate.request.clone())
    .execute(tx.conn())
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Gives an item back to be tried again after 1, 2, 4 … 60 seconds, or sets it
/// aside after [`MAX_ATTEMPTS`].
///
/// # Errors
///
/// See [`StoreError`].
pub async fn give_back(tx: &mut Tx, item: &Item, why: &str) -> Result<(), StoreError> {
    let state = if item.attempts >= MAX_ATTEMPTS { "poison" } else { "new" };
    let exponent = u32::try_from(item.attempts.clamp(1, 7)).unwrap_or(1) - 1;
    let pause = Duration::from_secs(1 << exponent).min(Duration::from_mins(1));
    let next_at = tx.now().plus(pause).micros();
    sqlx::query(
        "UPDATE inbox
            SET state = $2, outcome = $3, lease_until = $4
          WHERE id = $1 AND state = 'new'",
    )
    .bind(item.id.to_string())
    .bind(state)
    .bind(why.to_owned())
    .bind(next_at)
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Numbers for the metrics: items that wait, how many microseconds the oldest
/// has waited, items set aside.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn backlog(tx: &mut Tx) -> Result<(i64, i64, i64), StoreError> {
    let now = tx.now().micros();
    let waiting: (i64, Option<i64>) =
        sqlx::query_as("SELECT COUNT(*), MIN(received_at) FROM inbox WHERE state = 'new'")
            .fetch_one(tx.conn())
            .await?;
    let poison: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM inbox WHERE state = 'poison'")
        .fetch_one(tx.conn())
        .await?;
    Ok((waiting.0, waiting.1.map_or(0, |at| (now - at).max(0)), poison))
}

/// Removes items dealt with before `before`, at most 1,000; how many.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn prune(tx: &mut Tx, before: Timestamp) -> Result<u64, StoreError> {
    let done = sqlx::query(
        "DELETE FROM inbox
          WHERE id IN (SELECT id
                         FROM inbox
                        WHERE received_at < $1 AND state = 'done'
                        ORDER BY received_at
                        LIMIT 1000)",
    )
    .bind(before.micros())
    .execute(tx.conn())
    .await?;
    Ok(done.rows_affected())
}

/// Whether any item waits that nobody deals with.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn is_any_new(tx: &mut Tx) -> Result<bool, StoreError> {
    let now = tx.now().micros();
    let new: Option<i64> =
        sqlx::query_scalar("SELECT 1 FROM inbox WHERE state = 'new' AND lease_until <= $1 LIMIT 1")
            .bind(now)
            .fetch_optional(tx.conn())
            .await?;
    Ok(new.is_some())
}

/// The words for the person in answer to an item of that conversation.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn reply_in_lane(
    tx: &mut Tx,
    id: &str,
    lane: &str,
) -> Result<Option<String>, StoreError> {
    let reply: Option<Option<String>> =
        sqlx::query_scalar("SELECT reply FROM inbox WHERE id = $1 AND lane = $2")
            .bind(id.to_owned())
            .bind(lane.to_owned())
            .fetch_optional(tx.conn())
            .await?;
    Ok(reply.flatten())
}

/// Frees the items that a worker was at when its process died; only for whoever
/// knows that no other process has workers.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn release(tx: &mut Tx) -> Result<(), StoreError> {
    sqlx::query("UPDATE inbox SET lease_until = 0 WHERE state = 'new' AND attempts > 0")
        .execute(tx.conn())
        .await?;
    Ok(())
}
