//! `places`: conversations that others read too, to which somebody we know has
//! led us, and what doesn't work there.

use std::time::Duration;

use crate::store::{StoreError, Tx};

/// How exactly it is known when somebody we know was last seen there.
const SEEN_WITHIN: Duration = Duration::from_mins(10);
/// How often a place is looked at.
const LOOK_EVERY: Duration = Duration::from_hours(24);
/// How long a place means anything after somebody we know was last seen there.
const LIFE: Duration = Duration::from_hours(90 * 24);

/// A place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The channel.
    pub channel: String,
    /// The conversation.
    pub address: String,
    /// What doesn't work there, in words for the operator.
    pub limits: Option<String>,
    /// Why nothing can be written there.
    pub closed: Option<String>,
}

/// Notes that somebody we know was seen at a place.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn see(tx: &mut Tx, channel: &str, address: &str) -> Result<(), StoreError> {
    let now = tx.now();
    sqlx::query(
        "INSERT INTO places (channel, address, seen_at, looked_at)
         VALUES ($1, $2, $3, 0)
         ON CONFLICT (channel, address)
         DO UPDATE SET seen_at = $3, closed = NULL
                 WHERE places.seen_at < $4 OR places.closed IS NOT NULL",
    )
    .bind(channel.to_owned())
    .bind(address.to_owned())
    .bind(now.micros())
    .bind(now.minus(SEEN_WITHIN).micros())
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Notes of a place that is known, and of the threads or topics in it, that nothing
/// can be written there any more, or, without a reason, that something can, and that
/// it is to be looked at.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn set_closed(
    tx: &mut Tx,
    channel: &str,
    address: &str,
    why: Option<&str>,
) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE places SET closed = $3, looked_at = 0
          WHERE channel = $1 AND (address = $2 OR address LIKE $4)",
    )
    .bind(channel.to_owned())
    .bind(address.to_owned())
    .bind(why.map(str::to_owned))
    .bind(format!("{address}:%"))
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Whether a place is known and can be written to.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn is_open(tx: &mut Tx, channel: &str, address: &str) -> Result<bool, StoreError> {
    let found: Option<i64> = sqlx::query_scalar(
        "SELECT 1 FROM places WHERE channel = $1 AND address = $2 AND closed IS NULL",
    )
    .bind(channel.to_owned())
    .bind(address.to_owned())
    .fetch_optional(tx.conn())
    .await?;
    Ok(found.is_some())
}

/// Claims up to `limit` places of a channel to be looked at; a look that comes to
/// nothing is repeated when the next one is due.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn claim_due(tx: &mut Tx, channel: &str, limit: i64) -> Result<Vec<String>, StoreError> {
    let now = tx.now();
    Ok(sqlx::query_scalar(
        "UPDATE places
            SET looked_at = $2
          WHERE channel = $1
            AND address IN (SELECT address
                              FROM places
                             WHERE channel = $1 AND looked_at < $3
                             ORDER BY looked_at
                             LIMIT $4)
         RETURNING address",
    )
    .bind(channel.to_owned())
    .bind(now.micros())
    .bind(now.minus(LOOK_EVERY).micros())
    .bind(limit)
    .fetch_all(tx.conn())
    .await?)
}

/// Whether any place of a channel is to be looked at.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn is_any_due(tx: &mut Tx, channel: &str) -> Result<bool, StoreError> {
    let before = tx.now().minus(LOOK_EVERY).micros();
    let due: Option<i64> =
        sqlx::query_scalar("SELECT 1 FROM places WHERE channel = $1 AND looked_at < $2 LIMIT 1")
            .bind(channel.to_owned())
            .bind(before)
            .fetch_optional(tx.conn())
            .await?;
    Ok(due.is_some())
}

/// Notes what was found at a place: what doesn't work there, or why nothing can
/// be written.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn record(
    tx: &mut Tx,
    channel: &str,
    address: &str,
    found: Result<Option<&str>, &str>,
) -> Result<(), StoreError> {
    let (limits, closed) = match found {
        Ok(limits) => (limits, None),
        Err(closed) => (None, Some(closed)),
    };
    sqlx::query("UPDATE places SET limits = $3, closed = $4 WHERE channel = $1 AND address = $2")
        .bind(channel.to_owned())
        .bind(address.to_owned())
        .bind(limits.map(str::to_owned))
        .bind(closed.map(str::to_owned))
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// A place has a new address.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn rename(tx: &mut Tx, channel: &str, from: &str, to: &str) -> Result<(), StoreError> {
    // It may be known by its new address already.
    sqlx::query(
        "UPDATE places SET address = $3, closed = NULL, looked_at = 0
          WHERE channel = $1 AND address = $2
            AND NOT EXISTS (SELECT 1 FROM places p WHERE p.channel = $1 AND p.address = $3)",
    )
    .bind(channel.to_owned())
    .bind(from.to_owned())
    .bind(to.to_owned())
    .execute(tx.conn())
    .await?;
    sqlx::query("DELETE FROM places WHERE channel = $1 AND address = $2")
        .bind(channel.to_owned())
        .bind(from.to_owned())
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Every place, those that were seen last first, at most 100.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn list(tx: &mut Tx) -> Result<Vec<Place>, StoreError> {
    let rows: Vec<(String, String, Option<String>, Option<String>)> = sqlx::query_as(
        "SELECT channel, address, limits, closed FROM places ORDER BY seen_at DESC LIMIT 100",
    )
    .fetch_all(tx.conn())
    .await?;
    let place = |(channel, address, limits, closed)| Place { channel, address, limits, closed };
    Ok(rows.into_iter().map(place).collect())
}

/// Forgets places where nobody we know was seen for long.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn prune(tx: &mut Tx) -> Result<(), StoreError> {
    let before = tx.now().minus(LIFE).micros();
    sqlx::query("DELETE FROM places WHERE seen_at < $1").bind(before).execute(tx.conn()).await?;
    Ok(())
}
