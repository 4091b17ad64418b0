//! Calls to the Web API. slack-morphism gives the shapes; the exchange is our own:
//! its own has no time limit, takes a proxy's page for success and can't tell a
//! call that never left from one whose answer was lost.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;

use crate::refusal::Refusal;

/// How long a call may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);
/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);
/// How long to wait when the platform asks for patience and doesn't say how much.
const WAIT: Duration = Duration::from_secs(10);

/// Why a call brought nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// It never reached the server.
    #[error("{0}")]
    NotSent(String),
    /// It may have reached the server; the answer is missing or unreadable.
    #[error("{0}")]
    Lost(String),
    /// The server asks to wait.
    #[error("Slack asks to wait for {} s", .0.as_secs())]
    Wait(Duration),
    /// The server refused it.
    #[error("{words}")]
    Refused {
        /// What it means.
        refusal: Refusal,
        /// The server's word, and what it says besides.
        words: String,
    },
}

/// A token; it is never printed.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// Reads a token that begins with `prefix`; `None` when it is none.
    pub(crate) fn parse(text: &str, prefix: &str) -> Option<Self> {
        let text = text.trim();
        let is_plain = text.len() > prefix.len() && text.bytes().all(|b| b.is_ascii_graphic());
        (text.starts_with(prefix) && is_plain).then(|| Self(text.to_owned()))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// What a successful call gave.
pub(crate) struct Answer<T> {
    /// The answer.
    pub(crate) value: T,
    /// What the token may do, as the server says with each answer.
    pub(crate) scopes: Option<String>,
}

/// The Web API.
pub(crate) struct Api {
    base: Url,
    client: reqwest::Client,
}

impl Api {
    /// Calls through `base`, usually `https://slack.com/api`.
    pub(crate) fn new(base: Url) -> Self {
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .timeout(PATIENCE)
            .redirect(reqwest::redirect::Policy::none())
            .build();
        Self { base, client: client.unwrap_or_default() }
    }

    /// Calls a method that writes, with a JSON body.
    ///
    /// # Errors
    ///
    /// See [`Fault`].
    pub(crate) async fn post<P, T>(&self, method: &str, token: &Token, body: &P) -> Result<T, Fault>
    where
        P: Serialize + Sync,
        T: DeserializeOwned,
    {
        let body = serde_json::to_vec(body)
            .map_err(|_| Fault::NotSent("the call could not be written".to_owned()))?;
        let call = self
            .client
            .post(self.url(method)?)
            .bearer_auth(&token.0)
            .header("content-type", "application/json; charset=utf-8")
            .body(body);
        exchange(call).await.map(|answer| answer.value)
    }

    /// Calls a method that reads, or that takes a form: not all of them read JSON.
    ///
    /// # Errors
    ///
    /// See [`Fault`].
    pub(crate) async fn form<T>(
        &self,
        method: &str,
        token: &Token,
        fields: &[(&str, &str)],
    ) -> Result<Answer<T>, Fault>
    where
        T: DeserializeOwned,
    {
        let body =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let call = self
            .client
            .post(self.url(method)?)
            .bearer_auth(&token.0)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body);
        exchange(call).await
    }

    /// Posts to an address that the platform has given for one click.
    ///
    /// # Errors
    ///
    /// See [`Fault`].
    pub(crate) async fn respond(&self, address: &str, body: &Value) -> Result<(), Fault> {
        let url = self.trusted(address)?;
        let call = self
            .client
            .post(url)
            .header("content-type", "application/json; charset=utf-8")
            .body(body.to_string());
        let answer = call.send().await.map_err(|error| unsent(&error))?;
        if answer.status().is_success() {
            return Ok(());
        }
        let words = format!("the address of the click answered {}", answer.status().as_u16());
        Err(Fault::Refused { refusal: Refusal::Other, words })
    }

    /// Puts the bytes of a file where the platform said.
    ///
    /// # Errors
    ///
    /// See [`Fault`].
    pub(crate) async fn upload(&self, address: &str, bytes: Vec<u8>) -> Result<(), Fault> {
        let url = self.trusted(address)?;
        let answer = self.client.post(url).body(bytes).send().await.map_err(|e| unsent(&e))?;
        if answer.status().is_success() {
            return Ok(());
        }
        Err(Fault::Lost(format!("the upload answered {}", answer.status().as_u16())))
    }

    /// An address that came in a payload leads to the platform and nowhere else.
    fn trusted(&self, address: &str) -> Result<Url, Fault> {
        let refuse = || Fault::NotSent("the address is not one of Slack's".to_owned());
        let url: Url = address.parse().map_err(|_| refuse())?;
        let is_slacks = url.scheme() == "https"
            && url.host_str().is_some_and(|host| {
                host == "slack.com"
                    || host.ends_with(".slack.com")
                    || host.ends_with(".slack-edge.com")
            });
        let is_ours = url.origin() == self.base.origin();
        if is_slacks || is_ours { Ok(url) } else { Err(refuse()) }
    }

    fn url(&self, method: &str) -> Result<Url, Fault> {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .map_err(|()| Fault::NotSent("slack.api_url can't be called".to_owned()))?
            .pop_if_empty()
            .push(method);
        Ok(url)
    }
}

