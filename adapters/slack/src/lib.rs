//! Slack: cards in direct messages, clicks, reactions and words.
//!
//! * [`api`] and [`refusal`]: calls, and what the server's refusals mean;
//! * [`envelope`] and [`inbound`]: what is stored of a payload, and the fact it is,
//!   pure;
//! * [`markup`], [`render`] and [`modal`]: card → message, pure;
//! * [`post`]: messages and edits, in the forms that the server takes;
//! * [`pace`]: how often something may be sent;
//! * [`take`], [`socket`] and [`http`]: payloads are stored first and acknowledged
//!   then.

mod api;
mod envelope;
mod http;
mod inbound;
mod kinds;
mod markup;
mod modal;
mod pace;
mod post;
mod refusal;
mod render;
mod socket;
mod take;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use sayso_channel::text::{Unit, split_in};
use sayso_channel::{
    Address, Capacity, Card, Channel, Health, Inbound, Inbox, Manner, MessageRef, RawInbound,
    Receipt, SendError, TapRef, Unreadable,
};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};
use slack_morphism::SlackMessageContent;
use slack_morphism::prelude::SlackApiChatPostEphemeralRequest;
use tokio::sync::OnceCell;
use url::Url;

use crate::api::{Api, Fault, Token};
use crate::envelope::{Me, Route, Stored, text};
use crate::kinds::{Kinds, Told as Conversation};
use crate::modal::Asked;
use crate::pace::Pace;
use crate::post::{Target, Told, no_such_place, send_error};
use crate::refusal::Refusal;
use crate::render::{EXACT_UNITS, Message, SAID};

/// The channel's name.
pub const NAME: &str = "slack";
/// Where events are taken.
pub const EVENTS_PATH: &str = "/slack/events";
/// Where clicks and windows are taken.
pub const INTERACTIVITY_PATH: &str = "/slack/interactivity";
/// Where commands are taken.
pub const COMMANDS_PATH: &str = "/slack/commands";

/// What the bot's token must be allowed to do, and what for.
const SCOPES: &[&str] = &[
    "app_mentions:read",
    "channels:history",
    "channels:read",
    "chat:write",
    "commands",
    "files:write",
    "groups:history",
    "groups:read",
    "im:history",
    "im:read",
    "im:write",
    "mpim:history",
    "mpim:read",
    "reactions:read",
];

/// How payloads come.
#[derive(Clone)]
pub enum Mode {
    /// By a connection that we open.
    Socket {
        /// The token of the app, `xapp-…`.
        app_token: String,
    },
    /// Slack calls us.
    Http {
        /// The secret with which Slack signs its calls.
        signing_secret: String,
    },
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Socket { .. } => "Socket",
            Self::Http { .. } => "Http",
        })
    }
}

/// The settings can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SetupError(String);

/// The channel.
#[derive(Clone)]
pub struct Slack {
    shared: Arc<Shared>,
}

struct Shared {
    api: Api,
    bot_token: Token,
    ingest: Ingest,
    pace: Pace,
    kinds: Kinds,
    told: Told,
    me: OnceCell<Me>,
}

enum Ingest {
    Socket(Token),
    Http(Arc<[u8]>),
}

/// What is read of the server's account of the token.
#[derive(Deserialize)]
struct Identity {
    team_id: Option<String>,
    enterprise_id: Option<String>,
    #[serde(default)]
    is_enterprise_install: bool,
    user_id: String,
    #[serde(default)]
    user: String,
    #[serde(default)]
    team: String,
    #[serde(default)]
    bot_id: String,
}

impl Slack {
    /// The channel of the app with these tokens, through the server at `api_url`.
    ///
    /// # Errors
    ///
    /// In words for the operator; nothing was called.
    pub fn new(bot_token: &str, api_url: Url, mode: Mode) -> Result<Self, SetupError> {
        let wrong = |words: &str| SetupError(words.to_owned());
        let bot_token = Token::parse(bot_token, "xoxb-")
            .ok_or_else(|| wrong("slack.bot_token: the bot's token begins with xoxb-"))?;
        let ingest = match mode {
            Mode::Socket { app_token } => Ingest::Socket(
                Token::parse(&app_token, "xapp-")
                    .ok_or_else(|| wrong("slack.app_token: the app's token begins with xapp-"))?,
            ),
            Mode::Http { signing_secret } if signing_secret.trim().len() < 16 => {
                return Err(wrong(
                    "slack.signing_secret: copy it whole from the app's Basic Information page",
                ));
            }
            Mode::Http { signing_secret } => {
                Ingest::Http(signing_secret.trim().as_bytes().to_vec().into())
            }
        };
        Ok(Self {
            shared: Arc::new(Shared {
                api: Api::new(api_url),
                bot_token,
                ingest,
                pace: Pace::default(),
                kinds: Kinds::default(),
                told: Told::default(),
                me: OnceCell::new(),
            }),
        })
    }

