//! `db`: migrating, backing up, putting back.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Subcommand;
use serde_json::json;

use crate::admin::AfterRestore;
use crate::cli::Context;
use crate::store::Location;
use crate::wiring;

/// The database.
#[derive(Subcommand)]
pub(super) enum Db {
    /// Bring the schema up to date.
    Migrate,
    /// Copy the SQLite database, also while a gateway runs.
    Backup {
        /// A file that does not exist yet.
        file: PathBuf,
    },
    /// Put a backup back. Requests that wait in it are cancelled: their cards
    /// must decide nothing.
    Restore {
        /// The backup.
        file: PathBuf,
    },
}

pub(super) async fn run(context: &Context, command: Db) -> anyhow::Result<ExitCode> {
    let out = context.out;
    match command {
        Db::Migrate => {
            context.store().await?.close().await;
            out.result(&json!({ "ok": true }), || "The database is up to date.".to_owned());
        }
        Db::Backup { file } => {
            if file.exists() {
                anyhow::bail!("{} exists already", file.display());
            }
            let store = context.store().await?;
            store.backup(&file).await?;
            store.close().await;
            let path = file.display().to_string();
            out.result(&json!({ "file": path }), || format!("Copied to {path}."));
        }
        Db::Restore { file } => {
            let cancelled = restore(context, &file).await?;
            out.result(&json!({ "cancelled": cancelled }), || {
                format!("Restored. {cancelled} waiting requests were cancelled; agents ask anew.")
            });
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn restore(context: &Context, file: &std::path::Path) -> anyhow::Result<usize> {
    let Location::Sqlite(target) = &context.config.database else {
        anyhow::bail!("use pg_restore for a PostgreSQL database");
    };
    if wiring::is_running(&context.config.database) {
        anyhow::bail!("a gateway runs on this database; stop it first");
    }
    std::fs::metadata(file).with_context(|| format!("the backup {}", file.display()))?;
    // Copied beside the old one first, so that a failure leaves it in place.
    let staged = target.with_extension("restoring");
    std::fs::copy(file, &staged).context("copying the backup")?;
    for suffix in ["-wal", "-shm"] {
        let mut path = target.as_os_str().to_owned();
        path.push(suffix);
        if let Err(error) = std::fs::remove_file(&path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(error).context("removing what is left of the old database");
        }
    }
    std::fs::rename(&staged, target).context("putting the backup in place")?;
    let store = context.store().await?;
    let cancelled = store.write(AfterRestore).await?;
    store.close().await;
    Ok(cancelled)
}
