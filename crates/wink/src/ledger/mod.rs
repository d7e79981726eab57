//! The ledger: effects that must not happen twice.
//!
//! A call of a tool with an [`IdempotencyConfig`] claims its key before the handler runs; the claim is in the store
//! by then. A committed success replaces it by the recorded effect, in the same store transaction as everything
//! else. A handler that *returned* a failure releases the claim; one that was stopped leaves it in doubt, and
//! nothing is silently run again. Calls with one key wait for each other within a process.

mod claim;
mod config;
mod flight;

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::Clock;
use crate::session::SessionId;
use crate::store::{LedgerRow, LedgerState, Rows, SharedStore, StoreError};

pub(crate) use claim::{Claim, ClaimOutcome};
pub use config::{IdempotencyConfig, KeyStrategy, LedgerScope, Probe, Probed, WhenInDoubt};

/// An effect that happened, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolEffect {
    /// The key under which it counts.
    pub idempotency_key: String,
    /// The tool.
    pub tool_name: String,
    /// The hash of all its parameters.
    pub params_hash: String,
    /// The result's message.
    pub message: String,
    /// The result's value, as JSON.
    pub value: Option<Value>,
    /// Always true: only successes are recorded.
    pub success: bool,
    /// Whether the value was kept from the model.
    pub exclude_value_from_context: bool,
    /// When it was recorded.
    pub created_at: Timestamp,
    /// When it stops counting; never, if absent.
    pub expires_at: Option<Timestamp>,
    /// The session that ran it.
    pub session: SessionId,
    /// This record, unique.
    pub effect_id: String,
}

impl ToolEffect {
    pub(crate) fn into_row(self) -> LedgerRow {
        let expires_at = self.expires_at;
        LedgerRow {
            key: self.idempotency_key.clone(),
            tool: self.tool_name.clone(),
            state: LedgerState::Recorded {
                effect: serde_json::to_value(&self).unwrap_or(Value::Null),
                expires_at,
            },
        }
    }
}

/// An entry of which it cannot be known whether its effect happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InDoubt {
    /// The key.
    pub key: String,
    /// The tool.
    pub tool: String,
    /// Why.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
}

/// How somebody settled an entry in doubt.
#[derive(Debug, Clone, PartialEq)]
pub enum Settlement {
    /// The effect happened: later calls get this.
    Happened {
        /// The message for the model.
        message: String,
        /// The value, as JSON.
        value: Option<Value>,
    },
    /// It did not: the next call runs.
    DidNotHappen,
}

/// What stands in a store's ledger, to look at and to tidy.
#[derive(Clone)]
pub struct EffectLedger {
    store: SharedStore,
    clock: Arc<dyn Clock>,
}

impl EffectLedger {
    /// The ledger of a store.
    pub fn new(store: SharedStore, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// The recorded effect of this key. One whose time has come is removed.
    pub async fn lookup(&self, key: &str) -> Result<Option<ToolEffect>, StoreError> {
        let rows = self.store.rows(Rows::Key(key.to_owned())).await?;
        let Some(row) = rows.into_iter().next() else { return Ok(None) };
        if row.is_expired(self.clock.now()) {
            self.store.remove(Rows::Key(key.to_owned())).await?;
            return Ok(None);
        }
        effect_of(&row)
    }

    /// Records an effect by hand.
    pub async fn record(&self, effect: ToolEffect) -> Result<(), StoreError> {
        self.store.put(effect.into_row()).await
    }

    /// Forgets the key, whatever is known of it. True if there was something.
    pub async fn invalidate(&self, key: &str) -> Result<bool, StoreError> {
        Ok(!self.store.remove(Rows::Key(key.to_owned())).await?.is_empty())
    }

    /// Forgets everything of a tool. Says how many entries went.
    pub async fn invalidate_by_tool(&self, tool: &str) -> Result<usize, StoreError> {
        Ok(self.store.remove(Rows::Tool(tool.to_owned())).await?.len())
    }

    /// Forgets everything. Says how many entries went.
    pub async fn clear(&self) -> Result<usize, StoreError> {
        Ok(self.store.remove(Rows::All).await?.len())
    }

    /// Forgets what no longer counts. Says how many entries went.
    pub async fn prune_expired(&self) -> Result<usize, StoreError> {
        Ok(self.store.remove(Rows::ExpiredAt(self.clock.now())).await?.len())
    }

    /// The entries in doubt, by key.
    pub async fn in_doubt(&self) -> Result<Vec<InDoubt>, StoreError> {
        let rows = self.store.rows(Rows::All).await?;
        Ok(rows.into_iter().filter_map(doubt_of).collect())
    }

    /// Settles an entry in doubt. False if there is none under this key.
    pub async fn settle(
        &self,
        key: &str,
        session: &SessionId,
        settlement: Settlement,
    ) -> Result<bool, StoreError> {
        let rows = self.store.rows(Rows::Key(key.to_owned())).await?;
        let Some(doubt) = rows.into_iter().next().and_then(doubt_of) else { return Ok(false) };
        match settlement {
            Settlement::DidNotHappen => {
                self.store.remove(Rows::Key(key.to_owned())).await?;
            }
            Settlement::Happened { message, value } => {
                let now = self.clock.now();
                let effect = ToolEffect {
                    idempotency_key: doubt.key,
                    tool_name: doubt.tool,
                    params_hash: String::new(),
                    message,
                    value,
                    success: true,
                    exclude_value_from_context: false,
                    created_at: now,
                    expires_at: None,
                    session: session.clone(),
                    effect_id: crate::session::fresh_uuid(now).to_string(),
                };
                self.store.put(effect.into_row()).await?;
            }
        }
        Ok(true)
    }
}

fn doubt_of(row: LedgerRow) -> Option<InDoubt> {
    match row.state {
        LedgerState::InDoubt { reason, since } => {
            Some(InDoubt { key: row.key, tool: row.tool, reason, since })
        }
        LedgerState::Claimed { .. } | LedgerState::Recorded { .. } => None,
    }
}

fn effect_of(row: &LedgerRow) -> Result<Option<ToolEffect>, StoreError> {
    match &row.state {
        LedgerState::Recorded { effect, .. } => match serde_json::from_value(effect.clone()) {
            Ok(effect) => Ok(Some(effect)),
            Err(error) => Err(StoreError { doing: "read a recorded effect", reason: error.to_string() }),
        },
        LedgerState::Claimed { .. } | LedgerState::InDoubt { .. } => Ok(None),
    }
}
