//! What crosses the wire: the shapes of CONTRACT, apart from the nouns, so that
//! a renamed field of ours is not a broken client.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::broadcaster::{is_reachable, state_word};
use crate::requests::Request;
use crate::requests::status::Status;
use crate::store::deliveries::Delivery;
use crate::store::{self, StoreError, Tx};

/// A request.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RequestResource {
    /// `req_` and 32 hexadecimal digits.
    pub id: String,
    /// What people type to name it: six characters.
    pub code: String,
    /// `tool_approval`, `question` or `access_request`.
    pub kind: String,
    /// `pending`, `approved`, `denied`, `answered`, `skipped`, `expired` or
    /// `cancelled`.
    pub status: String,
    /// Which content it has.
    pub revision: i64,
    /// `sha256:` and the digest of what is shown: of the canonical JSON
    /// (RFC 8785) of `kind`, `title`, `body`, `tool` and `options`.
    pub digest: String,
    /// One line that says what is asked.
    pub title: Option<String>,
    /// The agent's own words.
    pub body: Option<String>,
    /// The call to be approved.
    pub tool: Option<ToolResource>,
    /// The offered answers.
    pub options: Vec<OptionResource>,
    /// Whether the person may answer in their own words.
    pub allow_text: bool,
    /// `low`, `medium` or `high`.
    pub risk: String,
    /// The agent that asks.
    pub agent: String,
    /// The agent's conversation.
    pub session: Option<String>,
    /// The agent's run.
    pub run: Option<String>,
    /// The name of whoever decides.
    pub guardian: String,
    /// When it was asked first, RFC 3339.
    pub created_at: String,
    /// The first instant too late for a decision, RFC 3339.
    pub expires_at: String,
    /// How often it was asked.
    pub asked: i64,
    /// The request that it replaces.
    pub supersedes: Option<String>,
    /// The request that replaced it.
    pub superseded_by: Option<String>,
    /// The agent's own notes.
    #[schema(value_type = Object)]
    pub metadata: Value,
    /// Whether some surface of the guardian can take the card, as far as is
    /// known.
    pub reachable: bool,
    /// Where its card stands.
    pub deliveries: Vec<DeliveryResource>,
    /// How it ended; nothing while it is pending.
    pub outcome: Option<OutcomeResource>,
}

/// A call to be approved.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ToolResource {
    /// The tool.
    pub name: String,
    /// What it is called with.
    #[schema(value_type = Object)]
    pub input: Value,
}

/// An offered answer.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct OptionResource {
    /// The agent's id of it.
    pub id: String,
    /// The words for it.
    pub label: String,
}

/// A card at one place.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct DeliveryResource {
    /// The channel.
    pub channel: String,
    /// `queued`, `sent`, `seen`, `settled` or `failed`.
    pub state: String,
    /// What is wrong, in words.
    pub detail: Option<String>,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct OutcomeResource {
    /// The final status.
    pub verdict: String,
    /// The answer to a question.
    pub answer: Option<AnswerResource>,
    /// The words that go with it: why not, or why withdrawn.
    pub reason: Option<String>,
    /// Who decided; nobody for an expiry or a cancellation.
    pub decided_by: Option<DeciderResource>,
    /// When it ended, RFC 3339.
    pub decided_at: String,
    /// The digest of what was decided.
    pub digest: String,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct AnswerResource {
    /// The id of the chosen option.
    pub option: Option<String>,
    /// The person's own words.
    pub text: Option<String>,
}

/// Who decided, and where.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct DeciderResource {
    /// Their name.
    pub principal: String,
    /// The channel.
    pub channel: String,
}

/// One line of the story of a request.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct TrailLine {
    /// When, RFC 3339.
    pub at: String,
    /// What, as `thing.verb`.
    pub kind: String,
    /// Who.
    pub actor: Option<String>,
    /// Where.
    pub channel: Option<String>,
    /// The status after it.
    pub status: Option<String>,
    /// More, in words.
    pub detail: Option<String>,
}

/// The request as the wire has it.
pub fn resource(request: &Request, deliveries: &[Delivery]) -> RequestResource {
    let content = &request.content;
    let id = |id: Option<crate::ids::RequestId>| id.map(|id| id.to_string());
    RequestResource {
        id: request.id.to_string(),
        code: request.code.to_string(),
        kind: content.kind.as_str().to_owned(),
        status: request.status.as_str().to_owned(),
        revision: request.revision,
        digest: request.digest.clone(),
        title: content.title.clone(),
        body: content.body.clone(),
        tool: content
            .tool
            .as_ref()
            .map(|t| ToolResource { name: t.name.clone(), input: t.input.clone() }),
        options: content
            .options
            .iter()
            .map(|o| OptionResource { id: o.id.clone(), label: o.label.clone() })
            .collect(),
        allow_text: content.allow_text,
        risk: request.risk.as_str().to_owned(),
        agent: request.agent_name.clone(),
        session: request.session.clone(),
        run: request.run.clone(),
        guardian: request.guardian_name.clone(),
        created_at: request.created_at.rfc3339(),
        expires_at: request.deadline.rfc3339(),
        asked: request.asked,
        supersedes: id(request.supersedes),
        superseded_by: id(request.superseded_by),
        metadata: request.metadata.clone(),
        reachable: is_reachable(deliveries),
        deliveries: deliveries.iter().map(|d| delivery(d, request.status)).collect(),
        outcome: outcome(request),
    }
}

fn delivery(delivery: &Delivery, status: Status) -> DeliveryResource {
    DeliveryResource {
        channel: delivery.channel.clone(),
        state: state_word(delivery, status).to_owned(),
        detail: delivery.detail.clone(),
    }
}

fn outcome(request: &Request) -> Option<OutcomeResource> {
    let outcome = request.outcome.as_ref()?;
    let decided_by = match (&outcome.decided_by_name, &outcome.channel) {
        (Some(name), Some(channel)) => {
            Some(DeciderResource { principal: name.clone(), channel: channel.clone() })
        }
        _ => None,
    };
    Some(OutcomeResource {
        verdict: request.status.as_str().to_owned(),
        answer: outcome
            .answer
            .as_ref()
            .map(|a| AnswerResource { option: a.option.clone(), text: a.text.clone() }),
        reason: outcome.reason.clone(),
        decided_by,
        decided_at: outcome.at.rfc3339(),
        digest: request.digest.clone(),
    })
}

/// Reads a request's deliveries and gives it as the wire has it.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn read(tx: &mut Tx, request: &Request) -> Result<RequestResource, StoreError> {
    let deliveries = store::deliveries::list_of(tx, request.id).await?;
    Ok(resource(request, &deliveries))
}

/// The story of a request as the wire has it.
///
/// # Errors
///
/// See [`StoreError`].
pub async fn trail(tx: &mut Tx, request: &Request) -> Result<Vec<TrailLine>, StoreError> {
    let lines = store::audit::story(tx, request.id).await?;
    Ok(lines
        .into_iter()
        .map(|line| TrailLine {
            at: crate::clock::Timestamp::from_micros(line.at).rfc3339(),
            kind: line.kind,
            actor: line.actor,
            channel: line.channel,
            status: line.after,
            detail: line.detail,
        })
        .collect())
}
