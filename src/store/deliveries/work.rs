//! The work on cards: what they should show, who is at it, what came of it.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::ids::{BindingId, DeliveryId, RequestId};
use crate::store::deliveries::row::{Row, all};
use crate::store::deliveries::{Delivery, State};
use crate::store::many::{AT_ONCE, padded, places};
use crate::store::{StoreError, Tx};

/// How long one attempt may take before another worker tries.
pub const LEASE: Duration = Duration::from_secs(30);

/// Makes every card of the request show its current version, however late it is
/// sent; one that never arrived anywhere has nothing to show. It becomes so
/// together with what else the transaction changes, just before its commit.
pub fn want(tx: &mut Tx, request: RequestId) {
    tx.wanted.push(request);
}

/// Writes down what [`want`] asked for.
pub(in crate::store) async fn flush(tx: &mut Tx) -> Result<(), StoreError> {
    let now = tx.now().micros();
    let wanted = std::mem::take(&mut tx.wanted);
    for requests in wanted.chunks(AT_ONCE) {
        let requests = padded(requests);
        let sql = format!(
            "UPDATE deliveries
                SET desired_version = (SELECT r.version FROM requests r WHERE r.id = request),
                    attempts = 0, next_at = $1
              WHERE request IN ({})
                AND desired_version < (SELECT r.version FROM requests r WHERE r.id = request)
                AND NOT (state = 'failed' AND message IS NULL)",
            places(2, requests.len())
        );
        let mut query = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(now);
        for id in requests {
            query = query.bind(id);
        }
        query.execute(tx.conn()).await?;
    }
    Ok(())
}

/// Claims up to `limit` deliveries of a channel that don't show what they should. Cards that
/// have to lose their buttons come before new ones.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn claim_due(
    tx: &mut Tx,
    channel: &str,
    limit: i64,
) -> Result<Vec<Delivery>, StoreError> {
    let mut claimed = claim(tx, "message IS NOT NULL", channel, limit).await?;
    let room = limit - i64::try_from(claimed.len()).unwrap_or(limit);
    if room > 0 {
        claimed.extend(claim(tx, "message IS NULL", channel, room).await?);
    }
    Ok(claimed)
}

/// Claims those that stand already, or those that don't: each kind is found by an
/// index of its own.
async fn claim(
    tx: &mut Tx,
    kind: &'static str,
    channel: &str,
    limit: i64,
) -> Result<Vec<Delivery>, StoreError> {
    let now = tx.now();
    let sql = format!(
        "UPDATE deliveries
            SET lease_until = $2, fence = fence + 1, attempts = attempts + 1,
                state = CASE WHEN message IS NULL AND state <> 'unknown' THEN 'sending'
                             ELSE state
                        END
          WHERE id IN (SELECT id
                         FROM deliveries
                        WHERE shown_version < desired_version AND {kind}
                          AND next_at <= $1 AND lease_until <= $1 AND channel = $3
                        ORDER BY next_at
                        LIMIT $4
                        {})
         RETURNING id, request, binding, channel, address, message, state, shown_version,
                   desired_version, is_whole, sent_at, seen_at, opened_at, detail, attempts, fence",
        tx.dialect.skip_locked()
    );
    let rows: Vec<Row> = sqlx::query_as(sqlx::AssertSqlSafe(sql))
        .bind(now.micros())
        .bind(now.plus(LEASE).micros())
        .bind(channel.to_owned())
        .bind(limit)
        .fetch_all(tx.conn())
        .await?;
    all(rows)
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The delivery.
    pub id: DeliveryId,
    /// The fence of the claim.
    pub fence: i64,
    /// The version that the card should have shown when it was claimed. If more
    /// is wanted since, it is due at once, whatever came of this attempt.
    pub wanted_version: i64,
    /// How far it got.
    pub state: State,
    /// The message, if it is known now.
    pub message: Option<String>,
    /// The version that is shown now; `None` when nothing changed.
    pub shown_version: Option<i64>,
    /// Whether the exact text is shown as a whole; `None` when nothing changed.
    pub is_whole: Option<bool>,
    /// What is wrong, in words for the operator.
    pub detail: Option<String>,
    /// Whether it counts among those after which it is given up.
    pub counts: bool,
    /// When to try again, if it isn't settled.
    pub next_at: Timestamp,
}