    /// The routes of the calls that Slack makes; nothing when it makes none.
    pub fn routes(&self, inbox: Arc<dyn Inbox>) -> Option<axum::Router> {
        match &self.shared.ingest {
            Ingest::Socket(_) => None,
            Ingest::Http(secret) => Some(http::routes(self.clone(), inbox, Arc::clone(secret))),
        }
    }

    /// What people's ids belong to: the workspace, or the organisation. Nothing
    /// when the server can't be asked.
    pub async fn realm(&self) -> Option<String> {
        self.me().await.ok().map(|me| me.realm().to_owned())
    }

    /// The address at which a person is reached who is only known by their id.
    pub fn address_of(realm: &str, user: &str) -> String {
        format!("{realm}:@{user}")
    }

    /// Who we are; asked once.
    async fn me(&self) -> Result<&Me, Fault> {
        self.shared
            .me
            .get_or_try_init(|| async {
                let told: Identity = self.form("auth.test", &[]).await?;
                Ok(Me::from(told))
            })
            .await
    }

    /// Calls a method that writes, as the bot.
    async fn call<P, T>(&self, method: &str, body: &P) -> Result<T, Fault>
    where
        P: serde::Serialize + Sync,
        T: DeserializeOwned,
    {
        self.shared.api.post(method, &self.shared.bot_token, body).await
    }

    /// Calls a method that reads, as the bot.
    async fn form<T: DeserializeOwned>(
        &self,
        method: &str,
        fields: &[(&str, &str)],
    ) -> Result<T, Fault> {
        let answer = self.shared.api.form(method, &self.shared.bot_token, fields).await?;
        Ok(answer.value)
    }
}

impl From<Identity> for Me {
    fn from(told: Identity) -> Self {
        let enterprise = told.enterprise_id.filter(|_| told.is_enterprise_install);
        let team = told.team_id.or_else(|| enterprise.clone()).unwrap_or_default();
        Self { team, enterprise, user: told.user_id, bot: told.bot_id }
    }
}

/// Scopes that are missing.
fn missing(scopes: &str) -> Vec<&'static str> {
    let has: Vec<&str> = scopes.split(',').map(str::trim).collect();
    SCOPES.iter().copied().filter(|needed| !has.contains(needed)).collect()
}

/// Where somebody used something of ours.
struct Clicked {
    channel: Option<String>,
    thread: Option<String>,
    user: Option<String>,
    /// An address for the answer, if the platform gave one.
    address: Option<String>,
}

fn clicked(stored: &Stored) -> Clicked {
    let payload = &stored.payload;
    let of = |path: &str| text(payload, path).map(str::to_owned);
    let asked = text(payload, "/view/private_metadata").and_then(Asked::parse);
    Clicked {
        channel: envelope::channel(Route::Interactive, payload)
            .map(str::to_owned)
            .or_else(|| asked.map(|asked| asked.channel)),
        thread: of("/container/thread_ts"),
        user: of("/user/id"),
        address: of("/response_url").or_else(|| of("/response_urls/0/response_url")),
    }
}

#[async_trait]
impl Channel for Slack {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capacity(&self) -> Capacity {
        Capacity { exact_units: EXACT_UNITS, speaks: true }
    }

    fn read(&self, raw: &RawInbound) -> Result<Inbound, Unreadable> {
        inbound::read(raw)
    }

    async fn send(&self, to: &Address, card: &Card, _: &str) -> Result<Receipt, SendError> {
        let to = self.opened(to).await?;
        self.post_card(&to, card).await
    }

