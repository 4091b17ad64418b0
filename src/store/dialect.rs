//! The places where SQLite and PostgreSQL differ, and nothing else.

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The embedded one.
    Sqlite,
    /// The one that several replicas share.
    Postgres,
}

impl Dialect {
    /// The dialect that a database URL names.
    pub fn of_url(url: &str) -> Option<Self> {
        let scheme = url.split(':').next().unwrap_or_default();
        match scheme {
            "sqlite" => Some(Self::Sqlite),
            "postgres" | "postgresql" => Some(Self::Postgres),
            _ => None,
        }
    }

    /// How rows are chosen that are claimed: on PostgreSQL those that another
    /// worker is claiming are skipped, on SQLite there is one writer.
    pub(super) const fn skip_locked(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => "FOR UPDATE SKIP LOCKED",
        }
    }

    /// How a transaction starts that will write. On SQLite the lock is taken at
    /// once: one that reads first and writes later fails when another writer
    /// came between, whatever the busy timeout.
    pub(super) const fn begin_write(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN IMMEDIATE",
            Self::Postgres => "BEGIN",
        }
    }
}

/// One statement for both databases with the database's own clock, in
/// microseconds, between the parts. It is read when the statement runs, after
/// any wait for a lock, and not when the transaction began.
macro_rules! with_db_now {
    ($dialect:expr, $before:literal, $after:literal) => {
        match $dialect {
            $crate::store::dialect::Dialect::Sqlite => {
                concat!($before, "CAST(unixepoch('subsec') * 1000000 AS INTEGER)", $after)
            }
            $crate::store::dialect::Dialect::Postgres => concat!(
                $before,
                "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)",
                $after
            ),
        }
    };
}

pub(super) use with_db_now;
