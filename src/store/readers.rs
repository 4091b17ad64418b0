//! `readers`: how far a platform's updates were read, and how that goes.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::store::{StoreError, Tx};

/// How long a position means anything: platforms number their updates afresh
/// after a week of silence.
const POSITION_LIFE: Duration = Duration::from_hours(6 * 24);

/// How reading goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reader {
    /// The channel.
    pub channel: String,
    /// Which of our accounts.
    pub receiver: String,
    /// When it last worked.
    pub read_at: Option<Timestamp>,
    /// What is wrong with it, and the remedy.
    pub trouble: Option<String>,
}

/// After so long without a look, nobody reads any more: the longest poll takes
/// less, and a webhook is looked after every five minutes.
const STALE: Duration = Duration::from_mins(6);

impl Reader {
    /// What is wrong at the moment and what to do, if anything is.
    pub fn trouble_at(&self, now: Timestamp) -> Option<String> {
        match (&self.trouble, self.read_at.map(|at| now.since(at))) {
            (Some(trouble), _) => Some(trouble.clone()),
            (None, Some(age)) if age < STALE => None,
            (None, Some(age)) => {
                let minutes = age.as_secs() / 60;
                Some(format!("no look for updates for {minutes} minutes; is a gateway running?"))
            }
            (None, None) => Some("no updates yet; is a gateway running?".to_owned()),
        }
    }
}

/// Notes where reading goes on, and that it works.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn advance(
    tx: &mut Tx,
    channel: &str,
    receiver: &str,
    position: i64,
) -> Result<(), StoreError> {
    let now = tx.now().micros();
    sqlx::query(
        "INSERT INTO readers (channel, receiver, position, read_at)
         VALUES ($1, $2, $3, $4)
         ON CONFLICT (channel, receiver)
         DO UPDATE SET position = $3, read_at = $4, trouble = NULL",
    )
    .bind(channel.to_owned())
    .bind(receiver.to_owned())
    .bind(position)
    .bind(now)
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Where reading goes on; `None` when that is unknown or too long ago.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn position(
    tx: &mut Tx,
    channel: &str,
    receiver: &str,
) -> Result<Option<i64>, StoreError> {
    let since = tx.now().minus(POSITION_LIFE).micros();
    let position: Option<Option<i64>> = sqlx::query_scalar(
        "SELECT position FROM readers WHERE channel = $1 AND receiver = $2 AND read_at > $3",
    )
    .bind(channel.to_owned())
    .bind(receiver.to_owned())
    .bind(since)
    .fetch_optional(tx.conn())
    .await?;
    Ok(position.flatten())
}

/// Notes that reading works, or what is wrong with it.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn report(
    tx: &mut Tx,
    channel: &str,
    receiver: &str,
    trouble: Option<&str>,
) -> Result<(), StoreError> {
    let read_at = trouble.is_none().then_some(tx.now().micros());
    sqlx::query(
        "INSERT INTO readers (channel, receiver, read_at, trouble)
         VALUES ($1, $2, $3, $4)
         ON CONFLICT (channel, receiver)
         DO UPDATE SET read_at = COALESCE($3, readers.read_at), trouble = $4",
    )
    .bind(channel.to_owned())
    .bind(receiver.to_owned())
    .bind(read_at)
    .bind(trouble.map(str::to_owned))
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Every reader there ever was.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn list(tx: &mut Tx) -> Result<Vec<Reader>, StoreError> {
    let rows: Vec<(String, String, Option<i64>, Option<String>)> = sqlx::query_as(
        "SELECT channel, receiver, read_at, trouble FROM readers ORDER BY channel, receiver",
    )
    .fetch_all(tx.conn())
    .await?;
    Ok(rows
        .into_iter()
        .map(|(channel, receiver, read_at, trouble)| Reader {
            channel,
            receiver,
            read_at: read_at.map(Timestamp::from_micros),
            trouble,
        })
        .collect())
}
