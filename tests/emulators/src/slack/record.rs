//! What crosses the wire, for whoever wants to check its shape:
//! `RECORD_SLACK` names a directory, each process writes a file in it.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::{Map, Value, json};

static RECORD: OnceLock<Option<Mutex<File>>> = OnceLock::new();

fn open() -> Option<Mutex<File>> {
    let dir = std::env::var_os("RECORD_SLACK")?;
    let name = format!("{}.jsonl", std::process::id());
    let file = File::options().create(true).append(true).open(Path::new(&dir).join(name));
    Some(Mutex::new(file.expect("the record can be written")))
}

/// Writes one body down. `is_forced` marks one that a test made up and no server
/// sends.
pub(super) fn note(kind: &str, method: &str, body: &Value, is_forced: bool) {
    let Some(file) = RECORD.get_or_init(open) else { return };
    let line = json!({ "kind": kind, "method": method, "body": body, "forced": is_forced });
    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
    writeln!(file, "{line}").expect("the record can be written");
}

/// Writes a call down, with the structures that came as text taken apart.
pub(super) fn note_call(method: &str, parameters: &Map<String, Value>) {
    if RECORD.get_or_init(open).is_none() {
        return;
    }
    let plain = parameters.iter().map(|(name, value)| {
        let inner = value.as_str().filter(|text| text.starts_with(['{', '[']));
        let inner = inner.and_then(|text| serde_json::from_str(text).ok());
        (name.clone(), inner.unwrap_or_else(|| value.clone()))
    });
    note("call", method, &Value::Object(plain.collect()), false);
}
