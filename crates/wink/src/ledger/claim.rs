//! A call's claim on its key, from before the handler to its end.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::key::key_of;
use super::live::{Going, Owner};
use super::{
    IdempotencyConfig, InDoubt, Reach, Standing, ToolEffect, WhenInDoubt, doubt_if_ended, replace, row_of,
};
use crate::limits::Clock;
use crate::session::{InvocationId, Session, SessionId};
use crate::store::{
    Claimed, LedgerChange, LedgerRow, LedgerState, OrphanRule, SharedStore, StoreError, boot_id,
};
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
    /// Who holds the claim, for as long as the call goes on.
    _owner: Owner,
    /// Whether the store knows that the handler starts.
    started: bool,
    /// Whether a doubt is settled by hand, and not by the tool's config.
    by_hand: bool,
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
    /// Another call has it, and this one must not wait for that while it has the workspace's write turn.
    Busy(Busy),
}

/// Whether [`Claim::make`] waits for the call that has the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    Yes,
    /// The caller holds what that call may need for its end.
    No,
}

/// Another call that has the key.
pub(crate) struct Busy {
    since: Timestamp,
    here: Option<Going>,
}

impl Busy {
    /// Since when.
    pub(crate) fn since(&self) -> Timestamp {
        self.since
    }

    /// Waits until it may be over; for one of another process it has to be asked again.
    pub(crate) async fn over(self, clock: &dyn Clock) {
        match self.here {
            Some(going) => going.ended().await,
            None => clock.sleep_until(clock.monotonic().saturating_add(LAST_LOOK)).await,
        }
    }
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
        call: InvocationId,
        patience: Option<Duration>,
        waits: Waits,
    ) -> Result<ClaimOutcome, StoreError> {
        let key = key_of(config, session.id(), tool, &parts.text);
        let owner = Owner::new();
        let orphan = match (config.reach, boot_id()) {
            (Reach::Inside, _) => OrphanRule::Release,
            (Reach::Outside, Some(boot)) if session.is_durable() => {
                OrphanRule::ReleaseUnlessStarted { call, boot: boot.to_owned() }
            }
            (Reach::Outside, _) => OrphanRule::InDoubt,
        };
        let since = session.clock().now();
        let row = LedgerRow {
            key: key.to_string(),
            tool: tool.to_string(),
            params_hash: parts.params_hash,
            ttl: config.ttl,
            state: LedgerState::Claimed { owner: owner.name().to_owned(), since, orphan },
        };
        let (store, session_id) = (Arc::clone(session.store()), session.id().clone());
        let mut claim = Self {
            key,
            row,
            store,
            session: session_id,
            earlier: None,
            reach: config.reach,
            _owner: owner,
            started: false,
            by_hand: matches!(config.when_in_doubt, WhenInDoubt::Fail),
        };
        let clock = session.clock();
        let began = clock.monotonic();
        let mut look = FIRST_LOOK;
        loop {
            let now = clock.now();
            claim.begins(now);
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
                Standing::Elsewhere(since) if waits == Waits::No => {
                    return Ok(ClaimOutcome::Busy(Busy { since, here: None }));
                }
                Standing::Here(going) if waits == Waits::No => {
                    return Ok(ClaimOutcome::Busy(Busy { since: now, here: Some(going) }));
                }
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
                Standing::Released => {
                    replace(&claim.store, LedgerChange { from: found.clone(), to: None }).await?;
                    None
                }
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

    /// Whether a call with this key would be replayed, as the store has it now.
    pub(crate) async fn is_recorded(
        session: &Session,
        config: &IdempotencyConfig,
        tool: &Arc<str>,
        parts: &KeyParts,
    ) -> Result<bool, StoreError> {
        let key = key_of(config, session.id(), tool, &parts.text);
        let row = row_of(session.store(), &key).await?;
        let is_recorded = |row: &LedgerRow| matches!(row.state, LedgerState::Recorded { .. });
        Ok(row.is_some_and(|row| is_recorded(&row) && !row.is_expired(session.clock().now())))
    }

    /// Whether it cannot be known what a call did that was stopped, and rolled back.
    pub(crate) fn can_be_in_doubt(&self) -> bool {
        self.reach == Reach::Outside
    }

    /// What a person types to settle the doubt that this leaves.
    pub(crate) fn settling(&self) -> Option<String> {
        self.store.settling(&self.key).filter(|_| self.by_hand)
    }

    /// Whether the store has to know that the handler starts, and does not yet.
    pub(crate) fn is_to_be_started(&self) -> bool {
        !self.started && self.starting().is_some()
    }

    /// Tells the store that the handler is about to be polled for the first time. Without that it must not be.
    pub(crate) async fn start(&mut self) -> Result<(), StoreError> {
        if let Some(call) = self.starting().filter(|_| !self.started) {
            let started = match catch(|| self.store.start(call)) {
                Ok(starting) => CatchPanic::new(starting).await,
                Err(panic) => Err(panic),
            };
            started
                .unwrap_or_else(|panic| Err(StoreError::failed("start", format!("it panicked: {panic}"))))?;
        }
        self.started = true;
        Ok(())
    }

    /// The call of which it counts whether its handler started.
    fn starting(&self) -> Option<InvocationId> {
        match &self.row.state {
            LedgerState::Claimed { orphan: OrphanRule::ReleaseUnlessStarted { call, .. }, .. } => Some(*call),
            _ => None,
        }
    }

    fn begins(&mut self, now: Timestamp) {
        if let LedgerState::Claimed { since, .. } = &mut self.row.state {
            *since = now;
        }
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
        claim.begins(now);
        if before == Before::InDoubt {
            // That this try never started says nothing about the one before it.
            if let LedgerState::Claimed { orphan, .. } = &mut claim.row.state {
                *orphan = OrphanRule::InDoubt;
            }
            claim.earlier = Some(claim.row_in(LedgerState::InDoubt { reason, since }));
        }
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
