//! `principals` and `bindings`: people, and the accounts they are known by.

use std::time::Duration;

use sqlx::AnyConnection;

use crate::clock::Timestamp;
use crate::ids::{BindingId, PrincipalId};
use crate::people::{Binding, Principal};
use crate::store::{StoreError, Tx, deliveries, places};

#[derive(sqlx::FromRow)]
struct PrincipalRow {
    id: String,
    name: String,
    created_at: i64,
}

impl TryFrom<PrincipalRow> for Principal {
    type Error = StoreError;

    fn try_from(row: PrincipalRow) -> Result<Self, StoreError> {
        let id = row.id.parse().map_err(|_| StoreError::Corrupt {
            table: "principals",
            column: "id",
            row: row.id.clone(),
        })?;
        Ok(Self { id, name: row.name, created_at: Timestamp::from_micros(row.created_at) })
    }
}

macro_rules! binding_columns {
    ($rest:literal) => {
        concat!(
            "SELECT b.id, b.principal, b.channel, b.realm, b.account, b.address, b.last_seen_at,
                    b.trouble,
                    CASE WHEN EXISTS (SELECT 1
                                        FROM deliveries y
                                       WHERE y.binding = b.id AND y.state = 'failed')
                         THEN 1 ELSE 0
                    END AS has_failed",
            $rest
        )
    };
}

macro_rules! select_bindings {
    ($rest:literal) => {
        concat!(binding_columns!(" FROM bindings b "), $rest)
    };
}

#[derive(sqlx::FromRow)]
struct BindingRow {
    id: String,
    principal: String,
    channel: String,
    realm: String,
    account: String,
    address: Option<String>,
    last_seen_at: Option<i64>,
    trouble: Option<String>,
    has_failed: i64,
}

impl TryFrom<BindingRow> for Binding {
    type Error = StoreError;

    fn try_from(row: BindingRow) -> Result<Self, StoreError> {
        let key = row.id.clone();
        let corrupt = |column| StoreError::Corrupt { table: "bindings", column, row: key.clone() };
        Ok(Self {
            id: row.id.parse().map_err(|_| corrupt("id"))?,
            principal: row.principal.parse().map_err(|_| corrupt("principal"))?,
            channel: row.channel,
            realm: row.realm,
            account: row.account,
            address: row.address,
            last_seen_at: row.last_seen_at.map(Timestamp::from_micros),
            trouble: row.trouble,
            has_failed: row.has_failed != 0,
        })
    }
}

/// The connection, for a change: what was read of people before may be different
/// after it.
fn changing(tx: &mut Tx) -> &mut AnyConnection {
    tx.known.clear();
    tx.conn()
}

/// Writes a new person.
///
/// # Errors
///
/// See [`StoreError`]; a name that is taken is a unique violation.
pub async fn insert(tx: &mut Tx, principal: &Principal) -> Result<(), StoreError> {
    sqlx::query("INSERT INTO principals (id, name, created_at) VALUES ($1, $2, $3)")
        .bind(principal.id.to_string())
        .bind(principal.name.clone())
        .bind(principal.created_at.micros())
        .execute(changing(tx))
        .await?;
    Ok(())
}

/// Everybody, by name.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn list(tx: &mut Tx) -> Result<Vec<Principal>, StoreError> {
    let rows: Vec<PrincipalRow> = sqlx::query_as(
        "SELECT id, name, created_at FROM principals WHERE removed_at IS NULL ORDER BY name",
    )
    .fetch_all(tx.conn())
    .await?;
    rows.into_iter().map(Principal::try_from).collect()
}

/// The person of that name.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find_by_name(tx: &mut Tx, name: &str) -> Result<Option<Principal>, StoreError> {
    let row: Option<PrincipalRow> = sqlx::query_as(
        "SELECT id, name, created_at FROM principals WHERE name = $1 AND removed_at IS NULL",
    )
    .bind(name.to_owned())
    .fetch_optional(tx.conn())
    .await?;
    row.map(Principal::try_from).transpose()
}

