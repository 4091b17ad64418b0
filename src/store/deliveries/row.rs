//! A row of `deliveries` and the delivery that it holds.

use crate::clock::Timestamp;
use crate::store::StoreError;
use crate::store::deliveries::{Delivery, State};

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

pub(super) use delivery_columns;

#[derive(sqlx::FromRow)]
pub(super) struct Row {
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

pub(super) fn all(rows: Vec<Row>) -> Result<Vec<Delivery>, StoreError> {
    rows.into_iter().map(Delivery::try_from).collect()
}
