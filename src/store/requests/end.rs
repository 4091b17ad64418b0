//! How a request ends: by a decision, a withdrawal or its deadline.

use crate::clock::Timestamp;
use crate::ids::{BindingId, PrincipalId, RequestId};
use crate::requests::Answer;
use crate::requests::status::Status;
use crate::store::dialect::with_db_now;
use crate::store::many::{AT_ONCE, padded, places};
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
    tx.forget();
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

/// How long a request took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// When it was asked.
    pub created_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// How it ended.
    pub status: Status,
    /// Whether a person ended it.
    pub by_person: bool,
}

/// How long those of the requests took that have ended.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn times(tx: &mut Tx, ids: &[RequestId]) -> Result<Vec<Times>, StoreError> {
    let mut times = Vec::with_capacity(ids.len());
    for some in ids.chunks(AT_ONCE) {
        let some = padded(some);
        let sql = format!(
            "SELECT created_at, ended_at, status, decided_by
               FROM requests
              WHERE ended_at IS NOT NULL AND id IN ({})",
            places(1, some.len())
        );
        let mut query = sqlx::query_as(sqlx::AssertSqlSafe(sql));
        for id in some {
            query = query.bind(id);
        }
        let rows: Vec<(i64, i64, String, Option<String>)> = query.fetch_all(tx.conn()).await?;
        for (created, ended, status, by) in rows {
            let status = status.parse().map_err(|()| StoreError::Corrupt {
                table: "requests",
                column: "status",
                row: status.clone(),
            })?;
            let created_at = Timestamp::from_micros(created);
            let ended_at = Timestamp::from_micros(ended);
            times.push(Times { created_at, ended_at, status, by_person: by.is_some() });
        }
    }
    Ok(times)
}