/// The person with that id, unless they were removed.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find(tx: &mut Tx, id: PrincipalId) -> Result<Option<Principal>, StoreError> {
    let row: Option<PrincipalRow> = sqlx::query_as(
        "SELECT id, name, created_at FROM principals WHERE id = $1 AND removed_at IS NULL",
    )
    .bind(id.to_string())
    .fetch_optional(tx.conn())
    .await?;
    row.map(Principal::try_from).transpose()
}

/// Removes a person and revokes their bindings; says whether there was one.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn remove(tx: &mut Tx, id: PrincipalId) -> Result<bool, StoreError> {
    tx.forget();
    let now = tx.now().micros();
    sqlx::query("UPDATE bindings SET revoked_at = $2 WHERE principal = $1 AND revoked_at IS NULL")
        .bind(id.to_string())
        .bind(now)
        .execute(changing(tx))
        .await?;
    let done =
        sqlx::query("UPDATE principals SET removed_at = $2 WHERE id = $1 AND removed_at IS NULL")
            .bind(id.to_string())
            .bind(now)
            .execute(changing(tx))
            .await?;
    Ok(done.rows_affected() == 1)
}

/// Writes a binding.
///
/// # Errors
///
/// See [`StoreError`]; an account that is bound already is a unique violation.
pub async fn bind(tx: &mut Tx, binding: &Binding) -> Result<(), StoreError> {
    let now = tx.now().micros();
    sqlx::query(
        "INSERT INTO bindings (id, principal, channel, realm, account, address, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(binding.id.to_string())
    .bind(binding.principal.to_string())
    .bind(binding.channel.clone())
    .bind(binding.realm.clone())
    .bind(binding.account.clone())
    .bind(binding.address.clone())
    .bind(now)
    .execute(changing(tx))
    .await?;
    Ok(())
}

/// The bindings in force of a person, oldest first.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn bindings_of(tx: &mut Tx, principal: PrincipalId) -> Result<Vec<Binding>, StoreError> {
    let rows: Vec<BindingRow> = sqlx::query_as(select_bindings!(
        "WHERE b.principal = $1 AND b.revoked_at IS NULL ORDER BY b.created_at, b.id"
    ))
    .bind(principal.to_string())
    .fetch_all(tx.conn())
    .await?;
    rows.into_iter().map(Binding::try_from).collect()
}

/// The binding in force of an account.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find_binding(
    tx: &mut Tx,
    channel: &str,
    realm: &str,
    account: &str,
) -> Result<Option<Binding>, StoreError> {
    let row: Option<BindingRow> = sqlx::query_as(select_bindings!(
        "WHERE b.channel = $1 AND b.realm = $2 AND b.account = $3 AND b.revoked_at IS NULL"
    ))
    .bind(channel.to_owned())
    .bind(realm.to_owned())
    .bind(account.to_owned())
    .fetch_optional(tx.conn())
    .await?;
    row.map(Binding::try_from).transpose()
}

#[derive(sqlx::FromRow)]
struct KnownRow {
    #[sqlx(flatten)]
    binding: BindingRow,
    name: String,
    person_since: i64,
}

/// The binding in force of an account, and its person. Read once a group of
/// writes: many of them come from the same person.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find_by_account(
    tx: &mut Tx,
    channel: &str,
    realm: &str,
    account: &str,
) -> Result<Option<(Binding, Principal)>, StoreError> {
    let is_it = |(binding, _): &&(Binding, Principal)| {
        binding.channel == channel && binding.realm == realm && binding.account == account
    };
    if let Some(known) = tx.known.iter().find(is_it) {
        return Ok(Some(known.clone()));
    }
    let row: Option<KnownRow> = sqlx::query_as(binding_columns!(
        ", p.name, p.created_at AS person_since
           FROM bindings b
           JOIN principals p ON p.id = b.principal AND p.removed_at IS NULL
          WHERE b.channel = $1 AND b.realm = $2 AND b.account = $3 AND b.revoked_at IS NULL"
    ))
    .bind(channel.to_owned())
    .bind(realm.to_owned())
    .bind(account.to_owned())
    .fetch_optional(tx.conn())
    .await?;
    let Some(KnownRow { binding, name, person_since }) = row else { return Ok(None) };
    let binding = Binding::try_from(binding)?;
    let created_at = Timestamp::from_micros(person_since);
    let known = (binding.clone(), Principal { id: binding.principal, name, created_at });
    tx.known.push(known.clone());
    Ok(Some(known))
}

