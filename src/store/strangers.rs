//! `pairings` and `strangers`: how an unknown account becomes a person's, and
//! what those who aren't known have tried.

use std::time::Duration;

use crate::ids::PrincipalId;
use crate::store::{StoreError, Tx};

/// Wrong codes after which an account has to wait.
const TRIES: i64 = 5;
/// How long.
const LOCK: Duration = Duration::from_mins(30);
/// How often a stranger is told that nobody lets them in.
const TELL_EVERY: Duration = Duration::from_hours(24);

/// An account that belongs to nobody we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account<'a> {
    /// The channel.
    pub channel: &'a str,
    /// The workspace, or nothing.
    pub realm: &'a str,
    /// The account.
    pub id: &'a str,
}

/// Writes a pairing code, by its hash. Older ones of the same person for the
/// same channel can't be used any more.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn insert_pairing(
    tx: &mut Tx,
    hash: &str,
    principal: PrincipalId,
    channel: &str,
    life: Duration,
) -> Result<(), StoreError> {
    let now = tx.now();
    sqlx::query(
        "UPDATE pairings SET expires_at = $3
          WHERE principal = $1 AND channel = $2 AND used_at IS NULL AND expires_at > $3",
    )
    .bind(principal.to_string())
    .bind(channel.to_owned())
    .bind(now.micros())
    .execute(tx.conn())
    .await?;
    sqlx::query(
        "INSERT INTO pairings (hash, principal, channel, expires_at) VALUES ($1, $2, $3, $4)",
    )
    .bind(hash.to_owned())
    .bind(principal.to_string())
    .bind(channel.to_owned())
    .bind(now.plus(life).micros())
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Uses a pairing code up; whose it was. `None` when it is unknown, used, too
/// old or of another channel, when the person was removed, or when the account
/// has tried too often; which of these it was is nobody's business.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn use_pairing(
    tx: &mut Tx,
    account: Account<'_>,
    hash: &str,
) -> Result<Option<PrincipalId>, StoreError> {
    let now = tx.now();
    remember(tx, account).await?;
    let locked_until: i64 = sqlx::query_scalar(
        "SELECT locked_until FROM strangers WHERE channel = $1 AND realm = $2 AND account = $3",
    )
    .bind(account.channel.to_owned())
    .bind(account.realm.to_owned())
    .bind(account.id.to_owned())
    .fetch_one(tx.conn())
    .await?;
    if locked_until > now.micros() {
        return Ok(None);
    }
    let principal: Option<String> = sqlx::query_scalar(
        "UPDATE pairings
            SET used_at = $3
          WHERE hash = $1 AND channel = $2 AND used_at IS NULL AND expires_at > $3
            AND EXISTS (SELECT 1
                          FROM principals p
                         WHERE p.id = pairings.principal AND p.removed_at IS NULL)
         RETURNING principal",
    )
    .bind(hash.to_owned())
    .bind(account.channel.to_owned())
    .bind(now.micros())
    .fetch_optional(tx.conn())
    .await?;
    let Some(principal) = principal else {
        sqlx::query(
            "UPDATE strangers
                SET tries = CASE WHEN tries + 1 >= $4 THEN 0 ELSE tries + 1 END,
                    locked_until = CASE WHEN tries + 1 >= $4 THEN $5 ELSE locked_until END
              WHERE channel = $1 AND realm = $2 AND account = $3",
        )
        .bind(account.channel.to_owned())
        .bind(account.realm.to_owned())
        .bind(account.id.to_owned())
        .bind(TRIES)
        .bind(now.plus(LOCK).micros())
        .execute(tx.conn())
        .await?;
        return Ok(None);
    };
    let id = principal.parse().map_err(|_| StoreError::Corrupt {
        table: "pairings",
        column: "principal",
        row: principal.clone(),
    })?;
    Ok(Some(id))
}

/// Whether a stranger is to be told again that nobody lets them in; if so, that
/// it was done just now.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn is_to_be_told(tx: &mut Tx, account: Account<'_>) -> Result<bool, StoreError> {
    remember(tx, account).await?;
    let now = tx.now();
    let done = sqlx::query(
        "UPDATE strangers
            SET told_at = $4
          WHERE channel = $1 AND realm = $2 AND account = $3 AND told_at < $5",
    )
    .bind(account.channel.to_owned())
    .bind(account.realm.to_owned())
    .bind(account.id.to_owned())
    .bind(now.micros())
    .bind(now.minus(TELL_EVERY).micros())
    .execute(tx.conn())
    .await?;
    Ok(done.rows_affected() == 1)
}

async fn remember(tx: &mut Tx, account: Account<'_>) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO strangers (channel, realm, account, tries, locked_until, told_at)
         VALUES ($1, $2, $3, 0, 0, 0)
         ON CONFLICT (channel, realm, account) DO NOTHING",
    )
    .bind(account.channel.to_owned())
    .bind(account.realm.to_owned())
    .bind(account.id.to_owned())
    .execute(tx.conn())
    .await?;
    Ok(())
}
