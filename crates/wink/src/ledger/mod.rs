//! The ledger: effects that must not happen twice.
//!
//! A call of a tool with an [`IdempotencyConfig`] claims its key before the handler runs; the claim is in the store
//! by then. A committed success replaces it by the recorded effect, in the same store transaction as everything
//! else. A handler that *returned* a failure releases the claim; one that was stopped leaves it in doubt, unless it
//! never started or all that it did is undone with it, and nothing is silently run again. Calls with one key wait for
//! each other within a process.
//!
//! A row is changed only by whoever knows what it says now (compare and swap), so that of several who want to take
//! over, settle or forget an entry, in however many processes, one does.

mod claim;
mod config;
mod key;
mod live;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::Clock;
use crate::session::SessionId;
use crate::store::{
    Claimed, LedgerChange, LedgerRow, LedgerState, OrphanRule, Rows, SharedStore, StoreError,
};
use crate::support::future::{CatchPanic, catch};

pub(crate) use claim::{Before, Claim, ClaimOutcome, Doubted, Waits};
pub(crate) use config::Reach;
pub use config::{IdempotencyConfig, KeyStrategy, LedgerScope, Probe, Probed, WhenInDoubt};
pub use key::params_key;

use live::{Going, Whereabouts, whereabouts};

/// What the text of a key begins with by which a request is known again, whatever its tool says of effects.
pub(crate) const REQUEST_KEY: &str = "request:";

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
    /// The session that ran it, and so has its value; none when it was settled without being run.
    pub session: Option<SessionId>,
    /// This record, unique.
    pub effect_id: String,
}

impl ToolEffect {
    /// An effect of this entry that happened now, without a value.
    fn of(row: &LedgerRow, message: String, now: Timestamp) -> Self {
        let ttl = row.ttl.and_then(|ttl| SignedDuration::try_from(ttl).ok());
        Self {
            idempotency_key: row.key.clone(),
            tool_name: row.tool.clone(),
            params_hash: row.params_hash.clone(),
            message,
            value: None,
            success: true,
            exclude_value_from_context: false,
            created_at: now,
            // What would end after the end of time does not end.
            expires_at: ttl.and_then(|ttl| now.checked_add(ttl).ok()),
            session: None,
            effect_id: crate::session::fresh_uuid(now).to_string(),
        }
    }

