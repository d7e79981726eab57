//! What the story is played on: a session, a workspace, a resource, a bank, and the screen that shows them.

#[cfg(test)]
mod tests;

use std::fmt::{Debug, Display};
use std::future::Future;
use std::sync::Arc;

use wink::executor::{Executor, ToolCall};
use wink::filesystem::{Filesystem, FilesystemExt, FsPath, MemoryFilesystem};
use wink::ledger::EffectLedger;
use wink::limits::CancelToken;
use wink::prelude::*;
use wink::serde_json::Value;
use wink::session::{Ending, ToolInvoked};
use wink::suites::{Plan, PlanningToolsSection, VfsToolsSection};

use super::bank::Bank;
use super::tools::{self, Lamps, Shipment, Sight};
use super::{DemoError, Doing};
use crate::term::{BAD, BOLD, DIM, GOOD, NAME, ODD, PLAIN, Screen, Span, span};

/// The files that the story begins with.
const FILES: [(&str, &str); 3] =
    [("prices.txt", "lamp 19.00\nrug 80.00\n"), ("orders/17.txt", "open"), ("orders/18.txt", "open")];

pub(super) struct Stage {
    pub(super) screen: Screen,
    pub(super) executor: Executor,
    pub(super) bank: Arc<Bank>,
    files: Arc<dyn Filesystem>,
    lamps: Arc<Lamps>,
    scene: &'static str,
    calls: usize,
    checks: usize,
}

impl Stage {
    /// Sets everything up: two suites and the demo's own tools make the prompt, and an executor runs its calls.
    pub(super) async fn open(screen: Screen) -> Result<Self, DemoError> {
        let files: Arc<dyn Filesystem> = Arc::new(MemoryFilesystem::new());
        for (path, text) in FILES {
            files.write_text(path, text).await.doing("fill the workspace")?;
        }
        let lamps = Arc::new(Lamps::new(3));
        let bank = Arc::new(Bank::open());
        let prompt = PromptTemplate::builder("wink", "demo")
            .section(PlanningToolsSection::new().section())
            .section(VfsToolsSection::new().over(Arc::clone(&files)).section())
            .section(tools::shop(&lamps, &bank))
            .build()
            .doing("build the prompt")?
            .prompt();
        let session = Session::builder().id("demo").build();
        let executor = Executor::open(&prompt, &session).await.doing("open the executor")?;
        Ok(Self { screen, executor, bank, files, lamps, scene: "", calls: 0, checks: 0 })
    }

    /// Begins a scene.
    pub(super) fn scene(&mut self, number: &'static str, title: &str, about: &str) -> Result<(), DemoError> {
        self.scene = number;
        self.screen.blank()?;
        self.screen.heading(number, title)?;
        self.screen.text(DIM, about)?;
        self.screen.blank()?;
        Ok(())
    }

    /// Makes a call as a model would, and shows both sides of it. Returns what the log says of it.
    pub(super) async fn call(&mut self, tool: &str, arguments: Value) -> Result<Arc<ToolInvoked>, DemoError> {
        let call = self.propose(tool, &arguments)?;
        let outcome = self.executor.call(call).await;
        self.answer(&outcome.event, outcome.text())?;
        Ok(outcome.event)
    }

    /// As [`Stage::call`], showing the first line of the answer only.
    pub(super) async fn call_briefly(&mut self, tool: &str, arguments: Value) -> Result<(), DemoError> {
        let call = self.propose(tool, &arguments)?;
        let outcome = self.executor.call(call).await;
        self.answer(&outcome.event, outcome.text().lines().next().unwrap_or_default())
    }

