//! The server's refusals, by their word: what each means and what to do.

/// What a refusal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The message isn't there or can't be changed any more.
    Gone,
    /// The person's account is switched off or gone.
    Deactivated,
    /// There is no such conversation for this bot.
    NoChannel,
    /// The bot is no member of the conversation.
    NotIn,
    /// The conversation is archived.
    Archived,
    /// The bot may not write there.
    Forbidden,
    /// People can't write to the app.
    MessagesOff,
    /// The message is too long, or its parts are refused.
    Form,
    /// The click is too old for a window to be opened.
    TooOld,
    /// The token is wrong or was revoked.
    Token,
    /// The token is of another kind.
    TokenKind,
    /// The token lacks a right.
    Scope,
    /// The server has a problem of its own; it may have done it.
    Server,
    /// Anything else.
    Other,
}

const TABLE: &[(Refusal, &[&str])] = &[
    (
        Refusal::Gone,
        &["message_not_found", "cant_update_message", "edit_window_closed", "cant_delete_message"],
    ),
    (Refusal::Deactivated, &["user_disabled", "user_not_found", "user_not_visible", "is_inactive"]),
    (Refusal::NoChannel, &["channel_not_found", "users_not_found"]),
    (Refusal::NotIn, &["not_in_channel", "user_not_in_channel"]),
    (Refusal::Archived, &["is_archived", "channel_is_archived"]),
    (Refusal::MessagesOff, &["messages_tab_disabled"]),
    (
        Refusal::Form,
        &[
            "invalid_blocks",
            "invalid_blocks_format",
            "block_mismatch",
            "msg_blocks_too_long",
            "msg_too_long",
            "no_text",
            "metadata_too_large",
            "invalid_metadata_format",
            "too_many_attachments",
            "view_too_large",
        ],
    ),
    (
        Refusal::TooOld,
        &["expired_trigger_id", "exchanged_trigger_id", "invalid_trigger_id", "trigger_expired"],
    ),
    (
        Refusal::Token,
        &[
            "invalid_auth",
            "not_authed",
            "account_inactive",
            "token_revoked",
            "token_expired",
            "org_login_required",
            "team_access_not_granted",
        ],
    ),
    (Refusal::TokenKind, &["not_allowed_token_type"]),
    (Refusal::Scope, &["missing_scope", "no_permission"]),
    (
        Refusal::Server,
        &[
            "internal_error",
            "fatal_error",
            "service_unavailable",
            "request_timeout",
            "update_failed",
            "team_added_to_org",
        ],
    ),
];

impl Refusal {
    /// What the server's word means.
    pub(crate) fn of(word: &str) -> Self {
        if word.starts_with("restricted_action")
            || matches!(word, "access_denied" | "ekm_access_denied")
        {
            return Self::Forbidden;
        }
        let known = TABLE.iter().find(|(_, words)| words.contains(&word));
        known.map_or(Self::Other, |(refusal, _)| *refusal)
    }

    /// Whether no repetition can help before the operator has done something.
    pub(crate) fn is_for_the_operator(self) -> bool {
        matches!(self, Self::Token | Self::TokenKind | Self::Scope)
    }

    /// What is wrong and what to do, for the operator; nothing when the server's
    /// own word says it best.
    pub(crate) fn remedy(self) -> Option<&'static str> {
        Some(match self {
            Self::Deactivated => "the person's Slack account is switched off; bind another",
            Self::NoChannel => {
                "there is no such conversation for this bot; the person has to write to it"
            }
            Self::NotIn => "the bot is not in that channel; invite it there",
            Self::Archived => "that channel is archived",
            Self::Forbidden => "the workspace does not let the bot write there",
            Self::MessagesOff => {
                "people can't write to the app; switch on its Messages tab in Slack's App Home"
            }
            Self::Token => {
                "the token is wrong or was revoked; install the app again and set slack.bot_token"
            }
            Self::TokenKind => {
                "the token is of the wrong kind: slack.bot_token begins with xoxb-, \
                 slack.app_token with xapp-"
            }
            Self::Scope | Self::Gone | Self::Form | Self::TooOld | Self::Server | Self::Other => {
                return None;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("message_not_found", Refusal::Gone)]
    #[case("cant_update_message", Refusal::Gone)]
    #[case("edit_window_closed", Refusal::Gone)]
    #[case("channel_not_found", Refusal::NoChannel)]
    #[case("not_in_channel", Refusal::NotIn)]
    #[case("is_archived", Refusal::Archived)]
    #[case("restricted_action_read_only_channel", Refusal::Forbidden)]
    #[case("messages_tab_disabled", Refusal::MessagesOff)]
    #[case("user_disabled", Refusal::Deactivated)]
    #[case("msg_blocks_too_long", Refusal::Form)]
    #[case("invalid_blocks", Refusal::Form)]
    #[case("expired_trigger_id", Refusal::TooOld)]
    #[case("token_revoked", Refusal::Token)]
    #[case("account_inactive", Refusal::Token)]
    #[case("not_allowed_token_type", Refusal::TokenKind)]
    #[case("missing_scope", Refusal::Scope)]
    #[case("internal_error", Refusal::Server)]
    #[case("a_new_word", Refusal::Other)]
    fn each_refusal_is_known_by_its_word(#[case] word: &str, #[case] expected: Refusal) {
        assert_eq!(Refusal::of(word), expected);
    }
}
