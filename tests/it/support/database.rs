//! A fresh database of either kind.

use sayso::clock::Clock;
use sayso::store::{Location, Store};
use tempfile::TempDir;

/// Which kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
}

/// A database that goes away with the test.
pub(crate) struct Fresh {
    pub(crate) location: Location,
    pub(crate) dir: TempDir,
}

/// The cluster that `tests/run` has started. `skip` leaves PostgreSQL out.
const VARIABLE: &str = "TEST_POSTGRES_URL";

impl Database {
    /// A fresh one; nothing when the machine has none of this kind and that was
    /// said aloud.
    pub(crate) async fn fresh(self) -> Option<Fresh> {
        let dir = tempfile::tempdir().unwrap();
        let location = match self {
            Self::Sqlite => Location::Sqlite(dir.path().join("sayso.db")),
            Self::Postgres => Location::Postgres(create_postgres().await?),
        };
        Some(Fresh { location, dir })
    }
}

async fn create_postgres() -> Option<String> {
    let base = std::env::var(VARIABLE).unwrap_or_else(|_| {
        panic!("{VARIABLE} is not set: run tests/run, which starts a private cluster")
    });
    if base == "skip" {
        println!("SKIPPED on PostgreSQL: this machine has none");
        return None;
    }
    sqlx::any::install_default_drivers();
    let name = format!("t{}", uuid::Uuid::new_v4().simple());
    let admin = sqlx::AnyPool::connect(&format!("{base}/postgres")).await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}")))
        .execute(&admin)
        .await
        .unwrap();
    admin.close().await;
    Some(format!("{base}/{name}"))
}

impl Fresh {
    /// Opens it.
    pub(crate) async fn open(&self) -> Store {
        Store::open(&self.location, Clock::system()).await.unwrap()
    }

    /// A plain connection to it, to look at and to tamper with what is stored.
    pub(crate) async fn raw(&self) -> sqlx::AnyPool {
        sqlx::any::install_default_drivers();
        let url = match &self.location {
            Location::Sqlite(path) => format!("sqlite://{}", path.display()),
            Location::Postgres(url) => url.clone(),
        };
        sqlx::any::AnyPoolOptions::new().max_connections(2).connect(&url).await.unwrap()
    }
}
