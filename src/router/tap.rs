//! Stage: a button. Its token names the request and the action; nothing else is
//! taken into account, and it authorises nobody.

use sayso_channel::ActionToken;

use crate::decisions::{Means, Verdict};
use crate::requests::Answer;
use crate::requests::action::{Action, Callback};
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
    let verdict = match action {
        Action::ApproveOnce | Action::Trust | Action::VerifyCode => Verdict::Approve,
        Action::Reject | Action::LeaveUnverified | Action::Block => Verdict::Deny { reason: None },
        Action::RejectReason if reason.is_none() && !request.status.is_final() => {
            let words = format!("Write why not, or reply \"{} deny\".", request.code);
            return Ok(Intent::Say(Outcome::Clarify, words));
        }
        Action::RejectReason => Verdict::Deny { reason },
        Action::Answer(index) => {
            let Some(option) = request.content.options.get(index) else {
                return Ok(Intent::Clarify(request));
            };
            Verdict::Answer(Answer { option: Some(option.id.clone()), text: None })
        }
        Action::AnswerSkip => Verdict::Skip,
        Action::ShowAll => return Ok(Intent::Reveal(request)),
    };
    Ok(Intent::Decide { request: request.id, verdict, means: Means::Tap })
}
