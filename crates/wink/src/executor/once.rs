//! The ledger's step: whether the effect happened already, and what to do when nobody can know.

use std::pin::pin;

use super::call::Call;
use super::govern::MOST_CHANGES;
use super::outcome::Failure;
use super::steps::lost;
use super::stop::{StopWhen, held_to};
use crate::ledger::{Claim, ClaimOutcome, IdempotencyConfig, InDoubt, Probe, Probed, WhenInDoubt};
use crate::session::Ending;
use crate::tool::erased::KeyParts;

impl Call {
    pub(super) async fn ledger(&mut self) -> Result<(), Box<Failure>> {
        let Some((config, parts)) = self.key()? else { return Ok(()) };
        // What somebody has approved to run again.
        let mut approved: Option<InDoubt> = None;
        for _ in 0..=MOST_CHANGES {
            let made = Claim::make(&self.shared.session, &config, &self.name, parts.clone()).await;
            let (doubt, claim) = match made.map_err(|error| self.store_failed(&error))? {
                ClaimOutcome::Mine(claim) => {
                    self.claim = Some(claim);
                    return Ok(());
                }
                ClaimOutcome::Hit(effect) => {
                    self.replay = Some(effect);
                    return Ok(());
                }
                ClaimOutcome::Elsewhere(since) => {
                    let text = format!(
                        "{} is being run with these arguments by another process, since {since}. Try again later.",
                        self.name
                    );
                    return Err(Failure::new(Ending::InDoubt, text));
                }
                ClaimOutcome::Doubt(doubt, claim) => (doubt, claim),
            };
            match &config.when_in_doubt {
                WhenInDoubt::Fail => {
                    return Err(self
                        .doubtful(&doubt, "It was not run again; somebody has to settle the entry first."));
                }
                WhenInDoubt::RunAgain => return self.take_over(claim).await,
                WhenInDoubt::Probe(probe) => return self.probe(&**probe, &doubt, claim).await,
                WhenInDoubt::Ask => {}
            }
            if approved.take_if(|shown| *shown == doubt).is_some() {
                return self.take_over(claim).await;
            }
            // The session is others' while somebody thinks. They may wait for this very key: it must be free.
            drop(claim);
            let question = format!("{} Run it again?", self.doubtful(&doubt, "").message.trim_end());
            let asked = self.ask("ledger", question).await?;
            asked.map_err(|reason| self.doubtful(&doubt, &reason))?;
            // What the policies allowed was the state before.
            self.policies().await?;
            approved = Some(doubt);
        }
        let text = format!("{} was not run: its entry kept changing while approval was asked for", self.name);
        Err(Failure::new(Ending::InDoubt, text))
    }

    /// The key's parts; none when the tool always runs.
    fn key(&self) -> Result<Option<(IdempotencyConfig, KeyParts)>, Box<Failure>> {
        let (Some(placed), Some(params)) = (&self.placed, &self.params) else { return Err(lost("the call")) };
        let Some(config) = &placed.tool.contract().idempotency else { return Ok(None) };
        match placed.tool.inner.key(params) {
            Ok(parts) => Ok(parts.map(|parts| (config.clone(), parts))),
            Err(reason) => {
                let text = format!("{} could not be called: no idempotency key: {reason}", self.name);
                Err(Failure::new(Ending::Errored, text).because(vec![reason]))
            }
        }
    }

    /// Asks the outside world whether the effect happened.
    async fn probe(&mut self, probe: &Probe, doubt: &InDoubt, mut claim: Claim) -> Result<(), Box<Failure>> {
        let json = self.params.as_ref().map(|params| params.json().clone()).unwrap_or_default();
        let when = StopWhen::within(Some(self.shared.limits.probe_timeout));
        let key = claim.key.to_string();
        let asked = async { probe(key, json).await };
        match held_to(&when, self.session().clock(), pin!(asked)).await {
            Ok(Ok(Probed::DidNotHappen)) => {
                claim.no_longer_in_doubt();
                self.take_over(claim).await
            }
            Ok(Ok(Probed::Happened { message, value })) => {
                let effect = claim.effect(&message, value, false, self.session().clock().now());
                claim.settle(&effect).await.map_err(|error| self.store_failed(&error))?;
                self.replay = Some(effect);
                Ok(())
            }
            Ok(Ok(Probed::Unknown)) => {
                Err(self.doubtful(doubt, "Its probe could not tell; it was not run again."))
            }
            Ok(Err(error)) => Err(self.doubtful(doubt, &format!("Its probe failed: {error}"))),
            Err(stopped) => Err(self.doubtful(doubt, &format!("Its probe did not answer ({stopped:?})."))),
        }
    }

    async fn take_over(&mut self, claim: Claim) -> Result<(), Box<Failure>> {
        let taken = claim.take_over(self.session().clock().now()).await;
        taken.map_err(|error| self.store_failed(&error))?;
        self.claim = Some(claim);
        Ok(())
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
