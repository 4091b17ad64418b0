//! `audit`: the trail, and whether it is whole.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;

use crate::cli::Context;
use crate::jobs::sweep;
use crate::store::{self, Store};

/// The audit trail.
#[derive(Subcommand)]
pub(super) enum Audit {
    /// Print it as JSON lines.
    Export,
    /// Check the chain; ends with 1 at the first broken link.
    Verify,
}

const PAGE: i64 = 1_000;

pub(super) async fn run(context: &Context, command: Audit) -> anyhow::Result<ExitCode> {
    let store = context.store().await?;
    sweep::link(&store).await?;
    let code = match command {
        Audit::Export => export(context, &store).await?,
        Audit::Verify => verify(context, &store).await?,
    };
    store.close().await;
    Ok(code)
}

async fn export(context: &Context, store: &Store) -> anyhow::Result<ExitCode> {
    let mut after = 0;
    loop {
        let mut tx = store.read().await?;
        let page = store::audit::list_after(&mut tx, after, None, PAGE).await?;
        let Some(last) = page.last() else { return Ok(ExitCode::SUCCESS) };
        after = last.seq;
        for record in &page {
            let line = json!({
                "seq": record.seq, "at": record.at().rfc3339(), "kind": record.kind,
                "request": record.request, "agent": record.agent, "actor": record.actor,
                "channel": record.channel, "before": record.before, "after": record.after,
                "detail": record.detail, "prev": record.prev, "hash": record.hash,
            });
            context.out.line(&line.to_string());
        }
    }
}

async fn verify(context: &Context, store: &Store) -> anyhow::Result<ExitCode> {
    let (mut after, mut prev) = (0, String::new());
    loop {
        let mut tx = store.read().await?;
        let page = store::audit::list_after(&mut tx, after, None, PAGE).await?;
        if page.is_empty() {
            let value = json!({ "ok": true, "rows": after, "hash": prev });
            context.out.result(&value, || format!("The chain is whole: {after} rows, {prev}"));
            return Ok(ExitCode::SUCCESS);
        }
        for record in page {
            let is_next = record.seq == after + 1 && record.prev == prev;
            if !is_next || record.hash != record.expected_hash() {
                let seq = after + 1;
                let value = json!({ "ok": false, "broken_at": seq });
                context.out.result(&value, || format!("The chain is broken at row {seq}."));
                return Ok(ExitCode::FAILURE);
            }
            after = record.seq;
            prev = record.hash;
        }
    }
}
