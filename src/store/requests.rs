//! `requests`: one row for each thing ever asked.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::ids::{AgentId, BindingId, PrincipalId, RequestId};
use crate::requests::code::Code;
use crate::requests::status::Status;
use crate::requests::{Answer, Choice, Content, Outcome, Request, Shown, Tool, canonical};
use crate::store::dialect::{Dialect, with_db_now};
use crate::store::{StoreError, Tx};

/// How long a code is not used again.
const CODE_REST: Duration = Duration::from_hours(30 * 24);

macro_rules! select_requests {
    ($rest:literal) => {
        concat!(
            "SELECT r.id, r.code, r.kind, r.status, r.revision, r.version, r.agent,
                    a.name AS agent_name, r.session, r.run, r.guardian, g.name AS guardian_name,
                    r.title, r.body, r.tool_name, r.tool_input, r.options, r.allow_text, r.risk,
                    r.digest, r.callback_url, r.metadata, r.supersedes, r.superseded_by, r.asked,
                    r.created_at, r.deadline, r.answer_option, r.answer_text, r.reason,
                    r.decided_by, d.name AS decided_by_name, r.decided_channel, r.ended_at,
                    CASE WHEN g.removed_at IS NULL THEN 0 ELSE 1 END AS guardian_is_gone,
                    (SELECT COUNT(*)
                       FROM deliveries c
                      WHERE c.request = r.id AND c.sent_at IS NOT NULL) AS cards,
                    (SELECT COUNT(*)
                       FROM deliveries c
                      WHERE c.request = r.id
                        AND (c.opened_at IS NOT NULL
                             OR (c.is_whole = 1 AND c.sent_at IS NOT NULL))) AS whole_cards
               FROM requests r
               JOIN agents a ON a.id = r.agent
               JOIN principals g ON g.id = r.guardian
               LEFT JOIN principals d ON d.id = r.decided_by ",
            $rest
        )
    };
}

#[derive(sqlx::FromRow)]
struct Row {
    id: String,
    code: String,
    kind: String,
    status: String,
    revision: i64,
    version: i64,
    agent: String,
    agent_name: String,
    session: Option<String>,
    run: Option<String>,
    guardian: String,
    guardian_name: String,
    title: Option<String>,
    body: Option<String>,
    tool_name: Option<String>,
    tool_input: Option<String>,
    options: String,
    allow_text: i64,
    risk: String,
    digest: String,
    callback_url: Option<String>,
    metadata: String,
    supersedes: Option<String>,
    superseded_by: Option<String>,
    asked: i64,
    created_at: i64,
    deadline: i64,
    answer_option: Option<String>,
    answer_text: Option<String>,
    reason: Option<String>,
    decided_by: Option<String>,
    decided_by_name: Option<String>,
    decided_channel: Option<String>,
    ended_at: Option<i64>,
    guardian_is_gone: i64,
    cards: i64,
    whole_cards: i64,
}

