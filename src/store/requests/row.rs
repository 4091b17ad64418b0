//! A row of `requests` and the request that it holds.

use crate::clock::Timestamp;
use crate::requests::{Answer, Choice, Content, Outcome, Request, Shown, Tool, canonical};
use crate::store::{StoreError, Tx};

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
                        AND CASE WHEN c.channel = 'console'
                                 THEN c.seen_at IS NOT NULL
                                      AND (c.is_whole = 1 OR c.opened_at IS NOT NULL)
                                 ELSE c.is_whole = 1 AND c.sent_at IS NOT NULL
                            END) AS whole_cards,
                    (SELECT COUNT(*)
                       FROM deliveries c
                      WHERE c.request = r.id AND c.channel = 'console'
                        AND (c.opened_at IS NOT NULL
                             OR (c.is_whole = 1 AND c.sent_at IS NOT NULL))) AS whole_pages
               FROM requests r
               JOIN agents a ON a.id = r.agent
               JOIN principals g ON g.id = r.guardian
               LEFT JOIN principals d ON d.id = r.decided_by ",
            $rest
        )
    };
}

pub(super) use select_requests;

#[derive(sqlx::FromRow)]
pub(super) struct Row {
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
    whole_pages: i64,
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
                whole_pages: row.whole_pages,
                guardian_is_gone: row.guardian_is_gone != 0,
            },
        })
    }
}

pub(super) fn all(rows: Vec<Row>) -> Result<Vec<Request>, StoreError> {
    rows.into_iter().map(Request::try_from).collect()
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
