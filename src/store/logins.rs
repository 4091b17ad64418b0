//! `links` and `logins`: one-time links, and who is logged in; both hashed.

use std::time::Duration;

use crate::ids::PrincipalId;
use crate::store::{StoreError, Tx};

/// How long a link can be used.
pub const LINK_LIFE: Duration = Duration::from_mins(10);
/// How long a login lasts without being used.
const IDLE: Duration = Duration::from_mins(30);
/// How long a login lasts at most.
const LONGEST: Duration = Duration::from_hours(12);

/// Writes a link for the person.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn insert_link(
    tx: &mut Tx,
    hash: &str,
    principal: PrincipalId,
    life: Duration,
) -> Result<(), StoreError> {
    let expires_at = tx.now().plus(life).micros();
    sqlx::query("INSERT INTO links (hash, principal, expires_at) VALUES ($1, $2, $3)")
        .bind(hash.to_owned())
        .bind(principal.to_string())
        .bind(expires_at)
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Uses a link up; whose it was, or `None` when it is unknown, used, too old, or
/// the person was removed.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn use_link(tx: &mut Tx, hash: &str) -> Result<Option<PrincipalId>, StoreError> {
    let now = tx.now().micros();
    let principal: Option<String> = sqlx::query_scalar(
        "UPDATE links
            SET used_at = $2
          WHERE hash = $1 AND used_at IS NULL AND expires_at > $2
            AND EXISTS (SELECT 1
                          FROM principals p
                         WHERE p.id = links.principal AND p.removed_at IS NULL)
         RETURNING principal",
    )
    .bind(hash.to_owned())
    .bind(now)
    .fetch_optional(tx.conn())
    .await?;
    principal.map(|id| parse(&id)).transpose()
}

/// Writes a login.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn insert(
    tx: &mut Tx,
    hash: &str,
    principal: PrincipalId,
    form_key: &str,
) -> Result<(), StoreError> {
    let now = tx.now().micros();
    sqlx::query(
        "INSERT INTO logins (hash, principal, form_key, created_at, seen_at)
         VALUES ($1, $2, $3, $4, $4)",
    )
    .bind(hash.to_owned())
    .bind(principal.to_string())
    .bind(form_key.to_owned())
    .bind(now)
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// The person that a login belongs to, and the value that their forms carry;
/// `None` when it ended.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find(tx: &mut Tx, hash: &str) -> Result<Option<(PrincipalId, String)>, StoreError> {
    let now = tx.now();
    let row: Option<(String, String)> = sqlx::query_as(
        "SELECT l.principal, l.form_key
           FROM logins l
           JOIN principals p ON p.id = l.principal
          WHERE l.hash = $1 AND l.ended_at IS NULL AND l.seen_at > $2 AND l.created_at > $3
            AND p.removed_at IS NULL",
    )
    .bind(hash.to_owned())
    .bind(now.minus(IDLE).micros())
    .bind(now.minus(LONGEST).micros())
    .fetch_optional(tx.conn())
    .await?;
    row.map(|(id, form_key)| Ok((parse(&id)?, form_key))).transpose()
}

/// Notes that the person of the login is there; written at most once a minute.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn touch(tx: &mut Tx, principal: PrincipalId) -> Result<(), StoreError> {
    let now = tx.now();
    sqlx::query(
        "UPDATE logins
            SET seen_at = $2
          WHERE principal = $1 AND ended_at IS NULL AND seen_at > $3 AND seen_at < $4",
    )
    .bind(principal.to_string())
    .bind(now.micros())
    .bind(now.minus(IDLE).micros())
    .bind(now.minus(Duration::from_mins(1)).micros())
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Ends a login.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn end(tx: &mut Tx, hash: &str) -> Result<(), StoreError> {
    let now = tx.now().micros();
    sqlx::query("UPDATE logins SET ended_at = $2 WHERE hash = $1 AND ended_at IS NULL")
        .bind(hash.to_owned())
        .bind(now)
        .execute(tx.conn())
        .await?;
    Ok(())
}

fn parse(id: &str) -> Result<PrincipalId, StoreError> {
    id.parse().map_err(|_| StoreError::Corrupt {
        table: "logins",
        column: "principal",
        row: id.to_owned(),
    })
}
