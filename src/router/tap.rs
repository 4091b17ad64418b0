//! Stage: a button. Its token names the request and the action; nothing else is
//! taken into account, and it authorises nobody.

use sayso_channel::ActionToken;

use crate::decisions::{Means, Verdict};
use crate::requests::action::{Action, Callback};
use crate::requests::{Answer, Kind};
use crate::router::intent::Intent;
use crate::router::{Outcome, wording};
use crate::store::{self, StoreError, Tx};

pub(super) async fn read(
    tx: &mut Tx,
    token: &ActionToken,
    text: Option<&str>,
) -> Result<Intent, StoreError> {
    let unknown = || Intent::Say(Outcome::NotFound, wording::UNKNOWN_BUTTON.to_owned());
    let Ok(Callback { request, action }) = token.as_str().parse() else { return Ok(unknown()) };
    let Some(request) = store::requests::find(tx, request).await? else { return Ok(unknown()) };
    let reason = text.map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned);
    let kind = request.content.kind;
    let verdict = match (action, kind) {
        (Action::ShowAll, _) => return Ok(Intent::Reveal(request)),
        (Action::ApproveOnce, Kind::ToolApproval)
        | (Action::Trust | Action::VerifyCode, Kind::AccessRequest) => Verdict::Approve,
        (Action::Reject, Kind::ToolApproval)
        | (Action::LeaveUnverified | Action::Block, Kind::AccessRequest) => {
            Verdict::Deny { reason: None }
        }
        (Action::RejectReason, Kind::ToolApproval) if reason.is_none() => {
            return Ok(Intent::AskReason(request));
        }
        (Action::RejectReason, Kind::ToolApproval) => Verdict::Deny { reason },
        (Action::Answer(index), Kind::Question) => {
            let option = request.content.options.get(index).map(|o| o.id.clone());
            // A place beyond the end is no option of this question.
            Verdict::Answer(Answer { option: Some(option.unwrap_or_default()), text: None })
        }
        (Action::AnswerSkip, Kind::Question) => Verdict::Skip,
        // An action of another kind: the primitive says so, if it may be said.
        (
            Action::ApproveOnce
            | Action::Reject
            | Action::RejectReason
            | Action::Trust
            | Action::VerifyCode
            | Action::LeaveUnverified
            | Action::Block,
            Kind::Question,
        )
        | (Action::ApproveOnce | Action::Reject | Action::RejectReason, Kind::AccessRequest)
        | (
            Action::Trust | Action::VerifyCode | Action::LeaveUnverified | Action::Block,
            Kind::ToolApproval,
        )
        | (Action::Answer(_) | Action::AnswerSkip, Kind::ToolApproval | Kind::AccessRequest) => {
            wrong_for(kind)
        }
    };
    Ok(Intent::Decide { request: request.id, verdict, means: Means::Tap })
}

/// A verdict that this kind never takes.
fn wrong_for(kind: Kind) -> Verdict {
    match kind {
        Kind::Question => Verdict::Approve,
        Kind::ToolApproval | Kind::AccessRequest => Verdict::Skip,
    }
}