impl TryFrom<Row> for Request {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let key = row.id.clone();
        let corrupt = |column| StoreError::Corrupt { table: "requests", column, row: key.clone() };
        let tool = match (row.tool_name, row.tool_input) {
            (Some(name), Some(input)) => {
                let input = serde_json::from_str(&input).map_err(|_| corrupt("tool_input"))?;
                Some(Tool { name, input })
            }
            _ => None,
        };
        let options: Vec<(String, String)> =
            serde_json::from_str(&row.options).map_err(|_| corrupt("options"))?;
        let answer = (row.answer_option.is_some() || row.answer_text.is_some())
            .then_some(Answer { option: row.answer_option, text: row.answer_text });
        let decided_by = row.decided_by.map(|id| id.parse()).transpose();
        let outcome = row.ended_at.map(|at| Outcome {
            answer,
            reason: row.reason,
            decided_by: None,
            decided_by_name: row.decided_by_name,
            channel: row.decided_channel,
            at: Timestamp::from_micros(at),
        });
        let decided_by = decided_by.map_err(|_| corrupt("decided_by"))?;
        let reference = |id: Option<String>, column| {
            id.map(|id| id.parse()).transpose().map_err(|_| corrupt(column))
        };
        Ok(Self {
            id: row.id.parse().map_err(|_| corrupt("id"))?,
            code: row.code.parse().map_err(|_| corrupt("code"))?,
            status: row.status.parse().map_err(|()| corrupt("status"))?,
            revision: row.revision,
            version: row.version,
            agent: row.agent.parse().map_err(|_| corrupt("agent"))?,
            agent_name: row.agent_name,
            session: row.session,
            run: row.run,
            guardian: row.guardian.parse().map_err(|_| corrupt("guardian"))?,
            guardian_name: row.guardian_name,
            content: Content {
                kind: row.kind.parse().map_err(|()| corrupt("kind"))?,
                title: row.title,
                body: row.body,
                tool,
                options: options.into_iter().map(|(id, label)| Choice { id, label }).collect(),
                allow_text: row.allow_text != 0,
            },
            risk: row.risk.parse().map_err(|()| corrupt("risk"))?,
            digest: row.digest,
            callback_url: row.callback_url,
            metadata: serde_json::from_str(&row.metadata).map_err(|_| corrupt("metadata"))?,
            supersedes: reference(row.supersedes, "supersedes")?,
            superseded_by: reference(row.superseded_by, "superseded_by")?,
            asked: row.asked,
            created_at: Timestamp::from_micros(row.created_at),
            deadline: Timestamp::from_micros(row.deadline),
            outcome: outcome.map(|outcome| Outcome { decided_by, ..outcome }),
            shown: Shown {
                cards: row.cards,
                whole: row.whole_cards,
                guardian_is_gone: row.guardian_is_gone != 0,
            },
        })
    }
}

fn all(rows: Vec<Row>) -> Result<Vec<Request>, StoreError> {
    rows.into_iter().map(Request::try_from).collect()
}

/// What an insert takes besides the request: how a retry is recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The key that the agent sent.
    pub key: String,
    /// The digest of the body that came with it.
    pub body_hash: String,
}

/// Writes a new request.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn insert(tx: &mut Tx, request: &Request) -> Result<(), StoreError> {
    let content = &request.content;
    let options: Vec<(&str, &str)> =
        content.options.iter().map(|o| (o.id.as_str(), o.label.as_str())).collect();
    sqlx::query(
        "INSERT INTO requests (id, code, kind, status, revision, version, agent, session, run,
                               guardian, title, body, tool_name, tool_input, options, allow_text,
                               risk, digest, callback_url, metadata, supersedes, asked,
                               created_at, deadline)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
                 $19, $20, $21, $22, $23, $24)",
    )
    .bind(request.id.to_string())
    .bind(request.code.to_string())
    .bind(content.kind.as_str())
    .bind(request.status.as_str())
    .bind(request.revision)
    .bind(request.version)
    .bind(request.agent.to_string())
    .bind(request.session.clone())
    .bind(request.run.clone())
    .bind(request.guardian.to_string())
    .bind(content.title.clone())
    .bind(content.body.clone())
    .bind(content.tool.as_ref().map(|t| t.name.clone()))
    .bind(content.tool.as_ref().map(|t| canonical(&t.input)))
    .bind(canonical(&serde_json::json!(options)))
    .bind(i64::from(content.allow_text))
    .bind(request.risk.as_str())
    .bind(request.digest.clone())
    .bind(request.callback_url.clone())
    .bind(request.metadata.to_string())
    .bind(request.supersedes.map(|id| id.to_string()))
    .bind(request.asked)
    .bind(request.created_at.micros())
    .bind(request.deadline.micros())
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// The request, or `None` when there is none with that id.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find(tx: &mut Tx, id: RequestId) -> Result<Option<Request>, StoreError> {
    if let Some(request) = tx.ahead.get(&id) {
        return Ok(Some(request.clone()));
    }
    let row: Option<Row> = sqlx::query_as(select_requests!("WHERE r.id = $1"))
        .bind(id.to_string())
        .fetch_optional(tx.conn())
        .await?;
    row.map(Request::try_from).transpose()
}

