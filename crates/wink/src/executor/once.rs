//! The ledger's step: whether the effect happened already, and what to do when nobody can know.

use std::pin::pin;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::call::Call;
use super::govern::MOST_CHANGES;
use super::outcome::Failure;
use super::steps::lost;
use super::stop::{StopWhen, held_to};
use crate::filesystem::{Filesystem, MemoryFilesystem};
use crate::ledger::{
    Before, Claim, ClaimOutcome, Doubted, IdempotencyConfig, InDoubt, Probe, Probed, REQUEST_KEY, Reach,
    ToolEffect, Waits, WhenInDoubt,
};
use crate::prompt::PlacedTool;
use crate::session::{Ending, LoggedValue};
use crate::store::LedgerChange;
use crate::support::future::{Contained, catch};
use crate::tool::erased::KeyParts;
use crate::tool::footprint::{Footprint, WorkspaceKind};

/// Where a session remembers which replayed values it has: beside the state of policies, whose keys start with a
/// section or a template, and with it part of the call's transaction.
static REPLAYED: LazyLock<Arc<str>> = LazyLock::new(|| ":replayed".into());

impl Call {
    pub(super) async fn ledger(&mut self) -> Result<(), Box<Failure>> {
        let Some((config, parts)) = self.key()? else {
            return match self.is_serial() {
                true => self.take_write_turn().await,
                false => Ok(()),
            };
        };
        // A conflict at the commit would put an effect in doubt that has happened. A key of the request alone takes no turn: every
        // command of a run would keep the commands of other runs waiting.
        let is_configured =
            self.placed.as_ref().is_some_and(|placed| placed.tool.contract().idempotency.is_some());
        let reach = config.reach;
        let keeps_others_out = is_configured && reach == Reach::Outside && self.may_write_files();
        let takes_turn = self.is_serial() || keeps_others_out;
        self.claim_key(config, parts, takes_turn).await?;
        if reach == Reach::Outside { self.refuse_after_a_loss().await } else { Ok(()) }
    }

    /// A store that has lost commits may have lost the record of this very effect. What is recorded is still replayed.
    async fn refuse_after_a_loss(&mut self) -> Result<(), Box<Failure>> {
        if self.claim.is_none() {
            return Ok(());
        }
        let losses = self.session().store().losses().await;
        let loss = losses.map_err(|error| self.store_failed(&error))?.into_iter().next();
        let Some((loss, claim)) = loss.and_then(|loss| Some((loss, self.claim.take()?))) else {
            return Ok(());
        };
        claim.release().await.map_err(|error| self.store_failed(&error))?;
        let text = format!(
            "{} was not run: the store has lost commits, and may have lost the record that it had its effect with these \
             arguments ({}). The operator has to find out what happened, and then type `wink ledger acknowledge-loss`.",
            self.name, loss.what
        );
        Err(Failure::new(Ending::InDoubt, text).because(vec![loss.what]))
    }

