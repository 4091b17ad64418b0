//! What an opening looks up before its insert and remembers with it.

use crate::ids::{AgentId, RequestId};
use crate::requests::Request;
use crate::requests::code::Code;
use crate::store::dialect::Dialect;
use crate::store::requests::row::{Row, select_requests};
use crate::store::requests::{CODE_REST, find};
use crate::store::{StoreError, Tx};

/// What an insert takes besides the request: how a retry is recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The key that the agent sent.
    pub key: String,
    /// The digest of the body that came with it.
    pub body_hash: String,
}

/// A live request of the same agent with the same session, guardian and
/// content.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find_same(tx: &mut Tx, new: &Request) -> Result<Option<Request>, StoreError> {
    let now = tx.now().micros();
    let row: Option<Row> = sqlx::query_as(select_requests!(
        "WHERE r.agent = $1 AND r.digest = $2 AND r.guardian = $3 AND r.kind = $4
           AND r.status = 'pending' AND r.deadline > $5
           AND (r.session = $6 OR (r.session IS NULL AND $6 IS NULL))
         ORDER BY r.created_at
         LIMIT 1"
    ))
    .bind(new.agent.to_string())
    .bind(new.digest.clone())
    .bind(new.guardian.to_string())
    .bind(new.content.kind.as_str())
    .bind(now)
    .bind(new.session.clone())
    .fetch_optional(tx.conn())
    .await?;
    row.map(Request::try_from).transpose()
}

/// The request that came with this idempotency key, and the digest of the body
/// that it came with.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find_by_key(
    tx: &mut Tx,
    agent: AgentId,
    key: &str,
) -> Result<Option<(Request, String)>, StoreError> {
    let found: Option<(String, String)> = sqlx::query_as(
        "SELECT request, body_hash FROM idempotency WHERE agent = $1 AND idempotency_key = $2",
    )
    .bind(agent.to_string())
    .bind(key.to_owned())
    .fetch_optional(tx.conn())
    .await?;
    let Some((id, hash)) = found else { return Ok(None) };
    let id = id.parse().map_err(|_| StoreError::Corrupt {
        table: "requests",
        column: "id",
        row: id.clone(),
    })?;
    Ok(find(tx, id).await?.map(|request| (request, hash)))
}

/// Remembers which request a call got.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn remember_key(
    tx: &mut Tx,
    agent: AgentId,
    idempotency: &IdempotencyKey,
    request: RequestId,
) -> Result<(), StoreError> {
    let now = tx.now().micros();
    sqlx::query(
        "INSERT INTO idempotency (agent, idempotency_key, body_hash, request, created_at)
         VALUES ($1, $2, $3, $4, $5)",
    )
    .bind(agent.to_string())
    .bind(idempotency.key.clone())
    .bind(idempotency.body_hash.clone())
    .bind(request.to_string())
    .bind(now)
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Makes other openings with the same name wait until this transaction ends, so
/// that what is looked up before an insert still holds at it. SQLite has one
/// writer anyway.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn wait_turn(tx: &mut Tx, name: &str) -> Result<(), StoreError> {
    if tx.dialect == Dialect::Postgres {
        sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 7300))")
            .bind(name.to_owned())
            .execute(tx.conn())
            .await?;
    }
    Ok(())
}

/// Counts one more asking of a live request.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn count_asking(tx: &mut Tx, id: RequestId) -> Result<(), StoreError> {
    tx.ahead.remove(&id);
    sqlx::query("UPDATE requests SET asked = asked + 1 WHERE id = $1")
        .bind(id.to_string())
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Whether the code is in use or was until lately.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn is_code_taken(tx: &mut Tx, code: Code) -> Result<bool, StoreError> {
    let since = tx.now().minus(CODE_REST).micros();
    let taken: Option<i64> = sqlx::query_scalar(
        "SELECT 1
           FROM requests
          WHERE code = $1 AND (created_at > $2 OR ended_at > $2 OR status = 'pending')
          LIMIT 1",
    )
    .bind(code.to_string())
    .bind(since)
    .fetch_optional(tx.conn())
    .await?;
    Ok(taken.is_some())
}

/// Remembers the agent's conversation.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn touch_session(tx: &mut Tx, agent: AgentId, session: &str) -> Result<(), StoreError> {
    let now = tx.now().micros();
    sqlx::query(
        "INSERT INTO sessions (agent, name, created_at)
         VALUES ($1, $2, $3)
         ON CONFLICT (agent, name) DO NOTHING",
    )
    .bind(agent.to_string())
    .bind(session.to_owned())
    .bind(now)
    .execute(tx.conn())
    .await?;
    Ok(())
}
