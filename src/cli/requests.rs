//! `requests` and `say`: the queue, and typing in somebody's place.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use crate::admin::EnsureOwner;
use crate::cli::{Context, Usage};
use crate::decisions::{Actor, Ruling, Verdict, cancel, reveal};
use crate::ids::{InboxId, RequestId};
use crate::jobs::intake::Accept;
use crate::people::Principal;
use crate::requests::code::Code;
use crate::requests::status::Status;
use crate::requests::{Answer, Kind, Request};
use crate::router::{Arrival, DecideAtKeyboard, Route, Routed};
use crate::secrets;
use crate::store::inbox::Item;
use crate::store::{self, Store, StoreError, Tx, Write};
use crate::{display, wire, wiring, wording};

/// The queue.
#[derive(Subcommand)]
pub(super) enum Requests {
    /// List the last requests, newest last.
    List {
        /// Only those in this status.
        #[arg(long)]
        status: Option<String>,
        /// At most so many.
        #[arg(long, default_value_t = 100)]
        limit: u32,
    },
    /// Show one, with what happened to it.
    Show {
        /// Its id or code.
        id: String,
        /// Look at it in the name of this guardian: a text that was not shown
        /// whole counts as opened by them.
        #[arg(long = "as", value_name = "NAME")]
        name: Option<String>,
    },
    /// Withdraw one.
    Cancel {
        /// Its id or code.
        id: String,
        /// Why, for the agent.
        #[arg(long, default_value = "withdrawn by the operator")]
        reason: String,
    },
    /// Decide one at the keyboard in the name of a guardian.
    Decide {
        /// Its id or code.
        id: String,
        /// approve, deny, skip or answer.
        verdict: String,
        /// The answer: an option's number, id or words, or a text.
        text: Option<String>,
        /// In whose name. Default: the request's guardian.
        #[arg(long = "as", value_name = "NAME")]
        name: Option<String>,
        /// Why not, for the agent.
        #[arg(long)]
        reason: Option<String>,
    },
}

/// Type TEXT into a guardian's console conversation.
#[derive(Args)]
pub(super) struct Say {
    /// A code and a verb, words, an answer.
    text: String,
    /// As whom.
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
}

pub(super) async fn run(context: &Context, command: Requests) -> anyhow::Result<ExitCode> {
    let store = context.store().await?;
    let code = match command {
        Requests::List { status, limit } => list(context, &store, status, limit).await?,
        Requests::Show { id, name } => show(context, &store, &id, name).await?,
        Requests::Cancel { id, reason } => withdraw(context, &store, &id, reason).await?,
        Requests::Decide { id, verdict, text, name, reason } => {
            let said = Said { verdict, text, reason };
            decide(context, &store, &id, name, said).await?
        }
    };
    store.close().await;
    Ok(code)
}

async fn list(
    context: &Context,
    store: &Store,
    status: Option<String>,
    limit: u32,
) -> anyhow::Result<ExitCode> {
    let status = status
        .map(|word| word.parse::<Status>().map_err(|()| Usage(format!("no status {word}"))))
        .transpose()?;
    let mut tx = store.read().await?;
    let requests = store::requests::list_last(&mut tx, status, i64::from(limit)).await?;
    let mut resources = Vec::with_capacity(requests.len());
    for request in &requests {
        resources.push(wire::read(&mut tx, request).await?);
    }
    context.out.result(&json!({ "requests": resources }), || {
        if requests.is_empty() {
            return "There are no requests.".to_owned();
        }
        let lines = requests.iter().map(|r| {
            format!("{}  {:<9}  {}  {}", r.code, r.status.as_str(), r.id, wording::short_title(r))
        });
        lines.collect::<Vec<_>>().join("\n")
    });
    Ok(ExitCode::SUCCESS)
}

/// The request with that id or code.
async fn find(store: &Store, text: &str) -> anyhow::Result<Request> {
    let mut tx = store.read().await?;
    let found = if let Ok(id) = text.parse::<RequestId>() {
        store::requests::find(&mut tx, id).await?
    } else if let Ok(code) = text.parse::<Code>() {
        store::requests::find_by_code(&mut tx, code).await?
    } else {
        None
    };
    found.ok_or_else(|| anyhow::anyhow!("there is no request {text}"))
}

