//! May this person, by this means, do this to this request? Pure.

use crate::decisions::{Actor, Attempt, Means, Policy, Verdict, was_shown_whole};
use crate::requests::{Kind, Request};

/// Why a verdict can't be taken although the person may decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objection {
    /// This kind of request is not decided like that.
    WrongKind,
    /// There is no such option.
    NoSuchOption,
    /// Only the offered options answer this question.
    OptionsOnly,
    /// An answer with nothing in it.
    EmptyAnswer,
    /// The text could not be shown whole and has not been opened.
    NotOpened,
    /// The risk is too high for such an easy way of saying yes.
    TooRisky,
    /// What was shown is no longer what is asked.
    Changed,
}

/// Whether what is said fits the request at all.
///
/// # Errors
///
/// The first [`Objection`] that applies.
pub fn check(
    request: &Request,
    actor: &Actor,
    attempt: &Attempt,
    policy: Policy,
) -> Result<(), Objection> {
    match (request.content.kind, &attempt.verdict) {
        (Kind::Question, Verdict::Answer(answer)) => {
            let content = &request.content;
            match (&answer.option, &answer.text) {
                (Some(id), _) if content.options.iter().all(|o| o.id != *id) => {
                    Err(Objection::NoSuchOption)
                }
                (None, Some(_)) if !content.allow_text => Err(Objection::OptionsOnly),
                (None, None) => Err(Objection::EmptyAnswer),
                (Some(_), _) | (None, Some(_)) => Ok(()),
            }
        }
        (Kind::Question, Verdict::Skip)
        | (Kind::ToolApproval | Kind::AccessRequest, Verdict::Deny { .. }) => Ok(()),
        (Kind::ToolApproval | Kind::AccessRequest, Verdict::Approve) => {
            if !was_shown_whole(request, &actor.channel) {
                return Err(Objection::NotOpened);
            }
            let limit = match attempt.means {
                Means::Tap | Means::Code | Means::Quote | Means::Keyboard => return Ok(()),
                Means::Reaction => policy.reaction_max_risk,
                Means::BareText => policy.bare_text_max_risk,
            };
            if request.risk > limit { Err(Objection::TooRisky) } else { Ok(()) }
        }
        (Kind::Question, Verdict::Approve | Verdict::Deny { .. })
        | (Kind::ToolApproval | Kind::AccessRequest, Verdict::Answer(_) | Verdict::Skip) => {
            Err(Objection::WrongKind)
        }
    }
}
