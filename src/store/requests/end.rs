//! How a request ends: by a decision, a withdrawal or its deadline.

use crate::clock::Timestamp;
use crate::ids::{BindingId, PrincipalId, RequestId};
use crate::requests::Answer;
use crate::requests::status::Status;
use crate::store::dialect::with_db_now;
use crate::store::{StoreError, Tx};

/// The end of a request, as [`close`] writes it.
#[derive(Debug, Clone)]
pub struct Closing<'a> {
    /// Which request.
    pub id: RequestId,
    /// The revision that was shown to whoever decided.
    pub revision: i64,
    /// The status that follows.
    pub status: Status,
    /// The answer, if any.
    pub answer: Option<&'a Answer>,
    /// The words that go with it.
    pub reason: Option<&'a str>,
    /// Who decided.
    pub by: PrincipalId,
    /// The account they used; `None` for the operator's keyboard.
    pub binding: Option<BindingId>,
    /// Where.
    pub channel: &'a str,
    /// When.
    pub at: Timestamp,
}

/// Writes a person's decision if the request is still pending, its deadline has
/// not passed by the database's clock, its shown revision is the current one,
/// and the person is its guardian through a binding in force. Says whether it
/// did: of any number of callers, in any number of processes, one gets `true`.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn close(tx: &mut Tx, closing: &Closing<'_>) -> Result<bool, StoreError> {
    tx.ahead.remove(&closing.id);
    let (now, offset) = (closing.at.micros(), tx.clock.offset());
    let sql = with_db_now!(
        tx.dialect,
        "UPDATE requests
            SET status = $2, version = version + 1, answer_option = $3, answer_text = $4,
                reason = $5, decided_by = $6, decided_channel = $7, ended_at = $8
          WHERE id = $1 AND status = 'pending' AND revision = $9 AND guardian = $6
            AND deadline > $8 AND deadline > $10 + ",
        "   AND EXISTS (SELECT 1
                          FROM principals p
                         WHERE p.id = requests.guardian AND p.removed_at IS NULL)
            AND ($11 IS NULL OR EXISTS (SELECT 1
                                          FROM bindings b
                                         WHERE b.id = $11 AND b.principal = requests.guardian
                                           AND b.revoked_at IS NULL))"
    );
    let done = sqlx::query(sql)
        .bind(closing.id.to_string())
        .bind(closing.status.as_str())
        .bind(closing.answer.and_then(|a| a.option.clone()))
        .bind(closing.answer.and_then(|a| a.text.clone()))
        .bind(closing.reason.map(str::to_owned))
        .bind(closing.by.to_string())
        .bind(closing.channel.to_owned())
        .bind(now)
        .bind(closing.revision)
        .bind(offset)
        .bind(closing.binding.map(|id| id.to_string()))
        .execute(tx.conn())
        .await?;
    Ok(done.rows_affected() == 1)
}

/// Cancels the request if it is still pending; says whether it did.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn cancel(
    tx: &mut Tx,
    id: RequestId,
    reason: &str,
    superseded_by: Option<RequestId>,
) -> Result<bool, StoreError> {
    tx.ahead.remove(&id);
    let now = tx.now().micros();
    let done = sqlx::query(
        "UPDATE requests
            SET status = 'cancelled', version = version + 1, reason = $2, superseded_by = $3,
                ended_at = $4
          WHERE id = $1 AND status = 'pending'",
    )
    .bind(id.to_string())
    .bind(reason.to_owned())
    .bind(superseded_by.map(|id| id.to_string()))
    .bind(now)
    .execute(tx.conn())
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Expires up to 500 pending requests whose deadline has passed; which.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn expire_due(tx: &mut Tx) -> Result<Vec<RequestId>, StoreError> {
    tx.ahead.clear();
    let (now, offset) = (tx.now().micros(), tx.clock.offset());
    let sql = with_db_now!(
        tx.dialect,
        "UPDATE requests
            SET status = 'expired', version = version + 1, ended_at = $1
          WHERE status = 'pending' AND deadline <= $1
            AND id IN (SELECT id
                         FROM requests
                        WHERE status = 'pending' AND deadline <= $1
                          AND deadline <= $2 + ",
        "               ORDER BY deadline
                        LIMIT 500)
         RETURNING id"
    );
    let ids: Vec<String> =
        sqlx::query_scalar(sql).bind(now).bind(offset).fetch_all(tx.conn()).await?;
    ids.into_iter()
        .map(|id| {
            id.parse().map_err(|_| StoreError::Corrupt { table: "requests", column: "id", row: id })
        })
        .collect()
}

/// Whether any pending request is past its deadline.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn is_any_due(tx: &mut Tx) -> Result<bool, StoreError> {
    let now = tx.now().micros();
    let due: Option<i64> = sqlx::query_scalar(
        "SELECT 1 FROM requests WHERE status = 'pending' AND deadline <= $1 LIMIT 1",
    )
    .bind(now)
    .fetch_optional(tx.conn())
    .await?;
    Ok(due.is_some())
}

/// When an ended request was asked, when it ended, and whether a person ended
/// it.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn times(
    tx: &mut Tx,
    id: RequestId,
) -> Result<Option<(Timestamp, Timestamp, bool)>, StoreError> {
    let row: Option<(i64, i64, Option<String>)> = sqlx::query_as(
        "SELECT created_at, ended_at, decided_by
           FROM requests
          WHERE id = $1 AND ended_at IS NOT NULL",
    )
    .bind(id.to_string())
    .fetch_optional(tx.conn())
    .await?;
    Ok(row.map(|(created, ended, by)| {
        (Timestamp::from_micros(created), Timestamp::from_micros(ended), by.is_some())
    }))
}
