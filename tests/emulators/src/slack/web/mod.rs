//! The Web API.

mod chat;
mod conversations;
mod files;
mod people;
mod rates;
mod reactions;
mod views;

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

pub(super) use chat::checked_content;
pub(super) use files::receive;
pub(super) use views::{after_submission, close};

use crate::slack::state::{Call, Place, Refusal, World};
use crate::slack::{Fault, Shared, record};

pub(super) type Parameters = Map<String, Value>;
pub(super) type Outcome = Result<Value, Refusal>;

/// Each method, its rate tier, and the scope without which it is refused.
const METHODS: &[(&str, u32, &str)] = &[
    ("auth.test", 0, ""),
    ("users.info", 4, "users:read"),
    ("team.info", 3, "team:read"),
    ("conversations.open", 3, "im:write"),
    ("conversations.info", 3, "channels:read"),
    ("conversations.list", 2, "channels:read"),
    ("conversations.members", 4, "channels:read"),
    ("conversations.history", 3, "channels:history"),
    ("conversations.replies", 3, "channels:history"),
    ("chat.postMessage", 0, "chat:write"),
    ("chat.update", 3, "chat:write"),
    ("chat.delete", 3, "chat:write"),
    ("chat.postEphemeral", 4, "chat:write"),
    ("chat.getPermalink", 0, ""),
    ("reactions.add", 3, "reactions:write"),
    ("reactions.remove", 2, "reactions:write"),
    ("views.open", 4, ""),
    ("views.update", 4, ""),
    ("views.push", 4, ""),
    ("apps.connections.open", 3, "connections:write"),
    ("files.getUploadURLExternal", 4, "files:write"),
    ("files.completeUploadExternal", 4, "files:write"),
    ("assistant.threads.setStatus", 3, "assistant:write"),
];

/// What a bot may at most do here.
pub(super) const ALL_SCOPES: &[&str] = &[
    "app_mentions:read",
    "assistant:write",
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
    "reactions:write",
    "team:read",
    "users:read",
];

/// Takes one call, in any of the forms that the real server takes.
pub(super) async fn call(
    State(shared): State<Arc<Shared>>,
    Path(method): Path<String>,
    Query(query): Query<Map<String, Value>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let is_json = kind.starts_with("application/json");
    let form = match parameters(query, kind, &body) {
        Ok(parameters) => parameters,
        Err(refusal) => return refuse(&shared, &method, &refusal),
    };
    let (token, parameters) = without_token(form, &headers, is_json);
    let fault = shared.next_fault(&method);
    record::note_call(&method, &parameters);
    shared.world().calls.push(Call { method: method.clone(), parameters: parameters.clone() });
    shared.touch();
    match &fault {
        Some(Fault::Answer { status, body, retry_after }) => {
            return raw(*status, body.clone(), *retry_after);
        }
        Some(Fault::CutBefore) => return cut(),
        _ => {}
    }
    let result = admit(&shared, &method, token.as_deref())
        .and_then(|()| run(&shared, &method, &parameters, token.as_deref().unwrap_or_default()));
    shared.touch();
    match fault {
        Some(Fault::CutAfter) => return cut(),
        Some(Fault::Slow(span)) => tokio::time::sleep(span).await,
        _ => {}
    }
    match result {
        Ok(mut result) => {
            result["ok"] = true.into();
            if is_json && !kind.contains("charset") {
                warn(&mut result, "missing_charset");
            }
            record::note("result", &method, &result, false);
            answer(&shared, &method, 200, &result, None)
        }
        Err(refusal) => refuse(&shared, &method, &refusal),
    }
}

/// Whether this token may call this method now.
fn admit(shared: &Shared, method: &str, token: Option<&str>) -> Result<(), Refusal> {
    let Some((_, tier, scope)) = METHODS.iter().find(|(known, ..)| *known == method) else {
        let mut refusal = Refusal::new("unknown_method");
        refusal.more.insert("req_method".to_owned(), method.into());
        return Err(refusal);
    };
    let credentials = &shared.credentials;
    let Some(token) = token else { return Err(Refusal::new("not_authed")) };
    let is_app = token == credentials.app_token;
    if !is_app && token != credentials.bot_token {
        return Err(Refusal::new("invalid_auth"));
    }
    let mut world = shared.world();
    if let Some(error) = &world.settings.account_refusal {
        return Err(Refusal::new(error));
    }
    if method != "auth.test" && is_app != (method == "apps.connections.open") {
        return Err(Refusal::new("not_allowed_token_type"));
    }
    if !is_app && !scope.is_empty() && !world.settings.scopes.contains(*scope) {
        let mut refusal = Refusal::new("missing_scope");
        refusal.more.insert("needed".to_owned(), (*scope).into());
        refusal.more.insert("provided".to_owned(), scopes(&world).into());
        return Err(refusal);
    }
    rates::count(&mut world, method, *tier)
}

