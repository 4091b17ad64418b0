//! Which settings there are, and which one a wrong name may have meant.

use toml::Value;

use crate::config::ConfigError;

/// Every known setting. `[agents.NAME]` stands apart: its names are free.
pub(super) const KEYS: &[&str] = &[
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
pub(super) const SECRETS: &[&str] = &[
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
pub(super) const FUTURE: &[&str] = &["model.base_url"];

pub(super) fn check_agents(agents: toml::Table) -> Result<(), ConfigError> {
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

pub(super) fn check_key(written: &str, key: &str) -> Result<(), ConfigError> {
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
