//! The composition root: settings → database → channels → workers → server. The
//! only place that knows the adapters.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use sayso_channel::{Channel, RawInbound};
use tokio::net::TcpListener;

use crate::admin::{AddLink, EnsureOwner};
use crate::api::{self, Api};
use crate::clock::Clock;
use crate::config::Config;
use crate::jobs::fence::Fence;
use crate::jobs::intake::Intake;
use crate::jobs::notify::Notifier;
use crate::jobs::{Bench, TakeUp, deliver, feed, intake, owed, speak, sweep};
use crate::lifecycle::Lifecycle;
use crate::secrets;
use crate::store::{Location, Store, logins};
use crate::telemetry::Metrics;
use crate::wakeups::Wakeups;

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
    let outlets = outlets(config, &store, &wakeups, &lifecycle, &inbox)?;
    let bench = Bench {
        store: store.clone(),
        wakeups: wakeups.clone(),
        channels: outlets.channels.into(),
        metrics: Arc::clone(&metrics),
        lifecycle: lifecycle.clone(),
    };
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
        }
        lifecycle.spawn("listen", async move {
            tokio::select! {
                () = channel.listen(Arc::clone(&inbox) as _) => {}
                () = stop.stopping() => inbox.leave().await,
            }
        });
    }
}

/// The channels that run, and what they serve.
#[derive(Default)]
struct Outlets {
    channels: Vec<Arc<dyn Channel>>,
    routes: Option<axum::Router>,
}

#[cfg_attr(
    not(any(feature = "console", feature = "telegram")),
    expect(dead_code, reason = "a build without any channel adds none")
)]
impl Outlets {
    fn add(&mut self, channel: Arc<dyn Channel>, routes: Option<axum::Router>) {
        self.channels.push(channel);
        let Some(routes) = routes else { return };
        self.routes = Some(match self.routes.take() {
            Some(before) => before.merge(routes),
            None => routes,
        });
    }
}

#[cfg(feature = "console")]
fn add_console(
    outlets: &mut Outlets,
    config: &Config,
    store: &Store,
    wakeups: &Wakeups,
    lifecycle: &Lifecycle,
    inbox: &Arc<Intake>,
) {
    let desk = crate::desk::Pages {
        store: store.clone(),
        wakeups: wakeups.clone(),
        lifecycle: lifecycle.clone(),
        channel: sayso_console::NAME,
        exact_units: sayso_console::EXACT_UNITS,
    };
    let is_encrypted = config.public_url.as_ref().is_some_and(|url| url.scheme() == "https");
    let inbox = Arc::clone(inbox);
    let console = sayso_console::Console::new(Arc::new(desk), inbox, is_encrypted);
    let pages = console.routes();
    outlets.add(Arc::new(console), Some(pages));
}

/// The Telegram channel of these settings.
#[cfg(feature = "telegram")]
fn telegram(config: &Config) -> anyhow::Result<Option<sayso_telegram::Telegram>> {
    use sayso_telegram::{Mode, Telegram, WEBHOOK_PATH};
    let Some(settings) = &config.telegram else { return Ok(None) };
    let mode = match &settings.webhook_secret {
        None => Mode::Poll,
        Some(secret) => {
            let url = format!("{}{WEBHOOK_PATH}", config.base_url());
            Mode::Webhook { url: url.parse()?, secret: secret.clone() }
        }
    };
    Ok(Some(Telegram::new(&settings.token, settings.api_url.clone(), mode)?))
}

#[cfg_attr(
    not(any(feature = "console", feature = "telegram")),
    expect(
        unused_variables,
        unused_mut,
        clippy::unnecessary_wraps,
        reason = "nothing is built in"
    )
)]
fn outlets(
    config: &Config,
    store: &Store,
    wakeups: &Wakeups,
    lifecycle: &Lifecycle,
    inbox: &Arc<Intake>,
) -> anyhow::Result<Outlets> {
    let mut outlets = Outlets::default();
    #[cfg(feature = "console")]
    if config.console {
        add_console(&mut outlets, config, store, wakeups, lifecycle, inbox);
    }
    #[cfg(feature = "telegram")]
    if let Some(telegram) = telegram(config)? {
        let inbox: Arc<dyn sayso_channel::Inbox> = Arc::clone(inbox) as _;
        let routes = telegram.routes(inbox);
        outlets.add(Arc::new(telegram), routes);
    }
    Ok(outlets)
}

/// Asks each platform in the settings whether everything is in place.
pub async fn probe(config: &Config) -> Vec<(&'static str, sayso_channel::Health)> {
    #[cfg_attr(not(feature = "telegram"), expect(unused_mut, reason = "nothing is built in"))]
    let mut found = Vec::new();
    #[cfg(feature = "telegram")]
    match telegram(config) {
        Ok(None) => {}
        Ok(Some(telegram)) => found.push((telegram.name(), telegram.probe().await)),
        Err(error) => {
            let health = sayso_channel::Health { is_up: false, detail: format!("{error:#}") };
            found.push((sayso_telegram::NAME, health));
        }
    }
    #[cfg(not(feature = "telegram"))]
    if config.telegram.is_some() {
        let detail = "this build has no Telegram".to_owned();
        found.push(("telegram", sayso_channel::Health { is_up: false, detail }));
    }
    found
}

/// What typing `text` into the console of an account would store; nothing in a
/// build without the console.
#[cfg_attr(feature = "console", expect(clippy::unnecessary_wraps, reason = "a build may lack it"))]
pub fn typed_in_console(account: &str, address: &str, key: &str, text: &str) -> Option<RawInbound> {
    #[cfg(feature = "console")]
    return Some(sayso_console::Console::typed(account, address, key, text));
    #[cfg(not(feature = "console"))]
    {
        let _ = (account, address, key, text);
        None
    }
}

/// Reads back what [`typed_in_console`] gave.
pub fn read_console(raw: &RawInbound) -> Option<sayso_channel::Inbound> {
    #[cfg(feature = "console")]
    return sayso_console::Console::read_raw(raw).ok();
    #[cfg(not(feature = "console"))]
    {
        let _ = raw;
        None
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
