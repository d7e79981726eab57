//! A call's claim on its key, from before the handler to its end.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::key::key_of;
use super::live::Owner;
use super::{IdempotencyConfig, InDoubt, Reach, Standing, ToolEffect, doubt_if_ended, replace};
use crate::session::{Session, SessionId};
use crate::store::{Claimed, LedgerChange, LedgerRow, LedgerState, SharedStore, StoreError};
use crate::support::background::{MustFinish, finish};
use crate::support::future::{CatchPanic, catch};
use crate::tool::erased::KeyParts;

/// A key that belongs to one call: nobody else changes its row.
pub(crate) struct Claim {
    pub(crate) key: Arc<str>,
    /// The row while the call runs.
    row: LedgerRow,
    store: SharedStore,
    session: SessionId,
    /// What is still in doubt under this key. Only a success settles it: a try that came to nothing says nothing
    /// about the one before.
    earlier: Option<LedgerRow>,
    reach: Reach,
    owner: Owner,
}

/// What stands under a key.
pub(crate) enum ClaimOutcome {
    /// The key is this call's: run the handler.
    Mine(Claim),
    /// The effect happened.
    Hit(ToolEffect),
    /// It cannot be known.
    Doubt(InDoubt, Box<Doubted>),
    /// Another process has had it for longer than this one is ready to wait.
    Elsewhere(Timestamp),
}

/// An entry in doubt, as it was found, and the claim that could take its place.
pub(crate) struct Doubted {
    found: LedgerRow,
    reason: String,
    since: Timestamp,
    claim: Claim,
}

/// Whether what was in doubt still is when somebody tries again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    InDoubt,
    /// Somebody knows that the earlier try had no effect.
    DidNotHappen,
}

/// How long to wait before it is looked again whether another process is done.
const FIRST_LOOK: Duration = Duration::from_millis(2);
const LAST_LOOK: Duration = Duration::from_millis(200);

impl Claim {
    /// Claims the key of a call, after whoever has it. Another process is waited for as long as `patience` says; for good,
    /// if it says nothing.
    pub(crate) async fn make(
        session: &Session,
        config: &IdempotencyConfig,
        tool: &Arc<str>,
        parts: KeyParts,
        patience: Option<Duration>,
    ) -> Result<ClaimOutcome, StoreError> {
        let key = key_of(config, session.id(), tool, &parts.text);
        let owner = Owner::new();
        let row = LedgerRow {
            key: key.to_string(),
            tool: tool.to_string(),
            params_hash: parts.params_hash,
            ttl: config.ttl,
            state: claimed(&owner, session.clock().now()),
        };
        let (store, session_id) = (Arc::clone(session.store()), session.id().clone());
        let mut claim =
            Self { key, row, store, session: session_id, earlier: None, reach: config.reach, owner };
        let clock = session.clock();
        let began = clock.monotonic();
        let mut look = FIRST_LOOK;
        loop {
            let now = clock.now();
            claim.row.state = claimed(&claim.owner, now);
            let (answer, back) = claim.write(now).await?;
            claim = back;
            let found = match answer {
                Claimed::Yes => return Ok(ClaimOutcome::Mine(claim)),
                // A store that asks again when an answer is lost finds what it has written itself.
                Claimed::No(row) if row == claim.row => return Ok(ClaimOutcome::Mine(claim)),
                Claimed::No(row) => row,
            };
            let doubt = match Standing::of(&found)? {
                Standing::Recorded(effect) => return Ok(ClaimOutcome::Hit(effect)),
                Standing::Elsewhere(since) => {
                    let waited = clock.monotonic().saturating_sub(began);
                    let left = patience.map_or(look, |patience| patience.saturating_sub(waited).min(look));
                    if left.is_zero() {
                        return Ok(ClaimOutcome::Elsewhere(since));
                    }
                    clock.sleep_until(clock.monotonic().saturating_add(left)).await;
                    look = look.saturating_mul(2).min(LAST_LOOK);
                    None
                }
                Standing::InDoubt(doubt) => Some(doubt),
                Standing::Ended(doubt) => doubt_if_ended(&claim.store, &found, doubt).await?,
                Standing::Here(going) => {
                    going.ended().await;
                    None
                }
            };
            if let Some(doubt) = doubt {
                let (reason, since) = (doubt.reason.clone(), doubt.since);
                let doubted = Box::new(Doubted { found, reason, since, claim });
                return Ok(ClaimOutcome::Doubt(doubt, doubted));
            }
        }
    }

    /// Whether nobody can know what a call did that was stopped.
    pub(crate) fn can_be_in_doubt(&self) -> bool {
        self.reach == Reach::Outside
    }