    async fn claim_key(
        &mut self,
        config: IdempotencyConfig,
        parts: KeyParts,
        takes_turn: bool,
    ) -> Result<(), Box<Failure>> {
        // Another process may take as long as this one would.
        let patience = self.placed.as_ref().and_then(|placed| placed.tool.contract().timeout);
        // What somebody has approved to run again.
        let mut approved: Option<InDoubt> = None;
        let mut questions = 0;
        // Each turn but that of a question means that another call was faster.
        let began = self.session().clock().monotonic();
        loop {
            let session = &self.shared.session;
            if takes_turn {
                let recorded = Claim::is_recorded(session, &config, &self.name, &parts).await;
                if !recorded.map_err(|error| self.store_failed(&error))? {
                    self.take_write_turn().await?;
                }
            }
            // The call that has the key may need the turn for its end.
            let waits = if self.write_turn.is_some() { Waits::No } else { Waits::Yes };
            let session = &self.shared.session;
            let call = self.invocation.id;
            let made = Claim::make(session, &config, &self.name, parts.clone(), call, patience, waits).await;
            let (doubt, doubted) = match made.map_err(|error| self.store_failed(&error))? {
                ClaimOutcome::Mine(claim) => {
                    self.claim = Some(Box::new(claim));
                    return self.turn_of_claim(takes_turn).await;
                }
                ClaimOutcome::Hit(effect) => {
                    self.write_turn = None;
                    self.replay = Some(Box::new(effect));
                    return Ok(());
                }
                ClaimOutcome::Busy(busy) => {
                    self.write_turn = None;
                    let clock = Arc::clone(self.session().clock());
                    let waited = clock.monotonic().saturating_sub(began);
                    if patience.is_some_and(|patience| waited >= patience) {
                        return Err(self.elsewhere(busy.since()));
                    }
                    busy.over(&*clock).await;
                    continue;
                }
                ClaimOutcome::Elsewhere(since) => {
                    return Err(self.elsewhere(since));
                }
                ClaimOutcome::Doubt(doubt, doubted) => (doubt, doubted),
            };
            // An approver may take long, and a probe may want the workspace.
            self.write_turn = None;
            let decided = match &config.when_in_doubt {
                WhenInDoubt::Fail => return Err(self.not_run_again(&doubt, "It was not run again")),
                WhenInDoubt::RunAgain => self.take_over(doubted, Before::InDoubt).await?,
                WhenInDoubt::Probe(probe) => self.probe(&**probe, &doubt, doubted).await?,
                WhenInDoubt::Ask => match approved.take_if(|shown| *shown == doubt) {
                    Some(_) => self.take_over(doubted, Before::InDoubt).await?,
                    None => {
                        if questions > MOST_CHANGES {
                            let text = format!(
                                "{} was not run: its entry kept changing while approval was asked for",
                                self.name
                            );
                            return Err(Failure::new(Ending::InDoubt, text));
                        }
                        questions += 1;
                        // The session is others' while somebody thinks.
                        let question =
                            format!("{} Run it again?", self.doubtful(&doubt, "").message.trim_end());
                        let asked = self.ask("ledger", question).await?;
                        asked.map_err(|reason| self.doubtful(&doubt, &reason))?;
                        // What the policies allowed was the state before.
                        self.policies_again().await?;
                        approved = Some(doubt);
                        false
                    }
                },
            };
            if decided {
                return self.turn_of_claim(takes_turn && self.claim.is_some()).await;
            }
        }
    }

    /// The write turn for a claim, where it was not taken before: the entry was in doubt, or had just expired. The holder of
    /// the turn waits for no claim, so this one may wait for the turn.
    async fn turn_of_claim(&mut self, takes_turn: bool) -> Result<(), Box<Failure>> {
        match takes_turn {
            true => self.take_write_turn().await,
            false => Ok(()),
        }
    }

    /// Another process runs the same.
    fn elsewhere(&self, since: jiff::Timestamp) -> Box<Failure> {
        let text = format!(
            "{} is being run with these arguments by another process, since {since}. Try again later.",
            self.name
        );
        Failure::new(Ending::InDoubt, text)
    }

