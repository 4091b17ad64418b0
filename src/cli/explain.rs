//! `explain`: how a text is read, without any database.

use std::io::BufRead as _;
use std::process::ExitCode;

use clap::Subcommand;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::Usage;
use crate::cli::output::Output;
use crate::router::reading::{Reading, pick, read};

/// How a text is read, and why.
#[derive(Subcommand)]
pub(super) enum Explain {
    /// How a reply is read while something is open.
    Reply {
        /// The reply.
        text: Option<String>,
        /// What is open: approval, question or choice.
        #[arg(long, default_value = "approval")]
        pending: String,
        /// How many options a choice has.
        #[arg(long, default_value_t = 0)]
        options: usize,
        /// Read cases from the standard input, one JSON object a line.
        #[arg(long)]
        jsonl: bool,
    },
}

#[derive(Deserialize)]
struct Case {
    #[serde(default)]
    id: Value,
    #[serde(default)]
    mode: Option<String>,
    #[serde(default)]
    pending: Option<String>,
    #[serde(default)]
    options: Option<Value>,
    text: String,
}

pub(super) fn run(command: &Explain, out: Output) -> anyhow::Result<ExitCode> {
    let Explain::Reply { text, pending, options, jsonl } = command;
    if *jsonl {
        for line in std::io::stdin().lock().lines() {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            let case: Case = serde_json::from_str(&line)
                .map_err(|error| Usage(format!("a line is no case: {error}")))?;
            out.line(&explain_case(&case)?.to_string());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let Some(text) = text else {
        return Err(Usage("there is no text to explain".to_owned()).into());
    };
    let value = explain(text, pending, *options)?;
    out.result(&value, || words(text, pending, *options, &value));
    Ok(ExitCode::SUCCESS)
}

fn explain_case(case: &Case) -> anyhow::Result<Value> {
    if case.mode.as_deref().is_some_and(|mode| mode != "reply") {
        return Err(Usage("this version explains replies only".to_owned()).into());
    }
    let options = match &case.options {
        None | Some(Value::Null) => 0,
        Some(Value::Array(labels)) => labels.len(),
        Some(number) => usize::try_from(number.as_u64().unwrap_or(0)).unwrap_or(0),
    };
    let pending = case.pending.as_deref().unwrap_or("approval");
    let mut value = explain(&case.text, pending, options)?;
    if let Some(members) = value.as_object_mut() {
        members.insert("id".to_owned(), case.id.clone());
    }
    Ok(value)
}

fn explain(text: &str, pending: &str, options: usize) -> anyhow::Result<Value> {
    let (reading, pick) = match pending {
        "approval" => (read(text), None),
        "choice" => (Reading::default(), pick(text, options)),
        "question" => (Reading::default(), None),
        other => {
            let wanted = "--pending is approval, question or choice";
            return Err(Usage(format!("{wanted}, not {other}")).into());
        }
    };
    Ok(json!({
        "id": null,
        "reading": reading.lean.map(super::super::router::reading::yes_no::Lean::as_str),
        "clean": reading.clean,
        "pick": pick,
        "kind": null,
        "options": [],
    }))
}

fn words(text: &str, pending: &str, options: usize, value: &Value) -> String {
    match pending {
        "question" => "Any text is the answer to an open question.".to_owned(),
        "choice" => match value["pick"].as_u64() {
            Some(index) => format!("Picks option {} of {options}.", index + 1),
            None => format!("Picks none of {options} options."),
        },
        _ => {
            let reading = read(text);
            let lean = match reading.lean {
                None => return "Neither yes nor no; nothing is decided.".to_owned(),
                Some(lean) => lean.as_str(),
            };
            if reading.clean {
                format!("Reads as {lean}, and every word was understood: it decides.")
            } else {
                format!("Leans to {lean}, but not every word was understood: it decides nothing.")
            }
        }
    }
}
