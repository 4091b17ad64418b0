//! Settings: a file, and the environment over it. Whatever can't be used is
//! refused with the name of the setting and what would be right.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::IpNet;
use toml::Value;

use crate::decisions::Policy;
use crate::requests::Risk;
use crate::store::Location;

/// Every setting, with its default and a sentence on it; what `deploy` ships.
pub const DEFAULTS: &str = include_str!("../deploy/sayso.default.toml");

/// Every known setting. `[agents.NAME]` stands apart: its names are free.
const KEYS: &[&str] = &[
    "data_dir",
    "server.listen",
    "server.public_url",
    "server.allowed_hosts",
    "database.url",
    "database.listen_url",
    "telegram.token",
    "telegram.mode",
    "telegram.webhook_secret",
    "telegram.api_url",
    "slack.bot_token",
    "slack.app_token",
    "slack.mode",
    "slack.signing_secret",
    "slack.api_url",
    "console.enabled",
    "requests.ttl",
    "requests.question_ttl",
    "requests.max_open_per_guardian",
    "policy.reaction_max_risk",
    "policy.bare_text_max_risk",
    "model.base_url",
    "model.api_key",
    "model.model",
    "webhooks.allow_nets",
    "log.level",
    "log.format",
];

/// Settings whose value may stand in a file of its own, named by `…_file`.
const SECRETS: &[&str] = &[
    "database.url",
    "database.listen_url",
    "telegram.token",
    "telegram.webhook_secret",
    "slack.bot_token",
    "slack.app_token",
    "slack.signing_secret",
    "model.api_key",
];

const AGENT_KEYS: &[&str] = &["kind", "url", "secret", "secret_file", "triggers", "default"];

/// Settings of parts that this version does not have yet.
const FUTURE: &[&str] = &["telegram.token", "slack.bot_token", "slack.app_token", "model.base_url"];

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

/// Where settings come from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// `--config`.
    pub file: Option<PathBuf>,
    /// The environment.
    pub env: Vec<(String, String)>,
    /// The directory of the process.
    pub current_dir: PathBuf,
}

impl Sources {
    /// The process's own.
    pub fn of_process(file: Option<PathBuf>) -> Self {
        let current_dir = std::env::current_dir().unwrap_or_default();
        Self { file, env: std::env::vars().collect(), current_dir }
    }
}