struct Reveal {
    request: Request,
    actor: Actor,
}

#[async_trait::async_trait]
impl Write for Reveal {
    type Out = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        reveal(tx, &self.request, &self.actor).await
    }
}

async fn show(
    context: &Context,
    store: &Store,
    id: &str,
    name: Option<String>,
) -> anyhow::Result<ExitCode> {
    let request = find(store, id).await?;
    if let Some(name) = name {
        let actor = actor(store, &name).await?;
        if actor.principal != request.guardian {
            anyhow::bail!("{} is not {name}'s to decide", request.code);
        }
        if !request.status.is_final() {
            store.write(Reveal { request: request.clone(), actor }).await?;
        }
    }
    let mut tx = store.read().await?;
    let resource = wire::read(&mut tx, &request).await?;
    let trail = wire::trail(&mut tx, &request).await?;
    let story = store::audit::story(&mut tx, request.id).await?;
    let mut value = serde_json::to_value(&resource)?;
    if let Some(members) = value.as_object_mut() {
        members.insert("trail".to_owned(), serde_json::to_value(&trail)?);
    }
    context.out.result(&value, || {
        let mut lines = vec![
            format!("{} {}", request.code, wording::short_title(&request)),
            format!("{}. For {}.", wording::status(&request), request.guardian_name),
        ];
        if let Some(tool) = &request.content.tool {
            lines.push(format!("tool {}", display::make_safe(&tool.name).text));
            let input = serde_json::to_string_pretty(&tool.input).unwrap_or_default();
            lines.push(display::make_safe(&input).text);
        }
        if let Some(body) = &request.content.body {
            let body = display::make_safe_words(body).text;
            lines.push(format!("{} says (unverified): {body}", request.agent_name));
        }
        for (index, option) in request.content.options.iter().enumerate() {
            lines.push(format!("{} {}", index + 1, display::make_safe_words(&option.label).text));
        }
        lines.extend(story.iter().filter_map(|line| {
            let at = crate::clock::Timestamp::from_micros(line.at).rfc3339();
            wording::trail(line).map(|text| format!("{at}  {text}"))
        }));
        lines.join("\n")
    });
    Ok(ExitCode::SUCCESS)
}

pub(super) struct Withdraw {
    pub(super) id: RequestId,
    pub(super) reason: String,
}

#[async_trait::async_trait]
impl Write for Withdraw {
    type Out = Ruling;

    async fn run(&self, tx: &mut Tx) -> Result<Ruling, StoreError> {
        cancel(tx, self.id, &self.reason, "operator", None).await
    }
}

