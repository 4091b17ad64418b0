//! Settings: a file, and the environment over it. Whatever can't be used is
//! refused with the name of the setting and what would be right.

mod names;
mod sources;
mod values;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
pub use sources::Sources;

use crate::config::names::FUTURE;
use crate::config::sources::{
    default_data_dir, find_file, from_env, from_file, resolve_secret_files,
};
use crate::config::values::{Values, bad, parse_http_url, text};
use crate::decisions::Policy;
use crate::store::Location;

/// Every setting, with its default and a sentence on it; what `deploy` ships.
pub const DEFAULTS: &str = include_str!("../../deploy/sayso.default.toml");

/// A setting can't be used; nothing was started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The settings.
#[derive(Clone)]
pub struct Config {
    /// Where the data is.
    pub data_dir: PathBuf,
    /// The file that was read, if any.
    pub file: Option<PathBuf>,
    /// Where the server listens.
    pub listen: SocketAddr,
    /// The address people reach it by, if it isn't that.
    pub public_url: Option<url::Url>,
    /// More names by which it may be called.
    pub allowed_hosts: Vec<String>,
    /// The database.
    pub database: Location,
    /// Whether the web console runs.
    pub console: bool,
    /// The Telegram bot, if there is one.
    pub telegram: Option<Telegram>,
    /// The Slack app, if there is one.
    pub slack: Option<Slack>,
    /// What is allowed, and how long things wait.
    pub policy: Policy,
    /// Private networks that callbacks may reach.
    pub allow_nets: Vec<IpNet>,
    /// Which log lines are written.
    pub log_level: String,
    /// How.
    pub log_format: LogFormat,
    /// What the operator should know.
    pub notes: Vec<String>,
}

/// The settings of the Telegram bot; it holds secrets, so it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Telegram {
    /// The bot's token.
    pub token: String,
    /// The server that speaks the Bot API.
    pub api_url: url::Url,
    /// The secret of the webhook; without it updates are polled.
    pub webhook_secret: Option<String>,
}

impl Telegram {
    fn of(values: &Values, public_url: Option<&url::Url>) -> Result<Option<Self>, ConfigError> {
        let mode = values.text("telegram.mode")?.unwrap_or_else(|| "poll".to_owned());
        let api_url = values.text("telegram.api_url")?;
        let api_url = api_url.as_deref().unwrap_or("https://api.telegram.org");
        let api_url = parse_http_url("telegram.api_url", api_url)?;
        let secret = values.text("telegram.webhook_secret")?;
        let webhook_secret = match mode.as_str() {
            "poll" => None,
            "webhook" => {
                if public_url.is_none_or(|url| url.scheme() != "https") {
                    let needs = "telegram.mode: a webhook needs server.public_url with https";
                    return Err(ConfigError(needs.to_owned()));
                }
                Some(secret.ok_or_else(|| {
                    ConfigError("telegram.webhook_secret: a webhook needs one".to_owned())
                })?)
            }
            other => return Err(bad("telegram.mode", other, "poll or webhook")),
        };
        let Some(token) = values.text("telegram.token")? else { return Ok(None) };
        Ok(Some(Self { token, api_url, webhook_secret }))
    }
}

/// The settings of the Slack app; it holds secrets, so it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Slack {
    /// The bot's token.
    pub bot_token: String,
    /// The server that speaks the Web API.
    pub api_url: url::Url,
    /// How payloads come.
    pub mode: SlackMode,
}

/// How payloads of Slack come.
#[derive(Clone, PartialEq, Eq)]
pub enum SlackMode {
    /// By a connection that we open with the app's token.
    Socket(String),
    /// By calls that are signed with this secret.
    Http(String),
}

impl Slack {
    fn of(values: &Values) -> Result<Option<Self>, ConfigError> {
        let mode = values.text("slack.mode")?.unwrap_or_else(|| "socket".to_owned());
        let api_url = values.text("slack.api_url")?;
        let api_url = api_url.as_deref().unwrap_or("https://slack.com/api");
        let api_url = parse_http_url("slack.api_url", api_url)?;
        let (app_token, secret) =
            (values.text("slack.app_token")?, values.text("slack.signing_secret")?);
        let missing = |needs: &str| ConfigError(needs.to_owned());
        let bot_token = values.text("slack.bot_token")?;
        if !matches!(mode.as_str(), "socket" | "http") {
            return Err(bad("slack.mode", &mode, "socket or http"));
        }
        let Some(bot_token) = bot_token else {
            return match app_token {
                Some(_) => Err(missing("slack.app_token: slack.bot_token is missing")),
                None => Ok(None),
            };
        };
        let mode = if mode == "socket" {
            SlackMode::Socket(app_token.ok_or_else(|| {
                missing("slack.app_token: Socket Mode needs one; or set slack.mode to http")
            })?)
        } else {
            let secret = secret.filter(|secret| !secret.trim().is_empty());
            SlackMode::Http(
                secret.ok_or_else(|| missing("slack.signing_secret: slack.mode http needs it"))?,
            )
        };
        Ok(Some(Self { bot_token, api_url, mode }))
    }
}

