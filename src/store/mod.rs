//! The database: one module an aggregate, one SQL text for two engines.
//!
//! Every change is a [`Write`]: a value that knows how to make itself true in a
//! transaction. On SQLite one writer task commits waiting writes together, so
//! many cost one flush; if one of them fails, the group is rolled back and each
//! is run alone. On PostgreSQL each runs in its own transaction and is run
//! again after a serialisation failure or a deadlock. Hence a write may run
//! more than once and must touch nothing but its transaction. Either way it
//! runs detached from its caller: a caller that goes away changes nothing about
//! it.

pub mod agents;
pub mod audit;
pub mod deliveries;
pub mod dialect;
pub mod inbox;
pub mod jobs;
pub mod leases;
pub mod logins;
mod migrate;
pub mod people;
pub mod requests;
mod writer;

use std::collections::HashMap;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, AnyPool, ConnectOptions, Executor, Transaction};
use tokio::sync::watch;

use crate::clock::{Clock, Timestamp};
use crate::ids::RequestId;
use crate::requests::Request;
use crate::store::dialect::Dialect;
use crate::store::writer::Writer;

/// What went wrong in the database.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The database refused or broke. A read gave nothing; a write is rolled
    /// back, unless the connection was lost during the commit itself: then it
    /// is not known whether it happened.
    #[error("the database failed")]
    Database(#[source] Arc<sqlx::Error>),
    /// A row holds what no row of ours can hold; nothing was written.
    #[error("`{table}.{column}` holds an impossible value in row `{row}`")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The row's key.
        row: String,
    },
    /// The write panicked and was rolled back.
    #[error("a write failed inside")]
    Panicked,
    /// Another worker was first to do the same; this one is rolled back.
    #[error("it was done already")]
    AlreadyDone,
    /// The store is closed; nothing was written.
    #[error("the database is closed")]
    Closed,
    /// The database can't be used by this program; nothing was changed.
    #[error("{0}")]
    Unusable(String),
}

impl StoreError {
    fn is_transient(&self) -> bool {
        let Self::Database(error) = self else { return false };
        let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        // A unique violation too: the other transaction's row is there now, and
        // running again finds it.
        matches!(code.as_deref(), Some("40001" | "40P01" | "57P01" | "57P02" | "23505"))
    }

    /// Whether the database file can't be trusted any more: the process must
    /// stop acknowledging anything.
    fn is_fatal(&self) -> bool {
        let Self::Database(error) = self else { return false };
        let Some(error) = error.as_database_error() else { return false };
        let code = error.code().and_then(|c| c.parse::<u32>().ok());
        // SQLITE_IOERR, SQLITE_CORRUPT, SQLITE_NOTADB with any extension.
        // PostgreSQL codes have five characters and, read as numbers, other
        // low bytes are harmless: its server stops itself in such a case.
        matches!(code, Some(c) if c < 10_000 && matches!(c & 0xff, 10 | 11 | 26))
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(Arc::new(error))
    }
}

/// A change to the database.
#[async_trait]
pub trait Write: Send + Sync + 'static {
    /// What it yields once it is committed.
    type Out: Send + 'static;

    /// The request that it is going to read first, if it knows: those of a group
    /// are then read by one statement.
    fn reads(&self) -> Option<RequestId> {
        None
    }

    /// Makes it true in `tx`. May be run again after a rollback.
    ///
    /// # Errors
    ///
    /// An error rolls back everything it did.
    async fn run(&self, tx: &mut Tx) -> Result<Self::Out, StoreError>;
}

/// An open transaction, or a connection that only reads.
pub struct Tx {
    inner: TxInner,
    dialect: Dialect,
    clock: Clock,
    audit: Vec<audit::Pending>,
    /// Requests whose cards have to show what they are now.
    wanted: Vec<RequestId>,
    /// Requests that were read ahead for a group. Whatever changes one of them,
    /// or what is stored of how it was shown, forgets it here. A reader that
    /// overlooked a change all the same would be stopped by the compare-and-set.
    ahead: HashMap<RequestId, Request>,
}

enum TxInner {
    Writing(Transaction<'static, Any>),
    Reading(PoolConnection<Any>),
}

impl Tx {
    fn new(inner: TxInner, dialect: Dialect, clock: Clock) -> Self {
        let (audit, wanted, ahead) = (Vec::new(), Vec::new(), HashMap::new());
        Self { inner, dialect, clock, audit, wanted, ahead }
    }

    fn conn(&mut self) -> &mut AnyConnection {
        match &mut self.inner {
            TxInner::Writing(tx) => tx,
            TxInner::Reading(conn) => conn,
        }
    }

    /// The instant now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn commit(mut self) -> Result<(), StoreError> {
        deliveries::flush(&mut self).await?;
        audit::flush(&mut self).await?;
        match self.inner {
            TxInner::Writing(tx) => Ok(tx.commit().await?),
            TxInner::Reading(_) => Ok(()),
        }
    }