    fn into_row(self) -> LedgerRow {
        let expires_at = self.expires_at;
        let ttl = expires_at.and_then(|at| at.duration_since(self.created_at).try_into().ok());
        LedgerRow {
            key: self.idempotency_key.clone(),
            tool: self.tool_name.clone(),
            params_hash: self.params_hash.clone(),
            ttl,
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
        /// Whether the value is kept from the model.
        exclude_value_from_context: bool,
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
        let Some(row) = row_of(&self.store, key).await? else { return Ok(None) };
        if row.is_expired(self.clock.now()) {
            // Unless it is another one by now, or somebody's claim.
            replace(&self.store, LedgerChange { from: row, to: None }).await?;
            return Ok(None);
        }
        effect_of(&row)
    }

    /// Records an effect by hand, in the place of whatever is known of its key.
    ///
    /// # Errors
    /// When a call with this key is running: what comes of it is not known yet.
    pub async fn record(&self, effect: ToolEffect) -> Result<(), StoreError> {
        let new = effect.into_row();
        loop {
            let Claimed::No(from) = self.store.claim(new.clone(), self.clock.now()).await? else {
                return Ok(());
            };
            if let Standing::Here(_) | Standing::Elsewhere(_) = Standing::of(&from)? {
                let reason = format!("a call with the key {:?} is running; wait for its end", new.key);
                return Err(StoreError::failed("record an effect", reason));
            }
            if replace(&self.store, LedgerChange { from, to: Some(new.clone()) }).await? {
                return Ok(());
            }
        }
    }

    /// Forgets the key, whatever is known of it. True if there was something. The claim of a call that is running
    /// stays, here and in all that follows: forgetting it would let another one run beside it.
    pub async fn invalidate(&self, key: &str) -> Result<bool, StoreError> {
        Ok(self.forget(Rows::Key(key.to_owned())).await? > 0)
    }

    /// Forgets everything of a tool. Says how many entries went.
    pub async fn invalidate_by_tool(&self, tool: &str) -> Result<usize, StoreError> {
        self.forget(Rows::Tool(tool.to_owned())).await
    }

    /// Forgets everything. Says how many entries went.
    pub async fn clear(&self) -> Result<usize, StoreError> {
        self.forget(Rows::All).await
    }

    /// Forgets what no longer counts. Says how many entries went.
    pub async fn prune_expired(&self) -> Result<usize, StoreError> {
        Ok(self.store.remove(Rows::ExpiredAt(self.clock.now())).await?.len())
    }

    /// The entries in doubt, by key.
    pub async fn in_doubt(&self) -> Result<Vec<InDoubt>, StoreError> {
        let mut doubts = Vec::new();
        for row in self.store.rows(Rows::All).await? {
            doubts.extend(self.doubt(&row).await?);
        }
        Ok(doubts)
    }

    /// Settles an entry in doubt. False if there is none under this key.
    ///
    /// An effect that happened counts from now, for as long as the tool's config says. No session has its value yet:
    /// each gets it with its next call.
    pub async fn settle(&self, key: &str, settlement: Settlement) -> Result<bool, StoreError> {
        let Some(from) = row_of(&self.store, key).await? else { return Ok(false) };
        if self.doubt(&from).await?.is_none() {
            return Ok(false);
        }
        let to = match settlement {
            Settlement::DidNotHappen => None,
            Settlement::Happened { message, value, exclude_value_from_context } => {
                let effect = ToolEffect::of(&from, message, self.clock.now());
                Some(ToolEffect { value, exclude_value_from_context, ..effect }.into_row())
            }
        };
        replace(&self.store, LedgerChange { from, to }).await
    }

    async fn forget(&self, which: Rows) -> Result<usize, StoreError> {
        let mut gone = self.store.remove(which.clone()).await?.len();
        // Claims whose call has ended, and could not say so.
        for from in self.store.rows(which).await?.into_iter().filter(LedgerRow::is_claimed) {
            if self.doubt(&from).await?.is_some()
                && replace(&self.store, LedgerChange { from, to: None }).await?
            {
                gone += 1;
            }
        }
        Ok(gone)
    }

    async fn doubt(&self, row: &LedgerRow) -> Result<Option<InDoubt>, StoreError> {
        match &row.state {
            LedgerState::Recorded { .. } => Ok(None),
            LedgerState::Claimed { .. } | LedgerState::InDoubt { .. } => match Standing::of(row)? {
                Standing::InDoubt(doubt) => Ok(Some(doubt)),
                Standing::Ended(doubt) => doubt_if_ended(&self.store, row, doubt).await,
                Standing::Recorded(_) | Standing::Released | Standing::Here(_) | Standing::Elsewhere(_) => {
                    Ok(None)
                }
            },
        }
    }
}

/// What a row means to this process.
enum Standing {
    /// The effect happened.
    Recorded(ToolEffect),
    /// It cannot be known whether it did.
    InDoubt(InDoubt),
    /// The call has ended, and when the row was read it did not say how. It is in doubt if it still does not.
    Ended(InDoubt),
    /// The call has ended, all that it did is undone with it, and its claim could not be removed.
    Released,
    /// A call of this process is running.
    Here(Going),
    /// A call of another process is running.
    Elsewhere(Timestamp),
}

impl Standing {
    fn of(row: &LedgerRow) -> Result<Self, StoreError> {
        let doubt = |reason: &str, since: &Timestamp| InDoubt {
            key: row.key.clone(),
            tool: row.tool.clone(),
            reason: reason.to_owned(),
            since: *since,
        };
        Ok(match &row.state {
            LedgerState::InDoubt { reason, since } => Self::InDoubt(doubt(reason, since)),
            LedgerState::Claimed { owner, since, orphan } => match whereabouts(owner) {
                Whereabouts::Here(going) => Self::Here(going),
                Whereabouts::Ended if *orphan == OrphanRule::Release => Self::Released,
                Whereabouts::Ended => Self::Ended(doubt("its end could not be recorded", since)),
                Whereabouts::Elsewhere => Self::Elsewhere(*since),
            },
            LedgerState::Recorded { effect, .. } => match serde_json::from_value(effect.clone()) {
                Ok(effect) => Self::Recorded(effect),
                Err(error) => {
                    return Err(StoreError::failed("read a recorded effect", error.to_string()));
                }
            },
        })
    }
}

/// The doubt of a claim whose call has ended: what it had to write is written by then, so a row that still is the
/// claim will always be.
async fn doubt_if_ended(
    store: &SharedStore,
    row: &LedgerRow,
    doubt: InDoubt,
) -> Result<Option<InDoubt>, StoreError> {
    let now = row_of(store, &row.key).await?;
    Ok((now.as_ref() == Some(row)).then_some(doubt))
}

async fn row_of(store: &SharedStore, key: &str) -> Result<Option<LedgerRow>, StoreError> {
    Ok(store.rows(Rows::Key(key.to_owned())).await?.into_iter().next())
}

/// Makes the change if nobody was faster. A store that panics has failed, like any other.
async fn replace(store: &SharedStore, change: LedgerChange) -> Result<bool, StoreError> {
    let replaced = match catch(|| store.replace(change)) {
        Ok(replacing) => CatchPanic::new(replacing).await,
        Err(panic) => Err(panic),
    };
    replaced.unwrap_or_else(|panic| Err(StoreError::failed("replace a row", format!("it panicked: {panic}"))))
}

fn effect_of(row: &LedgerRow) -> Result<Option<ToolEffect>, StoreError> {
    match Standing::of(row)? {
        Standing::Recorded(effect) => Ok(Some(effect)),
        Standing::InDoubt(_)
        | Standing::Ended(_)
        | Standing::Released
        | Standing::Here(_)
        | Standing::Elsewhere(_) => Ok(None),
    }
}
