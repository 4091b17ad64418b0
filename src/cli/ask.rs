//! `ask` and `approve`: parking a request at the keyboard.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::admin::{EnsureKeyboardAgent, EnsureOwner};
use crate::api::requests::Open;
use crate::broadcaster::is_reachable;
use crate::cli::requests::Withdraw;
use crate::cli::{Context, Usage};
use crate::clock::Timestamp;
use crate::decisions::{Approved, Deadline, NewRequest, OpenError, Opening};
use crate::ids::RequestId;
use crate::jobs::sweep::Expire;
use crate::requests::check::check;
use crate::requests::status::Status;
use crate::requests::{Choice, Content, Kind, Request, Risk, Tool};
use crate::store::deliveries::Delivery;
use crate::store::dialect::Dialect;
use crate::store::{self, Location, Store};
use crate::{secrets, wire, wiring, wording};

const DENIED: u8 = 10;
const EXPIRED: u8 = 11;
const CANCELLED: u8 = 12;
const UNDELIVERABLE: u8 = 13;
const SKIPPED: u8 = 14;
const STILL_PENDING: u8 = 15;

/// How long somebody may take to open a surface before the asker is told that
/// nobody can see the request.
const GRACE: Duration = Duration::from_secs(30);

/// Ask a question as an agent, wait, and print the answer.
#[derive(Args)]
pub(super) struct Ask {
    /// The question, one line.
    question: String,
    /// An answer to choose from; 2 to 25 of them.
    #[arg(long = "option", value_name = "TEXT")]
    options: Vec<String>,
    /// Allow an answer in the person's own words besides the options.
    #[arg(long)]
    allow_text: bool,
    /// More words, shown as unverified.
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// Ask for the approval of a tool call.
#[derive(Args)]
pub(super) struct Approve {
    /// The tool. Default with a command: shell.
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// What the tool is called with, as JSON.
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// One line that says what it is for.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// More words, shown as unverified.
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
    /// low, medium or high.
    #[arg(long, default_value = "medium")]
    risk: String,
    #[command(flatten)]
    common: Common,
    /// A command that is shown exactly, and run only when it is approved.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

#[derive(Args)]
struct Common {
    /// Who decides.
    #[arg(long, value_name = "NAME")]
    guardian: Option<String>,
    /// How long to wait here. Default: until the request ends.
    #[arg(long, value_name = "10m", value_parser = super::duration)]
    wait: Option<Duration>,
    /// When the request expires, counted from now.
    #[arg(long, value_name = "15m", value_parser = super::duration)]
    expires_in: Option<Duration>,
}

pub(super) async fn ask(context: &Context, command: Ask) -> anyhow::Result<ExitCode> {
    let options: Vec<Choice> = command
        .options
        .into_iter()
        .enumerate()
        .map(|(index, label)| Choice { id: (index + 1).to_string(), label })
        .collect();
    let content = Content {
        kind: Kind::Question,
        title: Some(command.question),
        body: command.body,
        tool: None,
        allow_text: command.allow_text || options.is_empty(),
        options,
    };
    let store = context.store().await?;
    let waited = park(context, &store, content, Risk::Medium, command.common).await?;
    let code = finish(context, &store, &waited).await?;
    if waited.request.status == Status::Answered && !context.out.json {
        context.out.line(&wording::answer_words(&waited.request).unwrap_or_default());
    }
    store.close().await;
    Ok(ExitCode::from(code))
}

pub(super) async fn approve(context: &Context, command: Approve) -> anyhow::Result<ExitCode> {
    let risk = command.risk.parse::<Risk>();
    let risk = risk.map_err(|()| Usage("--risk is low, medium or high".to_owned()))?;
    let (tool, input) = tool_of(&command)?;
    let content = Content {
        kind: Kind::ToolApproval,
        title: command.title.clone(),
        body: command.body.clone(),
        tool: Some(Tool { name: tool, input }),
        options: Vec::new(),
        allow_text: false,
    };
    let store = context.store().await?;
    let waited = park(context, &store, content, risk, command.common).await?;
    let code = finish(context, &store, &waited).await?;
    store.close().await;
    if code != 0 || command.command.is_empty() {
        return Ok(ExitCode::from(code));
    }
    let approved = Approved::of(waited.request);
    let approved = approved.ok_or_else(|| anyhow::anyhow!("there is no approval to run on"))?;
    run_approved(&approved, &command.command).await
}

fn tool_of(command: &Approve) -> anyhow::Result<(String, Value)> {
    if !command.command.is_empty() {
        if command.input.is_some() {
            return Err(Usage("--input and a command exclude each other".to_owned()).into());
        }
        let directory = std::env::current_dir()?;
        let input = json!({
            "command": shell_words::join(&command.command),
            "directory": directory.display().to_string(),
        });
        return Ok((command.tool.clone().unwrap_or_else(|| "shell".to_owned()), input));
    }
    let Some(tool) = command.tool.clone() else {
        return Err(Usage("--tool NAME or a command after -- is needed".to_owned()).into());
    };
    let input = match &command.input {
        Some(text) => crate::api::json::parse(text.as_bytes())
            .map_err(|why| Usage(format!("--input is no JSON: {why}")))?,
        None => json!({}),
    };
    Ok((tool, input))
}

/// Runs what was shown: the words of the approved command line, and nothing that
/// is not them.
async fn run_approved(approved: &Approved, words: &[String]) -> anyhow::Result<ExitCode> {
    let input = approved.content().tool.as_ref().map(|tool| &tool.input);
    let text = |key: &str| input.and_then(|i| i.get(key)).and_then(Value::as_str);
    let shown = text("command").unwrap_or_default();
    let approved_words = shell_words::split(shown)?;
    if approved_words != words {
        anyhow::bail!("what was approved is not what was to run; nothing ran");
    }
    let Some((program, arguments)) = approved_words.split_first() else {
        anyhow::bail!("there is nothing to run");
    };
    let mut command = tokio::process::Command::new(program);
    command.args(arguments);
    if let Some(directory) = text("directory") {
        command.current_dir(directory);
    }
    let status = command
        .status()
        .await
        .map_err(|error| anyhow::anyhow!("approved, but {program} can't be started: {error}"))?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(ExitCode::from(u8::try_from(code.unwrap_or(1)).unwrap_or(1)))
}

/// A request, and how it stood when the waiting was over.
struct Waited {
    request: Request,
    is_unreachable: bool,
}

async fn park(
    context: &Context,
    store: &Store,
    content: Content,
    risk: Risk,
    common: Common,
) -> anyhow::Result<Waited> {
    check(&content).map_err(|invalid| Usage(invalid.to_string()))?;
    let longest = Duration::from_hours(7 * 24);
    if common.expires_in.is_some_and(|d| d < Duration::from_secs(1) || d > longest) {
        return Err(Usage("--expires-in is 1s to 7d".to_owned()).into());
    }
    store.write(EnsureOwner).await?;
    let agent = store.write(EnsureKeyboardAgent).await?;
    let new = NewRequest {
        content,
        // The same thing asked at two keyboards is two requests: one approval
        // must not run both.
        session: Some(format!(
            "keyboard-{}",
            &secrets::token().chars().take(6).collect::<String>()
        )),
        run: None,
        guardian: common.guardian,
        risk,
        deadline: common.expires_in.map(Deadline::In),
        callback_url: None,
        supersedes: None,
        metadata: json!({}),
    };
    let opening = Opening { agent, new, idempotency: None };
    let open = Open { opening, policy: context.config.policy };
    let opened = store.write(open).await?.map_err(|error| match error {
        OpenError::NoGuardian => {
            let several = "there are several guardians; say which with --guardian NAME";
            anyhow::Error::new(Usage(several.to_owned()))
        }
        other => other.into(),
    })?;
    let request = opened.into_request();
    context.out.note(&format!(
        "Waiting for {} to decide {} until {}.",
        request.guardian_name,
        request.code,
        request.deadline.readable()
    ));
    if matches!(context.config.database, Location::Sqlite(_))
        && !wiring::is_running(&context.config.database)
    {
        context.out.note(
            "No gateway runs on this database, so nobody is asked yet: start one with `sayso serve`.",
        );
    }
    wait(context, store, request.id, common.wait).await
}

async fn wait(
    context: &Context,
    store: &Store,
    id: RequestId,
    span: Option<Duration>,
) -> anyhow::Result<Waited> {
    let started = Instant::now();
    let until = span.map(|span| started + span);
    let tick = match store.dialect() {
        Dialect::Sqlite => Duration::from_millis(40),
        Dialect::Postgres => Duration::from_millis(250),
    };
    let mut unreachable_since: Option<Instant> = None;
    loop {
        let (request, deliveries) = read(store, id).await?;
        if request.status.is_final() {
            return Ok(Waited { request, is_unreachable: false });
        }
        if request.deadline <= store.clock().now() {
            // A gateway would do this; without one it is ours to do.
            if store.write(Expire).await? == 0 {
                // The database's clock is a little behind.
                tokio::time::sleep(tick).await;
            }
            continue;
        }
        if is_reachable(&deliveries) {
            unreachable_since = None;
        } else {
            let since = *unreachable_since.get_or_insert_with(|| {
                context.out.note(&unreachable(&request, &deliveries));
                Instant::now()
            });
            let can_change = deliveries.iter().any(|d| d.channel == "console" && d.attempts > 0);
            if !can_change || since.elapsed() >= GRACE {
                return Ok(Waited { request, is_unreachable: true });
            }
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            return Ok(Waited { request, is_unreachable: false });
        }
        tokio::select! {
            () = tokio::time::sleep(tick) => {}
            signal = wiring::asked_to_stop() => {
                // Nobody is left to act on a decision.
                let reason = "the command stopped waiting".to_owned();
                store.write(Withdraw { id, reason }).await?;
                store.close().await;
                return Err(Stopped(signal).into());
            }
        }
    }
}

/// The command was told to stop while it waited.
#[derive(Debug, thiserror::Error)]
#[error("stopped; the request is withdrawn")]
pub(super) struct Stopped(pub(super) u8);

async fn read(store: &Store, id: RequestId) -> anyhow::Result<(Request, Vec<Delivery>)> {
    let mut tx = store.read().await?;
    let request = store::requests::find(&mut tx, id).await?;
    let request = request.ok_or_else(|| anyhow::anyhow!("the request is gone"))?;
    let deliveries = store::deliveries::list_of(&mut tx, id).await?;
    Ok((request, deliveries))
}

fn unreachable(request: &Request, deliveries: &[Delivery]) -> String {
    let reasons: Vec<String> = deliveries
        .iter()
        .map(|d| format!("{}: {}", d.channel, d.detail.as_deref().unwrap_or("not delivered")))
        .collect();
    format!("{} can't see it yet: {}.", request.guardian_name, reasons.join("; "))
}

/// Prints how it ended; the status to end with.
async fn finish(context: &Context, store: &Store, waited: &Waited) -> anyhow::Result<u8> {
    let request = &waited.request;
    let code = match request.status {
        Status::Approved | Status::Answered => 0,
        Status::Denied => DENIED,
        Status::Expired => EXPIRED,
        Status::Cancelled => CANCELLED,
        Status::Skipped => SKIPPED,
        Status::Pending if waited.is_unreachable => UNDELIVERABLE,
        Status::Pending => STILL_PENDING,
    };
    if context.out.json {
        let resource = wire::read(&mut store.read().await?, request).await?;
        context.out.result(&resource, String::new);
    } else if code == UNDELIVERABLE || code == STILL_PENDING {
        let at: Timestamp = request.deadline;
        context.out.note(&format!(
            "{} is still pending and stays so until {}.{}",
            request.code,
            at.readable(),
            if request.content.tool.is_some() { " Nothing ran." } else { "" }
        ));
    } else {
        context.out.note(&format!("{}.", wording::status(request)));
    }
    Ok(code)
}
