//! People, and the accounts they are known by.

use crate::clock::Timestamp;
use crate::ids::{AgentId, BindingId, PrincipalId};

/// A person known to the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Their id.
    pub id: PrincipalId,
    /// The name used in commands, on cards and in the API.
    pub name: String,
    /// Since when they are known.
    pub created_at: Timestamp,
}

/// A person's account on a channel, by an id that never changes hands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Its id.
    pub id: BindingId,
    /// Whose account.
    pub principal: PrincipalId,
    /// Which channel.
    pub channel: String,
    /// The workspace of the account; empty where there is only one.
    pub realm: String,
    /// The account's immutable id.
    pub account: String,
    /// The person's private address, where cards go; unknown until they wrote.
    pub address: Option<String>,
    /// When the person was last seen there.
    pub last_seen_at: Option<Timestamp>,
    /// Why nothing reaches them there at the moment.
    pub trouble: Option<String>,
    /// Whether something could not be delivered there.
    pub has_failed: bool,
}

/// Whoever asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// Its id.
    pub id: AgentId,
    /// Its name.
    pub name: String,
    /// Who decides for it unless a request says otherwise.
    pub guardian: Option<PrincipalId>,
    /// Signs what we send it: `whsec_` and base64 (Standard Webhooks).
    pub webhook_secret: WebhookSecret,
}

/// A signing secret; its `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(String);

impl WebhookSecret {
    /// The secret as stored.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret itself, for signing and for showing it once.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WebhookSecret(…)")
    }
}

/// Why a name can't be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a name is 1 to 40 letters, digits, dots, dashes or underscores, starting with a letter or digit"
)]
pub struct NameError;

/// Checks the name of a guardian or an agent: it must be typeable in a shell
/// and in a chat and must look like nothing else.
///
/// # Errors
///
/// [`NameError`] says what a name looks like.
pub fn check_name(name: &str) -> Result<(), NameError> {
    let starts_well = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    if starts_well && is_plain && name.len() <= 40 { Ok(()) } else { Err(NameError) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_typeable_everywhere() {
        for good in ["owner", "Ada", "build-bot.2", "7of9"] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        let long = "a".repeat(41);
        for bad in ["", "-x", "a b", "@ada", "аda", "a\n", long.as_str()] {
            assert_eq!(check_name(bad), Err(NameError), "{bad:?}");
        }
    }
}