impl Config {
    /// The platforms that are set up.
    pub fn platforms(&self) -> Vec<&'static str> {
        let slack = self.slack.as_ref().map(|_| "slack");
        let telegram = self.telegram.as_ref().map(|_| "telegram");
        slack.into_iter().chain(telegram).collect()
    }

    /// Reads the settings.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the setting and what would be right.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let env = from_env(&sources.env)?;
        let default_dir = match env.get("data_dir") {
            Some(dir) => PathBuf::from(text("data_dir", dir)?),
            None => default_data_dir()?,
        };
        let file = find_file(sources, &default_dir)?;
        let mut values = match &file {
            Some(path) => from_file(path)?,
            None => BTreeMap::new(),
        };
        values.extend(env);
        resolve_secret_files(&mut values, sources)?;
        let mut config = Self::of(&Values(values), default_dir, &sources.current_dir)?;
        config.file = file;
        Ok(config)
    }

    fn of(values: &Values, default_dir: PathBuf, current: &Path) -> Result<Self, ConfigError> {
        let data_dir = values.text("data_dir")?.map_or(default_dir, PathBuf::from);
        let data_dir = current.join(data_dir);
        let listen = values.text("server.listen")?.unwrap_or_else(|| "127.0.0.1:7300".to_owned());
        let listen: SocketAddr = listen
            .parse()
            .map_err(|_| bad("server.listen", &listen, "an address like 127.0.0.1:7300"))?;
        let public_url = values
            .text("server.public_url")?
            .map(|url| parse_http_url("server.public_url", &url))
            .transpose()?;
        let url = values.text("database.url")?.unwrap_or_else(|| "sqlite:sayso.db".to_owned());
        let policy = Policy {
            reaction_max_risk: values.risk("policy.reaction_max_risk")?,
            bare_text_max_risk: values.risk("policy.bare_text_max_risk")?,
            max_open: values.number("requests.max_open_per_guardian", 50)?,
            ttl: values.duration("requests.ttl", Duration::from_mins(15))?,
            question_ttl: values.duration("requests.question_ttl", Duration::from_mins(30))?,
        };
        let allow_nets = values
            .list("webhooks.allow_nets")?
            .iter()
            .map(|net| {
                net.parse()
                    .map_err(|_| bad("webhooks.allow_nets", net, "a network like 10.0.0.0/8"))
            })
            .collect::<Result<_, _>>()?;
        let log_format = match values.text("log.format")?.as_deref() {
            None | Some("text") => LogFormat::Text,
            Some("json") => LogFormat::Json,
            Some(other) => return Err(bad("log.format", other, "text or json")),
        };
        let log_level = values.text("log.level")?.unwrap_or_else(|| "info".to_owned());
        if !["error", "warn", "info", "debug", "trace"].contains(&log_level.as_str()) {
            return Err(bad("log.level", &log_level, "error, warn, info, debug or trace"));
        }
        let unused = FUTURE.iter().filter(|key| values.0.contains_key(**key));
        let notes = unused
            .map(|key| format!("{key} is set, but this version has no such part yet; it is unused"))
            .collect();
        let telegram = Telegram::of(values, public_url.as_ref())?;
        Ok(Self {
            telegram,
            slack: Slack::of(values)?,
            database: location(&url, &data_dir)?,
            data_dir,
            file: None,
            listen,
            public_url,
            allowed_hosts: values.list("server.allowed_hosts")?,
            console: values.flag("console.enabled", true)?,
            policy,
            allow_nets,
            log_level,
            log_format,
            notes,
        })
    }

    /// The address that links begin with, without a slash at the end.
    pub fn base_url(&self) -> String {
        self.public_url.as_ref().map_or_else(
            || {
                let mut address = self.listen;
                if address.ip().is_unspecified() {
                    address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
                }
                format!("http://{address}")
            },
            |url| url.as_str().trim_end_matches('/').to_owned(),
        )
    }
}

