//! What a person can press: `apr:<request id>:<action>`.

use std::fmt;
use std::str::FromStr;

use crate::ids::RequestId;

/// One action on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Yes, this once.
    ApproveOnce,
    /// No.
    Reject,
    /// No, with a reason.
    RejectReason,
    /// The option at this place, from 0.
    Answer(usize),
    /// No answer.
    AnswerSkip,
    /// Show the whole text.
    ShowAll,
    /// Let in, and trust.
    Trust,
    /// Let in after a code was exchanged.
    VerifyCode,
    /// Don't let in for now.
    LeaveUnverified,
    /// Never let in.
    Block,
}

/// An action on a request, as a button carries it: at most 64 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Callback {
    /// The request.
    pub request: RequestId,
    /// The action.
    pub action: Action,
}

/// A text is no callback of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a callback")]
pub struct CallbackError;

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ApproveOnce => f.write_str("approve_once"),
            Self::Reject => f.write_str("reject"),
            Self::RejectReason => f.write_str("reject_reason"),
            Self::Answer(index) => write!(f, "answer_{index}"),
            Self::AnswerSkip => f.write_str("answer_skip"),
            Self::ShowAll => f.write_str("show_all"),
            Self::Trust => f.write_str("trust"),
            Self::VerifyCode => f.write_str("verify_code"),
            Self::LeaveUnverified => f.write_str("leave_unverified"),
            Self::Block => f.write_str("block"),
        }
    }
}

impl FromStr for Action {
    type Err = CallbackError;

    fn from_str(text: &str) -> Result<Self, CallbackError> {
        Ok(match text {
            "approve_once" => Self::ApproveOnce,
            "reject" => Self::Reject,
            "reject_reason" => Self::RejectReason,
            "answer_skip" => Self::AnswerSkip,
            "show_all" => Self::ShowAll,
            "trust" => Self::Trust,
            "verify_code" => Self::VerifyCode,
            "leave_unverified" => Self::LeaveUnverified,
            "block" => Self::Block,
            other => {
                let digits = other.strip_prefix("answer_").ok_or(CallbackError)?;
                let is_plain = digits.len() <= 3 && digits.bytes().all(|b| b.is_ascii_digit());
                if !is_plain {
                    return Err(CallbackError);
                }
                Self::Answer(digits.parse().map_err(|_| CallbackError)?)
            }
        })
    }
}

impl fmt::Display for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "apr:{}:{}", self.request, self.action)
    }
}

impl FromStr for Callback {
    type Err = CallbackError;

    fn from_str(text: &str) -> Result<Self, CallbackError> {
        let rest = text.strip_prefix("apr:").ok_or(CallbackError)?;
        let (request, action) = rest.split_once(':').ok_or(CallbackError)?;
        Ok(Self { request: request.parse().map_err(|_| CallbackError)?, action: action.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_callback_reads_back_and_fits_in_64_bytes() {
        for action in [
            Action::ApproveOnce,
            Action::Reject,
            Action::RejectReason,
            Action::Answer(0),
            Action::Answer(999),
            Action::AnswerSkip,
            Action::ShowAll,
            Action::Trust,
            Action::VerifyCode,
            Action::LeaveUnverified,
            Action::Block,
        ] {
            let callback = Callback { request: RequestId::new(), action };
            let text = callback.to_string();
            assert!(text.len() <= 64, "{text}");
            assert_eq!(text.parse(), Ok(callback));
        }
    }

    #[test]
    fn nothing_else_is_a_callback() {
        let id = RequestId::new();
        for bad in [
            "yes".to_owned(),
            format!("apr:{id}"),
            format!("apr:{id}:approve_always"),
            format!("apr:{id}:answer_-1"),
            format!("apr:{id}:answer_1000"),
            format!("apr:{id}:approve_once:x"),
            format!("con:{id}:approve"),
        ] {
            assert_eq!(bad.parse::<Callback>(), Err(CallbackError), "{bad}");
        }
    }
}
