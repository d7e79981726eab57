//! `wink gc`: removes what need not be kept any more.

use std::time::Duration;

use serde_json::json;
use wink_store::{Pruned, StoreOptions, StoreRetention, WorkspaceOptions};

use super::open;
use super::progress::Waiting;
use crate::args::Common;
use crate::frame::{self, CliError, Done};

pub(super) async fn run(common: &Common, keep_days: u32) -> Done {
    // Where nothing ever happened there is nothing to remove, and nothing is made.
    let pruned = if open::has_past(common)? { prune(common, keep_days).await? } else { Pruned::default() };
    let Pruned { journals, effects } = pruned;
    if common.json {
        return frame::print_json(&json!({ "journals": journals, "effects": effects }));
    }
    let count = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    frame::print(&format!(
        "removed {} and {}",
        count(effects, "expired effect"),
        count(journals, "old undo point")
    ))
}

async fn prune(common: &Common, keep_days: u32) -> Result<Pruned, CliError> {
    let journals = Duration::from_hours(24 * u64::from(keep_days));
    let retention = StoreRetention { journals, ..StoreRetention::default() };
    let store = StoreOptions::default().retention(retention);
    let workspace = open::workspace_with(common, WorkspaceOptions { store, ..WorkspaceOptions::default() })?;
    let _waiting = Waiting::begin("tidying up");
    workspace.prune().await.map_err(CliError::internal)
}