    /// As [`Stage::call`], but the call is cancelled when `enough` ends.
    pub(super) async fn call_until(
        &mut self,
        enough: impl Future<Output = ()>,
        tool: &str,
        arguments: Value,
    ) -> Result<Arc<ToolInvoked>, DemoError> {
        let call = self.propose(tool, &arguments)?;
        let cancel = CancelToken::new();
        let cancelling = async {
            enough.await;
            cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(self.executor.call_cancellable(call, cancel.clone()), cancelling);
        self.answer(&outcome.event, outcome.text())?;
        Ok(outcome.event)
    }

    fn propose(&mut self, tool: &str, arguments: &Value) -> Result<ToolCall, DemoError> {
        self.calls += 1;
        self.screen.listed(&span(format!("→ {tool}"), NAME), &spoken(arguments))?;
        Ok(ToolCall::new(format!("call-{}", self.calls), tool, arguments.to_string()))
    }

    fn answer(&mut self, event: &ToolInvoked, text: &str) -> Result<(), DemoError> {
        let (word, style) = verdict(event);
        let mut label = vec![span("← ", style)];
        if word != "succeeded" {
            label.push(span(format!("{word}: "), style.bold()));
        }
        self.screen.labelled(&label, span(text, PLAIN))?;
        Ok(())
    }

    /// Says something that is checked right now. What is not so ends the demo.
    pub(super) fn check<T: PartialEq + Debug>(
        &mut self,
        claim: impl Display,
        found: T,
        expected: T,
    ) -> Result<(), DemoError> {
        let claim = claim.to_string();
        if found == expected {
            self.checks += 1;
            self.screen.labelled(&[span("✓ ", GOOD)], span(claim, GOOD))?;
            return Ok(());
        }
        self.screen.labelled(&[span("✗ ", BAD)], span(claim.as_str(), BAD))?;
        let (expected, found) = (format!("{expected:?}"), format!("{found:?}"));
        Err(DemoError::Check { scene: self.scene.to_owned(), claim, expected, found })
    }

    /// How many checks were made.
    pub(super) fn checks(&self) -> usize {
        self.checks
    }

    /// How many calls were made.
    pub(super) fn calls(&self) -> usize {
        self.calls
    }

    pub(super) fn session(&self) -> &Session {
        self.executor.session()
    }

    pub(super) fn plan(&self) -> Plan {
        self.session().slice::<Plan>().latest().map(Arc::unwrap_or_clone).unwrap_or_default()
    }

    pub(super) fn log(&self) -> Vec<Arc<ToolInvoked>> {
        self.session().slice::<ToolInvoked>().all()
    }

    pub(super) fn ledger(&self) -> EffectLedger {
        let session = self.session();
        EffectLedger::new(Arc::clone(session.store()), Arc::clone(session.clock()))
    }

    pub(super) async fn read(&self, path: &str) -> Result<String, DemoError> {
        self.files.read_text(path).await.doing("read the workspace")
    }

    /// Every path of the workspace, with the text of those that are files.
    pub(super) async fn tree(&self) -> Result<Vec<(FsPath, Option<String>)>, DemoError> {
        let mut tree = Vec::new();
        let entries = self.files.glob(&FsPath::root(), "**").await.doing("look through the workspace")?;
        for entry in entries {
            let text = self.files.read_text(entry.path.as_str()).await.ok();
            tree.push((entry.path, text));
        }
        Ok(tree)
    }

    /// What anybody outside a call sees of an order.
    pub(super) async fn sight(&self, order: u32) -> Result<Sight, DemoError> {
        let label = tools::label_path(order);
        let has_label = self.files.exists_at(&label).await.doing("look for a label")?;
        Ok(Sight {
            shipments: self.session().slice::<Shipment>().len(),
            order_file: self.read(&tools::order_path(order)).await?,
            label_file: if has_label { Some(self.read(&label).await?) } else { None },
            lamps: *self.lamps.read(),
        })
    }
}

/// How a call ended, in a word and a colour.
pub(super) fn verdict(event: &ToolInvoked) -> (String, anstyle::Style) {
    let style = match event.ending {
        Ending::Succeeded if event.replayed => return ("replayed".to_owned(), ODD),
        Ending::Succeeded => GOOD,
        Ending::InDoubt | Ending::Cancelled => ODD,
        _ => BAD,
    };
    // The word that the log itself uses.
    let word = wink::serde_json::to_value(event.ending).unwrap_or_default();
    (word.as_str().unwrap_or("?").replace('_', " "), style)
}

/// Arguments for a person: `path="a.txt"`, `limit=5`.
fn spoken(arguments: &Value) -> Vec<String> {
    match arguments {
        Value::Object(fields) => fields.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        other => vec![other.to_string()],
    }
}

/// A cell of a table's first row.
pub(super) fn head(text: &str) -> Span {
    span(text, DIM)
}

/// The name of a row.
pub(super) fn row_name(text: &str) -> Span {
    span(text, BOLD)
}
