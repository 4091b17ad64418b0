//! The composition root: settings → database → channels → workers → server. The
//! only place that knows the adapters, one file for each.

#[cfg(feature = "console")]
mod console;
mod outlets;
#[cfg(feature = "slack")]
mod slack;
#[cfg(feature = "telegram")]
mod telegram;

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::net::TcpListener;

use crate::admin::{AddLink, EnsureOwner};
use crate::api::{self, Api};
use crate::clock::Clock;
use crate::config::Config;
use crate::jobs::fence::Fence;
use crate::jobs::intake::Intake;
use crate::jobs::notify::Notifier;
use crate::jobs::{Bench, TakeUp, deliver, feed, intake, look, owed, speak, sweep};
use crate::lifecycle::Lifecycle;
use crate::secrets;
use crate::store::{Location, Store, logins};
use crate::telemetry::Metrics;
use crate::wakeups::Wakeups;
use crate::wiring::outlets::Parts;
pub use crate::wiring::outlets::{
    pairing_link, probe, read_console, slack_address, slack_realm, typed_in_console,
};

/// The status with which the process ends when the database file failed.
const EX_IOERR: u8 = 74;

/// A gateway that runs.
pub struct Gateway {
    /// Where it listens.
    pub address: std::net::SocketAddr,
    /// Its life.
    pub lifecycle: Lifecycle,
    /// Its database.
    pub store: Store,
    lock: Option<File>,
}

impl Gateway {
    /// Lets another gateway run on the same file.
    pub fn release(&mut self) {
        self.lock = None;
    }
}

/// Opens the database of these settings.
///
/// # Errors
///
/// In words for the operator.
pub async fn open_store(config: &Config) -> anyhow::Result<Store> {
    create_private_dir(&config.data_dir)
        .with_context(|| format!("the data directory {}", config.data_dir.display()))?;
    let store = Store::open(&config.database, Clock::system()).await?;
    if let Location::Sqlite(path) = &config.database {
        keep_private(path);
    }
    Ok(store)
}

/// Starts a gateway.
///
/// # Errors
///
/// In words for the operator; nothing runs then.
pub async fn start(config: &Config) -> anyhow::Result<Gateway> {
    // The first caller chooses the TLS implementation for the process; a second
    // call finds it chosen.
    let _ = rustls::crypto::ring::default_provider().install_default();
    create_private_dir(&config.data_dir)
        .with_context(|| format!("the data directory {}", config.data_dir.display()))?;
    let lock = match &config.database {
        Location::Sqlite(path) => Some(lock(path)?),
        Location::Postgres(_) => None,
    };
    let store = open_store(config).await?;
    store.write(EnsureOwner).await?;
    if lock.is_some() {
        // The lock says that nobody else works on this database.
        store.write(TakeUp).await?;
        store.look_after_disk();
    }
    let listener = TcpListener::bind(config.listen)
        .await
        .with_context(|| format!("listening on {}", config.listen))?;
    let address = listener.local_addr()?;

    let (wakeups, lifecycle) = (Wakeups::default(), Lifecycle::default());
    let metrics = Arc::new(Metrics::default());
    let fence = Fence::new(&config.allow_nets)?;
    let inbox = Arc::new(Intake::new(store.clone(), wakeups.clone()));
    let parts =
        Parts { config, store: &store, wakeups: &wakeups, lifecycle: &lifecycle, inbox: &inbox };
    let outlets = outlets::open(&parts)?;
    let bench = Bench {
        store: store.clone(),
        wakeups: wakeups.clone(),
        channels: outlets.channels.into(),
        metrics: Arc::clone(&metrics),
        lifecycle: lifecycle.clone(),
    };
    inbox.work_with(bench.clone(), config.policy);
    spawn_workers(&bench, config, &fence, &inbox);
    let api = Api {
        store: store.clone(),
        wakeups,
        policy: config.policy,
        fence,
        metrics,
        lifecycle: lifecycle.clone(),
        hosts: hosts(config, address).into(),
    };
    let server = api::server::serve(listener, api::router(api, outlets.routes), lifecycle.clone());
    lifecycle.spawn("http", server);
    Ok(Gateway { address, lifecycle, store, lock })
}

fn spawn_workers(bench: &Bench, config: &Config, fence: &Fence, inbox: &Arc<Intake>) {
    let lifecycle = &bench.lifecycle;
    lifecycle.spawn("feed", feed::run(bench.clone()));
    lifecycle.spawn("owed", owed::run(bench.clone(), Notifier::new(fence.clone())));
    lifecycle.spawn("intake", intake::run(bench.clone(), config.policy));
    lifecycle.spawn("sweep", sweep::run(bench.clone()));
    for channel in bench.channels.iter() {
        let (channel, inbox) = (Arc::clone(channel), Arc::clone(inbox));
        let stop = lifecycle.clone();
        lifecycle.spawn("deliver", deliver::run(bench.clone(), Arc::clone(&channel)));
        if channel.capacity().speaks {
            lifecycle.spawn("speak", speak::run(bench.clone(), Arc::clone(&channel)));
            lifecycle.spawn("look", look::run(bench.clone(), Arc::clone(&channel)));
        }
        lifecycle.spawn("listen", async move {
            tokio::select! {
                () = channel.listen(Arc::clone(&inbox) as _) => {}
                () = stop.stopping() => inbox.leave().await,
            }
        });
    }
}

