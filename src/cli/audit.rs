//! `audit`: the trail, and whether it is whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
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
    /// Print where the chain ends, to be kept on another machine: an anchor.
    Anchor,
    /// Check the chain; ends with 1 at the first broken link.
    Verify {
        /// Also check that the chain still goes through the anchors in this
        /// file: without one, cutting off its end leaves no trace.
        #[arg(long, value_name = "FILE")]
        anchor: Option<PathBuf>,
    },
}

const PAGE: i64 = 1_000;

pub(super) async fn run(context: &Context, command: Audit) -> anyhow::Result<ExitCode> {
    let store = context.store().await?;
    sweep::link(&store).await?;
    let code = match command {
        Audit::Export => export(context, &store).await?,
        Audit::Anchor => anchor(context, &store).await?,
        Audit::Verify { anchor } => {
            let anchors = anchor.as_deref().map(read_anchors).transpose()?.unwrap_or_default();
            verify(context, &store, &anchors).await?
        }
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

async fn anchor(context: &Context, store: &Store) -> anyhow::Result<ExitCode> {
    match store::audit::last(&mut store.read().await?).await? {
        Some((seq, hash)) => {
            context.out.result(&json!({ "seq": seq, "hash": hash }), || format!("{seq} {hash}"));
        }
        None => anyhow::bail!("the chain is empty: there is nothing to anchor yet"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Lines `SEQ HASH`, as `anchor` prints them; empty ones are passed over.
fn read_anchors(file: &Path) -> anyhow::Result<BTreeMap<i64, String>> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let mut anchors = BTreeMap::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let parsed = line
            .trim()
            .split_once(' ')
            .and_then(|(seq, hash)| Some((seq.parse::<i64>().ok()?, hash.trim().to_owned())));
        let Some((seq, hash)) = parsed else {
            anyhow::bail!("{}:{}: no anchor; one is `SEQ HASH`", file.display(), number + 1);
        };
        anchors.insert(seq, hash);
    }
    anyhow::ensure!(!anchors.is_empty(), "{} holds no anchor", file.display());
    Ok(anchors)
}

async fn verify(
    context: &Context,
    store: &Store,
    anchors: &BTreeMap<i64, String>,
) -> anyhow::Result<ExitCode> {
    let broken = |seq: i64, why: &str| {
        let value = json!({ "ok": false, "broken_at": seq, "detail": why });
        context.out.result(&value, || format!("The chain is broken at row {seq}: {why}."));
        Ok(ExitCode::FAILURE)
    };
    let (mut after, mut prev) = (0, String::new());
    loop {
        let mut tx = store.read().await?;
        let page = store::audit::list_after(&mut tx, after, None, PAGE).await?;
        if page.is_empty() {
            if let Some((seq, _)) = anchors.range(after + 1..).next() {
                return broken(*seq, "the anchor's row is missing");
            }
            let value = json!({ "ok": true, "rows": after, "hash": prev });
            context.out.result(&value, || format!("The chain is whole: {after} rows, {prev}"));
            return Ok(ExitCode::SUCCESS);
        }
        for record in page {
            let is_next = record.seq == after + 1 && record.prev == prev;
            if !is_next || record.hash != record.expected_hash() {
                return broken(after + 1, "it does not follow from the row before");
            }
            if anchors.get(&record.seq).is_some_and(|anchor| *anchor != record.hash) {
                return broken(record.seq, "it is not the one that was anchored");
            }
            after = record.seq;
            prev = record.hash;
        }
    }
}
