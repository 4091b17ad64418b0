//! Lists and counts of requests.

use crate::ids::{AgentId, PrincipalId, RequestId};
use crate::requests::Request;
use crate::requests::status::Status;
use crate::store::requests::row::{Row, all, select_requests};
use crate::store::{StoreError, Tx};

/// The live requests of `guardian` whose card stands at this address, or may, or
/// is just being posted there; oldest first. At most 50, which is more than
/// anybody could mean by bare words. Whether a card surely stands is for
/// [`crate::store::deliveries::stands_at`] to say.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn list_live_at(
    tx: &mut Tx,
    guardian: PrincipalId,
    channel: &str,
    address: &str,
) -> Result<Vec<Request>, StoreError> {
    let now = tx.now().micros();
    let rows: Vec<Row> = sqlx::query_as(select_requests!(
        "WHERE r.guardian = $1 AND r.status = 'pending' AND r.deadline > $4
           AND EXISTS (SELECT 1
                         FROM deliveries y
                        WHERE y.request = r.id AND y.channel = $2 AND y.address = $3
                          AND (y.state <> 'failed' OR y.channel = 'console'))
         ORDER BY r.created_at
         LIMIT 50"
    ))
    .bind(guardian.to_string())
    .bind(channel.to_owned())
    .bind(address.to_owned())
    .bind(now)
    .fetch_all(tx.conn())
    .await?;
    all(rows)
}

/// Which requests to list; `None` takes all.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this agent.
    pub agent: Option<AgentId>,
    /// In this status.
    pub status: Option<Status>,
    /// Of this conversation.
    pub session: Option<String>,
    /// Of this run.
    pub run: Option<String>,
    /// After this one, in the order of their ids.
    pub after: Option<RequestId>,
    /// At most so many.
    pub limit: i64,
}

/// The last requests of all agents, in the order in which they were asked.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn list_last(
    tx: &mut Tx,
    status: Option<Status>,
    limit: i64,
) -> Result<Vec<Request>, StoreError> {
    let rows: Vec<Row> = sqlx::query_as(select_requests!(
        "WHERE ($1 IS NULL OR r.status = $1)
         ORDER BY r.id DESC
         LIMIT $2"
    ))
    .bind(status.map(Status::as_str))
    .bind(limit)
    .fetch_all(tx.conn())
    .await?;
    let mut requests = all(rows)?;
    requests.reverse();
    Ok(requests)
}

/// The requests that match, oldest first.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn list(tx: &mut Tx, filter: &Filter) -> Result<Vec<Request>, StoreError> {
    let rows: Vec<Row> = sqlx::query_as(select_requests!(
        "WHERE ($1 IS NULL OR r.agent = $1) AND ($2 IS NULL OR r.status = $2)
           AND ($3 IS NULL OR r.session = $3) AND ($4 IS NULL OR r.run = $4)
           AND ($5 IS NULL OR r.id > $5)
         ORDER BY r.id
         LIMIT $6"
    ))
    .bind(filter.agent.map(|id| id.to_string()))
    .bind(filter.status.map(Status::as_str))
    .bind(filter.session.clone())
    .bind(filter.run.clone())
    .bind(filter.after.map(|id| id.to_string()))
    .bind(filter.limit)
    .fetch_all(tx.conn())
    .await?;
    all(rows)
}

/// How many live requests the guardian has.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn count_open(tx: &mut Tx, guardian: PrincipalId) -> Result<i64, StoreError> {
    let now = tx.now().micros();
    let count = sqlx::query_scalar(
        "SELECT COUNT(*)
           FROM requests
          WHERE guardian = $1 AND status = 'pending' AND deadline > $2",
    )
    .bind(guardian.to_string())
    .bind(now)
    .fetch_one(tx.conn())
    .await?;
    Ok(count)
}

/// How many requests are pending.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn count_pending(tx: &mut Tx) -> Result<i64, StoreError> {
    Ok(sqlx::query_scalar("SELECT COUNT(*) FROM requests WHERE status = 'pending'")
        .fetch_one(tx.conn())
        .await?)
}

/// The ids of the guardian's pending requests.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn list_pending_of(
    tx: &mut Tx,
    guardian: PrincipalId,
) -> Result<Vec<RequestId>, StoreError> {
    let ids: Vec<String> = sqlx::query_scalar(
        "SELECT id FROM requests WHERE guardian = $1 AND status = 'pending' ORDER BY created_at",
    )
    .bind(guardian.to_string())
    .fetch_all(tx.conn())
    .await?;
    ids.into_iter()
        .map(|id| {
            id.parse().map_err(|_| StoreError::Corrupt { table: "requests", column: "id", row: id })
        })
        .collect()
}
