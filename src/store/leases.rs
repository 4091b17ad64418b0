//! `leases` and `instance`: who does what alone, and what outlives a process.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::store::{StoreError, Tx};

/// Takes or renews a lease; the fence to write with, or `None` when somebody
/// else holds it.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn hold(
    tx: &mut Tx,
    name: &str,
    owner: &str,
    span: Duration,
) -> Result<Option<i64>, StoreError> {
    let now = tx.now();
    sqlx::query(
        "INSERT INTO leases (name, owner, fence, expires_at)
         VALUES ($1, $2, 0, 0)
         ON CONFLICT (name) DO NOTHING",
    )
    .bind(name.to_owned())
    .bind(owner.to_owned())
    .execute(tx.conn())
    .await?;
    let fence: Option<i64> = sqlx::query_scalar(
        "UPDATE leases
            SET fence = fence + CASE WHEN owner = $2 THEN 0 ELSE 1 END, owner = $2, expires_at = $3
          WHERE name = $1 AND (owner = $2 OR expires_at < $4)
         RETURNING fence",
    )
    .bind(name.to_owned())
    .bind(owner.to_owned())
    .bind(now.plus(span).micros())
    .bind(now.micros())
    .fetch_optional(tx.conn())
    .await?;
    Ok(fence)
}

/// Gives up every lease that the owner holds.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn release(tx: &mut Tx, owner: &str) -> Result<(), StoreError> {
    sqlx::query("UPDATE leases SET expires_at = 0 WHERE owner = $1")
        .bind(owner.to_owned())
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Gives up every lease, whoever holds it; only for whoever knows that no other
/// process works.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn release_all(tx: &mut Tx) -> Result<(), StoreError> {
    sqlx::query("UPDATE leases SET expires_at = 0").execute(tx.conn()).await?;
    Ok(())
}

/// The latest instant that any process has seen.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn high_water(tx: &mut Tx) -> Result<Timestamp, StoreError> {
    let micros: i64 = sqlx::query_scalar("SELECT high_water FROM instance WHERE id = 1")
        .fetch_one(tx.conn())
        .await?;
    Ok(Timestamp::from_micros(micros))
}

/// Remembers the instant now for a process that starts with a clock set back.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn raise_high_water(tx: &mut Tx) -> Result<(), StoreError> {
    let now = tx.now().micros();
    sqlx::query("UPDATE instance SET high_water = $1 WHERE id = 1 AND high_water < $1")
        .bind(now)
        .execute(tx.conn())
        .await?;
    Ok(())
}