/// A fresh one-time link to the console of a guardian.
///
/// # Errors
///
/// When there is no such guardian, or the database fails.
pub async fn console_link(
    store: &Store,
    base_url: &str,
    name: &str,
    life: Duration,
) -> anyhow::Result<String> {
    let secret = secrets::token();
    let link = AddLink { name: name.to_owned(), hash: secrets::hash(&secret), life };
    store.write(link).await??;
    Ok(format!("{base_url}/console/login?link={secret}"))
}

/// Runs a gateway until it is told to stop.
///
/// # Errors
///
/// In words for the operator.
pub async fn serve(config: &Config, announce: impl Fn(&str)) -> anyhow::Result<ExitCode> {
    let gateway = start(config).await?;
    tracing::info!("Listening on {}", gateway.address);
    for note in &config.notes {
        tracing::warn!("{note}");
    }
    let base = match &config.public_url {
        Some(_) => config.base_url(),
        None => format!("http://{}", reachable(gateway.address)),
    };
    if config.console {
        match first_guardian(&gateway.store).await? {
            Some(name) => {
                let life = logins::LINK_LIFE;
                let link = console_link(&gateway.store, &base, &name, life).await?;
                announce(&format!("Sayso is ready. Console for {name}: {link}"));
            }
            None => announce(&format!("Sayso is ready at {base}, but there is no guardian.")),
        }
    } else {
        announce(&format!("Sayso is ready at {base}"));
    }
    Ok(run_until_stopped(&gateway).await)
}

/// An address to open on this machine.
fn reachable(mut address: std::net::SocketAddr) -> std::net::SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
    }
    address
}

async fn first_guardian(store: &Store) -> anyhow::Result<Option<String>> {
    let everybody = crate::store::people::list(&mut store.read().await?).await?;
    let owner = everybody.iter().find(|p| p.name == "owner").or(everybody.first());
    Ok(owner.map(|p| p.name.clone()))
}

async fn run_until_stopped(gateway: &Gateway) -> ExitCode {
    let lifecycle = &gateway.lifecycle;
    let mut is_fatal = false;
    tokio::select! {
        _ = asked_to_stop() => tracing::info!("Stopping"),
        () = gateway.store.fatal() => is_fatal = true,
        () = lifecycle.stopping() => {}
    }
    lifecycle.stop();
    tokio::select! {
        all = lifecycle.ended() => {
            if !all {
                tracing::warn!("Some work did not end in time; it goes on after a restart");
            }
        }
        _ = asked_to_stop() => tracing::warn!("Stopping at once"),
    }
    // Closing writes what is committed back into the database file; what is
    // not closed in time is recovered at the next start.
    let _ = tokio::time::timeout(Duration::from_secs(4), gateway.store.close()).await;
    if is_fatal {
        ExitCode::from(EX_IOERR)
    } else if lifecycle.has_failed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Resolves when the process is asked to stop, with the status that a shell
/// expects of one that was.
pub async fn asked_to_stop() -> u8 {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut term), Ok(mut int)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => 143,
        _ = int.recv() => 130,
    }
}

/// Every name by which the server may be called.
fn hosts(config: &Config, address: std::net::SocketAddr) -> Vec<String> {
    let port = address.port();
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned()];
    if !address.ip().is_unspecified() {
        names.push(match address.ip() {
            std::net::IpAddr::V4(ip) => ip.to_string(),
            std::net::IpAddr::V6(ip) => format!("[{ip}]"),
        });
    }
    let mut hosts: Vec<String> = names.iter().map(|name| format!("{name}:{port}")).collect();
    if port == 80 {
        hosts.extend(names);
    }
    if let Some(url) = &config.public_url
        && let Some(host) = url.host_str()
    {
        hosts.push(url.port().map_or(host.to_owned(), |port| format!("{host}:{port}")));
    }
    hosts.extend(config.allowed_hosts.iter().map(|host| host.to_ascii_lowercase()));
    hosts
}

/// One gateway a SQLite file: the lock holds as long as the file is kept.
///
/// # Errors
///
/// When another process has it.
pub fn lock(database: &Path) -> anyhow::Result<File> {
    let path = database.with_extension("lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .with_context(|| format!("the lock file {}", path.display()))?;
    file.try_lock().map_err(|_| {
        anyhow::anyhow!("another gateway runs on {}; only one can", database.display())
    })?;
    Ok(file)
}

/// Whether a gateway runs on this SQLite file.
pub fn is_running(database: &Location) -> bool {
    match database {
        Location::Sqlite(path) => path.with_extension("lock").exists() && lock(path).is_err(),
        Location::Postgres(_) => false,
    }
}

fn create_private_dir(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Nobody else on the machine reads the database.
fn keep_private(database: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    for suffix in ["", "-wal", "-shm"] {
        let mut path = database.as_os_str().to_owned();
        path.push(suffix);
        // A file that is not there yet gets the mode of the database.
        let _ = std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600));
    }
}