/// Reads the requests that a group of writes is going to ask for, by one
/// statement. Only SQLite's writer has groups.
///
/// # Errors
///
/// See [`StoreError`].
pub(super) async fn read_ahead(tx: &mut Tx, ids: &[RequestId]) -> Result<(), StoreError> {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let rows: Vec<Row> =
        sqlx::query_as(select_requests!("WHERE r.id IN (SELECT value FROM json_each($1))"))
            .bind(serde_json::json!(ids).to_string())
            .fetch_all(tx.conn())
            .await?;
    for request in all(rows)? {
        tx.ahead.insert(request.id, request);
    }
    Ok(())
}

/// The request that last had `code` within the time in which codes are not
/// used again.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find_by_code(tx: &mut Tx, code: Code) -> Result<Option<Request>, StoreError> {
    let since = tx.now().minus(CODE_REST).micros();
    let row: Option<Row> = sqlx::query_as(select_requests!(
        "WHERE r.code = $1 AND (r.created_at > $2 OR r.status = 'pending')
         ORDER BY r.created_at DESC
         LIMIT 1"
    ))
    .bind(code.to_string())
    .bind(since)
    .fetch_optional(tx.conn())
    .await?;
    row.map(Request::try_from).transpose()
}

/// The request whose card is this message.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find_by_message(
    tx: &mut Tx,
    channel: &str,
    address: &str,
    message: &str,
) -> Result<Option<Request>, StoreError> {
    let row: Option<Row> = sqlx::query_as(select_requests!(
        "WHERE r.id = COALESCE((SELECT y.request
                                  FROM deliveries y
                                 WHERE y.channel = $1 AND y.address = $2 AND y.message = $3
                                 LIMIT 1),
                                (SELECT y.request
                                   FROM deliveries y
                                  WHERE y.id = $3 AND y.channel = $1 AND y.address = $2))"
    ))
    .bind(channel.to_owned())
    .bind(address.to_owned())
    .bind(message.to_owned())
    .fetch_optional(tx.conn())
    .await?;
    row.map(Request::try_from).transpose()
}

/// The live requests of `guardian` whose card stands at this address, oldest
/// first; at most 50, which is more than anybody could mean by bare words. The
/// console shows whatever is stored; elsewhere a card stands once it was posted.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn list_live_at(
    tx: &mut Tx,
    guardian: PrincipalId,
    channel: &str,
    address: &str,
) -> Result<Vec<Request>, StoreError> {
    let now = tx.now().micros();
    let rows: Vec<Row> = sqlx::query_as(select_requests!(
        "WHERE r.guardian = $1 AND r.status = 'pending' AND r.deadline > $4
           AND EXISTS (SELECT 1
                         FROM deliveries y
                        WHERE y.request = r.id AND y.channel = $2 AND y.address = $3
                          AND (y.message IS NOT NULL OR y.channel = 'console'))
         ORDER BY r.created_at
         LIMIT 50"
    ))
    .bind(guardian.to_string())
    .bind(channel.to_owned())
    .bind(address.to_owned())
    .bind(now)
    .fetch_all(tx.conn())
    .await?;
    all(rows)
}

/// Which requests to list; `None` takes all.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this agent.
    pub agent: Option<AgentId>,
    /// In this status.
    pub status: Option<Status>,
    /// Of this conversation.
    pub session: Option<String>,
    /// Of this run.
    pub run: Option<String>,
    /// After this one, in the order of their ids.
    pub after: Option<RequestId>,
    /// At most so many.
    pub limit: i64,
}

/// The last requests of all agents, in the order in which they were asked.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn list_last(
    tx: &mut Tx,
    status: Option<Status>,
    limit: i64,
) -> Result<Vec<Request>, StoreError> {
    let rows: Vec<Row> = sqlx::query_as(select_requests!(
        "WHERE ($1 IS NULL OR r.status = $1)
         ORDER BY r.id DESC
         LIMIT $2"
    ))
    .bind(status.map(Status::as_str))
    .bind(limit)
    .fetch_all(tx.conn())
    .await?;
    let mut requests = all(rows)?;
    requests.reverse();
    Ok(requests)
}