    async fn rollback(self) -> Result<(), StoreError> {
        match self.inner {
            TxInner::Writing(tx) => Ok(tx.rollback().await?),
            TxInner::Reading(_) => Ok(()),
        }
    }
}

/// Where the database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL URL; holds a password, so it is never printed.
    Postgres(String),
}

/// The database.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    dialect: Dialect,
    clock: Clock,
    readers: AnyPool,
    writer: Option<Writer>,
    fatal: watch::Sender<bool>,
    commits: watch::Sender<u64>,
}

impl Store {
    /// Opens the database and brings its schema up to date.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unusable`] in words for the operator when the database was
    /// made by a newer version, when a released migration differs, or when the
    /// SQLite library has the WAL-reset corruption; nothing was changed then.
    pub async fn open(location: &Location, clock: Clock) -> Result<Self, StoreError> {
        sqlx::any::install_default_drivers();
        let (fatal, _) = watch::channel(false);
        let (commits, _) = watch::channel(0);
        let shared = match location {
            Location::Sqlite(path) => {
                let url = sqlite_url(path)?;
                let writing = sqlite_pool(&url, 1, false).await?;
                check_sqlite_version(&writing).await?;
                migrate::run(&writing, Dialect::Sqlite, &clock).await?;
                let readers = sqlite_pool(&url, 4, true).await?;
                let writer = Writer::start(writing, clock.clone(), fatal.clone(), commits.clone());
                let writer = Some(writer);
                Shared { dialect: Dialect::Sqlite, clock, readers, writer, fatal, commits }
            }
            Location::Postgres(url) => {
                let pool = postgres_pool(url).await?;
                migrate::run(&pool, Dialect::Postgres, &clock).await?;
                Shared {
                    dialect: Dialect::Postgres,
                    clock,
                    readers: pool,
                    writer: None,
                    fatal,
                    commits,
                }
            }
        };
        let store = Self { shared: Arc::new(shared) };
        let high_water = leases::high_water(&mut store.read().await?).await?;
        store.shared.clock.not_before(high_water);
        Ok(store)
    }

    /// Which database it is.
    pub fn dialect(&self) -> Dialect {
        self.shared.dialect
    }

    /// The clock that the database's rows are written by.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// A connection for reading. Each statement sees what was committed before
    /// it.
    ///
    /// # Errors
    ///
    /// See [`StoreError`].
    pub async fn read(&self) -> Result<Tx, StoreError> {
        let conn = self.shared.readers.acquire().await?;
        let inner = TxInner::Reading(conn);
        Ok(Tx::new(inner, self.shared.dialect, self.shared.clock.clone()))
    }

    /// Commits `write`. It goes on when the caller stops waiting.
    ///
    /// # Errors
    ///
    /// See [`StoreError`].
    pub async fn write<W: Write>(&self, write: W) -> Result<W::Out, StoreError> {
        if let Some(writer) = &self.shared.writer {
            return writer.submit(write).await;
        }
        let store = self.clone();
        let task = tokio::spawn(async move { store.write_alone(&write).await });
        task.await.map_err(|_| StoreError::Panicked)?
    }

    async fn write_alone<W: Write>(&self, write: &W) -> Result<W::Out, StoreError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let result = async {
                let begin = self.shared.dialect.begin_write();
                let inner = TxInner::Writing(self.shared.readers.begin_with(begin).await?);
                let mut tx = Tx::new(inner, self.shared.dialect, self.shared.clock.clone());
                let out = write.run(&mut tx).await?;
                tx.commit().await?;
                self.shared.commits.send_modify(|count| *count += 1);
                Ok(out)
            };
            match result.await {
                Err(error) if tries < 4 && StoreError::is_transient(&error) => {
                    tokio::time::sleep(Duration::from_millis(5 << tries)).await;
                }
                result => return result,
            }
        }
    }

    /// Counts the commits of this process; changes after each.
    pub fn commits(&self) -> watch::Receiver<u64> {
        self.shared.commits.subscribe()
    }

    /// Resolves once the database file can't be trusted any more; pending for
    /// ever otherwise.
    pub async fn fatal(&self) {
        let mut fatal = self.shared.fatal.subscribe();
        if fatal.wait_for(|is| *is).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Writes that wait for their commit at the moment.
    pub fn queued_writes(&self) -> usize {
        self.shared.writer.as_ref().map_or(0, Writer::queued)
    }

    /// A number that changes when another process committed something; `None`
    /// where the database can't tell.
    ///
    /// # Errors
    ///
    /// See [`StoreError`].
    pub async fn foreign_changes(&self, watcher: &mut Tx) -> Result<Option<i64>, StoreError> {
        if self.shared.dialect == Dialect::Postgres {
            return Ok(None);
        }
        let version: i64 =
            sqlx::query_scalar("PRAGMA data_version").fetch_one(watcher.conn()).await?;
        Ok(Some(version))
    }

    /// Copies the SQLite database into `file`, which must not exist.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unusable`] on PostgreSQL, which has its own tools.
    pub async fn backup(&self, file: &std::path::Path) -> Result<(), StoreError> {
        if self.shared.dialect == Dialect::Postgres {
            return Err(StoreError::Unusable("use pg_dump for a PostgreSQL database".to_owned()));
        }
        // The copy holds what the database holds: nobody else reads it either.
        std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(file)
            .map_err(|error| StoreError::Unusable(format!("{}: {error}", file.display())))?;
        let mut tx = self.read().await?;
        // The connection is a reader's; copying writes to another file only.
        sqlx::query("PRAGMA query_only = OFF").execute(tx.conn()).await?;
        let copied = sqlx::query("VACUUM INTO $1")
            .bind(file.to_string_lossy().into_owned())
            .execute(tx.conn())
            .await;
        sqlx::query("PRAGMA query_only = ON").execute(tx.conn()).await?;
        copied?;
        Ok(())
    }

    /// Finishes waiting writes and closes every connection.
    pub async fn close(&self) {
        if let Some(writer) = &self.shared.writer {
            writer.close().await;
        }
        self.shared.readers.close().await;
    }
}

