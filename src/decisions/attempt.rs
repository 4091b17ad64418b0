//! The words of a decision: who says what and how, under which policy, and what
//! comes of it.

use std::time::Duration;

use crate::decisions::authority::Objection;
use crate::ids::{BindingId, PrincipalId, RequestId};
use crate::requests::status::Transition;
use crate::requests::{Answer, Request, Risk};

/// What a person says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Approve,
    /// No.
    Deny {
        /// Why not, in their words.
        reason: Option<String>,
    },
    /// An answer.
    Answer(Answer),
    /// No answer.
    Skip,
}

impl Verdict {
    pub(super) fn transition(&self) -> Transition {
        match self {
            Self::Approve => Transition::Approve,
            Self::Deny { .. } => Transition::Deny,
            Self::Answer(_) => Transition::Answer,
            Self::Skip => Transition::Skip,
        }
    }

    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Deny { .. } => "deny",
            Self::Answer(_) => "answer",
            Self::Skip => "skip",
        }
    }
}

/// How they said it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// A button.
    Tap,
    /// An emoji on the card.
    Reaction,
    /// The request's code.
    Code,
    /// A reply to the card.
    Quote,
    /// Words alone.
    BareText,
    /// The operator's keyboard, in the name of the guardian.
    Keyboard,
}

impl Means {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Tap => "tap",
            Self::Reaction => "reaction",
            Self::Code => "code",
            Self::Quote => "reply",
            Self::BareText => "words",
            Self::Keyboard => "keyboard",
        }
    }
}

/// What the operator allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Up to which risk an emoji may approve.
    pub reaction_max_risk: Risk,
    /// Up to which risk bare words may approve.
    pub bare_text_max_risk: Risk,
    /// How many live requests a guardian may have.
    pub max_open: u32,
    /// How long an approval waits unless it says otherwise.
    pub ttl: Duration,
    /// How long a question waits unless it says otherwise.
    pub question_ttl: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            reaction_max_risk: Risk::Medium,
            bare_text_max_risk: Risk::Medium,
            max_open: 50,
            ttl: Duration::from_mins(15),
            question_ttl: Duration::from_mins(30),
        }
    }
}

/// Who decides, and through what they are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor {
    /// The person.
    pub principal: PrincipalId,
    /// Their name.
    pub name: String,
    /// The account that they used; `None` at the operator's keyboard.
    pub binding: Option<BindingId>,
    /// Where.
    pub channel: String,
}

/// One attempt to decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Which request.
    pub request: RequestId,
    /// The revision that was shown, where the surface knows it.
    pub revision: Option<i64>,
    /// What is said.
    pub verdict: Verdict,
    /// How.
    pub means: Means,
}

/// What came of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum Ruling {
    /// It is the decision.
    Applied(Request),
    /// Another decision or a cancellation was first; this is how it stands.
    AlreadyDecided(Request),
    /// The deadline has passed.
    Expired(Request),
    /// Not this person's to decide. Says nothing about the request.
    NotPermitted,
    /// Nobody can decide it, and that is our fault: its guardian is gone.
    NotDecidable(Request),
    /// The person may decide, but not like this; nothing changed.
    WrongAction(Request, Objection),
    /// There is no such request.
    NotFound,
}
