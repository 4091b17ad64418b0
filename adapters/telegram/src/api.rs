//! Calls to the Bot API. teloxide gives the names and the shapes; the exchange
//! is our own: its own waits ten seconds on every 5xx, prints short tokens and
//! knows few of the server's refusals.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::multipart::{Form, Part};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use teloxide::requests::Payload;
use url::Url;

use crate::refusal::Refusal;

/// How long a call may take; a poll gets so much on top of its own time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);
/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);

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
    #[error("Telegram asks to wait for {} s", .0.as_secs())]
    Wait(Duration),
    /// The group has become a supergroup with this id.
    #[error("the group has moved to {0}")]
    Moved(i64),
    /// The server refused it.
    #[error("{words}")]
    Refused {
        /// What it means.
        refusal: Refusal,
        /// The server's words.
        words: String,
    },
}

/// A bot's token; it is never printed.
#[derive(Clone)]
pub(crate) struct Token {
    text: String,
    bot: String,
}

impl Token {
    /// Reads `123456:secret`; `None` when it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (bot, secret) = text.split_once(':')?;
        let is_id = !bot.is_empty() && bot.len() <= 19 && bot.bytes().all(|b| b.is_ascii_digit());
        let is_secret = !secret.is_empty()
            && secret.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
        (is_id && is_secret).then(|| Self { text: text.to_owned(), bot: bot.to_owned() })
    }

    /// The bot's id, which is no secret.
    pub(crate) fn bot(&self) -> &str {
        &self.bot
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:…", self.bot)
    }
}

/// The Bot API for one bot.
pub(crate) struct Api {
    token: Token,
    base: Url,
    client: Mutex<reqwest::Client>,
}

#[derive(serde::Deserialize)]
struct Answer<'a> {
    ok: bool,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error_code: Option<i64>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Option<Parameters>,
}

#[derive(serde::Deserialize, Default)]
struct Parameters {
    #[serde(default)]
    retry_after: Option<u64>,
    #[serde(default)]
    migrate_to_chat_id: Option<i64>,
}

impl Api {
    /// Calls through `base`, usually `https://api.telegram.org`.
    pub(crate) fn new(token: Token, base: Url) -> Arc<Self> {
        Arc::new(Self { token, base, client: Mutex::new(client()) })
    }

    pub(crate) fn bot(&self) -> &str {
        self.token.bot()
    }

    /// Drops every connection: one that is dead without saying so would hang
    /// each call that goes over it.
    pub(crate) fn reconnect(&self) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = client();
    }

    /// Calls a method.
    ///
    /// # Errors
    ///
    /// See [`Fault`].
    pub(crate) async fn call<P, T>(&self, payload: &P, patience: Duration) -> Result<T, Fault>
    where
        P: Payload + Serialize + Sync,
        T: DeserializeOwned,
    {
        self.call_named(P::NAME, payload, patience).await
    }

    /// Calls a method by its name.
    ///
    /// # Errors
    ///
    /// See [`Fault`].
    pub(crate) async fn call_named<P, T>(
        &self,
        method: &str,
        payload: &P,
        patience: Duration,
    ) -> Result<T, Fault>
    where
        P: Serialize + Sync,
        T: DeserializeOwned,
    {
        let body = serde_json::to_vec(payload)
            .map_err(|_| Fault::NotSent("the call could not be written".to_owned()))?;
        let request = self.post(method, patience)?.header("content-type", "application/json");
        exchange(request.body(body)).await
    }

    /// Sends a text as a file.
    ///
    /// # Errors
    ///
    /// See [`Fault`].
    pub(crate) async fn send_file<T: DeserializeOwned>(
        &self,
        chat: i64,
        name: &str,
        text: String,
        caption: &str,
    ) -> Result<T, Fault> {
        let part = Part::bytes(text.into_bytes()).file_name(name.to_owned());
        let part = part.mime_str("text/plain; charset=utf-8");
        let part = part.map_err(|_| Fault::NotSent("the file could not be made".to_owned()))?;
        let form = Form::new()
            .text("chat_id", chat.to_string())
            .text("caption", caption.to_owned())
            .part("document", part);
        exchange(self.post("sendDocument", PATIENCE)?.multipart(form)).await
    }

    fn post(&self, method: &str, patience: Duration) -> Result<reqwest::RequestBuilder, Fault> {
        let mut url = self.base.clone();
        {
            let mut path = url
                .path_segments_mut()
                .map_err(|()| Fault::NotSent("telegram.api_url can't be called".to_owned()))?;
            path.pop_if_empty();
            path.push(&format!("bot{}", self.token.text));
            path.push(&lower_first(method));
        }
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(client.post(url).timeout(patience))
    }
}

