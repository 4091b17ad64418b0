//! `deliveries`: where a card stands, what it shows and what it should show.

mod pages;
mod row;
mod work;

pub use pages::{list_ended, list_waiting};
pub(super) use work::flush;
pub use work::{
    Attempt, LEASE, backlog, claim_due, is_any_due, keep, record, release, revive, want,
};

use crate::clock::Timestamp;
use crate::ids::{BindingId, DeliveryId, RequestId};
use crate::store::deliveries::row::{Row, all, delivery_columns};
use crate::store::{StoreError, Tx};

/// One card at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its id.
    pub id: DeliveryId,
    /// The request that it shows.
    pub request: RequestId,
    /// The account whose private address it stands at.
    pub binding: BindingId,
    /// The channel.
    pub channel: String,
    /// The address.
    pub address: String,
    /// The message, once it is known.
    pub message: Option<String>,
    /// How far it got.
    pub state: State,
    /// The version of the request that it shows.
    pub shown_version: i64,
    /// The version that it should show.
    pub desired_version: i64,
    /// Whether the exact text fits on it as a whole.
    pub is_whole: bool,
    /// When it first arrived.
    pub sent_at: Option<Timestamp>,
    /// When the person first looked at it.
    pub seen_at: Option<Timestamp>,
    /// When the person opened the whole text.
    pub opened_at: Option<Timestamp>,
    /// What is wrong with it.
    pub detail: Option<String>,
    /// How often the current version was tried.
    pub attempts: i64,
    /// Grows with every claim; a late worker's result is not taken.
    pub fence: i64,
}

/// How far a delivery got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not tried yet.
    Queued,
    /// A worker is at it, or was when it died.
    Sending,
    /// It arrived.
    Sent,
    /// It may have arrived.
    Unknown,
    /// It arrived and was removed since.
    Gone,
    /// It can't arrive.
    Failed,
}

impl State {
    /// The word for it in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Sending => "sending",
            Self::Sent => "sent",
            Self::Unknown => "unknown",
            Self::Gone => "gone",
            Self::Failed => "failed",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Queued, Self::Sending, Self::Sent, Self::Unknown, Self::Gone, Self::Failed]
            .into_iter()
            .find(|s| s.as_str() == text)
    }
}

/// Writes a delivery to be made.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn insert(tx: &mut Tx, delivery: &Delivery) -> Result<(), StoreError> {
    tx.ahead.remove(&delivery.request);
    let now = tx.now().micros();
    sqlx::query(
        "INSERT INTO deliveries (id, request, binding, channel, address, message, state,
                                 shown_version, desired_version, is_whole, detail, attempts,
                                 next_at, lease_until, fence)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0, $12, 0, 0)",
    )
    .bind(delivery.id.to_string())
    .bind(delivery.request.to_string())
    .bind(delivery.binding.to_string())
    .bind(delivery.channel.clone())
    .bind(delivery.address.clone())
    .bind(delivery.message.clone())
    .bind(delivery.state.as_str())
    .bind(delivery.shown_version)
    .bind(delivery.desired_version)
    .bind(i64::from(delivery.is_whole))
    .bind(delivery.detail.clone())
    .bind(now)
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Settles where a delivery goes: it is to be made, and whether the exact text
/// fits there as a whole; or the reason why it can't be.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn route(
    tx: &mut Tx,
    id: DeliveryId,
    route: Result<bool, String>,
) -> Result<(), StoreError> {
    tx.forget();
    let now = tx.now().micros();
    let (state, is_whole, detail) = match route {
        Ok(is_whole) => (State::Queued, is_whole, None),
        Err(reason) => (State::Failed, false, Some(reason)),
    };
    sqlx::query(
        "UPDATE deliveries
            SET state = $2, is_whole = $3, detail = $4, next_at = $5,
                shown_version = CASE WHEN $2 = 'queued' THEN 0 ELSE shown_version END
          WHERE id = $1",
    )
    .bind(id.to_string())
    .bind(state.as_str())
    .bind(i64::from(is_whole))
    .bind(detail)
    .bind(now)
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Every card of the request.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn list_of(tx: &mut Tx, request: RequestId) -> Result<Vec<Delivery>, StoreError> {
    let rows: Vec<Row> = sqlx::query_as(delivery_columns!(
        "SELECT ",
        " FROM deliveries WHERE request = $1 ORDER BY id"
    ))
    .bind(request.to_string())
    .fetch_all(tx.conn())
    .await?;
    all(rows)
}

/// The card that is this message.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find_at(
    tx: &mut Tx,
    channel: &str,
    address: &str,
    message: &str,
) -> Result<Option<Delivery>, StoreError> {
    let row: Option<Row> = sqlx::query_as(delivery_columns!(
        "SELECT ",
        " FROM deliveries
          WHERE id = COALESCE((SELECT y.id
                                 FROM deliveries y
                                WHERE y.channel = $1 AND y.address = $2 AND y.message = $3
                                LIMIT 1),
                              $3)
            AND channel = $1 AND address = $2"
    ))
    .bind(channel.to_owned())
    .bind(address.to_owned())
    .bind(message.to_owned())
    .fetch_optional(tx.conn())
    .await?;
    row.map(Delivery::try_from).transpose()
}

