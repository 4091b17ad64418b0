//! A setting's value as what it has to be, or what would be right.

use std::collections::BTreeMap;
use std::time::Duration;

use toml::Value;

use crate::config::ConfigError;
use crate::config::names::SECRETS;
use crate::requests::Risk;

pub(super) struct Values(pub(super) BTreeMap<String, Value>);

impl Values {
    pub(super) fn text(&self, key: &str) -> Result<Option<String>, ConfigError> {
        self.0.get(key).map(|value| text(key, value)).transpose()
    }

    pub(super) fn list(&self, key: &str) -> Result<Vec<String>, ConfigError> {
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

    pub(super) fn flag(&self, key: &str, default: bool) -> Result<bool, ConfigError> {
        match self.0.get(key) {
            None => Ok(default),
            Some(Value::Boolean(flag)) => Ok(*flag),
            Some(Value::String(word)) if word == "true" => Ok(true),
            Some(Value::String(word)) if word == "false" => Ok(false),
            Some(other) => Err(bad(key, &other.to_string(), "true or false")),
        }
    }

    pub(super) fn number(&self, key: &str, default: u32) -> Result<u32, ConfigError> {
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

    pub(super) fn duration(&self, key: &str, default: Duration) -> Result<Duration, ConfigError> {
        let Some(written) = self.text(key)? else { return Ok(default) };
        let longest = Duration::from_hours(7 * 24);
        humantime::parse_duration(&written)
            .ok()
            .filter(|d| *d >= Duration::from_secs(1) && *d <= longest)
            .ok_or_else(|| bad(key, &written, "a duration from 1s to 7d, like 15m"))
    }

    pub(super) fn risk(&self, key: &str) -> Result<Risk, ConfigError> {
        let Some(word) = self.text(key)? else { return Ok(Risk::Medium) };
        word.parse().map_err(|()| bad(key, &word, "low, medium or high"))
    }
}

pub(super) fn bad(key: &str, value: &str, wanted: &str) -> ConfigError {
    // A wrong value of a secret must not be printed either.
    let shown = if SECRETS.contains(&key) { "the value" } else { &format!("`{value}`") };
    ConfigError(format!("{key}: {shown} is not {wanted}"))
}

pub(super) fn text(key: &str, value: &Value) -> Result<String, ConfigError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => Err(bad(key, &other.to_string(), "a text in quotes")),
    }
}

pub(super) fn parse_http_url(key: &str, text: &str) -> Result<url::Url, ConfigError> {
    url::Url::parse(text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| bad(key, text, "a URL like https://gate.example"))
}
