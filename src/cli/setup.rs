//! `guardian`, `agent`, `console`.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;

use crate::admin::{
    AddAgent, AddGuardian, AddPairing, BindGuardian, EnsureOwner, RemoveGuardian, RevokeAgent,
};
use crate::cli::Context;
use crate::store::{self, logins};
use crate::{pairing, wiring};

/// People who decide.
#[derive(Subcommand)]
pub(super) enum Guardian {
    /// Add somebody.
    Add {
        /// 1 to 40 letters, digits, dots, dashes or underscores.
        name: String,
    },
    /// List everybody, and where they are reached.
    List,
    /// Remove somebody.
    Remove {
        /// The name.
        name: String,
        /// Cancel the requests that wait for them.
        #[arg(long)]
        force: bool,
    },
    /// Print a one-time pairing code, which the person sends to the bot in a
    /// private chat within ten minutes.
    Pair {
        /// The name.
        name: String,
        /// telegram or slack.
        #[arg(long)]
        channel: String,
    },
    /// Bind an account on a channel by hand, for scripts.
    Bind {
        /// The name.
        name: String,
        /// telegram or slack.
        #[arg(long)]
        channel: String,
        /// The account's immutable id.
        #[arg(long, value_name = "ID")]
        user: String,
        /// The workspace or organisation of a Slack account; by default the bot's own.
        #[arg(long, value_name = "ID")]
        team: Option<String>,
        /// The private conversation, if it is known.
        #[arg(long, value_name = "CHAT")]
        address: Option<String>,
    },
}

/// Agents and their keys.
#[derive(Subcommand)]
pub(super) enum Agent {
    /// Add one; its key is shown once.
    Add {
        /// 1 to 40 letters, digits, dots, dashes or underscores.
        name: String,
        /// Who decides for it.
        #[arg(long, value_name = "NAME")]
        guardian: Option<String>,
    },
    /// List them.
    List,
    /// Make an agent's key worthless.
    Revoke {
        /// The name.
        name: String,
    },
}

/// The web console.
#[derive(Subcommand)]
pub(super) enum ConsoleCommand {
    /// Print a fresh one-time login link.
    Link {
        /// For whom.
        #[arg(long = "as", value_name = "NAME")]
        name: Option<String>,
    },
}

/// What the id of an account belongs to, and where its person is reached.
async fn place_of(
    context: &Context,
    channel: &str,
    user: &str,
    team: Option<String>,
    address: Option<String>,
) -> anyhow::Result<(String, Option<String>)> {
    if channel != "slack" {
        return Ok((team.unwrap_or_default(), address));
    }
    let realm = match team {
        Some(team) => team,
        None => wiring::slack_realm(&context.config).await.ok_or_else(|| {
            anyhow::anyhow!("Slack can't be asked for the workspace; say it: --team ID")
        })?,
    };
    let address = address.or_else(|| wiring::slack_address(&realm, user));
    Ok((realm, address))
}