/// The requests that match, oldest first.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn list(tx: &mut Tx, filter: &Filter) -> Result<Vec<Request>, StoreError> {
    let rows: Vec<Row> = sqlx::query_as(select_requests!(
        "WHERE ($1 IS NULL OR r.agent = $1) AND ($2 IS NULL OR r.status = $2)
           AND ($3 IS NULL OR r.session = $3) AND ($4 IS NULL OR r.run = $4)
           AND ($5 IS NULL OR r.id > $5)
         ORDER BY r.id
         LIMIT $6"
    ))
    .bind(filter.agent.map(|id| id.to_string()))
    .bind(filter.status.map(Status::as_str))
    .bind(filter.session.clone())
    .bind(filter.run.clone())
    .bind(filter.after.map(|id| id.to_string()))
    .bind(filter.limit)
    .fetch_all(tx.conn())
    .await?;
    all(rows)
}

/// A live request of the same agent with the same session, guardian and
/// content.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find_same(tx: &mut Tx, new: &Request) -> Result<Option<Request>, StoreError> {
    let now = tx.now().micros();
    let row: Option<Row> = sqlx::query_as(select_requests!(
        "WHERE r.agent = $1 AND r.digest = $2 AND r.guardian = $3 AND r.kind = $4
           AND r.status = 'pending' AND r.deadline > $5
           AND (r.session = $6 OR (r.session IS NULL AND $6 IS NULL))
         ORDER BY r.created_at
         LIMIT 1"
    ))
    .bind(new.agent.to_string())
    .bind(new.digest.clone())
    .bind(new.guardian.to_string())
    .bind(new.content.kind.as_str())
    .bind(now)
    .bind(new.session.clone())
    .fetch_optional(tx.conn())
    .await?;
    row.map(Request::try_from).transpose()
}

/// The request that came with this idempotency key, and the digest of the body
/// that it came with.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn find_by_key(
    tx: &mut Tx,
    agent: AgentId,
    key: &str,
) -> Result<Option<(Request, String)>, StoreError> {
    let found: Option<(String, String)> = sqlx::query_as(
        "SELECT request, body_hash FROM idempotency WHERE agent = $1 AND idempotency_key = $2",
    )
    .bind(agent.to_string())
    .bind(key.to_owned())
    .fetch_optional(tx.conn())
    .await?;
    let Some((id, hash)) = found else { return Ok(None) };
    let id = id.parse().map_err(|_| StoreError::Corrupt {
        table: "requests",
        column: "id",
        row: id.clone(),
    })?;
    Ok(find(tx, id).await?.map(|request| (request, hash)))
}

/// Remembers which request a call got.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn remember_key(
    tx: &mut Tx,
    agent: AgentId,
    idempotency: &IdempotencyKey,
    request: RequestId,
) -> Result<(), StoreError> {
    let now = tx.now().micros();
    sqlx::query(
        "INSERT INTO idempotency (agent, idempotency_key, body_hash, request, created_at)
         VALUES ($1, $2, $3, $4, $5)",
    )
    .bind(agent.to_string())
    .bind(idempotency.key.clone())
    .bind(idempotency.body_hash.clone())
    .bind(request.to_string())
    .bind(now)
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Makes other openings with the same name wait until this transaction ends, so
/// that what is looked up before an insert still holds at it. SQLite has one
/// writer anyway.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn wait_turn(tx: &mut Tx, name: &str) -> Result<(), StoreError> {
    if tx.dialect == Dialect::Postgres {
        sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 7300))")
            .bind(name.to_owned())
            .execute(tx.conn())
            .await?;
    }
    Ok(())
}

