//! Where settings come from: the file, the environment, files of secrets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Value;

use crate::config::ConfigError;
use crate::config::names::{KEYS, SECRETS, check_agents, check_key};
use crate::config::values::text;

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

pub(super) fn default_data_dir() -> Result<PathBuf, ConfigError> {
    directories::ProjectDirs::from("", "", "sayso")
        .map(|dirs| dirs.data_dir().to_owned())
        .ok_or_else(|| ConfigError("data_dir: there is no home directory; set it".to_owned()))
}

pub(super) fn find_file(
    sources: &Sources,
    data_dir: &Path,
) -> Result<Option<PathBuf>, ConfigError> {
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

pub(super) fn from_file(path: &Path) -> Result<BTreeMap<String, Value>, ConfigError> {
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

pub(super) fn from_env(env: &[(String, String)]) -> Result<BTreeMap<String, Value>, ConfigError> {
    let mut values = BTreeMap::new();
    for (name, value) in env {
        let Some(rest) = name.strip_prefix("SAYSO_") else { continue };
        let key = rest.to_lowercase().replacen("__", ".", 1);
        // A name without a section may be anybody's, unless it is nearly ours.
        let is_ours = key.contains('.') || strsim::jaro_winkler(&key, "data_dir") > 0.85;
        if !is_ours {
            // One underscore where two belong.
            if let Some(meant) = KEYS.iter().find(|known| known.replace('.', "_") == key) {
                let meant = meant.replacen('.', "__", 1).to_uppercase();
                return Err(ConfigError(format!(
                    "{name}: there is no such setting; it is written SAYSO_{meant}"
                )));
            }
            continue;
        }
        check_key(name, &key)?;
        values.insert(key, Value::String(value.clone()));
    }
    Ok(values)
}

pub(super) fn resolve_secret_files(
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
