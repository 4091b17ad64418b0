//! What a form becomes on its way through the inbox.

use sayso_channel::{Account, Event, Inbound, Place, Privacy, RawInbound, Unreadable};
use serde::{Deserialize, Serialize};

/// A submitted form, and who submitted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Submitted {
    account: String,
    address: String,
    what: What,
}

/// What was submitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum What {
    /// A button.
    Tap { token: String, message: String, text: Option<String> },
    /// Words, perhaps in reply to a card.
    Text { text: String, reply_to: Option<String> },
}

/// Browsers end the lines of a form with carriage returns, which nobody typed.
pub(crate) fn typed(text: &str) -> String {
    text.replace("\r\n", "\n")
}

/// The raw input for what an account submitted; `key` is the same when the same
/// form is submitted again.
pub(crate) fn raw(account: &str, address: &str, key: &str, what: What) -> RawInbound {
    let submitted = Submitted { account: account.to_owned(), address: address.to_owned(), what };
    RawInbound {
        receiver: String::new(),
        dedup_key: format!("{account}:{key}"),
        lane: address.to_owned(),
        // A structure of texts can always be written.
        body: serde_json::to_vec(&submitted).unwrap_or_default(),
    }
}

/// Reads it back.
pub(crate) fn read(body: &[u8]) -> Result<Inbound, Unreadable> {
    let submitted: Submitted =
        serde_json::from_slice(body).map_err(|error| Unreadable(error.to_string()))?;
    let event = match submitted.what {
        What::Tap { token, message, text } => Event::Tap {
            token: token.parse().map_err(|_| Unreadable("no action token".to_owned()))?,
            message: Some(message),
            text,
        },
        What::Text { text, reply_to } => Event::Text { text, reply_to, is_secondhand: false },
    };
    Ok(Inbound {
        actor: Account { realm: String::new(), id: submitted.account, is_automated: false },
        place: Place { address: submitted.address, privacy: Privacy::Private },
        event,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_submitted_reads_back() {
        let what = What::Tap {
            token: "apr:x:reject_reason".to_owned(),
            message: "dlv_1".to_owned(),
            text: Some("a+b = c & d %41 é".to_owned()),
        };
        let raw = raw("prn_1", "ada", "k", what);

        let inbound = read(&raw.body).unwrap();

        assert_eq!(inbound.actor.id, "prn_1");
        let Event::Tap { token, text, .. } = inbound.event else { panic!("{inbound:?}") };
        assert_eq!(token.as_str(), "apr:x:reject_reason");
        assert_eq!(text.unwrap(), "a+b = c & d %41 é");
        assert!(read(b"{}").is_err());
    }
}
