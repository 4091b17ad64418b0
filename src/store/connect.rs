//! Connecting to a database, and whether its SQLite can be trusted.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{AnyConnection, AnyPool, ConnectOptions, Connection as _, Executor};

use crate::store::StoreError;

pub(super) fn sqlite_url(path: &Path) -> Result<String, StoreError> {
    let unusable = || StoreError::Unusable(format!("`{}` is no usable path", path.display()));
    let absolute = std::path::absolute(path).map_err(|_| unusable())?;
    let url = url::Url::from_file_path(absolute).map_err(|()| unusable())?;
    Ok(format!("sqlite://{}?mode=rwc", url.path()))
}

pub(super) async fn sqlite_pool(
    url: &str,
    size: u32,
    is_reading: bool,
) -> Result<AnyPool, StoreError> {
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
                // The writer touches every page that changes, one reader few.
                let own =
                    if is_reading { "PRAGMA query_only = ON" } else { "PRAGMA cache_size = -8000" };
                conn.execute(own).await?;
                Ok(())
            })
        })
        .connect_with(options)
        .await?;
    Ok(pool)
}

/// Copies the database as it was before its schema is brought further. A copy
/// that is there already was made by somebody who began the same.
pub(super) async fn keep_copy(
    pool: &AnyPool,
    database: &Path,
    version: i64,
) -> Result<(), StoreError> {
    let copy = database.with_extension(format!("schema-{version}"));
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&copy);
    match made {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => {
            return Err(StoreError::Unusable(format!("{}: {error}", copy.display())));
        }
    }
    sqlx::query("VACUUM INTO $1").bind(copy.to_string_lossy().into_owned()).execute(pool).await?;
    tracing::info!("The database was copied to {} before its schema changes", copy.display());
    Ok(())
}

pub(super) async fn postgres_pool(url: &str) -> Result<AnyPool, StoreError> {
    let options = AnyConnectOptions::from_str(url)?.disable_statement_logging();
    // A pool would try for a while and then say only that it took too long.
    let first = AnyConnection::connect_with(&options).await.map_err(|error| {
        StoreError::Unusable(format!("PostgreSQL can't be used: {error}; see database.url"))
    })?;
    first.close().await?;
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
pub(super) async fn check_sqlite_version(pool: &AnyPool) -> Result<(), StoreError> {
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
