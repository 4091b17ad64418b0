//! What a person means, before anything is done about it.

use crate::decisions::{Means, Verdict};
use crate::ids::RequestId;
use crate::requests::Request;
use crate::router::Outcome;

/// What a person means.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Intent {
    /// To decide a request. Whether they may is the primitive's to say.
    Decide { request: RequestId, verdict: Verdict, means: Means },
    /// To see all of it.
    Reveal(Request),
    /// This request, but it is not clear what about it.
    Clarify(Request),
    /// To say no, and why; the words are missing.
    AskReason(Request),
    /// One of these, but it is not clear which.
    Disambiguate(Vec<Request>),
    /// Something that only needs an answer.
    Say(Outcome, String),
    /// Something for the agent; perhaps with a hint for the person.
    Pass(Option<String>),
    /// A code, from somebody whose codes aren't read at the moment.
    Unread,
    /// Nothing that anybody has to act on.
    Nothing,
}
