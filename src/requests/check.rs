//! What a request must be like, whoever files it.

use std::collections::HashSet;

use serde_json::Value;

use crate::requests::{Content, Kind};

/// Characters of a title at most.
pub const TITLE_CHARS: usize = 300;
/// Characters of the agent's words at most.
pub const BODY_CHARS: usize = 20_000;
/// Characters of a tool's name at most.
pub const TOOL_CHARS: usize = 128;
/// Bytes of a tool's input at most, as canonical JSON.
pub const INPUT_BYTES: usize = 128 * 1024;
/// Options of a question: at least and at most.
pub const OPTIONS: std::ops::RangeInclusive<usize> = 2..=25;
/// Characters of an option's id at most.
pub const OPTION_ID_CHARS: usize = 64;
/// Characters of an option's label at most.
pub const LABEL_CHARS: usize = 300;
/// Whole numbers beyond this are not the same to every reader of JSON.
const SAFE_INTEGER: u64 = (1 << 53) - 1;

/// What is wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct Invalid {
    /// A stable word for it.
    pub code: &'static str,
    /// Where, as a JSON pointer into the request.
    pub pointer: String,
    /// What, in words.
    pub detail: String,
}

impl Invalid {
    /// Something wrong at `pointer`.
    pub fn new(code: &'static str, pointer: &str, detail: impl Into<String>) -> Self {
        Self { code, pointer: pointer.to_owned(), detail: detail.into() }
    }
}

/// Checks what would be shown.
///
/// # Errors
///
/// The first thing that is wrong.
pub fn check(content: &Content) -> Result<(), Invalid> {
    within("/title", content.title.as_deref(), TITLE_CHARS)?;
    within("/body", content.body.as_deref(), BODY_CHARS)?;
    match content.kind {
        Kind::ToolApproval => check_tool_approval(content),
        Kind::Question => check_question(content),
        Kind::AccessRequest => Err(Invalid::new(
            "unsupported_kind",
            "/kind",
            "access requests are filed by the gateway itself",
        )),
    }
}

fn check_tool_approval(content: &Content) -> Result<(), Invalid> {
    let Some(tool) = &content.tool else {
        return Err(Invalid::new("missing_field", "/tool", "a tool approval needs a tool"));
    };
    within("/tool/name", Some(&tool.name), TOOL_CHARS)?;
    if !is_visible(&tool.name) {
        return Err(Invalid::new("nothing_to_show", "/tool/name", "the tool has no visible name"));
    }
    if crate::requests::canonical(&tool.input).len() > INPUT_BYTES {
        let detail = format!("the input is larger than {INPUT_BYTES} bytes");
        return Err(Invalid::new("too_long", "/tool/input", detail));
    }
    check_numbers(&tool.input, "/tool/input")?;
    if !content.options.is_empty() {
        let detail = "only a question has options";
        return Err(Invalid::new("invalid_field", "/options", detail));
    }
    let is_empty = match &tool.input {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::String(text) => !is_visible(text),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
    };
    let has_words = [&content.title, &content.body].into_iter().flatten().any(|t| is_visible(t));
    if is_empty && !has_words {
        let detail = "there is no input, no title and no body to show";
        return Err(Invalid::new("nothing_to_show", "/tool/input", detail));
    }
    Ok(())
}

fn check_question(content: &Content) -> Result<(), Invalid> {
    let Some(title) = &content.title else {
        return Err(Invalid::new("missing_field", "/title", "a question needs a title"));
    };
    if !is_visible(title) {
        return Err(Invalid::new(
            "nothing_to_show",
            "/title",
            "the title has no visible character",
        ));
    }
    if content.tool.is_some() {
        let detail = "only a tool approval has a tool";
        return Err(Invalid::new("invalid_field", "/tool", detail));
    }
    if content.options.is_empty() {
        if !content.allow_text {
            let detail = "a question without options must allow text";
            return Err(Invalid::new("invalid_field", "/allow_text", detail));
        }
        return Ok(());
    }
    if !OPTIONS.contains(&content.options.len()) {
        let detail = "a question has 2 to 25 options, or none";
        return Err(Invalid::new("invalid_field", "/options", detail));
    }
    let (mut ids, mut labels) = (HashSet::new(), HashSet::new());
    for (index, option) in content.options.iter().enumerate() {
        let (id_at, label_at) = (format!("/options/{index}/id"), format!("/options/{index}/label"));
        within(&id_at, Some(&option.id), OPTION_ID_CHARS)?;
        within(&label_at, Some(&option.label), LABEL_CHARS)?;
        if option.id.is_empty() || option.id.chars().any(char::is_control) {
            return Err(Invalid::new("invalid_field", &id_at, "an option needs an id"));
        }
        if !is_visible(&option.label) {
            return Err(Invalid::new("nothing_to_show", &label_at, "the label shows nothing"));
        }
        if !ids.insert(option.id.as_str()) {
            return Err(Invalid::new("duplicate_option", &id_at, "two options have this id"));
        }
        if !labels.insert(option.label.trim().to_lowercase()) {
            return Err(Invalid::new("duplicate_option", &label_at, "two options have this label"));
        }
    }
    Ok(())
}

fn within(pointer: &str, text: Option<&str>, limit: usize) -> Result<(), Invalid> {
    if text.is_some_and(|t| t.contains('\0')) {
        return Err(Invalid::new("invalid_field", pointer, "a text can't hold U+0000"));
    }
    if text.is_none_or(|t| t.chars().count() <= limit) {
        return Ok(());
    }
    Err(Invalid::new("too_long", pointer, format!("at most {limit} characters are allowed")))
}

/// Whether there is anything to see in `text`.
pub fn is_visible(text: &str) -> bool {
    text.chars().any(|c| !c.is_whitespace() && !crate::requests::hidden::is_hidden(c))
}

/// Every reader must see the same number: whole numbers beyond 2^53 − 1 are
/// rounded by many, so they have to be sent as text.
fn check_numbers(value: &Value, pointer: &str) -> Result<(), Invalid> {
    match value {
        Value::Number(number) => {
            let is_safe = match (number.as_u64(), number.as_i64()) {
                (Some(n), _) => n <= SAFE_INTEGER,
                (None, Some(n)) => n.unsigned_abs() <= SAFE_INTEGER,
                (None, None) => true,
            };
            let detail = "a whole number beyond 2^53 - 1 must be sent as text";
            if is_safe { Ok(()) } else { Err(Invalid::new("unsafe_number", pointer, detail)) }
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(i, item)| check_numbers(item, &format!("{pointer}/{i}"))),
        Value::Object(members) => members.iter().try_for_each(|(key, item)| {
            let key = key.replace('~', "~0").replace('/', "~1");
            check_numbers(item, &format!("{pointer}/{key}"))
        }),
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}