async fn exchange<T: DeserializeOwned>(call: reqwest::RequestBuilder) -> Result<Answer<T>, Fault> {
    let answer = call.send().await.map_err(|error| unsent(&error))?;
    let status = answer.status();
    let header = |name: &str| {
        answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
    };
    let patience = header("retry-after").and_then(|seconds| seconds.trim().parse().ok());
    let patience = patience.map(Duration::from_secs);
    let scopes = header("x-oauth-scopes");
    if status.as_u16() == 429 {
        return Err(Fault::Wait(patience.unwrap_or(WAIT)));
    }
    let body = answer.bytes().await;
    let body = body.map_err(|_| Fault::Lost("the answer broke off".to_owned()))?;
    let Ok(value) = serde_json::from_slice::<Value>(&body) else {
        return Err(Fault::Lost(format!("Slack answered {} and no JSON", status.as_u16())));
    };
    match value.get("ok").and_then(Value::as_bool) {
        Some(true) => {
            let value = serde_json::from_value(value)
                .map_err(|_| Fault::Lost("the answer lacks what it must have".to_owned()))?;
            Ok(Answer { value, scopes })
        }
        Some(false) => Err(refused(&value, patience)),
        None => Err(Fault::Lost(format!("Slack answered {} and not how it went", status.as_u16()))),
    }
}

fn refused(value: &Value, patience: Option<Duration>) -> Fault {
    let word = value.get("error").and_then(Value::as_str).unwrap_or("unknown_error");
    if matches!(word, "ratelimited" | "rate_limited") {
        return Fault::Wait(patience.unwrap_or(WAIT));
    }
    let mut words = word.to_owned();
    if let Some(needed) = value.get("needed").and_then(Value::as_str) {
        words = format!("{words} (needed: {needed})");
    }
    let messages = value.pointer("/response_metadata/messages").and_then(Value::as_array);
    if let Some(first) = messages.and_then(|all| all.first()).and_then(Value::as_str) {
        words = format!("{words}: {}", sayso_channel::text::shorten(first, 200));
    }
    Fault::Refused { refusal: Refusal::of(word), words }
}

/// Its own text may hold an address with a secret in it.
fn unsent(error: &reqwest::Error) -> Fault {
    if error.is_connect() || error.is_builder() {
        Fault::NotSent("Slack can't be reached".to_owned())
    } else if error.is_timeout() {
        Fault::Lost("Slack took too long".to_owned())
    } else {
        Fault::Lost("the connection to Slack broke off".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_in_a_payload_leads_to_slack_or_to_the_server_in_the_settings() {
        let api = Api::new("http://127.0.0.1:8082/api".parse().unwrap());
        for good in ["https://hooks.slack.com/actions/T/1/x", "http://127.0.0.1:8082/respond/1"] {
            assert!(api.trusted(good).is_ok(), "{good}");
        }
        for bad in [
            "http://hooks.slack.com/x",
            "https://slack.com.evil.example/x",
            "https://evilslack.com/",
            "http://127.0.0.1:8083/respond/1",
            "file:///etc/passwd",
            "x",
        ] {
            assert!(api.trusted(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_refusal_says_what_is_missing_and_patience_has_a_time() {
        let missing = json!({ "ok": false, "error": "missing_scope", "needed": "im:write" });
        let Fault::Refused { refusal, words } = refused(&missing, None) else { panic!() };
        assert_eq!((refusal, words.as_str()), (Refusal::Scope, "missing_scope (needed: im:write)"));
        let limited = json!({ "ok": false, "error": "ratelimited" });
        let seven = Duration::from_secs(7);
        assert_eq!(refused(&limited, Some(seven)), Fault::Wait(seven));
        assert_eq!(refused(&limited, None), Fault::Wait(WAIT));
    }

    #[test]
    fn a_token_is_one_of_its_kind_and_is_not_printed() {
        assert!(Token::parse("xapp-1", "xoxb-").is_none());
        assert!(Token::parse("xoxb-", "xoxb-").is_none());
        let token = Token::parse(" xoxb-secret\n", "xoxb-").unwrap();
        assert_eq!(format!("{token:?}"), "Token(…)");
    }
}