fn run(shared: &Arc<Shared>, method: &str, parameters: &Parameters, token: &str) -> Outcome {
    let mut world = shared.world();
    let world = &mut *world;
    if method == "chat.postMessage" {
        rates::count_post(world, parameters)?;
    }
    match method {
        "auth.test" => Ok(people::auth_test(world, token == shared.credentials.app_token)),
        "users.info" => people::user(world, parameters),
        "team.info" => Ok(people::team(world)),
        "conversations.open" => conversations::open(world, parameters),
        "conversations.info" => conversations::info(world, parameters),
        "conversations.list" => conversations::list(world, parameters),
        "conversations.members" => conversations::members(world, parameters),
        "conversations.history" => conversations::history(world, parameters),
        "conversations.replies" => conversations::replies(world, parameters),
        "chat.postMessage" => chat::post(world, parameters),
        "chat.update" => chat::update(world, parameters),
        "chat.delete" => chat::delete(world, parameters),
        "chat.postEphemeral" => chat::post_ephemeral(world, parameters),
        "chat.getPermalink" => chat::permalink(world, parameters),
        "reactions.add" => reactions::change(world, parameters, true),
        "reactions.remove" => reactions::change(world, parameters, false),
        "views.open" => views::open(world, parameters, false),
        "views.push" => views::open(world, parameters, true),
        "views.update" => views::update(world, parameters),
        "files.getUploadURLExternal" => files::begin(world, parameters, &shared.base),
        "files.completeUploadExternal" => files::complete(world, parameters),
        "assistant.threads.setStatus" => people::set_status(world, parameters),
        _ => Ok(people::open_connection(world, &shared.base)),
    }
}

fn parameters(query: Map<String, Value>, kind: &str, body: &Bytes) -> Result<Parameters, Refusal> {
    let mut all = query;
    // Tokens in addresses are no longer taken.
    all.remove("token");
    if body.is_empty() {
        return Ok(all);
    }
    if kind.starts_with("application/json") {
        match serde_json::from_slice(body) {
            Ok(Value::Object(more)) => all.extend(more),
            Ok(_) => return Err(Refusal::new("json_not_object")),
            Err(_) => return Err(Refusal::new("invalid_json")),
        }
    } else if kind.starts_with("multipart/form-data") {
        all.extend(multipart(kind, body).ok_or_else(|| Refusal::new("invalid_form_data"))?);
    } else if kind.is_empty() {
        return Err(Refusal::new("missing_post_type"));
    } else if kind.starts_with("application/x-www-form-urlencoded")
        || kind.starts_with("text/plain")
    {
        let pairs = url::form_urlencoded::parse(body);
        all.extend(pairs.map(|(key, value)| (key.into_owned(), Value::String(value.into_owned()))));
    } else {
        return Err(Refusal::new("invalid_post_type"));
    }
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if !all.keys().all(|name| name.len() <= 100 && name.bytes().all(is_word)) {
        return Err(Refusal::new("invalid_arg_name"));
    }
    Ok(all)
}

/// The parts of a form; a file is its text.
fn multipart(kind: &str, body: &[u8]) -> Option<Map<String, Value>> {
    let boundary = kind.split("boundary=").nth(1)?.trim_matches('"');
    let text = String::from_utf8_lossy(body);
    let mut parts = Map::new();
    for part in text.split(&format!("--{boundary}")) {
        let Some((head, content)) = part.split_once("\r\n\r\n") else { continue };
        let name = head.split("name=\"").nth(1)?.split('"').next()?;
        let content = content.strip_suffix("\r\n").unwrap_or(content);
        parts.insert(name.to_owned(), Value::String(content.to_owned()));
    }
    Some(parts)
}

/// The token, from the header or a form; one inside JSON is not looked for.
fn without_token(
    mut form: Parameters,
    headers: &HeaderMap,
    is_json: bool,
) -> (Option<String>, Parameters) {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| value.strip_prefix("Bearer ")).map(str::to_owned);
    let inside = form.remove("token").filter(|_| !is_json);
    let inside = inside.and_then(|token| token.as_str().map(str::to_owned));
    (bearer.or(inside).filter(|token| !token.is_empty()), form)
}

