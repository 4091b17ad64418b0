//! Requests: what can be asked of a person.

pub mod action;
pub mod check;
pub mod code;
pub mod hidden;
pub mod status;

use std::str::FromStr;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::clock::Timestamp;
use crate::ids::{AgentId, PrincipalId, RequestId};
use crate::requests::code::Code;
use crate::requests::status::Status;

macro_rules! word_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every value, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word for it, in the API and in the database.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl FromStr for $name {
            type Err = ();

            fn from_str(text: &str) -> Result<Self, ()> {
                match text { $($word => Ok(Self::$variant),)+ _ => Err(()) }
            }
        }
    };
}

word_enum!(
    /// What kind of thing is asked.
    Kind {
        /// May this tool call run?
        ToolApproval = "tool_approval",
        /// What is the answer?
        Question = "question",
        /// May this stranger in?
        AccessRequest = "access_request",
    }
);

word_enum!(
    /// How much harm a wrong yes can do; policy binds the easy ways of saying
    /// yes to it.
    Risk {
        /// Little.
        Low = "low",
        /// Some.
        Medium = "medium",
        /// Much.
        High = "high",
    }
);

/// A tool call to be approved.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The tool.
    pub name: String,
    /// What it is called with.
    pub input: Value,
}

/// One of the answers that a question offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The asker's id of it, at most 64 characters.
    pub id: String,
    /// The words for it.
    pub label: String,
}

/// What is shown to the person: the part of a request that its digest covers.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    /// What kind of thing is asked.
    pub kind: Kind,
    /// One line that says what is asked.
    pub title: Option<String>,
    /// The asker's own words, unverified.
    pub body: Option<String>,
    /// The call, for [`Kind::ToolApproval`].
    pub tool: Option<Tool>,
    /// The offered answers, in order; for [`Kind::Question`].
    pub options: Vec<Choice>,
    /// Whether an answer may be a text of the person's own.
    pub allow_text: bool,
}

impl Content {
    /// `sha256:` and the SHA-256, in hexadecimal digits, of the canonical JSON
    /// (RFC 8785) of `{"kind","title","body","tool":{"name","input"},"options"}`
    /// with absent members left out. What was shown has this digest, and so
    /// must what is executed.
    pub fn digest(&self) -> String {
        let mut members = serde_json::Map::new();
        members.insert("kind".into(), json!(self.kind.as_str()));
        if let Some(title) = &self.title {
            members.insert("title".into(), json!(title));
        }
        if let Some(body) = &self.body {
            members.insert("body".into(), json!(body));
        }
        if let Some(tool) = &self.tool {
            members.insert("tool".into(), json!({ "name": tool.name, "input": tool.input }));
        }
        if !self.options.is_empty() {
            let options: Vec<Value> =
                self.options.iter().map(|o| json!({ "id": o.id, "label": o.label })).collect();
            members.insert("options".into(), Value::Array(options));
        }
        format!("sha256:{}", sha256_hex(canonical(&Value::Object(members)).as_bytes()))
    }
}

/// Canonical JSON (RFC 8785).
pub fn canonical(value: &Value) -> String {
    // Only a map with non-text keys could fail, and a Value has none.
    serde_json_canonicalizer::to_string(value).unwrap_or_default()
}

/// The SHA-256 of `bytes` in hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        // Writing to a String can't fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// The id of the chosen option.
    pub option: Option<String>,
    /// The person's own words.
    pub text: Option<String>,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The answer, if it was answered.
    pub answer: Option<Answer>,
    /// The words given with it: why not, or why withdrawn.
    pub reason: Option<String>,
    /// Who decided; nobody for an expiry or a cancellation.
    pub decided_by: Option<PrincipalId>,
    /// That person's name.
    pub decided_by_name: Option<String>,
    /// Where it was decided.
    pub channel: Option<String>,
    /// When it ended.
    pub at: Timestamp,
}

/// One durable thing a guardian must decide.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Its id.
    pub id: RequestId,
    /// What people type to name it.
    pub code: Code,
    /// Where it stands.
    pub status: Status,
    /// Which content it has; a card shows a revision, and only that one can be
    /// decided with it.
    pub revision: i64,
    /// Counts every change that a card shows.
    pub version: i64,
    /// Who asks.
    pub agent: AgentId,
    /// The asker's name.
    pub agent_name: String,
    /// The asker's conversation.
    pub session: Option<String>,
    /// The asker's run.
    pub run: Option<String>,
    /// Who decides.
    pub guardian: PrincipalId,
    /// The guardian's name.
    pub guardian_name: String,
    /// What is shown.
    pub content: Content,
    /// How much harm a wrong yes can do.
    pub risk: Risk,
    /// The digest of `content`.
    pub digest: String,
    /// Where to tell the outcome.
    pub callback_url: Option<String>,
    /// The asker's own notes, given back unchanged.
    pub metadata: Value,
    /// The request that this one replaces.
    pub supersedes: Option<RequestId>,
    /// The request that replaced this one.
    pub superseded_by: Option<RequestId>,
    /// How often it was asked.
    pub asked: i64,
    /// When it was asked first.
    pub created_at: Timestamp,
    /// The first instant too late for a decision.
    pub deadline: Timestamp,
    /// How it ended, once it has.
    pub outcome: Option<Outcome>,
    /// What is stored of how it was shown.
    pub shown: Shown,
}

impl Request {
    /// The conversation of a channel that it came from, if its session is one:
    /// `channel:address`.
    pub fn origin(&self) -> Option<(&str, &str)> {
        self.session.as_deref()?.split_once(':').filter(|(_, address)| !address.is_empty())
    }
}

/// What is stored of how a request was shown, and of who it was shown to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shown {
    /// Cards that arrived somewhere.
    pub cards: i64,
    /// Those with the whole text: messages that arrived, pages that were seen.
    pub whole: i64,
    /// Pages that show the whole text to whoever looks.
    pub whole_pages: i64,
    /// Whether the guardian was removed.
    pub guardian_is_gone: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(input: Value) -> Content {
        Content {
            kind: Kind::ToolApproval,
            title: None,
            body: None,
            tool: Some(Tool { name: "shell".into(), input }),
            options: Vec::new(),
            allow_text: false,
        }
    }

    #[test]
    fn the_digest_is_that_of_the_documented_canonical_json() {
        let canonical =
            r#"{"kind":"tool_approval","tool":{"input":{"a":1,"b":[true,null]},"name":"shell"}}"#;
        let expected = format!("sha256:{}", sha256_hex(canonical.as_bytes()));

        assert_eq!(content(json!({ "b": [true, null], "a": 1 })).digest(), expected);
    }

    #[test]
    fn the_order_of_members_does_not_change_the_digest_and_anything_else_does() {
        let one = content(json!({ "a": 1, "b": 2 }));
        let other = content(json!({ "b": 2, "a": 1 }));
        assert_eq!(one.digest(), other.digest());

        for changed in [json!({ "a": 1, "b": 3 }), json!({ "a": "1", "b": 2 }), json!({ "a": 1 })] {
            assert_ne!(content(changed).digest(), one.digest());
        }
        let titled = Content { title: Some("t".into()), ..one.clone() };
        assert_ne!(titled.digest(), one.digest());
    }
}