/// Records an attempt, unless another worker has claimed the delivery since;
/// says whether it did.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn record(tx: &mut Tx, attempt: &Attempt) -> Result<bool, StoreError> {
    tx.forget();
    let now = tx.now().micros();
    let sent_at = (attempt.state == State::Sent).then_some(now);
    let done = sqlx::query(
        "UPDATE deliveries
            SET state = $3, message = COALESCE($4, message),
                shown_version = COALESCE($5, shown_version), detail = $6,
                next_at = CASE WHEN desired_version > $11 THEN $12 ELSE $7 END,
                lease_until = 0, sent_at = COALESCE(sent_at, $8),
                is_whole = COALESCE($9, is_whole), attempts = attempts - $10
          WHERE id = $1 AND fence = $2",
    )
    .bind(attempt.id.to_string())
    .bind(attempt.fence)
    .bind(attempt.state.as_str())
    .bind(attempt.message.clone())
    .bind(attempt.shown_version)
    .bind(attempt.detail.clone())
    .bind(attempt.next_at.micros())
    .bind(sent_at)
    .bind(attempt.is_whole.map(i64::from))
    .bind(i64::from(!attempt.counts))
    .bind(attempt.wanted_version)
    .bind(now)
    .execute(tx.conn())
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Keeps a claim for another [`LEASE`], if it still holds.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn keep(tx: &mut Tx, id: DeliveryId, fence: i64) -> Result<(), StoreError> {
    let until = tx.now().plus(LEASE).micros();
    sqlx::query("UPDATE deliveries SET lease_until = $3 WHERE id = $1 AND fence = $2")
        .bind(id.to_string())
        .bind(fence)
        .bind(until)
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Tries the failed cards of live requests at this binding again.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn revive(tx: &mut Tx, binding: BindingId) -> Result<u64, StoreError> {
    tx.forget();
    let now = tx.now().micros();
    let done = sqlx::query(
        "UPDATE deliveries
            SET state = 'queued', detail = NULL, attempts = 0, next_at = $2,
                shown_version = CASE WHEN message IS NULL THEN 0 ELSE shown_version END
          WHERE binding = $1 AND state = 'failed'
            AND request IN (SELECT id FROM requests WHERE status = 'pending')",
    )
    .bind(binding.to_string())
    .bind(now)
    .execute(tx.conn())
    .await?;
    Ok(done.rows_affected())
}

/// Numbers for the metrics: cards that don't show what they should, and how
/// many microseconds the oldest of them has waited.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn backlog(tx: &mut Tx) -> Result<(i64, i64), StoreError> {
    let now = tx.now().micros();
    let row: (i64, Option<i64>) = sqlx::query_as(
        "SELECT COUNT(*), MIN(next_at)
           FROM (SELECT next_at
                   FROM deliveries
                  WHERE shown_version < desired_version AND message IS NOT NULL
                    AND state <> 'failed'
                 UNION ALL
                 SELECT next_at
                   FROM deliveries
                  WHERE shown_version < desired_version AND message IS NULL
                    AND state <> 'failed') due",
    )
    .fetch_one(tx.conn())
    .await?;
    Ok((row.0, row.1.map_or(0, |at| (now - at).max(0))))
}

/// Whether any delivery of a channel is due.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn is_any_due(tx: &mut Tx, channel: &str) -> Result<bool, StoreError> {
    let now = tx.now().micros();
    let due: Option<i64> = sqlx::query_scalar(
        "SELECT 1
          WHERE EXISTS (SELECT 1
                          FROM deliveries
                         WHERE shown_version < desired_version AND message IS NOT NULL
                           AND next_at <= $1 AND lease_until <= $1 AND channel = $2)
             OR EXISTS (SELECT 1
                          FROM deliveries
                         WHERE shown_version < desired_version AND message IS NULL
                           AND next_at <= $1 AND lease_until <= $1 AND channel = $2)",
    )
    .bind(now)
    .bind(channel.to_owned())
    .fetch_optional(tx.conn())
    .await?;
    Ok(due.is_some())
}

/// Frees the edits that a worker was at when its process died; only for whoever
/// knows that no other process has workers.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn release(tx: &mut Tx) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE deliveries SET lease_until = 0 WHERE lease_until > 0 AND message IS NOT NULL",
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}