/// Adds a warning to an answer.
pub(super) fn warn(result: &mut Value, warning: &str) {
    let before = result["warning"].as_str().map(|before| format!("{before},{warning}"));
    result["warning"] = before.unwrap_or_else(|| warning.to_owned()).into();
    match result["response_metadata"]["warnings"].as_array_mut() {
        Some(warnings) => warnings.push(warning.into()),
        None => result["response_metadata"]["warnings"] = json!([warning]),
    }
}

fn scopes(world: &World) -> String {
    let scopes: Vec<&str> = world.settings.scopes.iter().map(String::as_str).collect();
    scopes.join(",")
}

fn refuse(shared: &Shared, method: &str, refusal: &Refusal) -> Response {
    let mut body = json!({ "ok": false, "error": refusal.error });
    for (name, value) in &refusal.more {
        body[name] = value.clone();
    }
    if !refusal.messages.is_empty() {
        let marked = refusal.messages.iter().map(|message| format!("[ERROR] {message}"));
        body["response_metadata"] = json!({ "messages": marked.collect::<Vec<_>>() });
        if refusal.error.starts_with("invalid_blocks") {
            body["errors"] = refusal.messages.clone().into();
        }
    }
    record::note("result", method, &body, false);
    let status = if refusal.retry_after.is_some() { 429 } else { 200 };
    answer(shared, method, status, &body, refusal.retry_after)
}

fn answer(
    shared: &Shared,
    method: &str,
    status: u16,
    body: &Value,
    retry_after: Option<u64>,
) -> Response {
    let mut response = raw(status, body.to_string(), retry_after);
    let headers = response.headers_mut();
    let needed = METHODS.iter().find(|(known, ..)| *known == method).map(|(.., scope)| *scope);
    let given = scopes(&shared.world());
    for (name, value) in [
        ("x-oauth-scopes", given.as_str()),
        ("x-accepted-oauth-scopes", needed.unwrap_or_default()),
    ] {
        if let Ok(value) = value.parse() {
            headers.insert(name, value);
        }
    }
    response
}

pub(super) fn raw(status: u16, body: String, retry_after: Option<u64>) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let is_json = body.starts_with('{');
    let kind = if is_json { "application/json; charset=utf-8" } else { "text/html" };
    let mut response = (status, [(header::CONTENT_TYPE, kind)], body).into_response();
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// An answer that breaks off in its middle.
fn cut() -> Response {
    let broken = axum::body::Body::from_stream(Broken);
    (StatusCode::OK, [(header::CONTENT_LENGTH, "1000")], broken).into_response()
}

struct Broken;

impl futures_core::Stream for Broken {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(Some(Err(std::io::Error::other("cut"))))
    }
}

/// A text parameter that is there and not empty.
fn text<'a>(parameters: &'a Parameters, name: &str) -> Option<&'a str> {
    parameters.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// A text parameter without which nothing goes.
fn needed<'a>(parameters: &'a Parameters, name: &str) -> Result<&'a str, Refusal> {
    text(parameters, name).ok_or_else(|| missing(name))
}

fn missing(name: &str) -> Refusal {
    Refusal::explained("invalid_arguments", vec![format!("missing required field: {name}")])
}

fn number(parameters: &Parameters, name: &str) -> Option<u64> {
    let value = parameters.get(name)?;
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

fn flag(parameters: &Parameters, name: &str) -> bool {
    match parameters.get(name) {
        Some(Value::Bool(flag)) => *flag,
        Some(Value::String(text)) => ["true", "1"].contains(&text.as_str()),
        Some(Value::Number(number)) => number.as_u64() == Some(1),
        _ => false,
    }
}

/// A structure, also as text that holds JSON; `Err` for text that doesn't.
fn structure(parameters: &Parameters, name: &str) -> Result<Option<Value>, ()> {
    match parameters.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) => serde_json::from_str(text).map(Some).map_err(|_| ()),
        Some(value) => Ok(Some(value.clone())),
    }
}

/// A conversation that the bot may know of.
fn visible<'a>(world: &'a World, parameters: &Parameters) -> Result<&'a Place, Refusal> {
    let id = needed(parameters, "channel")?;
    let place = world.places.get(id).filter(|place| place.is_visible());
    place.ok_or_else(|| Refusal::new("channel_not_found"))
}

/// Whether something has the form of a timestamp.
fn is_ts(text: &str) -> bool {
    text.split_once('.').is_some_and(|(seconds, rest)| {
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        is_number(seconds) && is_number(rest)
    })
}