/// How exactly it is known when somebody was last seen.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

/// Notes that the person was seen at a binding just now, that nothing is wrong
/// with it, and that what could not be delivered there is to be tried again.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn see(tx: &mut Tx, binding: &Binding) -> Result<(), StoreError> {
    let now = tx.now();
    let is_fresh = binding.last_seen_at.is_some_and(|at| now.since(at) < SEEN_WITHIN);
    if binding.trouble.is_some() || !is_fresh {
        touch(tx, binding.id).await?;
    }
    if binding.has_failed {
        deliveries::revive(tx, binding.id).await?;
    }
    Ok(())
}

/// Notes that the person was seen at a binding just now and that nothing is
/// wrong with it.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn touch(tx: &mut Tx, id: BindingId) -> Result<(), StoreError> {
    let now = tx.now().micros();
    sqlx::query("UPDATE bindings SET last_seen_at = $2, trouble = NULL WHERE id = $1")
        .bind(id.to_string())
        .bind(now)
        .execute(changing(tx))
        .await?;
    Ok(())
}

/// Notes why nothing reaches the person at a binding at the moment.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn set_trouble(tx: &mut Tx, id: BindingId, why: &str) -> Result<(), StoreError> {
    sqlx::query("UPDATE bindings SET trouble = $2 WHERE id = $1")
        .bind(id.to_string())
        .bind(why.to_owned())
        .execute(changing(tx))
        .await?;
    Ok(())
}

/// Notes the private address of a binding, also for the cards that wait for it.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn set_address(tx: &mut Tx, id: BindingId, address: &str) -> Result<(), StoreError> {
    for sql in [
        "UPDATE bindings SET address = $2 WHERE id = $1",
        "UPDATE deliveries SET address = $2 WHERE binding = $1 AND message IS NULL",
    ] {
        sqlx::query(sql)
            .bind(id.to_string())
            .bind(address.to_owned())
            .execute(changing(tx))
            .await?;
    }
    Ok(())
}

/// A conversation has a new address: whatever is bound to the old one or waits
/// to be sent there goes to the new one.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn move_address(
    tx: &mut Tx,
    channel: &str,
    from: &str,
    to: &str,
) -> Result<(), StoreError> {
    for sql in [
        "UPDATE bindings SET address = $3 WHERE channel = $1 AND address = $2",
        "UPDATE deliveries SET address = $3 WHERE channel = $1 AND address = $2",
        "UPDATE notices SET address = $3 WHERE channel = $1 AND address = $2 AND state = 'queued'",
    ] {
        sqlx::query(sql)
            .bind(channel.to_owned())
            .bind(from.to_owned())
            .bind(to.to_owned())
            .execute(changing(tx))
            .await?;
    }
    places::rename(tx, channel, from, to).await
}

/// Whether the person of an address was seen there since.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn was_seen_at(
    tx: &mut Tx,
    channel: &str,
    address: &str,
    since: Timestamp,
) -> Result<bool, StoreError> {
    let seen: Option<i64> = sqlx::query_scalar(
        "SELECT 1
           FROM bindings
          WHERE channel = $1 AND address = $2 AND revoked_at IS NULL AND last_seen_at > $3
          LIMIT 1",
    )
    .bind(channel.to_owned())
    .bind(address.to_owned())
    .bind(since.micros())
    .fetch_optional(tx.conn())
    .await?;
    Ok(seen.is_some())
}