async fn withdraw(
    context: &Context,
    store: &Store,
    id: &str,
    reason: String,
) -> anyhow::Result<ExitCode> {
    let request = find(store, id).await?;
    let ruling = store.write(Withdraw { id: request.id, reason }).await?;
    let is_applied = matches!(ruling, Ruling::Applied(_));
    report(context, &Routed::from(ruling));
    Ok(if is_applied { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Said {
    verdict: String,
    text: Option<String>,
    reason: Option<String>,
}

async fn decide(
    context: &Context,
    store: &Store,
    id: &str,
    name: Option<String>,
    said: Said,
) -> anyhow::Result<ExitCode> {
    let verdict_words = "the verdict is approve, deny, skip or answer TEXT";
    let request = match find(store, id).await {
        Ok(request) => request,
        Err(error) if context.out.json => {
            let reply = Some(error.to_string());
            let outcome = crate::router::Outcome::NotFound;
            report(context, &Routed::refused(outcome, reply));
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(error),
    };
    let verdict = match (said.verdict.as_str(), said.text) {
        ("approve", None) => Verdict::Approve,
        ("deny", None) => Verdict::Deny { reason: said.reason },
        ("skip", None) => Verdict::Skip,
        ("answer", Some(text)) => Verdict::Answer(answer_of(&request, &text)),
        _ => return Err(Usage(verdict_words.to_owned()).into()),
    };
    let name = name.unwrap_or_else(|| request.guardian_name.clone());
    let actor = actor(store, &name).await?;
    let policy = context.config.policy;
    let routed =
        store.write(DecideAtKeyboard { request: request.id, actor, verdict, policy }).await?;
    let is_applied = routed.outcome == crate::router::Outcome::Applied;
    report(context, &routed);
    Ok(if is_applied { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// An option by its id, number or words, else the text.
fn answer_of(request: &Request, text: &str) -> Answer {
    let options = &request.content.options;
    let by_place = text.parse::<usize>().ok().and_then(|n| options.get(n.wrapping_sub(1)));
    let chosen = options
        .iter()
        .find(|o| o.id == text)
        .or_else(|| options.iter().find(|o| o.label.eq_ignore_ascii_case(text)))
        .or(by_place);
    match chosen {
        Some(option) if request.content.kind == Kind::Question => {
            Answer { option: Some(option.id.clone()), text: None }
        }
        _ => Answer { option: None, text: Some(text.to_owned()) },
    }
}

async fn person(store: &Store, name: &str) -> anyhow::Result<Principal> {
    let found = store::people::find_by_name(&mut store.read().await?, name).await?;
    found.ok_or_else(|| anyhow::anyhow!("there is no guardian {name}"))
}

async fn actor(store: &Store, name: &str) -> anyhow::Result<Actor> {
    let person = person(store, name).await?;
    Ok(Actor { principal: person.id, name: person.name, binding: None, channel: "cli".to_owned() })
}

/// The named guardian, else the only one, else `owner`.
pub(super) async fn guardian_name(store: &Store, name: Option<String>) -> anyhow::Result<String> {
    if let Some(name) = name {
        return Ok(name);
    }
    let everybody = store::people::list(&mut store.read().await?).await?;
    let found = match everybody.as_slice() {
        [only] => Some(only),
        several => several.iter().find(|p| p.name == "owner"),
    };
    found
        .map(|p| p.name.clone())
        .ok_or_else(|| Usage("there are several guardians; say which with --as".to_owned()).into())
}

fn report(context: &Context, routed: &Routed) {
    let value = json!({
        "result": routed.outcome.as_str(),
        "request": routed.request.map(|id| id.to_string()),
        "status": routed.status.map(Status::as_str),
        "reply": routed.reply,
    });
    context.out.result(&value, || match &routed.reply {
        Some(reply) => reply.clone(),
        None => "Not ours: it goes to the agent.".to_owned(),
    });
}

pub(super) async fn say(context: &Context, command: Say) -> anyhow::Result<ExitCode> {
    if command.text.trim().is_empty() {
        return Err(Usage("there is nothing to say".to_owned()).into());
    }
    let store = context.store().await?;
    store.write(EnsureOwner).await?;
    let name = guardian_name(&store, command.name).await?;
    let person = person(&store, &name).await?;
    let account = person.id.to_string();
    let key = secrets::token();
    let raw = wiring::typed_in_console(&account, &account, &key, &command.text);
    let raw = raw.ok_or_else(|| anyhow::anyhow!("this build has no console to type into"))?;
    let inbound = wiring::read_console(&raw);
    let inbound = inbound.ok_or_else(|| anyhow::anyhow!("the text could not be typed"))?;
    let item = Item {
        id: InboxId::new(),
        channel: "console".to_owned(),
        receiver: raw.receiver,
        dedup_key: raw.dedup_key,
        lane: raw.lane,
        raw: raw.body,
        attempts: 0,
    };
    let id = item.id;
    // Held, so that a gateway leaves it to us; if we die, it goes on after a while.
    store.write(Accept { item, hold: true }).await?;
    let policy = context.config.policy;
    let channel = "console".to_owned();
    let route = Route { arrival: Arrival::Stored(id), channel, inbound, policy, speaks: false };
    let routed = store.write(route).await?;
    if routed.reveals
        && !context.out.json
        && let Some(id) = routed.request
    {
        // Shown means shown: here, to whoever typed it.
        show(context, &store, &id.to_string(), None).await?;
    }
    report(context, &routed);
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
