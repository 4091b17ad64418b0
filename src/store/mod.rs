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
mod connect;
pub mod deliveries;
pub mod dialect;
mod disk;
pub mod guesses;
pub mod inbox;
pub mod jobs;
pub mod leases;
pub mod logins;
mod many;
mod migrate;
pub mod notices;
pub mod people;
pub mod places;
pub mod prompts;
pub mod readers;
pub mod requests;
pub mod strangers;
mod writer;

use std::collections::HashMap;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, AnyPool, Executor};
use tokio::sync::watch;

use crate::clock::{Clock, Timestamp};
use crate::ids::RequestId;
use crate::people::{Binding, Principal};
use crate::requests::Request;
use crate::store::connect::{check_sqlite_version, postgres_pool, sqlite_pool, sqlite_url};
use crate::store::dialect::Dialect;
use crate::store::disk::Disk;
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

    /// Whether SQLite found no room to write: `SQLITE_FULL`.
    fn is_disk_full(&self) -> bool {
        let Self::Database(error) = self else { return false };
        error.as_database_error().and_then(sqlx::error::DatabaseError::code).as_deref()
            == Some("13")
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
    conn: PoolConnection<Any>,
    /// Whether a transaction is open on the connection. SQLite ends one by
    /// itself when the disk is full or fails, so only what the database
    /// confirms counts as ended.
    is_open: bool,
    dialect: Dialect,
    clock: Clock,
    audit: Vec<audit::Pending>,
    /// Requests whose cards have to show what they are now.
    wanted: Vec<RequestId>,
    /// Requests that were read ahead for a group. Whatever changes one of them,
    /// or what is stored of how it was shown, forgets it here. A reader that
    /// overlooked a change all the same would be stopped by the compare-and-set.
    ahead: HashMap<RequestId, Request>,
    /// People who were looked for by an account, for the same group. Whatever
    /// changes one of them or what is stored of reaching them forgets all.
    known: Vec<(Binding, Principal)>,
}

impl Tx {
    /// A connection for reading.
    async fn reading(pool: &AnyPool, dialect: Dialect, clock: Clock) -> Result<Self, StoreError> {
        let conn = pool.acquire().await?;
        Ok(Self {
            conn,
            is_open: false,
            dialect,
            clock,
            audit: Vec::new(),
            wanted: Vec::new(),
            ahead: HashMap::new(),
            known: Vec::new(),
        })
    }

    /// A transaction for writing.
    async fn begin(pool: &AnyPool, dialect: Dialect, clock: Clock) -> Result<Self, StoreError> {
        let mut tx = Self::reading(pool, dialect, clock).await?;
        tx.is_open = true;
        tx.conn.execute(sqlx::raw_sql(dialect.begin_write())).await?;
        Ok(tx)
    }

    fn conn(&mut self) -> &mut AnyConnection {
        &mut self.conn
    }

    /// Forgets what was read for a group: it may be different from now on.
    fn forget(&mut self) {
        self.ahead.clear();
        self.known.clear();
    }

    /// The instant now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn commit(mut self) -> Result<(), StoreError> {
        deliveries::flush(&mut self).await?;
        audit::flush(&mut self).await?;
        self.conn.execute(sqlx::raw_sql("COMMIT")).await?;
        self.is_open = false;
        Ok(())
    }

    async fn rollback(mut self) {
        // Where it can't be confirmed, the connection is given up with it.
        self.is_open = self.conn.execute(sqlx::raw_sql("ROLLBACK")).await.is_err();
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if self.is_open {
            self.conn.close_on_drop();
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
    disk: Option<Arc<Disk>>,
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
                disk::check_kind(path)?;
                let url = sqlite_url(path)?;
                let writing = sqlite_pool(&url, 1, false).await?;
                check_sqlite_version(&writing).await?;
                if let Some(version) = migrate::behind(&writing).await? {
                    connect::keep_copy(&writing, path, version).await?;
                }
                migrate::run(&writing, Dialect::Sqlite, &clock).await?;
                let readers = sqlite_pool(&url, 4, true).await?;
                let disk = Arc::new(Disk::of(path)?);
                let writer = Writer::start(
                    writing,
                    clock.clone(),
                    Arc::clone(&disk),
                    fatal.clone(),
                    commits.clone(),
                );
                let (writer, disk) = (Some(writer), Some(disk));
                Shared { dialect: Dialect::Sqlite, clock, readers, writer, disk, fatal, commits }
            }
            Location::Postgres(url) => {
                let pool = postgres_pool(url).await?;
                migrate::run(&pool, Dialect::Postgres, &clock).await?;
                Shared {
                    dialect: Dialect::Postgres,
                    clock,
                    readers: pool,
                    writer: None,
                    disk: None,
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
        Tx::reading(&self.shared.readers, self.shared.dialect, self.shared.clock.clone()).await
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
            match self.try_alone(write).await {
                Err(error) if tries < 4 && StoreError::is_transient(&error) => {
                    tokio::time::sleep(Duration::from_millis(5 << tries)).await;
                }
                result => return result,
            }
        }
    }

    async fn try_alone<W: Write>(&self, write: &W) -> Result<W::Out, StoreError> {
        let (pool, dialect) = (&self.shared.readers, self.shared.dialect);
        let mut tx = Tx::begin(pool, dialect, self.shared.clock.clone()).await?;
        match write.run(&mut tx).await {
            Ok(out) => {
                tx.commit().await?;
                self.shared.commits.send_modify(|count| *count += 1);
                Ok(out)
            }
            Err(error) => {
                tx.rollback().await;
                Err(error)
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

    /// Looks after the disk under a SQLite file; for the one process that serves
    /// it, at its start and again and again. Keeps a reserve that is given up
    /// when the disk is full, and stops the process when the file is no longer
    /// the one that was opened: what is written to a removed file is lost.
    pub fn look_after_disk(&self) {
        let Some(disk) = &self.shared.disk else { return };
        disk.keep_reserve();
        if !disk.is_same_file() && !*self.shared.fatal.borrow() {
            tracing::error!("The database file was removed or replaced; stopping");
            self.shared.fatal.send_replace(true);
        }
    }

    /// Whether the disk was full and nothing new should be begun: what is left
    /// is for decisions.
    pub fn is_disk_full(&self) -> bool {
        self.shared.disk.as_ref().is_some_and(|disk| disk.is_full())
    }

    /// What is wrong with the structure of the database file; nothing if it is
    /// sound or no file.
    ///
    /// # Errors
    ///
    /// See [`StoreError`].
    pub async fn check_structure(&self) -> Result<Option<String>, StoreError> {
        if self.shared.dialect == Dialect::Postgres {
            return Ok(None);
        }
        let mut tx = self.read().await?;
        let found: String =
            sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(tx.conn()).await?;
        Ok((found != "ok").then_some(found))
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
