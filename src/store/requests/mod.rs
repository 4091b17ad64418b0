//! `requests`: one row for each thing ever asked.

mod end;
mod list;
mod open;
mod row;

use std::time::Duration;

pub use end::{Closing, cancel, close, expire_due, is_any_due, times};
pub use list::{Filter, count_open, count_pending, list, list_last, list_live_at, list_pending_of};
pub use open::{
    IdempotencyKey, count_asking, find_by_key, find_same, is_code_taken, remember_key,
    touch_session, wait_turn,
};
pub use row::insert;

use crate::ids::RequestId;
use crate::requests::Request;
use crate::requests::code::Code;
use crate::store::requests::row::{Row, all, select_requests};
use crate::store::{StoreError, Tx};

/// How long a code is not used again.
const CODE_REST: Duration = Duration::from_hours(30 * 24);

/// The request, or `None` when there is none with that id.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find(tx: &mut Tx, id: RequestId) -> Result<Option<Request>, StoreError> {
    if let Some(request) = tx.ahead.get(&id) {
        return Ok(Some(request.clone()));
    }
    let row: Option<Row> = sqlx::query_as(select_requests!("WHERE r.id = $1"))
        .bind(id.to_string())
        .fetch_optional(tx.conn())
        .await?;
    row.map(Request::try_from).transpose()
}

/// Reads the requests that a group of writes is going to ask for, by one
/// statement. Only SQLite's writer has groups.
///
/// # Errors
///
/// See [`StoreError`].
pub(super) async fn read_ahead(tx: &mut Tx, ids: &[RequestId]) -> Result<(), StoreError> {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let rows: Vec<Row> =
        sqlx::query_as(select_requests!("WHERE r.id IN (SELECT value FROM json_each($1))"))
            .bind(serde_json::json!(ids).to_string())
            .fetch_all(tx.conn())
            .await?;
    for request in all(rows)? {
        tx.ahead.insert(request.id, request);
    }
    Ok(())
}

/// The request that last had `code` within the time in which codes are not
/// used again.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find_by_code(tx: &mut Tx, code: Code) -> Result<Option<Request>, StoreError> {
    let since = tx.now().minus(CODE_REST).micros();
    let row: Option<Row> = sqlx::query_as(select_requests!(
        "WHERE r.code = $1 AND (r.created_at > $2 OR r.status = 'pending')
         ORDER BY r.created_at DESC
         LIMIT 1"
    ))
    .bind(code.to_string())
    .bind(since)
    .fetch_optional(tx.conn())
    .await?;
    row.map(Request::try_from).transpose()
}

/// The request whose card is this message.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find_by_message(
    tx: &mut Tx,
    channel: &str,
    address: &str,
    message: &str,
) -> Result<Option<Request>, StoreError> {
    let row: Option<Row> = sqlx::query_as(select_requests!(
        "WHERE r.id = COALESCE((SELECT y.request
                                  FROM deliveries y
                                 WHERE y.channel = $1 AND y.address = $2 AND y.message = $3
                                 LIMIT 1),
                                (SELECT y.request
                                   FROM deliveries y
                                  WHERE y.id = $3 AND y.channel = $1 AND y.address = $2))"
    ))
    .bind(channel.to_owned())
    .bind(address.to_owned())
    .bind(message.to_owned())
    .fetch_optional(tx.conn())
    .await?;
    row.map(Request::try_from).transpose()
}

/// Makes the request look different on its cards without changing what is
/// asked.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn bump_version(tx: &mut Tx, id: RequestId) -> Result<(), StoreError> {
    tx.ahead.remove(&id);
    sqlx::query("UPDATE requests SET version = version + 1 WHERE id = $1")
        .bind(id.to_string())
        .execute(tx.conn())
        .await?;
    Ok(())
}
