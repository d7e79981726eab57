//! For those who write adapters: conversations that every adapter has to bring to the same end.
//!
//! Each [scenario](scenarios) is told in words of no provider: what the model says, and what happens meanwhile. [`adapter_contract`]
//! has a scripted model go through it, and then the adapter in question, whose model says the same by its own means: in front of a
//! server that speaks its wire format, or as a program that is driven. What each came to, what was shown on the way, the workspace, what
//! happened outside and the whole session, state and log, have to be equal. Only what must differ is not compared: the adapter's name,
//! the provider's ids of calls, what it wants back as it was, its words for a failure, and what was written of a call that was cut off.
//!
//! A new adapter joins by implementing [`Subject`].

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a contract suite says what is broken by panicking"
)]

mod compare;
mod scenario;
mod scenarios;
mod script;
mod scripted;
mod world;

use std::time::Duration;

use wink::BoxFuture;
use wink::limits::{Clock, SystemClock};

use crate::{Adapter, BoxModel, ModelAdapter, Random, Terms};

pub use scenario::Scenario;
pub use scenarios::scenarios;
pub use script::{Line, Script};
pub use scripted::Scripted;

/// No scenario takes as long as this, on any machine.
const LONGEST: Duration = Duration::from_secs(60);

/// An adapter, with all that it takes to have its model follow a script.
pub trait Subject: Send + Sync {
    /// What it is called where something differs.
    fn name(&self) -> String;

    /// What a response of its model may be.
    fn replies(&self) -> Replies {
        Replies::Any
    }

    /// Whether arguments of calls arrive byte for byte.
    fn arguments(&self) -> Arguments {
        Arguments::AsWritten
    }

    /// How a text of its model is shown.
    fn texts(&self) -> Texts {
        Texts::InPieces
    }

    /// Scenarios that it cannot have, and why. Nothing is left out in silence: the contract says so on the terminal.
    fn leaves_out(&self) -> &[LeftOut] {
        &[]
    }

    /// Where it cannot come to the very same session, and why. All else is compared.
    fn differs(&self) -> &[Differs] {
        &[]
    }

    /// Starts an adapter whose model says what the script says, line by line.
    fn start<'a>(&'a self, script: &'a Script, setup: Setup) -> BoxFuture<'a, Box<dyn Running>>;
}

/// A scenario that an adapter cannot have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftOut {
    /// The name of the scenario.
    pub scenario: &'static str,
    /// Why.
    pub why: &'static str,
}

/// What differs in a scenario that takes place otherwise with an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Differs {
    /// The name of the scenario.
    pub scenario: &'static str,
    /// The places that differ in what came of it, by how they end, without the numbers in them: `answers/text`.
    pub places: &'static [&'static str],
    /// Why.
    pub why: &'static str,
}

/// What a response of a model may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replies {
    /// Text and calls, as many as it likes.
    Any,
    /// One call, or text.
    OneCallOrText,
}

/// How arguments arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arguments {
    /// As the model wrote them.
    AsWritten,
    /// As the same JSON: somebody on the way reads them and writes them anew.
    Rewritten,
}

/// How text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Texts {
    /// While it comes. A long one has to be shown in more than one piece then.
    InPieces,
    /// When all of it is there.
    AtOnce,
}

/// An adapter with whatever stands behind it, until it is dropped.
pub trait Running: Send + Sync {
    /// The adapter.
    fn adapter(&self) -> &dyn Adapter;

    /// What was wrong with what it asked, if whoever answered has noticed.
    fn complaints(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What an adapter under test is to have.
#[derive(Debug, Clone)]
pub struct Setup {
    /// What conversations are held to.
    pub terms: Terms,
    /// Where chance comes from.
    pub random: Random,
}

impl Setup {
    /// The adapter of a model, so set up.
    pub fn adapter(self, model: BoxModel) -> ModelAdapter {
        ModelAdapter::new(model).terms(self.terms).random(self.random)
    }
}

/// Runs every scenario on the subject, and on a scripted model beside it.
///
/// # Panics
///
/// When they come to different ends; the text says in which scenarios, and where.
pub async fn adapter_contract(subject: &dyn Subject) {
    let all = scenarios();
    for LeftOut { scenario: name, why } in subject.leaves_out() {
        assert!(
            all.iter().any(|scenario| scenario.name() == *name),
            "there is no scenario `{name}` to leave out"
        );
        // Not by a macro: what those print is kept back while a test passes.
        let _ = std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("NOT RUN: {name} with {}: {why}\n", subject.name()),
        );
    }
    for Differs { scenario: name, .. } in subject.differs() {
        assert!(all.iter().any(|scenario| scenario.name() == *name), "no scenario is called `{name}`");
    }
    let mut wrong = Vec::new();
    for scenario in &all {
        if subject.leaves_out().iter().any(|left| left.scenario == scenario.name()) {
            continue;
        }
        let scenario = scenario.told_by(subject.replies());
        let mut expected = scenario.run(&Scripted).await;
        // By the machine's clock: the scenario's own stands still.
        let too_long = SystemClock.sleep_until(SystemClock.monotonic().saturating_add(LONGEST));
        let mut found = tokio::select! {
            biased;
            found = scenario.run(subject) => found,
            () = too_long => {
                wrong.push(format!("{}: it does not end", scenario.name()));
                continue;
            }
        };
        if subject.arguments() == Arguments::Rewritten {
            expected.rewrite_arguments();
            found.rewrite_arguments();
        }
        let differs = subject.differs().iter().find(|differs| differs.scenario == scenario.name());
        let left_open = differs.map_or(&[][..], |differs| differs.places);
        let differences = compare::differences(&expected, &found, left_open);
        let at_once = match subject.texts() {
            Texts::InPieces => found.at_once(),
            Texts::AtOnce => Vec::new(),
        };
        let differences = scenario.wrong_with(&found).into_iter().chain(differences).chain(at_once);
        wrong.extend(differences.map(|difference| format!("{}: {difference}", scenario.name())));
    }
    assert!(wrong.is_empty(), "{} differs from a scripted model:\n{}", subject.name(), wrong.join("\n"));
}