pub(super) async fn guardian(context: &Context, command: Guardian) -> anyhow::Result<ExitCode> {
    let store = context.store().await?;
    let out = context.out;
    match command {
        Guardian::Add { name } => {
            let added = store.write(AddGuardian { name }).await??;
            out.result(&json!({ "name": added.name }), || format!("Added {}.", added.name));
        }
        Guardian::List => {
            let mut tx = store.read().await?;
            let mut listed = Vec::new();
            for person in store::people::list(&mut tx).await? {
                let bindings = store::people::bindings_of(&mut tx, person.id).await?;
                let channels: Vec<_> = bindings
                    .iter()
                    .map(|b| {
                        json!({
                            "channel": b.channel,
                            "account": b.account,
                            "last_seen_at": b.last_seen_at.map(crate::clock::Timestamp::rfc3339),
                            "trouble": b.trouble,
                        })
                    })
                    .collect();
                listed.push(json!({ "name": person.name, "bindings": channels }));
            }
            out.result(&json!({ "guardians": listed }), || {
                let lines = listed.iter().map(|person| {
                    let name = person["name"].as_str().unwrap_or_default();
                    let places: Vec<&str> = person["bindings"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .filter_map(|b| b["channel"].as_str())
                        .collect();
                    format!("{name}  {}", places.join(", "))
                });
                lines.collect::<Vec<_>>().join("\n")
            });
        }
        Guardian::Remove { name, force } => {
            store.write(RemoveGuardian { name: name.clone(), force }).await??;
            out.result(&json!({ "name": name }), || format!("Removed {name}."));
        }
        Guardian::Pair { name, channel } => {
            match channel.as_str() {
                "telegram" if context.config.telegram.is_none() => {
                    anyhow::bail!("Telegram is not set up: telegram.token is missing");
                }
                "slack" if context.config.slack.is_none() => {
                    anyhow::bail!("Slack is not set up: slack.bot_token is missing");
                }
                _ => {}
            }
            let code = pairing::random();
            let hash = pairing::hash(&code);
            let add = AddPairing { name: name.clone(), channel: channel.clone(), hash };
            let expires_at = store.write(add).await??;
            let value = json!({
                "name": name, "channel": channel, "code": code,
                "expires_at": expires_at.rfc3339(),
            });
            let link = match channel.as_str() {
                "telegram" => wiring::pairing_link(&context.config, &code).await,
                _ => None,
            };
            out.result(&value, || {
                let until = expires_at.readable();
                let link = link.map_or(String::new(), |link| format!("\nor opens {link}"));
                // Slack takes what begins with a slash for a command.
                let words =
                    if channel == "slack" { code.clone() } else { format!("/start {code}") };
                format!(
                    "{code}\n{name} sends the bot \"{words}\" in a private chat before \
                     {until}{link}"
                )
            });
        }
        Guardian::Bind { name, channel, user, team, address } => {
            let (realm, address) = place_of(context, &channel, &user, team, address).await?;
            let bind = BindGuardian { name: name.clone(), channel, realm, account: user, address };
            let bound = store.write(bind).await??;
            let value = json!({ "name": name, "channel": bound.channel, "account": bound.account });
            out.result(&value, || format!("Bound {} {} to {name}.", bound.channel, bound.account));
        }
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn agent(context: &Context, command: Agent) -> anyhow::Result<ExitCode> {
    let store = context.store().await?;
    let out = context.out;
    match command {
        Agent::Add { name, guardian } => {
            let added = store.write(AddAgent { name, guardian }).await??;
            let secret = added.agent.webhook_secret.expose();
            let value = json!({
                "name": added.agent.name, "key": added.key, "webhook_secret": secret,
            });
            out.result(&value, || {
                format!(
                    "Added {}. Its key and the secret that signs callbacks are shown only now:\n\
                     key             {}\nwebhook secret  {secret}",
                    added.agent.name, added.key
                )
            });
        }
        Agent::List => {
            let agents = store::agents::list(&mut store.read().await?).await?;
            let names: Vec<&str> = agents.iter().map(|a| a.name.as_str()).collect();
            let value = json!({
                "agents": names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>(),
            });
            out.result(&value, || names.join("\n"));
        }
        Agent::Revoke { name } => {
            store.write(RevokeAgent { name: name.clone() }).await??;
            out.result(&json!({ "name": name }), || format!("Revoked {name}."));
        }
    }
    store.close().await;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn console(
    context: &Context,
    command: ConsoleCommand,
) -> anyhow::Result<ExitCode> {
    let ConsoleCommand::Link { name } = command;
    let store = context.store().await?;
    store.write(EnsureOwner).await?;
    let name = super::requests::guardian_name(&store, name).await?;
    let base = context.config.base_url();
    let url = wiring::console_link(&store, &base, &name, logins::LINK_LIFE).await?;
    context.out.result(&json!({ "url": url }), || url.clone());
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