    async fn update(&self, message: &MessageRef, card: &Card) -> Result<Receipt, SendError> {
        let to = Target::parse(&message.address).ok_or_else(no_such_place)?;
        self.update_card(&to, &message.id, card).await
    }

    async fn say(&self, to: &Address, said: &str) -> Result<(), SendError> {
        let to = self.opened(to).await?;
        for (index, piece) in split_in(Unit::Utf16, said, SAID).into_iter().enumerate() {
            let message = Message { text: markup::escape(&piece), blocks: Vec::new() };
            let posted = self.post_patiently(&to, &message).await;
            posted.map_err(|error| match error {
                // Its beginning stands there already.
                SendError::Busy { .. } | SendError::Retry { .. } if index > 0 => {
                    SendError::Unknown { reason: error.to_string() }
                }
                error => error,
            })?;
        }
        Ok(())
    }

    async fn answer_tap(&self, tap: &TapRef, said: &str, _: Manner) -> Result<(), SendError> {
        let Ok(stored) = inbound::stored(&tap.raw) else { return Ok(()) };
        let Clicked { channel, thread, user, address } = clicked(&stored);
        let said = markup::escape(said);
        let mut told = Err(Fault::NotSent("there is nobody to answer".to_owned()));
        if let (Some(channel), Some(user)) = (channel, user) {
            let content = SlackMessageContent::new().with_text(said.clone());
            let mut call =
                SlackApiChatPostEphemeralRequest::new(channel.into(), user.into(), content);
            call.thread_ts = thread.map(Into::into);
            told = self.call::<_, IgnoredAny>("chat.postEphemeral", &call).await.map(|_| ());
        }
        // Where the bot is no member, the click brought an address of its own.
        // It helps as well while the method is paused.
        let is_untold =
            matches!(told, Err(Fault::Refused { .. } | Fault::Wait(_) | Fault::NotSent(_)));
        if let Some(address) = address.filter(|_| is_untold) {
            let body = json!({
                "response_type": "ephemeral", "replace_original": false, "text": said,
            });
            told = self.shared.api.respond(&address, &body).await;
        }
        told.map_err(send_error)
    }

    async fn listen(&self, inbox: Arc<dyn Inbox>) {
        match &self.shared.ingest {
            Ingest::Socket(app_token) => socket::run(self, &inbox, app_token).await,
            Ingest::Http(_) => http::run(self, inbox.as_ref()).await,
        }
    }

    async fn look_at(&self, place: &Address) -> Result<Option<String>, SendError> {
        let to = Target::parse(place).ok_or_else(no_such_place)?;
        let told: Conversation = self
            .form("conversations.info", &[("channel", &to.channel)])
            .await
            .map_err(send_error)?;
        let unreachable =
            |refusal: Refusal| Err(send_error(Fault::Refused { refusal, words: String::new() }));
        match told.channel {
            channel if channel.archived => unreachable(Refusal::Archived),
            channel if channel.member == Some(false) => unreachable(Refusal::NotIn),
            _ => Ok(None),
        }
    }

    async fn probe(&self) -> Health {
        let health = |is_up, detail: String| Health { is_up, detail };
        let shared = &self.shared;
        let told = match shared.api.form::<Identity>("auth.test", &shared.bot_token, &[]).await {
            Ok(told) => told,
            Err(fault) => return health(false, words(&fault)),
        };
        let lacking = told.scopes.as_deref().map(missing).unwrap_or_default();
        if !lacking.is_empty() {
            let lacking = lacking.join(", ");
            let detail = format!(
                "the bot's token lacks {lacking}; add them to the app from \
                 deploy/slack-manifest.yaml and install it again"
            );
            return health(false, detail);
        }
        if let Ingest::Socket(app_token) = &shared.ingest {
            let opened: Result<Value, Fault> =
                shared.api.post("apps.connections.open", app_token, &json!({})).await;
            if let Err(fault) = opened {
                return health(false, format!("Socket Mode: {}", words(&fault)));
            }
        }
        health(true, format!("the bot is @{} in {}", told.value.user, told.value.team))
    }
}

/// What is wrong, for the operator.
fn words(fault: &Fault) -> String {
    match fault {
        Fault::Refused { refusal, words } => {
            refusal.remedy().map_or_else(|| format!("Slack says {words}"), str::to_owned)
        }
        other => other.to_string(),
    }
}