    /// What the call's success does to the ledger.
    ///
    /// # Errors
    /// When the value could not be given again: it must not be committed then. The handler has run, and so the key
    /// is left in doubt.
    pub(super) fn recording(&self) -> Result<Option<Box<LedgerChange>>, Box<Failure>> {
        let (Some(claim), Some((event, _))) = (&self.claim, &self.candidate) else { return Ok(None) };
        // What was returned, however much of it the log keeps.
        let (message, value) = match &self.whole {
            Some(whole) => (&*whole.0, whole.1.clone().map_or(LoggedValue::None, LoggedValue::Typed)),
            None => (&*event.message, event.value.clone()),
        };
        let value = match &value {
            LoggedValue::None => Ok(None),
            LoggedValue::Json(value) => Ok(Some(Value::clone(value))),
            LoggedValue::Typed(value) => value.as_ref().to_json().map(Some),
        };
        let value = value.and_then(|value| self.readable(value.as_ref()).map(|()| value));
        let value = match value {
            // Nobody asked the tool whether its values can be read again: what the model saw is kept instead.
            Err(_) if self.once_by_request().is_some() => {
                let shown = self.candidate.as_ref().map_or("", |(_, shown)| shown);
                return Ok(Some(Box::new(claim.recorded(claim.effect(shown, event.ended_at())))));
            }
            value => value,
        };
        let value = value.map_err(|reason| {
            let text = format!(
                "{} was not committed: its value cannot be kept as JSON and read again, which an idempotent tool's has \
                 to be ({reason}); {}",
                self.name,
                self.what_remains()
            );
            Failure::new(Ending::NotCommitted, text).because(vec![reason])
        })?;
        let effect = ToolEffect {
            value,
            exclude_value_from_context: event.value_hidden,
            ..claim.effect(message, event.ended_at())
        };
        Ok(Some(Box::new(claim.recorded(effect))))
    }

    /// Whether a value can be given to later calls: it has to come back in the tool's own type.
    fn readable(&self, value: Option<&Value>) -> Result<(), String> {
        let (Some(value), Some(placed)) = (value, &self.placed) else { return Ok(()) };
        catch(|| placed.tool.inner.revive(value))?.map(drop)
    }

    /// Dispatches a replayed value to its slices, once in each session: not where the effect was run, nor where an
    /// earlier replay has brought it.
    pub(super) fn publish_replayed(&mut self) -> Result<(), Box<Failure>> {
        let (Some(effect), Some(placed), Some(tx)) = (&self.replay, &self.placed, &self.tx) else {
            return Err(lost("the result"));
        };
        let session = &self.shared.session;
        if effect.value.is_none()
            || effect.session.as_ref() == Some(session.id())
            || placed.tool.inner.published_kinds(session).is_empty()
        {
            return Ok(());
        }
        let (work, id) = (Arc::clone(tx.work()), Arc::<str>::from(effect.effect_id.as_str()));
        let over = |_| lost("the transaction");
        if work.policy_get(&REPLAYED, &id).map_err(over)?.is_some() {
            return Ok(());
        }
        self.publish()?;
        work.policy_set(&REPLAYED, id, Some(Arc::new(Value::Bool(true)))).map_err(over)
    }

    /// Where the effect of a tool with a config is. That it is only where a rollback reaches has to be said and enforced.
    fn reach(&self, placed: &PlacedTool) -> Reach {
        let files = self.shared.resources.there_already::<dyn Filesystem>();
        let workspace = match files.is_some_and(|files| files.as_any().is::<MemoryFilesystem>()) {
            true => WorkspaceKind::Memory,
            false => WorkspaceKind::Elsewhere,
        };
        let in_memory = |footprint: &Footprint| footprint.is_in_memory(workspace);
        match !placed.tool.contract().annotations.open_world && self.footprint.as_ref().is_some_and(in_memory)
        {
            true => Reach::Inside,
            false => Reach::Outside,
        }
    }

    /// The key's parts; none when the tool always runs.
    fn key(&self) -> Result<Option<(IdempotencyConfig, KeyParts)>, Box<Failure>> {
        let (Some(placed), Some(params)) = (&self.placed, &self.params) else { return Err(lost("the call")) };
        let found = match (&placed.tool.contract().idempotency, self.once_by_request()) {
            (Some(config), _) => {
                let found = placed.tool.inner.key(params);
                found.map(|parts| parts.map(|parts| (config.clone().reaching(self.reach(placed)), parts)))
            }
            // The same request has the same arguments: another that happens to have its key is not answered with its result.
            (None, Some(key)) => placed.tool.inner.params_hash(params).map(|params_hash| {
                // Hashed, since a caller may send anything as its key, and as much as it likes.
                let text = format!(
                    "{REQUEST_KEY}{}",
                    blake3::keyed_hash(blake3::hash(key.as_bytes()).as_bytes(), params_hash.as_bytes())
                );
                let reach = match placed.tool.contract().annotations.open_world {
                    true => Reach::Outside,
                    false => Reach::Inside,
                };
                Some((
                    IdempotencyConfig::of_a_request(self.request_ttl, reach),
                    KeyParts { text, params_hash },
                ))
            }),
            (None, None) => Ok(None),
        };
        match found {
            Ok(key) => Ok(key),
            Err(reason) => {
                let text = format!("{} could not be called: no idempotency key: {reason}", self.name);
                Err(Failure::new(Ending::Errored, text).because(vec![reason]))
            }
        }
    }