/// The official server takes any case, many others only this one.
fn lower_first(method: &str) -> String {
    let mut chars = method.chars();
    chars.next().map_or(String::new(), |c| c.to_lowercase().chain(chars).collect())
}

fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .connect_timeout(CONNECT)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap_or_default()
}

async fn exchange<T: DeserializeOwned>(request: reqwest::RequestBuilder) -> Result<T, Fault> {
    // The texts of these errors hold the address and so the token.
    let answer = request.send().await.map_err(|error| {
        // The outermost error names the address; its causes don't.
        if error.is_connect() || error.is_builder() {
            let cause = innermost(&error);
            Fault::NotSent(format!("Telegram can't be reached ({cause}); see telegram.api_url"))
        } else if error.is_timeout() {
            Fault::Lost("Telegram did not answer in time".to_owned())
        } else {
            Fault::Lost("the connection to Telegram broke".to_owned())
        }
    })?;
    let status = answer.status().as_u16();
    let body =
        answer.bytes().await.map_err(|_| Fault::Lost("Telegram's answer broke off".to_owned()))?;
    read(status, &body)
}

/// The last cause of an error: what the system said, without any address.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    if std::ptr::eq(last, error) { "no connection".to_owned() } else { last.to_string() }
}

fn read<T: DeserializeOwned>(status: u16, body: &[u8]) -> Result<T, Fault> {
    let unreadable = || {
        if status == 429 {
            return Fault::Wait(Duration::from_secs(1));
        }
        Fault::Lost(format!("Telegram answered {status} without a readable text"))
    };
    let answer: Answer<'_> = serde_json::from_slice(body).map_err(|_| unreadable())?;
    if answer.ok {
        let result = answer.result.map_or("null", RawValue::get);
        return serde_json::from_str(result).map_err(|_| unreadable());
    }
    let parameters = answer.parameters.unwrap_or_default();
    if let Some(to) = parameters.migrate_to_chat_id {
        return Err(Fault::Moved(to));
    }
    let code = answer.error_code.unwrap_or(i64::from(status));
    if let Some(seconds) = parameters.retry_after {
        return Err(Fault::Wait(Duration::from_secs(seconds.max(1))));
    }
    let words = answer.description.unwrap_or_default();
    match code {
        429 => Err(Fault::Wait(Duration::from_secs(1))),
        500.. => Err(Fault::Lost(format!("Telegram answered {code}"))),
        _ => Err(Fault::Refused { refusal: Refusal::of(code, &words), words }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_and_never_printed() {
        let token = Token::parse("700:AAbb-cc_dd").unwrap();
        assert_eq!(token.bot(), "700");
        assert_eq!(format!("{token:?}"), "700:…");
        for bad in ["", "700", ":x", "bot:x", "700:", "700:a/b", "700:a b"] {
            assert!(Token::parse(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn answers_are_told_apart_by_what_can_be_done_about_them() {
        let read = |status, body: &str| read::<i64>(status, body.as_bytes());
        assert_eq!(read(200, r#"{"ok":true,"result":7,"more":1}"#), Ok(7));
        let wait = r#"{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 33","parameters":{"retry_after":33}}"#;
        assert_eq!(read(429, wait), Err(Fault::Wait(Duration::from_secs(33))));
        let moved = r#"{"ok":false,"error_code":400,"description":"Bad Request: group chat was upgraded to a supergroup chat","parameters":{"migrate_to_chat_id":-1009990009}}"#;
        assert_eq!(read(400, moved), Err(Fault::Moved(-1_009_990_009)));
        assert!(matches!(read(502, "<html>Bad Gateway</html>"), Err(Fault::Lost(_))));
        assert!(matches!(read(200, r#"{"ok":true,"result":"x"}"#), Err(Fault::Lost(_))));
        let server = r#"{"ok":false,"error_code":500,"description":"Internal Server Error: x"}"#;
        assert!(matches!(read(500, server), Err(Fault::Lost(_))));
        let odd = r#"{"ok":false,"error_code":400,"description":"x","parameters":{"reason":"y"}}"#;
        assert!(matches!(read(400, odd), Err(Fault::Refused { .. })));
    }
}
