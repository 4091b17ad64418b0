//! `doctor`: one line a check, with the remedy.

use std::process::ExitCode;

use serde::Serialize;

use crate::broadcaster::ATTENDANCE;
use crate::cli::Context;
use crate::clock::Timestamp;
use crate::people::{Binding, Principal};
use crate::store::{self, Location, Store};
use crate::wiring;

#[derive(Serialize)]
struct Check {
    name: String,
    ok: bool,
    detail: String,
}

struct Checks(Vec<Check>);

impl Checks {
    fn add(&mut self, name: &str, ok: bool, detail: impl Into<String>) {
        self.0.push(Check { name: name.to_owned(), ok, detail: detail.into() });
    }
}

pub(super) async fn run(context: &Context) -> anyhow::Result<ExitCode> {
    let mut checks = Checks(Vec::new());
    let config = &context.config;
    let file = config
        .file
        .as_ref()
        .map_or("no file, defaults".to_owned(), |path| path.display().to_string());
    checks.add("settings", config.notes.is_empty(), file);
    for note in &config.notes {
        checks.add("settings", false, note.clone());
    }
    match context.store().await {
        Ok(store) => {
            if let Err(error) = inspect(context, &store, &mut checks).await {
                checks.add("database", false, format!("{error:#}"));
            }
            store.close().await;
        }
        Err(error) => checks.add("database", false, format!("{error:#}")),
    }
    let is_well = checks.0.iter().all(|check| check.ok);
    context.out.result(&serde_json::json!({ "ok": is_well, "checks": checks.0 }), || {
        let lines = checks.0.iter().map(|check| {
            let mark = if check.ok { "ok   " } else { "WRONG" };
            format!("{mark} {}: {}", check.name, check.detail)
        });
        lines.collect::<Vec<_>>().join("\n")
    });
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn inspect(context: &Context, store: &Store, checks: &mut Checks) -> anyhow::Result<()> {
    let config = &context.config;
    let place = match &config.database {
        Location::Sqlite(path) => path.display().to_string(),
        Location::Postgres(_) => "PostgreSQL".to_owned(),
    };
    store.write(crate::jobs::sweep::Expire).await?;
    match store.check_structure().await? {
        None => checks.add("database", true, format!("{place}, up to date, sound and writable")),
        Some(fault) => {
            let detail =
                format!("{place} is damaged ({fault}); restore a backup: sayso db restore");
            checks.add("database", false, detail);
        }
    }
    if let Location::Sqlite(_) = &config.database {
        let is_running = wiring::is_running(&config.database);
        let detail = if is_running {
            format!("a gateway runs on this database, at {}", config.base_url())
        } else {
            "no gateway runs on this database; start one with `sayso serve`".to_owned()
        };
        checks.add("gateway", is_running, detail);
    }
    let mut tx = store.read().await?;
    let now = tx.now();
    let people = store::people::list(&mut tx).await?;
    if people.is_empty() {
        checks.add("guardians", true, "nobody yet; `sayso serve` adds owner");
    }
    let probes = wiring::probe(config).await;
    for (channel, health) in &probes {
        checks.add(channel, health.is_up, health.detail.clone());
    }
    for reader in store::readers::list(&mut tx).await? {
        let is_configured = probes.iter().any(|(channel, _)| *channel == reader.channel);
        if is_configured {
            let age = reader.read_at.map_or(0, |at| now.since(at).as_secs());
            let trouble = reader.trouble_at(now);
            let ok = trouble.is_none();
            let detail = trouble.unwrap_or_else(|| format!("last looked for {age} s ago"));
            checks.add(&format!("{} updates", reader.channel), ok, detail);
        }
    }
    for person in &people {
        let bindings = store::people::bindings_of(&mut tx, person.id).await?;
        let (ok, detail) = reach(person, &bindings, config.console, &probes, now);
        checks.add(&format!("guardian {}", person.name), ok, detail);
    }
    for place in store::places::list(&mut tx).await? {
        if probes.iter().any(|(channel, _)| *channel == place.channel) {
            let name = format!("{} {}", place.channel, place.address);
            match (place.closed, place.limits) {
                (Some(why), _) => {
                    checks.add(&name, true, format!("nothing is said there: {why}"));
                }
                (None, limits) => checks.add(&name, true, limits.unwrap_or("all works".into())),
            }
        }
    }
    let (_, _, poison) = store::inbox::backlog(&mut tx).await?;
    if poison > 0 {
        let detail = format!("{poison} items were not understood and are kept in the inbox table");
        checks.add("inbox", false, detail);
    }
    let mut owed = Vec::new();
    let mut is_late = false;
    for (name, (count, lag)) in [
        ("jobs", store::jobs::backlog(&mut tx).await?),
        ("cards", store::deliveries::backlog(&mut tx).await?),
        ("notices", store::notices::backlog(&mut tx).await?),
    ] {
        let is_old = lag > 60_000_000;
        is_late |= is_old;
        let seconds = lag / 1_000_000;
        owed.push(if is_old {
            format!("{count} {name} wait, the oldest for {seconds} s")
        } else {
            format!("{count} {name} wait")
        });
    }
    if is_late {
        owed.push("is a gateway running, and do its channels work?".to_owned());
    }
    checks.add("owed work", !is_late, owed.join(", "));
    Ok(())
}

/// Where a guardian is reached, and what is in the way elsewhere.
fn reach(
    person: &Principal,
    bindings: &[Binding],
    has_console: bool,
    probes: &[(&'static str, sayso_channel::Health)],
    now: Timestamp,
) -> (bool, String) {
    let is_attended = bindings.iter().any(|b| {
        b.channel == "console"
            && has_console
            && b.last_seen_at.is_some_and(|at| now.since(at) < ATTENDANCE)
    });
    let mut places: Vec<String> = Vec::new();
    let mut troubles: Vec<String> = Vec::new();
    if is_attended {
        places.push("the console".to_owned());
    }
    for binding in bindings.iter().filter(|b| b.channel != "console") {
        let channel = &binding.channel;
        match &binding.trouble {
            _ if !probes.iter().any(|(name, _)| *name == channel.as_str()) => {
                troubles.push(format!("{channel} is bound but not set up"));
            }
            _ if probes.iter().any(|(name, health)| *name == channel.as_str() && !health.is_up) => {
                troubles.push(format!("{channel} is down"));
            }
            Some(why) => troubles.push(format!("{channel}: {why}")),
            None if binding.address.is_none() => {
                troubles.push(format!("{channel}: the person has to write to the bot first"));
            }
            None => places.push(channel.clone()),
        }
    }
    let is_reachable = !places.is_empty();
    let mut detail = if is_reachable {
        format!("reachable in {}", places.join(" and "))
    } else {
        format!("can't be reached; open the link of `sayso console link --as {}`", person.name)
    };
    for trouble in &troubles {
        detail.push_str("; ");
        detail.push_str(trouble);
    }
    // Somebody who counts on their phone is not well served by a page.
    (is_reachable && troubles.is_empty(), detail)
}
