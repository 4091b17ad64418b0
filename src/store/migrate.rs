//! Brings the schema up to date: forward only, each step in one transaction,
//! one process at a time.

use sqlx::{Any, AnyPool, Executor, Transaction};

use crate::clock::Clock;
use crate::requests::sha256_hex;
use crate::store::StoreError;
use crate::store::dialect::Dialect;

struct Migration {
    version: i64,
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "rail",
        sqlite: include_str!("../../migrations/sqlite/0001_rail.sql"),
        postgres: include_str!("../../migrations/postgres/0001_rail.sql"),
    },
    Migration {
        version: 2,
        name: "chats",
        sqlite: include_str!("../../migrations/sqlite/0002_chats.sql"),
        postgres: include_str!("../../migrations/postgres/0002_chats.sql"),
    },
    Migration {
        version: 3,
        name: "places",
        sqlite: include_str!("../../migrations/sqlite/0003_places.sql"),
        postgres: include_str!("../../migrations/postgres/0003_places.sql"),
    },
];

/// An arbitrary number that names our lock among those of the database.
const LOCK: i64 = 0x5a95_0001;

/// The schema that an existing database has, if this program brings it further.
pub(super) async fn behind(pool: &AnyPool) -> Result<Option<i64>, StoreError> {
    let has_schema: Option<i64> = sqlx::query_scalar(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'",
    )
    .fetch_optional(pool)
    .await?;
    if has_schema.is_none() {
        return Ok(None);
    }
    let version: Option<i64> =
        sqlx::query_scalar("SELECT MAX(version) FROM schema_migrations").fetch_one(pool).await?;
    let newest = MIGRATIONS.last().map_or(0, |migration| migration.version);
    Ok(version.filter(|version| *version < newest))
}

pub(super) async fn run(pool: &AnyPool, dialect: Dialect, clock: &Clock) -> Result<(), StoreError> {
    loop {
        let mut tx = pool.begin_with(dialect.begin_write()).await?;
        if dialect == Dialect::Postgres {
            sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(LOCK).execute(&mut *tx).await?;
        }
        let is_done = step(&mut tx, dialect, clock).await?;
        tx.commit().await?;
        if is_done {
            return Ok(());
        }
    }
}

/// Applies the next migration; `true` when there is none left.
async fn step(
    tx: &mut Transaction<'static, Any>,
    dialect: Dialect,
    clock: &Clock,
) -> Result<bool, StoreError> {
    sqlx::query(
        "CREATE TABLE IF NOT EXISTS schema_migrations (
             version    BIGINT NOT NULL PRIMARY KEY,
             name       TEXT   NOT NULL,
             checksum   TEXT   NOT NULL,
             applied_at BIGINT NOT NULL
         )",
    )
    .execute(&mut **tx)
    .await?;
    let applied: Vec<(i64, String)> =
        sqlx::query_as("SELECT version, checksum FROM schema_migrations ORDER BY version")
            .fetch_all(&mut **tx)
            .await?;

    for (version, checksum) in &applied {
        let Some(known) = MIGRATIONS.iter().find(|m| m.version == *version) else {
            return Err(StoreError::Unusable(format!(
                "the database is newer than this program: it has schema {version}, this program \
                 knows {}; use the newer program or restore an older backup",
                MIGRATIONS.len()
            )));
        };
        if sha256_hex(known.sql(dialect).as_bytes()) != *checksum {
            return Err(StoreError::Unusable(format!(
                "migration {version} differs from the one that made this database"
            )));
        }
    }

    let next = MIGRATIONS.iter().find(|m| applied.iter().all(|(v, _)| *v != m.version));
    let Some(next) = next else { return Ok(true) };
    (&mut **tx).execute(sqlx::raw_sql(next.sql(dialect))).await?;
    sqlx::query(
        "INSERT INTO schema_migrations (version, name, checksum, applied_at)
         VALUES ($1, $2, $3, $4)",
    )
    .bind(next.version)
    .bind(next.name)
    .bind(sha256_hex(next.sql(dialect).as_bytes()))
    .bind(clock.now().micros())
    .execute(&mut **tx)
    .await?;
    Ok(false)
}

impl Migration {
    fn sql(&self, dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::Sqlite => self.sqlite,
            Dialect::Postgres => self.postgres,
        }
    }
}
