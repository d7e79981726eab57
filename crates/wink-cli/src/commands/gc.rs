//! `wink gc`: removes what need not be kept any more.

use std::time::Duration;

use serde_json::json;
use wink_store::{Pruned, StoreOptions, StoreRetention, WorkspaceOptions};

use super::open;
use super::progress::Waiting;
use super::run::record;
use crate::args::Common;
use crate::frame::{self, CliError, Done};

pub(super) async fn run(common: &Common, keep_days: u32) -> Done {
    // Where nothing ever happened there is nothing to remove, and nothing is made.
    let (pruned, recordings) = match open::has_past(common)? {
        true => prune(common, keep_days).await?,
        false => (Pruned::default(), 0),
    };
    let Pruned { journals, effects } = pruned;
    if common.json {
        return frame::print_json(
            &json!({ "journals": journals, "effects": effects, "recordings": recordings }),
        );
    }
    let count = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    let removed =
        format!("removed {} and {}", count(effects, "expired effect"), count(journals, "old undo point"));
    frame::print(&match recordings {
        0 => removed,
        recordings => format!("{removed}; and {}", count(recordings, "unfinished recording")),
    })
}

async fn prune(common: &Common, keep_days: u32) -> Result<(Pruned, usize), CliError> {
    let journals = Duration::from_hours(24 * u64::from(keep_days));
    let retention = StoreRetention { journals, ..StoreRetention::default() };
    let store = StoreOptions::default().retention(retention);
    let workspace = open::workspace_with(common, WorkspaceOptions { store, ..WorkspaceOptions::default() })?;
    let _waiting = Waiting::begin("tidying up");
    let pruned = workspace.prune().await.map_err(CliError::internal)?;
    let recordings = record::left(workspace.files().root()).map_err(CliError::internal)?;
    for recording in &recordings {
        std::fs::remove_file(recording).map_err(CliError::internal)?;
    }
    Ok((pruned, recordings.len()))
}
