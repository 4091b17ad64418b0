//! Commands. They work on the database directly, whether a gateway runs on it or
//! not; a running one notices what they commit.

mod ask;
mod audit;
mod db;
mod doctor;
mod explain;
mod output;
mod requests;
mod setup;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};

use crate::cli::output::Output;
use crate::config::{Config, Sources};
use crate::store::Store;
use crate::{telemetry, wiring};

/// Nothing runs without your say-so: a gateway between AI agents and the people
/// who answer for them.
#[derive(Parser)]
#[command(name = "sayso", version, max_term_width = 100)]
struct Cli {
    /// The configuration file. Default: ./sayso.toml, else sayso.toml in the
    /// data directory.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the gateway.
    Serve(Serve),
    /// People who decide.
    #[command(subcommand)]
    Guardian(setup::Guardian),
    /// Agents and their keys.
    #[command(subcommand)]
    Agent(setup::Agent),
    /// Ask a question as an agent, wait, and print the answer.
    Ask(ask::Ask),
    /// Ask for the approval of a tool call; with a command after --, run it once
    /// it is approved.
    Approve(ask::Approve),
    /// The queue.
    #[command(subcommand)]
    Requests(requests::Requests),
    /// Type TEXT into a guardian's console conversation.
    Say(requests::Say),
    /// The web console.
    #[command(subcommand)]
    Console(setup::ConsoleCommand),
    /// How a text is read, and why.
    #[command(subcommand)]
    Explain(explain::Explain),
    /// The audit trail.
    #[command(subcommand)]
    Audit(audit::Audit),
    /// The database.
    #[command(subcommand)]
    Db(db::Db),
    /// Check everything; one line each, with the remedy.
    Doctor,
}

#[derive(Args)]
struct Serve {
    /// Use a throw-away database.
    #[arg(long)]
    demo: bool,
}

/// What commands work with.
struct Context {
    config: Config,
    out: Output,
}

impl Context {
    async fn store(&self) -> anyhow::Result<Store> {
        wiring::open_store(&self.config).await
    }
}

/// Status of a command that was used wrongly.
const USAGE: u8 = 2;

/// Runs the command that the process was called with.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { USAGE } else { 0 });
        }
    };
    let out = Output { json: cli.json };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            out.note(&format!("sayso: the runtime can't start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(cli, out)) {
        Ok(code) => code,
        Err(error) => {
            let (words, _) = crate::display::mask(&format!("sayso: {error:#}"));
            out.note(&words);
            if let Some(stopped) = error.downcast_ref::<ask::Stopped>() {
                return ExitCode::from(stopped.0);
            }
            let is_usage = error.is::<crate::config::ConfigError>() || error.is::<Usage>();
            ExitCode::from(if is_usage { USAGE } else { 1 })
        }
    }
}

/// A command was used wrongly.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Usage(String);

async fn run(cli: Cli, out: Output) -> anyhow::Result<ExitCode> {
    if let Command::Explain(command) = &cli.command {
        return explain::run(command, out);
    }
    let mut config = Config::load(&Sources::of_process(cli.config))?;
    telemetry::start_logging(&config.log_level, config.log_format);
    if let Command::Serve(serve) = &cli.command {
        let demo = if serve.demo { Some(DemoDir::create(&mut config)?) } else { None };
        if let Some(DemoDir(path)) = &demo {
            let dir = path.display();
            out.note(&format!("Throw-away data; for other commands: export SAYSO_DATA_DIR={dir}"));
        }
        return wiring::serve(&config, |line| out.line(line)).await;
    }
    let context = Context { config, out };
    match cli.command {
        Command::Guardian(command) => setup::guardian(&context, command).await,
        Command::Agent(command) => setup::agent(&context, command).await,
        Command::Console(command) => setup::console(&context, command).await,
        Command::Ask(command) => ask::ask(&context, command).await,
        Command::Approve(command) => ask::approve(&context, command).await,
        Command::Requests(command) => requests::run(&context, command).await,
        Command::Say(command) => requests::say(&context, command).await,
        Command::Audit(command) => audit::run(&context, command).await,
        Command::Db(command) => db::run(&context, command).await,
        Command::Doctor => doctor::run(&context).await,
        Command::Serve(_) | Command::Explain(_) => Ok(ExitCode::SUCCESS),
    }
}

/// A directory that goes with the process.
struct DemoDir(PathBuf);

impl DemoDir {
    fn create(config: &mut Config) -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("sayso-demo-{}", std::process::id()));
        std::fs::create_dir_all(&path).context("the throw-away directory")?;
        config.database = crate::store::Location::Sqlite(path.join("sayso.db"));
        config.data_dir.clone_from(&path);
        Ok(Self(path))
    }
}

impl Drop for DemoDir {
    fn drop(&mut self) {
        // Only the system's own cleaning is left otherwise.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Reads `10m`, `30s`, `7d`.
fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "a duration is written 10m, 30s or 7d".to_owned())
}