    /// Asks the outside world whether the effect happened. False when the entry has changed meanwhile.
    async fn probe(
        &mut self,
        probe: &Probe,
        doubt: &InDoubt,
        doubted: Box<Doubted>,
    ) -> Result<bool, Box<Failure>> {
        let json = self.params.as_ref().map(|params| params.json().clone()).unwrap_or_default();
        let when = StopWhen::within(Some(self.shared.limits.probe_timeout));
        let key = doubted.key().to_owned();
        let asked = Contained::new(Box::pin(async { probe(key, json).await }));
        match held_to(&when, self.session().clock(), pin!(asked)).await {
            Ok(Ok(Probed::DidNotHappen)) => self.take_over(doubted, Before::DidNotHappen).await,
            Ok(Ok(Probed::Happened { message, value, exclude_value_from_context })) => {
                // One that cannot be read would fail every later call.
                if let Err(reason) = self.readable(value.as_ref()) {
                    let why = format!("Its probe gave a value that cannot be read: {reason}");
                    return Err(self.doubtful(doubt, &why));
                }
                let effect = doubted.effect(message, self.session().clock().now());
                let effect = ToolEffect { value, exclude_value_from_context, ..effect };
                let settled =
                    doubted.settle(effect.clone()).await.map_err(|error| self.store_failed(&error))?;
                self.replay = settled.then(|| Box::new(effect));
                Ok(settled)
            }
            Ok(Ok(Probed::Unknown)) => {
                Err(self.not_run_again(doubt, "Its probe could not tell; it was not run again"))
            }
            Ok(Err(error)) => {
                let mut failure = self.not_run_again(doubt, "Its probe failed; it was not run again");
                failure.chain.push(format!("the probe: {error}"));
                Err(failure)
            }
            Err(stopped) => {
                let mut failure = self.not_run_again(doubt, "Its probe did not answer; it was not run again");
                failure.chain.push(format!("the probe: {stopped:?}"));
                Err(failure)
            }
        }
    }

    /// Makes the entry this call's. False when it has changed meanwhile.
    async fn take_over(&mut self, doubted: Box<Doubted>, before: Before) -> Result<bool, Box<Failure>> {
        let taken = doubted.take_over(before, self.session().clock().now()).await;
        self.claim = taken.map_err(|error| self.store_failed(&error))?.map(Box::new);
        Ok(self.claim.is_some())
    }

    /// The call is not run before the operator has settled the doubt, and is told how.
    fn not_run_again(&self, doubt: &InDoubt, why: &str) -> Box<Failure> {
        let how = match self.session().store().settling(&doubt.key) {
            Some(settling) => format!(". Find out whether it happened, and say so: {settling}"),
            None => format!(": the entry '{}' has to be settled first.", doubt.key),
        };
        self.doubtful(doubt, &format!("{why}{how}"))
    }

    /// The call is not run: it may have had its effect already.
    fn doubtful(&self, doubt: &InDoubt, why: &str) -> Box<Failure> {
        let text = format!(
            "{} may already have had its effect with these arguments: {}. {why}",
            self.name, doubt.reason
        );
        Failure::new(Ending::InDoubt, text).because(vec![doubt.reason.clone()])
    }
}