/// Counts one more asking of a live request.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn count_asking(tx: &mut Tx, id: RequestId) -> Result<(), StoreError> {
    tx.ahead.remove(&id);
    sqlx::query("UPDATE requests SET asked = asked + 1 WHERE id = $1")
        .bind(id.to_string())
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Makes the request look different on its cards without changing what is
/// asked.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn bump_version(tx: &mut Tx, id: RequestId) -> Result<(), StoreError> {
    tx.ahead.remove(&id);
    sqlx::query("UPDATE requests SET version = version + 1 WHERE id = $1")
        .bind(id.to_string())
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// How many live requests the guardian has.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn count_open(tx: &mut Tx, guardian: PrincipalId) -> Result<i64, StoreError> {
    let now = tx.now().micros();
    let count = sqlx::query_scalar(
        "SELECT COUNT(*)
           FROM requests
          WHERE guardian = $1 AND status = 'pending' AND deadline > $2",
    )
    .bind(guardian.to_string())
    .bind(now)
    .fetch_one(tx.conn())
    .await?;
    Ok(count)
}

/// Whether the code is in use or was until lately.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn is_code_taken(tx: &mut Tx, code: Code) -> Result<bool, StoreError> {
    let since = tx.now().minus(CODE_REST).micros();
    let taken: Option<i64> = sqlx::query_scalar(
        "SELECT 1
           FROM requests
          WHERE code = $1 AND (created_at > $2 OR ended_at > $2 OR status = 'pending')
          LIMIT 1",
    )
    .bind(code.to_string())
    .bind(since)
    .fetch_optional(tx.conn())
    .await?;
    Ok(taken.is_some())
}

/// The end of a request, as [`close`] writes it.
#[derive(Debug, Clone)]
pub struct Closing<'a> {
    /// Which request.
    pub id: RequestId,
    /// The revision that was shown to whoever decided.
    pub revision: i64,
    /// The status that follows.
    pub status: Status,
    /// The answer, if any.
    pub answer: Option<&'a Answer>,
    /// The words that go with it.
    pub reason: Option<&'a str>,
    /// Who decided.
    pub by: PrincipalId,
    /// The account they used; `None` for the operator's keyboard.
    pub binding: Option<BindingId>,
    /// Where.
    pub channel: &'a str,
    /// When.
    pub at: Timestamp,
}

/// Writes a person's decision if the request is still pending, its deadline has
/// not passed by the database's clock, its shown revision is the current one,
/// and the person is its guardian through a binding in force. Says whether it
/// did: of any number of callers, in any number of processes, one gets `true`.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn close(tx: &mut Tx, closing: &Closing<'_>) -> Result<bool, StoreError> {
    tx.ahead.remove(&closing.id);
    let (now, offset) = (closing.at.micros(), tx.clock.offset());
    let sql = with_db_now!(
        tx.dialect,
        "UPDATE requests
            SET status = $2, version = version + 1, answer_option = $3, answer_text = $4,
                reason = $5, decided_by = $6, decided_channel = $7, ended_at = $8
          WHERE id = $1 AND status = 'pending' AND revision = $9 AND guardian = $6
            AND deadline > $8 AND deadline > $10 + ",
        "   AND EXISTS (SELECT 1
                          FROM principals p
                         WHERE p.id = requests.guardian AND p.removed_at IS NULL)
            AND ($11 IS NULL OR EXISTS (SELECT 1
                                          FROM bindings b
                                         WHERE b.id = $11 AND b.principal = requests.guardian
                                           AND b.revoked_at IS NULL))"
    );
    let done = sqlx::query(sql)
        .bind(closing.id.to_string())
        .bind(closing.status.as_str())
        .bind(closing.answer.and_then(|a| a.option.clone()))
        .bind(closing.answer.and_then(|a| a.text.clone()))
        .bind(closing.reason.map(str::to_owned))
        .bind(closing.by.to_string())
        .bind(closing.channel.to_owned())
        .bind(now)
        .bind(closing.revision)
        .bind(offset)
        .bind(closing.binding.map(|id| id.to_string()))
        .execute(tx.conn())
        .await?;
    Ok(done.rows_affected() == 1)
}

