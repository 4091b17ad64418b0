//! `deliveries`: where a card stands, what it shows and what it should show.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::ids::{BindingId, DeliveryId, RequestId};
use crate::store::dialect::with_skip_locked;
use crate::store::{StoreError, Tx};

/// How long one attempt may take before another worker tries.
pub const LEASE: Duration = Duration::from_secs(30);

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

macro_rules! delivery_columns {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            "id, request, binding, channel, address, message, state, shown_version,
             desired_version, is_whole, sent_at, seen_at, opened_at, detail, attempts, fence",
            $after
        )
    };
}

#[derive(sqlx::FromRow)]
struct Row {
    id: String,
    request: String,
    binding: String,
    channel: String,
    address: String,
    message: Option<String>,
    state: String,
    shown_version: i64,
    desired_version: i64,
    is_whole: i64,
    sent_at: Option<i64>,
    seen_at: Option<i64>,
    opened_at: Option<i64>,
    detail: Option<String>,
    attempts: i64,
    fence: i64,
}

impl TryFrom<Row> for Delivery {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let key = row.id.clone();
        let corrupt =
            |column| StoreError::Corrupt { table: "deliveries", column, row: key.clone() };
        Ok(Self {
            id: row.id.parse().map_err(|_| corrupt("id"))?,
            request: row.request.parse().map_err(|_| corrupt("request"))?,
            binding: row.binding.parse().map_err(|_| corrupt("binding"))?,
            channel: row.channel,
            address: row.address,
            message: row.message,
            state: State::parse(&row.state).ok_or_else(|| corrupt("state"))?,
            shown_version: row.shown_version,
            desired_version: row.desired_version,
            is_whole: row.is_whole != 0,
            sent_at: row.sent_at.map(Timestamp::from_micros),
            seen_at: row.seen_at.map(Timestamp::from_micros),
            opened_at: row.opened_at.map(Timestamp::from_micros),
            detail: row.detail,
            attempts: row.attempts,
            fence: row.fence,
        })
    }
}

fn all(rows: Vec<Row>) -> Result<Vec<Delivery>, StoreError> {
    rows.into_iter().map(Delivery::try_from).collect()
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
    tx.ahead.clear();
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

/// Makes every card of the request show its current version, however late it is
/// sent; one that never arrived anywhere has nothing to show. It becomes so
/// together with what else the transaction changes, just before its commit.
pub fn want(tx: &mut Tx, request: RequestId) {
    tx.wanted.push(request);
}

/// Requests of one statement at most; of a smaller number the last is named
/// again until there are a power of two, so that there are few different
/// statements to keep prepared.
const WANTED: usize = 64;

/// Writes down what [`want`] asked for.
pub(super) async fn flush(tx: &mut Tx) -> Result<(), StoreError> {
    let now = tx.now().micros();
    let wanted = std::mem::take(&mut tx.wanted);
    for requests in wanted.chunks(WANTED) {
        let Some(last) = requests.last() else { continue };
        let mut query = sqlx::query(sqlx::AssertSqlSafe(want_sql(requests.len()))).bind(now);
        for id in requests {
            query = query.bind(id.to_string());
        }
        for _ in requests.len()..requests.len().next_power_of_two() {
            query = query.bind(last.to_string());
        }
        query.execute(tx.conn()).await?;
    }
    Ok(())
}

fn want_sql(requests: usize) -> String {
    let places: Vec<String> =
        (2..2 + requests.next_power_of_two()).map(|place| format!("${place}")).collect();
    format!(
        "UPDATE deliveries
            SET desired_version = (SELECT r.version FROM requests r WHERE r.id = request),
                attempts = 0, next_at = $1
          WHERE request IN ({})
            AND desired_version < (SELECT r.version FROM requests r WHERE r.id = request)
            AND NOT (state = 'failed' AND message IS NULL)",
        places.join(", ")
    )
}

/// Claims up to `limit` deliveries of a channel that don't show what they should. Cards that
/// have to lose their buttons come before new ones.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn claim_due(
    tx: &mut Tx,
    channel: &str,
    limit: i64,
) -> Result<Vec<Delivery>, StoreError> {
    let now = tx.now();
    let sql = with_skip_locked!(
        tx.dialect,
        "UPDATE deliveries
            SET lease_until = $2, fence = fence + 1, attempts = attempts + 1,
                state = CASE WHEN message IS NULL THEN 'sending' ELSE state END
          WHERE id IN (SELECT id
                         FROM deliveries
                        WHERE shown_version < desired_version AND next_at <= $1
                          AND lease_until <= $1 AND channel = $3
                        ORDER BY CASE WHEN message IS NULL THEN 1 ELSE 0 END, next_at
                        LIMIT $4 ",
        ")
         RETURNING id, request, binding, channel, address, message, state, shown_version,
                   desired_version, is_whole, sent_at, seen_at, opened_at, detail, attempts, fence"
    );
    let rows: Vec<Row> = sqlx::query_as(sql)
        .bind(now.micros())
        .bind(now.plus(LEASE).micros())
        .bind(channel.to_owned())
        .bind(limit)
        .fetch_all(tx.conn())
        .await?;
    all(rows)
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The delivery.
    pub id: DeliveryId,
    /// The fence of the claim.
    pub fence: i64,
    /// How far it got.
    pub state: State,
    /// The message, if it is known now.
    pub message: Option<String>,
    /// The version that is shown now; `None` when nothing changed.
    pub shown_version: Option<i64>,
    /// What is wrong, in words for the operator.
    pub detail: Option<String>,
    /// When to try again, if it isn't settled.
    pub next_at: Timestamp,
}

/// Records an attempt, unless another worker has claimed the delivery since;
/// says whether it did.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn record(tx: &mut Tx, attempt: &Attempt) -> Result<bool, StoreError> {
    tx.ahead.clear();
    let now = tx.now().micros();
    let sent_at = (attempt.state == State::Sent).then_some(now);
    let done = sqlx::query(
        "UPDATE deliveries
            SET state = $3, message = COALESCE($4, message),
                shown_version = COALESCE($5, shown_version), detail = $6, next_at = $7,
                lease_until = 0, sent_at = COALESCE(sent_at, $8)
          WHERE id = $1 AND fence = $2",
    )
    .bind(attempt.id.to_string())
    .bind(attempt.fence)
    .bind(attempt.state.as_str())
    .bind(attempt.message.clone())
    .bind(attempt.shown_version)
    .bind(attempt.detail.clone())
    .bind(attempt.next_at.micros())
    .bind(sent_at)
    .execute(tx.conn())
    .await?;
    Ok(done.rows_affected() == 1)
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

/// Notes that the person opened the whole text of every card of the request;
/// says whether it was the first time.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn mark_opened(tx: &mut Tx, request: RequestId) -> Result<bool, StoreError> {
    tx.ahead.remove(&request);
    let now = tx.now().micros();
    let done = sqlx::query(
        "UPDATE deliveries SET opened_at = $2 WHERE request = $1 AND opened_at IS NULL",
    )
    .bind(request.to_string())
    .bind(now)
    .execute(tx.conn())
    .await?;
    Ok(done.rows_affected() > 0)
}

