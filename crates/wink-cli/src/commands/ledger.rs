//! `wink ledger`: effects outside that are recorded, claimed or in doubt, of all sessions of the workspace.

use serde::Serialize;
use serde_json::Value;
use wink::ledger::{Settlement, ToolEffect};
use wink::store::{LedgerRow, LedgerState, Rows, Store, StoreLoss};
use wink_store::{StoreOptions, Workspace};

use super::{find, open};
use crate::args::{Common, Verdict};
use crate::frame::{self, CliError, Done, Exit, note, visible};
use crate::term::{DIM, GOOD, NAME, ODD, PLAIN, Screen, Span, span};

/// What `ledger list --json` prints, one for each line.
#[derive(Serialize)]
struct Entry {
    key: String,
    tool: String,
    state: &'static str,
    /// Since when it is so.
    since: Option<String>,
    expires_at: Option<String>,
    /// The session that ran it.
    session: Option<String>,
    message: Option<String>,
    value: Value,
    /// Why it is in doubt.
    reason: Option<String>,
}

pub(super) async fn list(common: &Common, in_doubt: bool) -> Done {
    let rows = match open::past(common)? {
        Some(past) => past.store().rows(Rows::All).await?,
        None => Vec::new(),
    };
    let entries: Vec<Entry> =
        rows.into_iter().map(Entry::of).filter(|entry| !in_doubt || entry.state == IN_DOUBT).collect();
    if common.json {
        return entries.iter().try_fold(Exit::Success, |_, entry| frame::print_json(entry));
    }
    if entries.is_empty() {
        note(if in_doubt { "nothing is in doubt" } else { "the ledger is empty" });
        return Ok(Exit::Success);
    }
    let rows = entries.iter().map(Entry::row).collect();
    Screen::fitted().rows(&["STATE", "SINCE", "TOOL", "KEY", "NOTE"], rows, NOTE)?;
    Ok(Exit::Success)
}

pub(super) async fn resolve(
    common: &Common,
    key: &str,
    verdict: &Verdict,
    message: String,
    value: Option<String>,
) -> Done {
    refuse_inside_a_call("an effect in doubt is not settled")?;
    let value = value.map(|text| serde_json::from_str(&text)).transpose().map_err(|error| {
        CliError::new(Exit::Usage, format!("--value is not JSON: {error}"))
            .hint("a text has quotes: --value '\"text\"'")
    })?;
    let Some(workspace) = open::workspace_with_past(common)? else { return Err(find::no_doubt(key)) };
    let rows = workspace.store().rows(Rows::All).await?;
    let key = find::find_doubt(&rows, key)?;
    let settlement = match verdict.happened {
        true => Settlement::Happened { message, value, exclude_value_from_context: false },
        false => Settlement::DidNotHappen,
    };
    if !workspace.ledger().settle(key, settlement).await? {
        return Err(find::no_doubt(key));
    }
    if common.json {
        let state = if verdict.happened { RECORDED } else { "removed" };
        return frame::print_json(&serde_json::json!({ "key": key, "state": state }));
    }
    frame::print(match verdict.happened {
        true => "settled: it happened, and later calls with this key get what was said",
        false => "settled: it did not happen, and the next call with this key runs",
    })
}

/// Set for every command that is run for a call: answers say what settles a doubt, and it is not for the model to type.
const IN_A_CALL: &str = "WINK_INVOCATION_ID";

/// Refuses what only the operator may decide. `what` says what is not done.
pub(super) fn refuse_inside_a_call(what: &str) -> Result<(), CliError> {
    match std::env::var_os(IN_A_CALL) {
        None => Ok(()),
        Some(_) => Err(CliError::new(Exit::Failure, format!("{what} inside a call"))
            .hint("the operator finds out what happened, and types it in a terminal")),
    }
}

/// What `ledger acknowledge-loss --json` prints, one for each line.
#[derive(Serialize)]
struct Lost {
    first: u64,
    last: Option<u64>,
    what: String,
    noticed: String,
}

pub(super) async fn acknowledge_loss(common: &Common) -> Done {
    refuse_inside_a_call("a loss is not acknowledged")?;
    let losses = match open::has_past(common)? {
        true => Workspace::acknowledge_losses(common.root(), StoreOptions::default())
            .await
            .map_err(|error| open::not_opened(common.root(), &error))?,
        false => Vec::new(),
    };
    if losses.is_empty() {
        note("nothing is lost");
        return Ok(Exit::Success);
    }
    for StoreLoss { first, last, what, noticed } in losses {
        match common.json {
            true => frame::print_json(&Lost { first, last, what, noticed: noticed.to_string() })?,
            false => frame::print(&format!("acknowledged: {}", visible(&what)))?,
        };
    }
    Ok(Exit::Success)
}

/// How many columns a note is worth having beside the rest.
const NOTE: usize = 20;

const RECORDED: &str = "recorded";
const CLAIMED: &str = "claimed";
const IN_DOUBT: &str = "in_doubt";

impl Entry {
    fn of(row: LedgerRow) -> Self {
        let entry = Self {
            key: row.key,
            tool: row.tool,
            state: CLAIMED,
            since: None,
            expires_at: None,
            session: None,
            message: None,
            value: Value::Null,
            reason: None,
        };
        match row.state {
            LedgerState::Claimed { since, .. } => Self { since: Some(since.to_string()), ..entry },
            LedgerState::InDoubt { reason, since } => {
                Self { state: IN_DOUBT, since: Some(since.to_string()), reason: Some(reason), ..entry }
            }
            LedgerState::Recorded { effect, expires_at } => {
                let effect: Option<ToolEffect> = serde_json::from_value(effect).ok();
                Self {
                    state: RECORDED,
                    since: effect.as_ref().map(|effect| effect.created_at.to_string()),
                    expires_at: expires_at.map(|at| at.to_string()),
                    session: effect.as_ref().and_then(|effect| Some(effect.session.as_ref()?.to_string())),
                    message: effect.as_ref().map(|effect| effect.message.clone()),
                    value: effect.and_then(|effect| effect.value).unwrap_or_default(),
                    ..entry
                }
            }
        }
    }

    fn row(&self) -> Vec<Span> {
        let state = match self.state {
            RECORDED => span(RECORDED, GOOD),
            IN_DOUBT => span("in doubt", ODD),
            state => span(state, PLAIN),
        };
        let note = self.reason.as_ref().or(self.message.as_ref()).map(String::as_str).unwrap_or_default();
        let since = self.since.as_deref().and_then(|since| since.get(..19)).unwrap_or_default();
        vec![
            state,
            span(since.replace('T', " "), DIM),
            span(visible(&self.tool), NAME),
            span(visible(&self.key), PLAIN).whole(),
            span(visible(note), DIM),
        ]
    }
}