fn location(url: &str, data_dir: &Path) -> Result<Location, ConfigError> {
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return Ok(Location::Postgres(url.to_owned()));
    }
    let Some(path) = url.strip_prefix("sqlite:") else {
        let wanted = "sqlite:FILE or postgres://…";
        return Err(ConfigError(format!("database.url: it must be {wanted}")));
    };
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() || path.contains(":memory:") {
        return Err(bad("database.url", url, "a file; a database in memory loses every request"));
    }
    Ok(Location::Sqlite(data_dir.join(path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::names::KEYS;

    fn load(file: &str, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("sayso.toml"), file).unwrap();
        let mut env: Vec<(String, String)> =
            env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        env.push(("SAYSO_DATA_DIR".to_owned(), dir.path().display().to_string()));
        Config::load(&Sources { file: None, env, current_dir: dir.path().to_owned() })
    }

    fn error(file: &str, env: &[(&str, &str)]) -> String {
        load(file, env).err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_environment_goes_over_the_file() {
        let file = "[server]\nlisten = \"127.0.0.1:1\"\n[requests]\nttl = \"1m\"";
        let config = load(file, &[("SAYSO_SERVER__LISTEN", "127.0.0.1:2")]).unwrap();
        assert_eq!(config.listen.port(), 2);
        assert_eq!(config.policy.ttl, Duration::from_mins(1));
    }

    #[test]
    fn an_unknown_setting_names_the_nearest() {
        assert!(error("[server]\nlisen = \"x\"", &[]).contains("the nearest is server.listen"));
        let env = error("", &[("SAYSO_REQUESTS__TTTL", "1m")]);
        assert!(env.contains("SAYSO_REQUESTS__TTL"), "{env}");
        assert!(error("", &[("SAYSO_DATADIR", "/x")]).contains("SAYSO_DATA_DIR"));
        let one = error("", &[("SAYSO_TELEGRAM_TOKEN", "1:a")]);
        assert!(one.contains("SAYSO_TELEGRAM__TOKEN") && !one.contains("1:a"), "{one}");
        assert!(load("", &[("SAYSO_KEY", "an agent's own")]).is_ok());
        assert!(error("[agents.x]\nurls = \"\"", &[]).contains("the nearest is url"));
    }

    #[test]
    fn a_wrong_value_says_what_would_be_right() {
        for (file, part) in [
            ("[server]\nlisten = \"here\"", "127.0.0.1:7300"),
            ("[requests]\nttl = \"soon\"", "15m"),
            ("[requests]\nttl = \"8d\"", "7d"),
            ("[requests]\nmax_open_per_guardian = 0", "at least 1"),
            ("[policy]\nreaction_max_risk = \"huge\"", "low, medium or high"),
            ("[webhooks]\nallow_nets = [\"ten\"]", "10.0.0.0/8"),
            ("[console]\nenabled = \"maybe\"", "true or false"),
            ("[database]\nurl = \"sqlite::memory:\"", "loses every request"),
            ("[log]\nlevel = \"loud\"", "error, warn"),
            ("[telegram]\nmode = \"push\"", "poll or webhook"),
            ("[telegram]\ntoken = \"1:a\"\nmode = \"webhook\"", "public_url with https"),
            (
                "[server]\npublic_url = \"https://g.example\"\n[telegram]\nmode = \"webhook\"",
                "webhook_secret",
            ),
        ] {
            let message = error(file, &[]);
            assert!(message.contains(part), "{file}: {message}");
        }
    }

    #[test]
    fn a_secret_may_stand_in_a_file_and_is_never_printed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("url");
        std::fs::write(&path, "postgres://ada:hunter2@db/x\n").unwrap();
        let path = path.display().to_string();
        let config = load("", &[("SAYSO_DATABASE__URL_FILE", &path)]).unwrap();
        assert_eq!(config.database, Location::Postgres("postgres://ada:hunter2@db/x".to_owned()));

        let message = error("[database]\nurl = \"mysql://ada:hunter2@db\"", &[]);
        assert!(!message.contains("hunter2"), "{message}");
    }

    #[test]
    fn the_shipped_defaults_name_every_setting_and_change_none() {
        let shown = DEFAULTS.replace("#! ", "");
        let table: toml::Table = shown.parse().unwrap();
        for key in KEYS {
            let found = match key.split_once('.') {
                Some((section, key)) => table.get(section).and_then(|s| s.get(key)).is_some(),
                None => table.contains_key(*key),
            };
            assert!(found, "{key} is not in deploy/sayso.default.toml");
        }
        let (plain, with_defaults) = (load("", &[]).unwrap(), load(DEFAULTS, &[]).unwrap());
        assert_eq!(plain.listen, with_defaults.listen);
        assert_eq!(plain.policy, with_defaults.policy);
        assert_eq!(plain.console, with_defaults.console);
    }
}
