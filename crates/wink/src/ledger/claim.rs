//! A call's claim on its key, from before the handler to its end.

use std::sync::{Arc, LazyLock};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::flight::{Flight, take_off};
use super::{IdempotencyConfig, InDoubt, LedgerScope, ToolEffect, doubt_of, effect_of};
use crate::session::{Session, SessionId};
use crate::store::{Claimed, LedgerRow, LedgerState, Rows, SharedStore, StoreError};
use crate::tool::erased::KeyParts;

/// This process, as the owner of claims.
static OWNER: LazyLock<String> =
    LazyLock::new(|| format!("{}:{}", std::process::id(), crate::session::fresh_uuid(Timestamp::now())));

/// A key that belongs to one call.
pub(crate) struct Claim {
    pub(crate) key: Arc<str>,
    tool: Arc<str>,
    params_hash: String,
    store: SharedStore,
    ttl: Option<std::time::Duration>,
    session: SessionId,
    /// What is still in doubt under this key. Only a success settles it: a try that came to nothing says nothing
    /// about the one before.
    earlier: Option<LedgerRow>,
    _flight: Flight,
}

/// What stands under a key.
pub(crate) enum ClaimOutcome {
    /// The key is this call's: run the handler.
    Mine(Claim),
    /// The effect happened.
    Hit(ToolEffect),
    /// It cannot be known. The key is held meanwhile, so that it can be settled.
    Doubt(InDoubt, Claim),
    /// Another process has it.
    Elsewhere(Timestamp),
}

/// The whole key of a call.
pub(crate) fn key_of(
    config: &IdempotencyConfig,
    session: &SessionId,
    tool: &str,
    parts: &KeyParts,
) -> Arc<str> {
    let text = &parts.text;
    match &config.scope {
        LedgerScope::Session => format!("session:{session}:{tool}:{text}"),
        LedgerScope::Global => format!("global:{tool}:{text}"),
        LedgerScope::Named(name) => format!("{name}:{tool}:{text}"),
    }
    .into()
}

impl Claim {
    /// Claims `key` for one call, after whoever has it in this process.
    pub(crate) async fn make(
        session: &Session,
        config: &IdempotencyConfig,
        tool: &Arc<str>,
        parts: KeyParts,
    ) -> Result<ClaimOutcome, StoreError> {
        let key = key_of(config, session.id(), tool, &parts);
        let store = Arc::clone(session.store());
        let flight = take_off(&store, &key).await;
        let mut claim = Self {
            key,
            tool: Arc::clone(tool),
            params_hash: parts.params_hash,
            ttl: config.ttl,
            session: session.id().clone(),
            store,
            earlier: None,
            _flight: flight,
        };
        let now = session.clock().now();
        let row = match claim.store.claim(claim.row(claimed(now)), now).await? {
            Claimed::Yes => return Ok(ClaimOutcome::Mine(claim)),
            Claimed::No(row) => row,
        };
        if let Some(effect) = effect_of(&row)? {
            return Ok(ClaimOutcome::Hit(effect));
        }
        let doubt = match row.state {
            LedgerState::Claimed { owner, since } if owner != *OWNER => {
                return Ok(ClaimOutcome::Elsewhere(since));
            }
            // Ours, and yet nobody flies: its end was never written.
            LedgerState::Claimed { since, .. } => {
                let reason = "its end could not be recorded".to_owned();
                InDoubt { key: row.key, tool: row.tool, reason, since }
            }
            state => match doubt_of(LedgerRow { key: row.key, tool: row.tool, state }) {
                Some(doubt) => doubt,
                None => return Ok(ClaimOutcome::Mine(claim)),
            },
        };
        claim.earlier = Some(claim.doubt(doubt.reason.clone(), doubt.since));
        Ok(ClaimOutcome::Doubt(doubt, claim))
    }

    /// Takes over an entry in doubt, to run it again.
    pub(crate) async fn take_over(&self, now: Timestamp) -> Result<(), StoreError> {
        self.store.put(self.row(claimed(now))).await
    }

    /// The row that a committed success leaves.
    pub(crate) fn effect(
        &self,
        message: &str,
        value: Option<Value>,
        hidden: bool,
        now: Timestamp,
    ) -> ToolEffect {
        ToolEffect {
            idempotency_key: self.key.to_string(),
            tool_name: self.tool.to_string(),
            params_hash: self.params_hash.clone(),
            message: message.to_owned(),
            value,
            success: true,
            exclude_value_from_context: hidden,
            created_at: now,
            expires_at: self
                .ttl
                .and_then(|ttl| SignedDuration::try_from(ttl).ok())
                .and_then(|ttl| now.checked_add(ttl).ok()),
            session: self.session.clone(),
            effect_id: crate::session::fresh_uuid(now).to_string(),
        }
    }

    /// The row of a call that was stopped.
    pub(crate) fn doubt(&self, reason: String, since: Timestamp) -> LedgerRow {
        self.row(LedgerState::InDoubt { reason, since })
    }

    /// Somebody knows that the earlier try had no effect.
    pub(crate) fn no_longer_in_doubt(&mut self) {
        self.earlier = None;
    }

    /// Leaves the key as if this call had never been: the next one runs, or finds what was in doubt before.
    pub(crate) async fn release(mut self) -> Result<(), StoreError> {
        match self.earlier.take() {
            Some(doubt) => self.store.put(doubt).await,
            None => self.store.remove(Rows::Key(self.key.to_string())).await.map(drop),
        }
    }

    /// Records what a probe found.
    pub(crate) async fn settle(&self, effect: &ToolEffect) -> Result<(), StoreError> {
        self.store.put(effect.clone().into_row()).await
    }

    fn row(&self, state: LedgerState) -> LedgerRow {
        LedgerRow { key: self.key.to_string(), tool: self.tool.to_string(), state }
    }
}

fn claimed(since: Timestamp) -> LedgerState {
    LedgerState::Claimed { owner: OWNER.clone(), since }
}
