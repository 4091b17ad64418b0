//! The server's refusals, by its words: what each means and what to do.

/// What a refusal means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The message shows that already.
    NotModified,
    /// The message isn't there or can't be changed any more.
    Gone,
    /// The person has blocked the bot.
    Blocked,
    /// The person never wrote to the bot.
    NotStarted,
    /// The account doesn't exist any more.
    Deactivated,
    /// There is no such chat for this bot.
    NoChat,
    /// The bot is no longer in the chat.
    NotIn,
    /// The bot may not write there.
    Muted,
    /// The topic isn't there or is closed.
    NoTopic,
    /// The text is too long.
    TooLong,
    /// The formatting or the buttons are refused.
    Markup,
    /// The press is too old to be answered.
    TooOld,
    /// The token is wrong or revoked.
    Token,
    /// Another program polls with this token.
    PolledElsewhere,
    /// A webhook is set.
    WebhookSet,
    /// Anything else.
    Other,
}

/// Parts of the server's words, lower case, and what they mean; the first that
/// fits counts. From the official server 10.0 and its `TDLib`.
const TABLE: &[(&str, Refusal)] = &[
    ("message is not modified", Refusal::NotModified),
    ("message to edit not found", Refusal::Gone),
    ("message to delete not found", Refusal::Gone),
    ("message to react not found", Refusal::Gone),
    ("message can't be edited", Refusal::Gone),
    ("message can't be deleted", Refusal::Gone),
    ("message_id_invalid", Refusal::Gone),
    ("bot was blocked by the user", Refusal::Blocked),
    ("user is deactivated", Refusal::Deactivated),
    ("bot can't initiate conversation", Refusal::NotStarted),
    ("bot can't send messages to the user", Refusal::NotStarted),
    ("can't send messages to bots", Refusal::NoChat),
    ("peer_id_invalid", Refusal::NoChat),
    ("chat not found", Refusal::NoChat),
    ("user not found", Refusal::NoChat),
    ("bot was kicked", Refusal::NotIn),
    ("bot is not a member", Refusal::NotIn),
    ("group chat was deleted", Refusal::NotIn),
    ("chat_write_forbidden", Refusal::Muted),
    ("not enough rights", Refusal::Muted),
    ("have no rights to send", Refusal::Muted),
    ("need administrator rights", Refusal::Muted),
    ("message thread not found", Refusal::NoTopic),
    ("topic_closed", Refusal::NoTopic),
    ("topic_deleted", Refusal::NoTopic),
    ("message is too long", Refusal::TooLong),
    ("message_too_long", Refusal::TooLong),
    ("can't parse", Refusal::Markup),
    ("reply markup is too long", Refusal::Markup),
    ("button_data_invalid", Refusal::Markup),
    ("button_url_invalid", Refusal::Markup),
    ("entity", Refusal::Markup),
    ("object expected as reply markup", Refusal::Markup),
    ("query is too old", Refusal::TooOld),
    ("query id is invalid", Refusal::TooOld),
    ("query_id_invalid", Refusal::TooOld),
    ("terminated by other getupdates", Refusal::PolledElsewhere),
    ("while webhook is active", Refusal::WebhookSet),
    ("terminated by setwebhook", Refusal::WebhookSet),
];

impl Refusal {
    /// What a refusal with this code and these words means.
    pub(crate) fn of(code: i64, words: &str) -> Self {
        let words = words.to_lowercase();
        let known =
            TABLE.iter().find(|(part, _)| words.contains(part)).map(|(_, refusal)| *refusal);
        match (known, code) {
            (Some(refusal), _) => refusal,
            // 404 without more words: there is no such bot.
            (None, 401) => Self::Token,
            (None, 404) if !words.contains("method") => Self::Token,
            _ => Self::Other,
        }
    }

    /// What is wrong and what to do, for the operator; nothing when the
    /// server's own words say it best.
    pub(crate) fn remedy(self) -> Option<&'static str> {
        Some(match self {
            Self::Blocked => "the person has blocked the bot; they have to unblock it",
            Self::NotStarted => "the person never wrote to the bot; they have to send it /start",
            Self::Deactivated => "the person's account no longer exists; bind another",
            Self::NoChat => "there is no such chat for this bot; the person has to send it /start",
            Self::NotIn => "the bot is no longer in that chat; add it again",
            Self::Muted => "the bot may not write in that chat; give it the right to",
            Self::NoTopic => "that topic is closed or gone",
            Self::Token => "the token is wrong or was revoked; set telegram.token",
            Self::PolledElsewhere => {
                "another program polls with this token; stop it or use another bot"
            }
            Self::WebhookSet => {
                "another program has set a webhook for this bot; stop it or use another bot"
            }
            Self::NotModified
            | Self::Gone
            | Self::TooLong
            | Self::Markup
            | Self::TooOld
            | Self::Other => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(
        400,
        "Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message",
        Refusal::NotModified
    )]
    #[case(400, "Bad Request: message to edit not found", Refusal::Gone)]
    #[case(400, "Bad Request: message can't be edited", Refusal::Gone)]
    #[case(400, "Bad Request: chat not found", Refusal::NoChat)]
    #[case(400, "Bad Request: message is too long", Refusal::TooLong)]
    #[case(400, "Bad Request: MESSAGE_TOO_LONG", Refusal::TooLong)]
    #[case(400, "Bad Request: reply markup is too long", Refusal::Markup)]
    #[case(400, "Bad Request: BUTTON_DATA_INVALID", Refusal::Markup)]
    #[case(
        400,
        "Bad Request: can't parse entities: Can't find end tag corresponding to start tag \"b\"",
        Refusal::Markup
    )]
    #[case(
        400,
        "Bad Request: query is too old and response timeout expired or query ID is invalid",
        Refusal::TooOld
    )]
    #[case(400, "Bad Request: message thread not found", Refusal::NoTopic)]
    #[case(400, "Bad Request: TOPIC_CLOSED", Refusal::NoTopic)]
    #[case(400, "Bad Request: not enough rights to send text messages to the chat", Refusal::Muted)]
    #[case(401, "Unauthorized", Refusal::Token)]
    #[case(401, "Unauthorized: invalid token specified", Refusal::Token)]
    #[case(404, "Not Found", Refusal::Token)]
    #[case(404, "Not Found: method not found", Refusal::Other)]
    #[case(403, "Forbidden: bot was blocked by the user", Refusal::Blocked)]
    #[case(403, "Forbidden: user is deactivated", Refusal::Deactivated)]
    #[case(403, "Forbidden: bot can't initiate conversation with a user", Refusal::NotStarted)]
    #[case(403, "Forbidden: bot was kicked from the supergroup chat", Refusal::NotIn)]
    #[case(403, "Forbidden: bot is not a member of the supergroup chat", Refusal::NotIn)]
    #[case(403, "Forbidden: the group chat was deleted", Refusal::NotIn)]
    #[case(
        409,
        "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
        Refusal::PolledElsewhere
    )]
    #[case(
        409,
        "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first",
        Refusal::WebhookSet
    )]
    #[case(400, "Bad Request: something nobody has seen", Refusal::Other)]
    fn each_refusal_of_the_server_is_known_by_its_words(
        #[case] code: i64,
        #[case] words: &str,
        #[case] expected: Refusal,
    ) {
        assert_eq!(Refusal::of(code, words), expected);
    }
}
