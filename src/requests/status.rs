//! Where a request stands, and what may follow.

use std::str::FromStr;

use crate::clock::Timestamp;

/// Where a request stands.
///
/// ```text
/// Pending ─┬─ decide ──▶ Approved | Denied | Answered | Skipped   (once, before the deadline)
///          ├─ expire ──▶ Expired                                  (at or after the deadline)
///          └─ cancel ──▶ Cancelled                                (by the asker, or when replaced)
/// ```
///
/// All but the first are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Waits for a person.
    Pending,
    /// The person said yes.
    Approved,
    /// The person said no.
    Denied,
    /// The person answered the question.
    Answered,
    /// The person declined to answer.
    Skipped,
    /// Nobody decided in time.
    Expired,
    /// The asker took it back, or asked anew.
    Cancelled,
}

impl Status {
    /// Every status, pending first.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Approved,
        Self::Denied,
        Self::Answered,
        Self::Skipped,
        Self::Expired,
        Self::Cancelled,
    ];

    /// The word for it, in the API and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Answered => "answered",
            Self::Skipped => "skipped",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing can follow.
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Pending)
    }

    /// The status after `transition` at `now`, for a request that ends at
    /// `deadline` (the first instant too late).
    ///
    /// # Errors
    ///
    /// [`TransitionError::Final`] once ended, whatever the time; else
    /// [`TransitionError::TooLate`] for a decision at or after the deadline and
    /// [`TransitionError::TooEarly`] for an expiry before it.
    pub fn after(
        self,
        transition: Transition,
        deadline: Timestamp,
        now: Timestamp,
    ) -> Result<Self, TransitionError> {
        if self.is_final() {
            return Err(TransitionError::Final(self));
        }
        match transition {
            Transition::Expire if now < deadline => Err(TransitionError::TooEarly),
            Transition::Expire => Ok(Self::Expired),
            Transition::Cancel => Ok(Self::Cancelled),
            Transition::Approve | Transition::Deny | Transition::Answer | Transition::Skip
                if deadline <= now =>
            {
                Err(TransitionError::TooLate)
            }
            Transition::Approve => Ok(Self::Approved),
            Transition::Deny => Ok(Self::Denied),
            Transition::Answer => Ok(Self::Answered),
            Transition::Skip => Ok(Self::Skipped),
        }
    }
}

impl FromStr for Status {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|s| s.as_str() == text).ok_or(())
    }
}

/// What can happen to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// A person says yes.
    Approve,
    /// A person says no.
    Deny,
    /// A person answers.
    Answer,
    /// A person declines to answer.
    Skip,
    /// The deadline has passed.
    Expire,
    /// The asker takes it back.
    Cancel,
}

/// Why a transition is not possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TransitionError {
    /// It has ended already.
    #[error("the request has already ended")]
    Final(Status),
    /// A decision at or after the deadline.
    #[error("the deadline has passed")]
    TooLate,
    /// An expiry before the deadline.
    #[error("the deadline has not passed yet")]
    TooEarly,
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const DEADLINE: Timestamp = Timestamp::from_micros(100);

    #[rstest]
    #[case::a_yes_in_time(Transition::Approve, 99, Ok(Status::Approved))]
    #[case::a_yes_at_the_deadline(Transition::Approve, 100, Err(TransitionError::TooLate))]
    #[case::a_no_at_the_deadline(Transition::Deny, 100, Err(TransitionError::TooLate))]
    #[case::an_answer_too_late(Transition::Answer, 101, Err(TransitionError::TooLate))]
    #[case::a_skip_too_late(Transition::Skip, 101, Err(TransitionError::TooLate))]
    #[case::a_skip_in_time(Transition::Skip, 1, Ok(Status::Skipped))]
    #[case::an_expiry_too_early(Transition::Expire, 99, Err(TransitionError::TooEarly))]
    #[case::an_expiry_at_the_deadline(Transition::Expire, 100, Ok(Status::Expired))]
    #[case::a_cancellation_whenever(Transition::Cancel, 101, Ok(Status::Cancelled))]
    fn a_pending_request_takes(
        #[case] transition: Transition,
        #[case] now: i64,
        #[case] expected: Result<Status, TransitionError>,
    ) {
        let after = Status::Pending.after(transition, DEADLINE, Timestamp::from_micros(now));
        assert_eq!(after, expected);
    }

    #[test]
    fn an_ended_request_takes_nothing() {
        for ended in Status::ALL.into_iter().filter(|s| s.is_final()) {
            for transition in [
                Transition::Approve,
                Transition::Deny,
                Transition::Answer,
                Transition::Skip,
                Transition::Expire,
                Transition::Cancel,
            ] {
                for now in [0, 100, 101] {
                    let after = ended.after(transition, DEADLINE, Timestamp::from_micros(now));
                    assert_eq!(after, Err(TransitionError::Final(ended)));
                }
            }
        }
    }
}