fn sqlite_url(path: &std::path::Path) -> Result<String, StoreError> {
    let unusable = || StoreError::Unusable(format!("`{}` is no usable path", path.display()));
    let absolute = std::path::absolute(path).map_err(|_| unusable())?;
    let url = url::Url::from_file_path(absolute).map_err(|()| unusable())?;
    Ok(format!("sqlite://{}?mode=rwc", url.path()))
}

async fn sqlite_pool(url: &str, size: u32, is_reading: bool) -> Result<AnyPool, StoreError> {
    let options = AnyConnectOptions::from_str(url)?.disable_statement_logging();
    let pool = AnyPoolOptions::new()
        .max_connections(size)
        .min_connections(1)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .acquire_timeout(Duration::from_secs(10))
        .after_connect(move |conn, _| {
            Box::pin(async move {
                conn.execute(sqlx::raw_sql(
                    "PRAGMA busy_timeout = 5000;
                     PRAGMA journal_mode = WAL;
                     PRAGMA synchronous = FULL;
                     PRAGMA foreign_keys = ON;
                     PRAGMA trusted_schema = OFF;
                     PRAGMA cell_size_check = ON;
                     PRAGMA temp_store = MEMORY;
                     PRAGMA cache_size = -2000;
                     PRAGMA wal_autocheckpoint = 1000;
                     PRAGMA journal_size_limit = 67108864;
                     PRAGMA secure_delete = FAST;",
                ))
                .await?;
                if is_reading {
                    conn.execute("PRAGMA query_only = ON").await?;
                }
                Ok(())
            })
        })
        .connect_with(options)
        .await?;
    Ok(pool)
}

async fn postgres_pool(url: &str) -> Result<AnyPool, StoreError> {
    let options = AnyConnectOptions::from_str(url)?.disable_statement_logging();
    let pool = AnyPoolOptions::new()
        .max_connections(8)
        .acquire_timeout(Duration::from_secs(5))
        .after_connect(|conn, _| {
            Box::pin(async move {
                conn.execute(sqlx::raw_sql(
                    "SET application_name = 'sayso';
                     SET statement_timeout = '5s';
                     SET lock_timeout = '2s';
                     SET idle_in_transaction_session_timeout = '10s';
                     SET synchronous_commit = on;",
                ))
                .await?;
                Ok(())
            })
        })
        .connect_with(options)
        .await?;
    Ok(pool)
}

/// Versions 3.7.0 to 3.51.2 can corrupt a database in WAL mode with several
/// connections; the repair is also in 3.50.7 and 3.44.6 and later ones of those
/// branches.
async fn check_sqlite_version(pool: &AnyPool) -> Result<(), StoreError> {
    let version: String = sqlx::query_scalar("SELECT sqlite_version()").fetch_one(pool).await?;
    if is_sound_sqlite(&version) {
        return Ok(());
    }
    Err(StoreError::Unusable(format!(
        "SQLite {version} can corrupt its database (the WAL-reset fault); 3.51.3 or later is needed"
    )))
}

fn is_sound_sqlite(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    match (next(), next(), next()) {
        (3, 44, patch) => patch >= 6,
        (3, 50, patch) => patch >= 7,
        (3, 51, patch) => patch >= 3,
        (major, minor, _) => (major, minor) > (3, 51),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_the_wal_reset_fault_are_refused() {
        for bad in ["3.46.0", "3.51.2", "3.50.6", "3.44.5", "3.45.9", "2.9.9", "nonsense"] {
            assert!(!is_sound_sqlite(bad), "{bad}");
        }
        for good in ["3.51.3", "3.52.0", "3.50.7", "3.44.6", "4.0.0"] {
            assert!(is_sound_sqlite(good), "{good}");
        }
    }
}
