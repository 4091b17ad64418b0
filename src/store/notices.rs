//! `notices`: words that are owed to a person, each sent at most once.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::ids::NoticeId;
use crate::store::{StoreError, Tx};

/// How long the next words of a conversation wait for the ones before them.
const WAIT_FOR: Duration = Duration::from_mins(1);

/// Words to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Its id.
    pub id: NoticeId,
    /// The channel.
    pub channel: String,
    /// The conversation.
    pub address: String,
    /// The words.
    pub text: String,
    /// How often it was tried.
    pub attempts: i64,
    /// Since when it waits.
    pub created_at: Timestamp,
}

/// What came of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It was sent, or may have been.
    Sent,
    /// It was not sent for certain; try again at that time.
    Later(Timestamp),
    /// It can't be sent.
    Failed,
}

/// Writes words to be sent.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn owe(tx: &mut Tx, channel: &str, address: &str, text: &str) -> Result<(), StoreError> {
    let now = tx.now().micros();
    sqlx::query(
        "INSERT INTO notices (id, channel, address, text, state, attempts, next_at, created_at)
         VALUES ($1, $2, $3, $4, 'queued', 0, $5, $5)",
    )
    .bind(NoticeId::new().to_string())
    .bind(channel.to_owned())
    .bind(address.to_owned())
    .bind(text.to_owned())
    .bind(now)
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Claims up to `limit` notices of a channel that are due, oldest first: of each
/// conversation only the oldest, so that they arrive in order. One that was
/// claimed and not recorded may have been sent and is left alone.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn claim_due(tx: &mut Tx, channel: &str, limit: i64) -> Result<Vec<Notice>, StoreError> {
    let now = tx.now().micros();
    let until = tx.now().plus(WAIT_FOR).micros();
    let sql = format!(
        "UPDATE notices
            SET state = 'sending', attempts = attempts + 1, next_at = $4
          WHERE id IN (SELECT n.id
                         FROM notices n
                        WHERE n.state = 'queued' AND n.channel = $1 AND n.next_at <= $2
                          AND NOT EXISTS (SELECT 1
                                            FROM notices o
                                           WHERE o.channel = n.channel
                                             AND o.address = n.address AND o.id < n.id
                                             AND (o.state = 'queued'
                                                  OR (o.state = 'sending' AND o.next_at > $2)))
                        ORDER BY n.next_at
                        LIMIT $3 {})
         RETURNING id, channel, address, text, attempts, created_at",
        tx.dialect.skip_locked()
    );
    let rows: Vec<(String, String, String, String, i64, i64)> =
        sqlx::query_as(sqlx::AssertSqlSafe(sql))
            .bind(channel.to_owned())
            .bind(now)
            .bind(limit)
            .bind(until)
            .fetch_all(tx.conn())
            .await?;
    rows.into_iter()
        .map(|(id, channel, address, text, attempts, created_at)| {
            let id = id.parse().map_err(|_| StoreError::Corrupt {
                table: "notices",
                column: "id",
                row: id.clone(),
            })?;
            let created_at = Timestamp::from_micros(created_at);
            Ok(Notice { id, channel, address, text, attempts, created_at })
        })
        .collect()
}

/// Records an attempt.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn record(tx: &mut Tx, id: NoticeId, progress: Progress) -> Result<(), StoreError> {
    let (state, next_at) = match progress {
        Progress::Sent => ("sent", 0),
        Progress::Later(at) => ("queued", at.micros()),
        Progress::Failed => ("failed", 0),
    };
    sqlx::query("UPDATE notices SET state = $2, next_at = $3 WHERE id = $1 AND state = 'sending'")
        .bind(id.to_string())
        .bind(state)
        .bind(next_at)
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Whether any notice of a channel is due.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn is_any_due(tx: &mut Tx, channel: &str) -> Result<bool, StoreError> {
    let now = tx.now().micros();
    let due: Option<i64> = sqlx::query_scalar(
        "SELECT 1
           FROM notices
          WHERE state = 'queued' AND channel = $1 AND next_at <= $2
          LIMIT 1",
    )
    .bind(channel.to_owned())
    .bind(now)
    .fetch_optional(tx.conn())
    .await?;
    Ok(due.is_some())
}

/// How many are not sent yet, and how many microseconds the oldest has waited.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn backlog(tx: &mut Tx) -> Result<(i64, i64), StoreError> {
    let now = tx.now().micros();
    let row: (i64, Option<i64>) =
        sqlx::query_as("SELECT COUNT(*), MIN(created_at) FROM notices WHERE state = 'queued'")
            .fetch_one(tx.conn())
            .await?;
    Ok((row.0, row.1.map_or(0, |at| (now - at).max(0))))
}

/// Removes notices from before `before`, at most 1,000.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn prune(tx: &mut Tx, before: Timestamp) -> Result<(), StoreError> {
    sqlx::query(
        "DELETE FROM notices
          WHERE id IN (SELECT id FROM notices WHERE created_at < $1 ORDER BY created_at LIMIT 1000)",
    )
    .bind(before.micros())
    .execute(tx.conn())
    .await?;
    Ok(())
}