impl Config {
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
        Ok(Self {
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

struct Values(BTreeMap<String, Value>);

impl Values {
    fn text(&self, key: &str) -> Result<Option<String>, ConfigError> {
        self.0.get(key).map(|value| text(key, value)).transpose()
    }

    fn list(&self, key: &str) -> Result<Vec<String>, ConfigError> {
        match self.0.get(key) {
            None => Ok(Vec::new()),
            Some(Value::String(list)) => Ok(list
                .split(',')
                .map(|item| item.trim().to_owned())
                .filter(|item| !item.is_empty())
                .collect()),
            Some(Value::Array(items)) => items.iter().map(|item| text(key, item)).collect(),
            Some(other) => Err(bad(key, &other.to_string(), "a list of texts")),
        }
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool, ConfigError> {
        match self.0.get(key) {
            None => Ok(default),
            Some(Value::Boolean(flag)) => Ok(*flag),
            Some(Value::String(word)) if word == "true" => Ok(true),
            Some(Value::String(word)) if word == "false" => Ok(false),
            Some(other) => Err(bad(key, &other.to_string(), "true or false")),
        }
    }

    fn number(&self, key: &str, default: u32) -> Result<u32, ConfigError> {
        let Some(value) = self.0.get(key) else { return Ok(default) };
        let number = match value {
            Value::Integer(number) => u32::try_from(*number).ok(),
            Value::String(digits) => digits.parse().ok(),
            _ => None,
        };
        number
            .filter(|n| *n > 0)
            .ok_or_else(|| bad(key, &value.to_string(), "a whole number of at least 1"))
    }

    fn duration(&self, key: &str, default: Duration) -> Result<Duration, ConfigError> {
        let Some(written) = self.text(key)? else { return Ok(default) };
        let longest = Duration::from_hours(7 * 24);
        humantime::parse_duration(&written)
            .ok()
            .filter(|d| *d >= Duration::from_secs(1) && *d <= longest)
            .ok_or_else(|| bad(key, &written, "a duration from 1s to 7d, like 15m"))
    }

    fn risk(&self, key: &str) -> Result<Risk, ConfigError> {
        let Some(word) = self.text(key)? else { return Ok(Risk::Medium) };
        word.parse().map_err(|()| bad(key, &word, "low, medium or high"))
    }
}

fn bad(key: &str, value: &str, wanted: &str) -> ConfigError {
    // A wrong value of a secret must not be printed either.
    let shown = if SECRETS.contains(&key) { "the value" } else { &format!("`{value}`") };
    ConfigError(format!("{key}: {shown} is not {wanted}"))
}

fn text(key: &str, value: &Value) -> Result<String, ConfigError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(bad(key, &other.to_string(), "a text in quotes")),
    }
}

fn parse_http_url(key: &str, text: &str) -> Result<url::Url, ConfigError> {
    url::Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| bad(key, text, "a URL like https://gate.example"))
}

fn default_data_dir() -> Result<PathBuf, ConfigError> {
    directories::ProjectDirs::from("", "", "sayso")
        .map(|dirs| dirs.data_dir().to_owned())
        .ok_or_else(|| ConfigError("data_dir: there is no home directory; set it".to_owned()))
}

fn find_file(sources: &Sources, data_dir: &Path) -> Result<Option<PathBuf>, ConfigError> {
    if let Some(file) = &sources.file {
        let path = sources.current_dir.join(file);
        if path.is_file() {
            return Ok(Some(path));
        }
        return Err(ConfigError(format!("there is no configuration file {}", path.display())));
    }
    let candidates = [sources.current_dir.join("sayso.toml"), data_dir.join("sayso.toml")];
    Ok(candidates.into_iter().find(|path| path.is_file()))
}

fn from_file(path: &Path) -> Result<BTreeMap<String, Value>, ConfigError> {
    let at = path.display();
    let written = std::fs::read_to_string(path)
        .map_err(|error| ConfigError(format!("{at} can't be read: {error}")))?;
    let table: toml::Table = written.parse().map_err(|error: toml::de::Error| {
        // The message only: the excerpt may hold a secret.
        ConfigError(format!("{at} is no TOML: {}", error.message()))
    })?;
    let mut values = BTreeMap::new();
    for (section, value) in table {
        match value {
            Value::Table(agents) if section == "agents" => check_agents(agents)?,
            Value::Table(keys) => {
                for (key, value) in keys {
                    let key = format!("{section}.{key}");
                    check_key(&key, &key)?;
                    values.insert(key, value);
                }
            }
            value => {
                check_key(&section, &section)?;
                values.insert(section, value);
            }
        }
    }
    Ok(values)
}

fn check_agents(agents: toml::Table) -> Result<(), ConfigError> {
    for (name, entry) in agents {
        let Value::Table(keys) = entry else {
            return Err(ConfigError(format!("agents.{name}: it must be a section")));
        };
        if let Some(unknown) = keys.keys().find(|key| !AGENT_KEYS.contains(&key.as_str())) {
            return Err(unknown_key(&format!("agents.{name}.{unknown}"), unknown, AGENT_KEYS));
        }
    }
    Ok(())
}

fn from_env(env: &[(String, String)]) -> Result<BTreeMap<String, Value>, ConfigError> {
    let mut values = BTreeMap::new();
    for (name, value) in env {
        let Some(rest) = name.strip_prefix("SAYSO_") else { continue };
        let key = rest.to_lowercase().replacen("__", ".", 1);
        // A name without a section may be anybody's, unless it is nearly ours.
        let is_ours = key.contains('.') || strsim::jaro_winkler(&key, "data_dir") > 0.85;
        if !is_ours {
            continue;
        }
        check_key(name, &key)?;
        values.insert(key, Value::String(value.clone()));
    }
    Ok(values)
}

fn check_key(written: &str, key: &str) -> Result<(), ConfigError> {
    let secret = key.strip_suffix("_file").filter(|base| SECRETS.contains(base));
    if KEYS.contains(&key) || secret.is_some() {
        return Ok(());
    }
    Err(unknown_key(written, key, KEYS))
}

fn unknown_key(written: &str, key: &str, known: &[&str]) -> ConfigError {
    let nearest = known
        .iter()
        .max_by(|a, b| strsim::jaro_winkler(a, key).total_cmp(&strsim::jaro_winkler(b, key)));
    let nearest = nearest.copied().unwrap_or_default();
    let hint = if written.starts_with("SAYSO_") {
        format!("SAYSO_{}", nearest.replace('.', "__").to_uppercase())
    } else {
        nearest.to_owned()
    };
    ConfigError(format!("{written}: there is no such setting; the nearest is {hint}"))
}

fn resolve_secret_files(
    values: &mut BTreeMap<String, Value>,
    sources: &Sources,
) -> Result<(), ConfigError> {
    for base in SECRETS {
        let Some(value) = values.remove(&format!("{base}_file")) else { continue };
        let key = format!("{base}_file");
        if values.contains_key(*base) {
            return Err(ConfigError(format!("{base} and {key} are both set")));
        }
        let path = sources.current_dir.join(text(&key, &value)?);
        let secret = std::fs::read_to_string(&path)
            .map_err(|error| ConfigError(format!("{key}: {} {error}", path.display())))?;
        values.insert((*base).to_owned(), Value::String(secret.trim_end().to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