/// Tries the failed cards of live requests at this binding again.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn revive(tx: &mut Tx, binding: BindingId) -> Result<u64, StoreError> {
    let now = tx.now().micros();
    let done = sqlx::query(
        "UPDATE deliveries
            SET state = 'queued', detail = NULL, attempts = 0, next_at = $2
          WHERE binding = $1 AND state = 'failed'
            AND request IN (SELECT id FROM requests WHERE status = 'pending')",
    )
    .bind(binding.to_string())
    .bind(now)
    .execute(tx.conn())
    .await?;
    Ok(done.rows_affected())
}

/// Numbers for the metrics: cards that don't show what they should, and how
/// many microseconds the oldest of them has waited.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn backlog(tx: &mut Tx) -> Result<(i64, i64), StoreError> {
    let now = tx.now().micros();
    let row: (i64, Option<i64>) = sqlx::query_as(
        "SELECT COUNT(*), MIN(next_at) FROM deliveries WHERE shown_version < desired_version AND state <> 'failed'",
    )
    .fetch_one(tx.conn())
    .await?;
    Ok((row.0, row.1.map_or(0, |at| (now - at).max(0))))
}

/// Whether any delivery of a channel is due.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn is_any_due(tx: &mut Tx, channel: &str) -> Result<bool, StoreError> {
    let now = tx.now().micros();
    let due: Option<i64> = sqlx::query_scalar(
        "SELECT 1
           FROM deliveries
          WHERE shown_version < desired_version AND next_at <= $1 AND lease_until <= $1
            AND channel = $2
          LIMIT 1",
    )
    .bind(now)
    .bind(channel.to_owned())
    .fetch_optional(tx.conn())
    .await?;
    Ok(due.is_some())
}

/// Frees the edits that a worker was at when its process died; only for whoever
/// knows that no other process has workers.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn release(tx: &mut Tx) -> Result<(), StoreError> {
    sqlx::query(
        "UPDATE deliveries SET lease_until = 0 WHERE lease_until > 0 AND message IS NOT NULL",
    )
    .execute(tx.conn())
    .await?;
    Ok(())
}
