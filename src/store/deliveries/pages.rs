//! The cards at an address, a page at a time.

use crate::clock::Timestamp;
use crate::store::deliveries::Delivery;
use crate::store::deliveries::row::{Row, all};
use crate::store::{StoreError, Tx};

/// The cards at an address whose request waits, oldest first, and how many
/// there are in all.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn list_waiting(
    tx: &mut Tx,
    channel: &str,
    address: &str,
    limit: i64,
) -> Result<(Vec<Delivery>, i64), StoreError> {
    let now = tx.now().micros();
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT y.id, y.request, y.binding, y.channel, y.address, y.message, y.state,
                y.shown_version, y.desired_version, y.is_whole, y.sent_at, y.seen_at, y.opened_at,
                y.detail, y.attempts, y.fence
           FROM deliveries y
           JOIN requests r ON r.id = y.request
          WHERE y.channel = $1 AND y.address = $2 AND r.status = 'pending' AND r.deadline > $3
          ORDER BY r.created_at
          LIMIT $4",
    )
    .bind(channel.to_owned())
    .bind(address.to_owned())
    .bind(now)
    .bind(limit)
    .fetch_all(tx.conn())
    .await?;
    let count: i64 = sqlx::query_scalar(
        "SELECT COUNT(*)
           FROM deliveries y
           JOIN requests r ON r.id = y.request
          WHERE y.channel = $1 AND y.address = $2 AND r.status = 'pending' AND r.deadline > $3",
    )
    .bind(channel.to_owned())
    .bind(address.to_owned())
    .bind(now)
    .fetch_one(tx.conn())
    .await?;
    Ok((all(rows)?, count))
}

/// The cards at an address whose request has ended, newest first, that ended
/// before the given instant.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn list_ended(
    tx: &mut Tx,
    channel: &str,
    address: &str,
    before: Timestamp,
    limit: i64,
) -> Result<Vec<Delivery>, StoreError> {
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT y.id, y.request, y.binding, y.channel, y.address, y.message, y.state,
                y.shown_version, y.desired_version, y.is_whole, y.sent_at, y.seen_at, y.opened_at,
                y.detail, y.attempts, y.fence
           FROM deliveries y
           JOIN requests r ON r.id = y.request
          WHERE y.channel = $1 AND y.address = $2 AND r.status <> 'pending' AND r.ended_at < $3
          ORDER BY r.ended_at DESC
          LIMIT $4",
    )
    .bind(channel.to_owned())
    .bind(address.to_owned())
    .bind(before.micros())
    .bind(limit)
    .fetch_all(tx.conn())
    .await?;
    all(rows)
}
