//! `prompts`: what was asked of a person in a conversation, whose next words are
//! the answer.

use std::time::Duration;

use crate::ids::RequestId;
use crate::store::{StoreError, Tx};

/// How long the next words are taken for the answer.
const LIFE: Duration = Duration::from_mins(10);

/// Asks; what was asked there before is no longer.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn ask(
    tx: &mut Tx,
    channel: &str,
    address: &str,
    request: RequestId,
) -> Result<(), StoreError> {
    let until = tx.now().plus(LIFE).micros();
    sqlx::query(
        "INSERT INTO prompts (channel, address, request, expires_at)
         VALUES ($1, $2, $3, $4)
         ON CONFLICT (channel, address) DO UPDATE SET request = $3, expires_at = $4",
    )
    .bind(channel.to_owned())
    .bind(address.to_owned())
    .bind(request.to_string())
    .bind(until)
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// The request that is asked about there.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find(
    tx: &mut Tx,
    channel: &str,
    address: &str,
) -> Result<Option<RequestId>, StoreError> {
    let now = tx.now().micros();
    let request: Option<String> = sqlx::query_scalar(
        "SELECT request FROM prompts WHERE channel = $1 AND address = $2 AND expires_at > $3",
    )
    .bind(channel.to_owned())
    .bind(address.to_owned())
    .bind(now)
    .fetch_optional(tx.conn())
    .await?;
    request
        .map(|id| {
            id.parse().map_err(|_| StoreError::Corrupt {
                table: "prompts",
                column: "request",
                row: id.clone(),
            })
        })
        .transpose()
}

/// Nothing is asked there any more.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn clear(tx: &mut Tx, channel: &str, address: &str) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM prompts WHERE channel = $1 AND address = $2")
        .bind(channel.to_owned())
        .bind(address.to_owned())
        .execute(tx.conn())
        .await?;
    Ok(())
}
