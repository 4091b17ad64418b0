//! `guesses`: codes of requests that somebody named in vain. A code authorises
//! nobody; the limit keeps anyone from trying what exists.

use std::time::Duration;

use crate::store::strangers::Account;
use crate::store::{StoreError, Tx};

/// Wrong codes within [`WINDOW`] after which codes of the account aren't read.
const TRIES: i64 = 10;
/// How far back wrong codes count.
const WINDOW: Duration = Duration::from_mins(10);
/// For how long they aren't read.
const LOCK: Duration = Duration::from_mins(30);

/// Whether codes of the account aren't read at the moment.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn is_locked(tx: &mut Tx, account: Account<'_>) -> Result<bool, StoreError> {
    let now = tx.now().micros();
    let found: Option<i64> = sqlx::query_scalar(
        "SELECT 1
           FROM guesses
          WHERE channel = $1 AND realm = $2 AND account = $3 AND locked_until > $4",
    )
    .bind(account.channel.to_owned())
    .bind(account.realm.to_owned())
    .bind(account.id.to_owned())
    .bind(now)
    .fetch_optional(tx.conn())
    .await?;
    Ok(found.is_some())
}

/// Counts a wrong code; whether from now on codes of the account aren't read.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn count(tx: &mut Tx, account: Account<'_>) -> Result<bool, StoreError> {
    let now = tx.now();
    let locked_until: i64 = sqlx::query_scalar(
        "INSERT INTO guesses (channel, realm, account, since, tries, locked_until)
         VALUES ($1, $2, $3, $4, 1, 0)
         ON CONFLICT (channel, realm, account)
         DO UPDATE SET since = CASE WHEN guesses.since < $5 THEN $4 ELSE guesses.since END,
                       tries = CASE WHEN guesses.since < $5 THEN 1
                                    WHEN guesses.tries + 1 >= $6 THEN 0
                                    ELSE guesses.tries + 1
                               END,
                       locked_until = CASE WHEN guesses.since >= $5 AND guesses.tries + 1 >= $6
                                           THEN $7 ELSE 0
                                      END
         RETURNING locked_until",
    )
    .bind(account.channel.to_owned())
    .bind(account.realm.to_owned())
    .bind(account.id.to_owned())
    .bind(now.micros())
    .bind(now.minus(WINDOW).micros())
    .bind(TRIES)
    .bind(now.plus(LOCK).micros())
    .fetch_one(tx.conn())
    .await?;
    Ok(locked_until > now.micros())
}

/// Forgets accounts that tried nothing wrong for long.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn prune(tx: &mut Tx) -> Result<(), StoreError> {
    let now = tx.now();
    sqlx::query("DELETE FROM guesses WHERE since < $1 AND locked_until < $2")
        .bind(now.minus(WINDOW).micros())
        .bind(now.micros())
        .execute(tx.conn())
        .await?;
    Ok(())
}
