//! What follows an end, one file a kind.
//!
//! A resolver says what is owed; it is written down in the transaction of the
//! decision and done afterwards, as often as needed. A failure there never
//! undoes a decision.

mod access_request;
mod question;
mod tool_approval;

use crate::requests::{Kind, Request};
use crate::store::jobs::NOTIFY_AGENT;

/// Something owed because a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owed {
    /// The kind of job.
    pub kind: &'static str,
    /// More, as the job needs it.
    pub payload: String,
}

/// What follows the end of one kind of request.
pub trait Resolver: Sync {
    /// What is owed now that `request` has ended.
    fn owed(&self, request: &Request) -> Vec<Owed>;
}

/// The resolver of a kind.
pub fn of(kind: Kind) -> &'static dyn Resolver {
    match kind {
        Kind::ToolApproval => &tool_approval::ToolApproval,
        Kind::Question => &question::Question,
        Kind::AccessRequest => &access_request::AccessRequest,
    }
}

/// Telling the agent, if it wants to be told.
fn notify_agent(request: &Request) -> Option<Owed> {
    request.callback_url.as_ref()?;
    Some(Owed { kind: NOTIFY_AGENT, payload: String::new() })
}
