//! `jobs`: what is owed after a commit, done at least once.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::ids::{JobId, RequestId};
use crate::store::{StoreError, Tx};

/// The job that puts a new request in front of its guardian.
pub const BROADCAST: &str = "broadcast";
/// The job that tells the agent by its callback.
pub const NOTIFY_AGENT: &str = "notify_agent";

/// The job that says in the shared place a request came from how it ended.
pub const TELL_PLACE: &str = "tell_place";

/// How long one attempt may take before another worker tries.
pub const LEASE: Duration = Duration::from_mins(1);

/// Something owed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its id, the same on every attempt.
    pub id: JobId,
    /// What is owed.
    pub kind: String,
    /// Because of which request.
    pub request: RequestId,
    /// More, as the kind needs it.
    pub payload: String,
    /// How often it was tried.
    pub attempts: i64,
    /// Grows with every claim.
    pub fence: i64,
}

/// Writes down what is owed; once for each kind and request.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn enqueue(
    tx: &mut Tx,
    kind: &str,
    request: RequestId,
    payload: &str,
) -> Result<(), StoreError> {
    let now = tx.now().micros();
    sqlx::query(
        "INSERT INTO jobs (id, kind, request, payload, state, attempts, next_at, lease_until,
                           fence, created_at)
         VALUES ($1, $2, $3, $4, 'ready', 0, $5, 0, 0, $5)
         ON CONFLICT (kind, request) DO NOTHING",
    )
    .bind(JobId::new().to_string())
    .bind(kind.to_owned())
    .bind(request.to_string())
    .bind(payload.to_owned())
    .bind(now)
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Owes once more what was done already for the request.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn again(tx: &mut Tx, kind: &str, request: RequestId) -> Result<(), StoreError> {
    let now = tx.now().micros();
    sqlx::query(
        "UPDATE jobs
            SET state = 'ready', next_at = $3, lease_until = 0, done_at = NULL, fence = fence + 1
          WHERE kind = $1 AND request = $2",
    )
    .bind(kind.to_owned())
    .bind(request.to_string())
    .bind(now)
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Claims up to `limit` jobs of a kind that are due.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn claim_due(tx: &mut Tx, kind: &str, limit: i64) -> Result<Vec<Job>, StoreError> {
    let now = tx.now();
    let sql = format!(
        "UPDATE jobs
            SET lease_until = $2, fence = fence + 1, attempts = attempts + 1
          WHERE id IN (SELECT id
                         FROM jobs
                        WHERE state = 'ready' AND next_at <= $1 AND lease_until <= $1
                          AND kind = $4
                        ORDER BY next_at
                        LIMIT $3 {})
         RETURNING id, kind, request, payload, attempts, fence",
        tx.dialect.skip_locked()
    );
    let rows: Vec<(String, String, String, String, i64, i64)> =
        sqlx::query_as(sqlx::AssertSqlSafe(sql))
            .bind(now.micros())
            .bind(now.plus(LEASE).micros())
            .bind(limit)
            .bind(kind.to_owned())
            .fetch_all(tx.conn())
            .await?;
    rows.into_iter()
        .map(|(id, kind, request, payload, attempts, fence)| {
            let corrupt = |column| StoreError::Corrupt { table: "jobs", column, row: id.clone() };
            Ok(Job {
                id: id.parse().map_err(|_| corrupt("id"))?,
                kind,
                request: request.parse().map_err(|_| corrupt("request"))?,
                payload,
                attempts,
                fence,
            })
        })
        .collect()
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// It is done.
    Done,
    /// It failed; try again at that time.
    Later(Timestamp),
    /// It will never be done; it stays visible.
    Dead,
}

/// Records an attempt, unless another worker has claimed the job since; says
/// whether it did.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn record(
    tx: &mut Tx,
    job: &Job,
    progress: &Progress,
    error: Option<&str>,
) -> Result<bool, StoreError> {
    let now = tx.now().micros();
    let (state, next_at, done_at) = match progress {
        Progress::Done => ("done", now, Some(now)),
        Progress::Later(at) => ("ready", at.micros(), None),
        Progress::Dead => ("dead", now, None),
    };
    let done = sqlx::query(
        "UPDATE jobs
            SET state = $3, next_at = $4, done_at = $5, last_error = $6, lease_until = 0
          WHERE id = $1 AND fence = $2",
    )
    .bind(job.id.to_string())
    .bind(job.fence)
    .bind(state)
    .bind(next_at)
    .bind(done_at)
    .bind(error.map(str::to_owned))
    .execute(tx.conn())
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Numbers for the metrics: jobs that wait, and how many microseconds the one
/// that is due longest is late.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn backlog(tx: &mut Tx) -> Result<(i64, i64), StoreError> {
    let now = tx.now().micros();
    let row: (i64, Option<i64>) =
        sqlx::query_as("SELECT COUNT(*), MIN(next_at) FROM jobs WHERE state = 'ready'")
            .fetch_one(tx.conn())
            .await?;
    Ok((row.0, row.1.map_or(0, |at| (now - at).max(0))))
}

/// The kinds of which some job is due.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn kinds_due(tx: &mut Tx) -> Result<Vec<String>, StoreError> {
    let now = tx.now().micros();
    Ok(sqlx::query_scalar(
        "SELECT DISTINCT kind
           FROM jobs
          WHERE state = 'ready' AND next_at <= $1 AND lease_until <= $1
            AND kind IN ('broadcast', 'notify_agent', 'tell_place')",
    )
    .bind(now)
    .fetch_all(tx.conn())
    .await?)
}

/// Frees the jobs that a worker was at when its process died; only for whoever
/// knows that no other process has workers.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn release(tx: &mut Tx) -> Result<(), StoreError> {
    sqlx::query("UPDATE jobs SET lease_until = 0 WHERE state = 'ready' AND lease_until > 0")
        .execute(tx.conn())
        .await?;
    Ok(())
}