/// Cancels the request if it is still pending; says whether it did.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn cancel(
    tx: &mut Tx,
    id: RequestId,
    reason: &str,
    superseded_by: Option<RequestId>,
) -> Result<bool, StoreError> {
    tx.ahead.remove(&id);
    let now = tx.now().micros();
    let done = sqlx::query(
        "UPDATE requests
            SET status = 'cancelled', version = version + 1, reason = $2, superseded_by = $3,
                ended_at = $4
          WHERE id = $1 AND status = 'pending'",
    )
    .bind(id.to_string())
    .bind(reason.to_owned())
    .bind(superseded_by.map(|id| id.to_string()))
    .bind(now)
    .execute(tx.conn())
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Expires up to 500 pending requests whose deadline has passed; which.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn expire_due(tx: &mut Tx) -> Result<Vec<RequestId>, StoreError> {
    tx.ahead.clear();
    let (now, offset) = (tx.now().micros(), tx.clock.offset());
    let sql = with_db_now!(
        tx.dialect,
        "UPDATE requests
            SET status = 'expired', version = version + 1, ended_at = $1
          WHERE status = 'pending' AND deadline <= $1
            AND id IN (SELECT id
                         FROM requests
                        WHERE status = 'pending' AND deadline <= $1
                          AND deadline <= $2 + ",
        "               ORDER BY deadline
                        LIMIT 500)
         RETURNING id"
    );
    let ids: Vec<String> =
        sqlx::query_scalar(sql).bind(now).bind(offset).fetch_all(tx.conn()).await?;
    ids.into_iter()
        .map(|id| {
            id.parse().map_err(|_| StoreError::Corrupt { table: "requests", column: "id", row: id })
        })
        .collect()
}

/// Remembers the agent's conversation.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn touch_session(tx: &mut Tx, agent: AgentId, session: &str) -> Result<(), StoreError> {
    let now = tx.now().micros();
    sqlx::query(
        "INSERT INTO sessions (agent, name, created_at)
         VALUES ($1, $2, $3)
         ON CONFLICT (agent, name) DO NOTHING",
    )
    .bind(agent.to_string())
    .bind(session.to_owned())
    .bind(now)
    .execute(tx.conn())
    .await?;
    Ok(())
}

/// Whether any pending request is past its deadline.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn is_any_due(tx: &mut Tx) -> Result<bool, StoreError> {
    let now = tx.now().micros();
    let due: Option<i64> = sqlx::query_scalar(
        "SELECT 1 FROM requests WHERE status = 'pending' AND deadline <= $1 LIMIT 1",
    )
    .bind(now)
    .fetch_optional(tx.conn())
    .await?;
    Ok(due.is_some())
}

/// How many requests are pending.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn count_pending(tx: &mut Tx) -> Result<i64, StoreError> {
    Ok(sqlx::query_scalar("SELECT COUNT(*) FROM requests WHERE status = 'pending'")
        .fetch_one(tx.conn())
        .await?)
}

/// When an ended request was asked, when it ended, and whether a person ended
/// it.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn times(
    tx: &mut Tx,
    id: RequestId,
) -> Result<Option<(Timestamp, Timestamp, bool)>, StoreError> {
    let row: Option<(i64, i64, Option<String>)> = sqlx::query_as(
        "SELECT created_at, ended_at, decided_by
           FROM requests
          WHERE id = $1 AND ended_at IS NOT NULL",
    )
    .bind(id.to_string())
    .fetch_optional(tx.conn())
    .await?;
    Ok(row.map(|(created, ended, by)| {
        (Timestamp::from_micros(created), Timestamp::from_micros(ended), by.is_some())
    }))
}

/// The ids of the guardian's pending requests.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn list_pending_of(
    tx: &mut Tx,
    guardian: PrincipalId,
) -> Result<Vec<RequestId>, StoreError> {
    let ids: Vec<String> = sqlx::query_scalar(
        "SELECT id FROM requests WHERE guardian = $1 AND status = 'pending' ORDER BY created_at",
    )
    .bind(guardian.to_string())
    .fetch_all(tx.conn())
    .await?;
    ids.into_iter()
        .map(|id| {
            id.parse().map_err(|_| StoreError::Corrupt { table: "requests", column: "id", row: id })
        })
        .collect()
}