    /// The effect of a success.
    pub(crate) fn effect(&self, message: &str, now: Timestamp) -> ToolEffect {
        let ran = Some(self.session.clone());
        ToolEffect { session: ran, ..ToolEffect::of(&self.row, message.to_owned(), now) }
    }

    /// What a committed success does to the ledger.
    pub(crate) fn recorded(&self, effect: ToolEffect) -> LedgerChange {
        LedgerChange { from: self.row.clone(), to: Some(effect.into_row()) }
    }

    /// Leaves the key in doubt: the call was stopped.
    pub(crate) async fn leave_in_doubt(self, reason: String, since: Timestamp) -> Result<(), StoreError> {
        let doubt = self.row_in(LedgerState::InDoubt { reason, since });
        self.end(Some(doubt)).await
    }

    /// Leaves the key as if this call had never been: the next one runs, or finds what was in doubt before.
    pub(crate) async fn release(mut self) -> Result<(), StoreError> {
        let earlier = self.earlier.take();
        self.end(earlier).await
    }

    /// A row that is no longer this call's stays as it is.
    async fn end(self, to: Option<LedgerRow>) -> Result<(), StoreError> {
        replace(&self.store, LedgerChange { from: self.row.clone(), to }).await.map(drop)
    }

    /// Asks the store for the key. Once asked, the answer is waited for, whoever stops waiting: a claim that nobody
    /// is there to use is released.
    async fn write(self, now: Timestamp) -> Result<(Claimed, Self), StoreError> {
        let unused = Unused(Some(self));
        let writing = MustFinish::new(async move {
            let Some(claim) = &unused.0 else { return Err(lost()) };
            let answer = match catch(|| claim.store.claim(claim.row.clone(), now)) {
                Ok(claiming) => CatchPanic::new(claiming).await,
                Err(panic) => Err(panic),
            };
            let answer = answer
                .unwrap_or_else(|panic| Err(StoreError::failed("claim", format!("it panicked: {panic}"))))?;
            Ok((answer, unused))
        });
        let (answer, unused) = writing.await?;
        Ok((answer, unused.used()?))
    }

    fn row_in(&self, state: LedgerState) -> LedgerRow {
        LedgerRow { state, ..self.row.clone() }
    }
}

impl Doubted {
    /// The key.
    pub(crate) fn key(&self) -> &str {
        &self.claim.key
    }

    /// Takes the entry over, to run it again; none when it is no longer as it was found.
    pub(crate) async fn take_over(self, before: Before, now: Timestamp) -> Result<Option<Claim>, StoreError> {
        let Self { found, reason, since, mut claim } = self;
        claim.row.state = claimed(&claim.owner, now);
        claim.earlier = match before {
            Before::InDoubt => Some(claim.row_in(LedgerState::InDoubt { reason, since })),
            Before::DidNotHappen => None,
        };
        let (store, change) =
            (Arc::clone(&claim.store), LedgerChange { from: found, to: Some(claim.row.clone()) });
        let unused = Unused(Some(claim));
        let taking = MustFinish::new(async move { Ok((replace(&store, change).await?, unused)) });
        let (taken, unused) = taking.await?;
        let claim = unused.used()?;
        Ok(taken.then_some(claim))
    }

    /// The effect of which a probe found out that it happened.
    pub(crate) fn effect(&self, message: String, now: Timestamp) -> ToolEffect {
        ToolEffect::of(&self.found, message, now)
    }

    /// Records what a probe found. False when the entry is no longer as it was.
    pub(crate) async fn settle(&self, effect: ToolEffect) -> Result<bool, StoreError> {
        let change = LedgerChange { from: self.found.clone(), to: Some(effect.into_row()) };
        replace(&self.claim.store, change).await
    }
}

/// A claim that may be in the store and is no call's yet. Dropping it releases it.
struct Unused(Option<Claim>);

impl Unused {
    fn used(mut self) -> Result<Claim, StoreError> {
        self.0.take().ok_or_else(lost)
    }
}

impl Drop for Unused {
    fn drop(&mut self) {
        if let Some(claim) = self.0.take() {
            finish(async move {
                if let Err(error) = claim.release().await {
                    tracing::error!(%error, "a claim that was not used could not be released; it is in doubt now");
                }
            });
        }
    }
}

/// It cannot happen, and if it does, only the call fails.
fn lost() -> StoreError {
    StoreError::failed("claim", "the claim was lost")
}

fn claimed(owner: &Owner, since: Timestamp) -> LedgerState {
    LedgerState::Claimed { owner: owner.name().to_owned(), since }
}
