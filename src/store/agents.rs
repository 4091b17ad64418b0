//! `agents`: who asks, with hashed keys.

use crate::ids::{AgentId, PrincipalId};
use crate::people::{Agent, WebhookSecret};
use crate::store::{StoreError, Tx};

#[derive(sqlx::FromRow)]
struct Row {
    id: String,
    name: String,
    webhook_secret: String,
    guardian: Option<String>,
}

impl TryFrom<Row> for Agent {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let key = row.id.clone();
        let corrupt = |column| StoreError::Corrupt { table: "agents", column, row: key.clone() };
        Ok(Self {
            id: row.id.parse().map_err(|_| corrupt("id"))?,
            name: row.name,
            guardian: row
                .guardian
                .map(|id| id.parse::<PrincipalId>())
                .transpose()
                .map_err(|_| corrupt("guardian"))?,
            webhook_secret: WebhookSecret::new(row.webhook_secret),
        })
    }
}

/// Writes a new agent; `key_hash` is the SHA-256 of its key in hexadecimal
/// digits, or nothing for one that never comes over HTTP.
///
/// # Errors
///
/// See [`StoreError`]; a name that is taken is a unique violation.
pub async fn insert(tx: &mut Tx, agent: &Agent, key_hash: Option<&str>) -> Result<(), StoreError> {
    let now = tx.now().micros();
    sqlx::query(
        "INSERT INTO agents (id, name, key_hash, webhook_secret, guardian, created_at)
         VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(agent.id.to_string())
    .bind(agent.name.clone())
    .bind(key_hash.map(str::to_owned))
    .bind(agent.webhook_secret.expose().to_owned())
    .bind(agent.guardian.map(|id| id.to_string()))
    .bind(now)
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// The agent whose key has this hash.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find_by_key_hash(tx: &mut Tx, hash: &str) -> Result<Option<Agent>, StoreError> {
    let row: Option<Row> = sqlx::query_as(
        "SELECT id, name, webhook_secret, guardian
           FROM agents
          WHERE key_hash = $1 AND revoked_at IS NULL",
    )
    .bind(hash.to_owned())
    .fetch_optional(tx.conn())
    .await?;
    row.map(Agent::try_from).transpose()
}

/// The agent of that name.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find_by_name(tx: &mut Tx, name: &str) -> Result<Option<Agent>, StoreError> {
    let row: Option<Row> = sqlx::query_as(
        "SELECT id, name, webhook_secret, guardian
           FROM agents
          WHERE name = $1 AND revoked_at IS NULL",
    )
    .bind(name.to_owned())
    .fetch_optional(tx.conn())
    .await?;
    row.map(Agent::try_from).transpose()
}

/// The agent, also a revoked one: what it asked is still owed an answer.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find(tx: &mut Tx, id: AgentId) -> Result<Option<Agent>, StoreError> {
    let row: Option<Row> =
        sqlx::query_as("SELECT id, name, webhook_secret, guardian FROM agents WHERE id = $1")
            .bind(id.to_string())
            .fetch_optional(tx.conn())
            .await?;
    row.map(Agent::try_from).transpose()
}

/// Every agent, by name.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn list(tx: &mut Tx) -> Result<Vec<Agent>, StoreError> {
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT id, name, webhook_secret, guardian
           FROM agents
          WHERE revoked_at IS NULL
          ORDER BY name",
    )
    .fetch_all(tx.conn())
    .await?;
    rows.into_iter().map(Agent::try_from).collect()
}

/// Makes the agent's key worthless; says whether there was such an agent.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn revoke(tx: &mut Tx, id: AgentId) -> Result<bool, StoreError> {
    let now = tx.now().micros();
    let done =
        sqlx::query("UPDATE agents SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL")
            .bind(id.to_string())
            .bind(now)
            .execute(tx.conn())
            .await?;
    Ok(done.rows_affected() == 1)
}
