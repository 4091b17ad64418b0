//! `db`: migrating, backing up, putting back.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Subcommand;
use serde_json::json;

use crate::admin::AfterRestore;
use crate::cli::Context;
use crate::clock::Clock;
use crate::store::{Location, Store};
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

/// The backup is copied, opened, checked and made safe beside the database; only
/// then does it take its place, and what was there is kept.
async fn restore(context: &Context, file: &Path) -> anyhow::Result<usize> {
    let Location::Sqlite(target) = &context.config.database else {
        anyhow::bail!("use pg_restore for a PostgreSQL database");
    };
    std::fs::create_dir_all(&context.config.data_dir).context("the data directory")?;
    let _lock = wiring::lock(target).context("stop the gateway first")?;
    let mut head = [0; 16];
    let is_database = File::open(file)
        .and_then(|mut backup| backup.read_exact(&mut head))
        .is_ok_and(|()| head == *b"SQLite format 3\0");
    if !is_database {
        anyhow::bail!("{} is no SQLite database; nothing was changed", file.display());
    }
    let staged = target.with_extension("restoring");
    std::fs::copy(file, &staged).with_context(|| format!("the backup {}", file.display()))?;
    let cancelled = make_safe(&staged).await.with_context(|| {
        format!("{} can't be restored; the database is as it was", file.display())
    })?;
    let kept = target.with_extension("before-restore");
    for suffix in ["-wal", "-shm", ""] {
        let (from, to) = (with_suffix(target, suffix), with_suffix(&kept, suffix));
        match std::fs::rename(&from, &to) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).context("setting the old database aside"),
        }
    }
    std::fs::rename(&staged, target).context("putting the backup in place")?;
    Ok(cancelled)
}

/// Opens the copy, which fails for anything that is no database of ours, and
/// cancels what waits in it.
async fn make_safe(staged: &Path) -> anyhow::Result<usize> {
    let location = Location::Sqlite(staged.to_owned());
    let result = async {
        let store = Store::open(&location, Clock::system()).await?;
        let cancelled = store.write(AfterRestore).await?;
        store.close().await;
        Ok(cancelled)
    };
    let result: anyhow::Result<usize> = result.await;
    for suffix in ["-wal", "-shm"] {
        // Closing wrote everything into the file itself.
        let _ = std::fs::remove_file(with_suffix(staged, suffix));
    }
    if result.is_err() {
        let _ = std::fs::remove_file(staged);
    }
    result
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}