/// A message turns out to be a card of the request at that address: one whose
/// sending was in doubt, or a second one that was sent by accident. From now on
/// it shows what it should like every other.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn adopt(
    tx: &mut Tx,
    request: RequestId,
    channel: &str,
    address: &str,
    message: &str,
) -> Result<(), StoreError> {
    let known: Option<i64> = sqlx::query_scalar(
        "SELECT 1 FROM deliveries WHERE channel = $1 AND address = $2 AND message = $3 LIMIT 1",
    )
    .bind(channel.to_owned())
    .bind(address.to_owned())
    .bind(message.to_owned())
    .fetch_optional(tx.conn())
    .await?;
    if known.is_some() {
        return Ok(());
    }
    tx.ahead.remove(&request);
    let now = tx.now().micros();
    // Whoever is just sending it finds that it was claimed since. One whose
    // message has become known a moment ago stays as it is.
    let done = sqlx::query(
        "UPDATE deliveries
            SET message = $4, state = 'sent', sent_at = COALESCE(sent_at, $5), shown_version = 0,
                fence = fence + 1, lease_until = 0, next_at = $5, detail = NULL
          WHERE request = $1 AND channel = $2 AND address = $3 AND message IS NULL",
    )
    .bind(request.to_string())
    .bind(channel.to_owned())
    .bind(address.to_owned())
    .bind(message.to_owned())
    .bind(now)
    .execute(tx.conn())
    .await?;
    if done.rows_affected() > 0 {
        return Ok(());
    }
    let cards = list_of(tx, request).await?;
    let mut here = cards.iter().filter(|c| c.channel == channel && c.address == address);
    let is_known = here.clone().any(|card| card.message.as_deref() == Some(message));
    let Some(card) = here.next().filter(|_| !is_known) else { return Ok(()) };
    let second = Delivery {
        id: DeliveryId::new(),
        message: Some(message.to_owned()),
        state: State::Sent,
        shown_version: 0,
        detail: Some("a second copy".to_owned()),
        ..card.clone()
    };
    insert(tx, &second).await
}

/// A message that another has replaced and that still stands as it was: it is to
/// show the end of the request, but nothing before that.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn leave_behind(
    tx: &mut Tx,
    replaced: &Delivery,
    message: &str,
    version: i64,
) -> Result<(), StoreError> {
    let old = Delivery {
        id: DeliveryId::new(),
        message: Some(message.to_owned()),
        state: State::Sent,
        shown_version: version,
        desired_version: version,
        is_whole: false,
        detail: Some("replaced by another message".to_owned()),
        ..replaced.clone()
    };
    insert(tx, &old).await
}

/// Whether a card of the request surely stands at an address. A page shows
/// whatever is stored; elsewhere a card stands once its message is known.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn stands_at(
    tx: &mut Tx,
    request: RequestId,
    channel: &str,
    address: &str,
) -> Result<bool, StoreError> {
    let found: Option<i64> = sqlx::query_scalar(
        "SELECT 1
           FROM deliveries
          WHERE request = $1 AND channel = $2 AND address = $3
            AND (message IS NOT NULL OR channel = 'console')
          LIMIT 1",
    )
    .bind(request.to_string())
    .bind(channel.to_owned())
    .bind(address.to_owned())
    .fetch_optional(tx.conn())
    .await?;
    Ok(found.is_some())
}

/// Notes that the person looked at a card; says whether it was the first time.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn mark_seen(tx: &mut Tx, id: DeliveryId) -> Result<bool, StoreError> {
    let now = tx.now().micros();
    let done = sqlx::query("UPDATE deliveries SET seen_at = $2 WHERE id = $1 AND seen_at IS NULL")
        .bind(id.to_string())
        .bind(now)
        .execute(tx.conn())
        .await?;
    Ok(done.rows_affected() == 1)
}

/// Notes that the person opened the whole text of the request's cards at a
/// binding, or, without one, at the operator's keyboard, which counts as a page;
/// says whether it was the first time.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn mark_opened(
    tx: &mut Tx,
    request: RequestId,
    binding: Option<BindingId>,
) -> Result<bool, StoreError> {
    tx.ahead.remove(&request);
    let now = tx.now().micros();
    let done = sqlx::query(
        "UPDATE deliveries
            SET opened_at = $2
          WHERE request = $1 AND opened_at IS NULL
            AND (binding = $3 OR ($3 IS NULL AND channel = 'console'))",
    )
    .bind(request.to_string())
    .bind(now)
    .bind(binding.map(|id| id.to_string()))
    .execute(tx.conn())
    .await?;
    Ok(done.rows_affected() > 0)
}
