//! What the story is played on: a workspace on disk, a session in its store, a resource, a bank, and the screen that shows
//! them.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::path::Path;
use std::sync::Arc;

use wink::executor::{Executor, ToolCall};
use wink::filesystem::STATE;
use wink::ledger::EffectLedger;
use wink::prelude::*;
use wink::serde_json::Value;
use wink::session::{Ending, ToolInvoked};
use wink::suites::{Plan, PlanningToolsSection, VfsToolsSection};
use wink_store::Workspace;

use super::bank::{Bank, Receipt};
use super::commands::Commands;
use super::place::Place;
use super::tools::{self, Lamps, Shipment, Sight};
use super::{DemoError, Doing};
use crate::term::{BAD, BOLD, DIM, GOOD, NAME, ODD, PLAIN, Screen, Span, span};

/// The files that the story begins with.
const FILES: [(&str, &str); 4] = [
    ("prices.txt", "rug 80.00\nlamp 19.00\n"),
    ("sales.txt", "16: 19.00 EUR\n"),
    ("orders/17.txt", "open"),
    ("orders/18.txt", "open"),
];

/// The workspace as it is on disk: every path, with the text of those that are files.
pub(super) type Tree = BTreeMap<String, Option<String>>;

pub(super) struct Stage {
    pub(super) screen: Screen,
    pub(super) place: Place,
    pub(super) commands: Commands,
    shop: Shop,
    lamps: Arc<Lamps>,
    bank: Arc<Bank>,
    scene: &'static str,
    calls: usize,
    checks: usize,
}

/// What a process has that works in the shop.
pub(super) struct Shop {
    pub(super) executor: Executor,
    pub(super) workspace: Workspace,
}

impl Shop {
    /// Opens workspace and session: two suites and the demo's own tools make the prompt, and an executor runs its calls.
    pub(super) async fn open(
        place: &Place,
        lamps: &Arc<Lamps>,
        bank: &Arc<Bank>,
        commands: &Commands,
    ) -> Result<Self, DemoError> {
        let workspace = Workspace::open(place.workspace()).doing("open the workspace")?;
        let mut template = PromptTemplate::builder("wink", "demo")
            .section(PlanningToolsSection::new().section())
            .section(VfsToolsSection::new().over(Arc::clone(workspace.files()) as _).section())
            .section(tools::shop(lamps, bank));
        if let Some(shell) = commands.section() {
            template = template.section(shell);
        }
        let prompt = template.build().doing("build the prompt")?.prompt();
        let session = workspace.session("demo").open().await.doing("open the session")?;
        let executor = Executor::open(&prompt, &session).await.doing("open the executor")?;
        Ok(Self { executor, workspace })
    }
}

impl Stage {
    /// Sets everything up.
    pub(super) async fn open(screen: Screen, place: Place, commands: Commands) -> Result<Self, DemoError> {
        std::fs::create_dir_all(place.workspace()).doing("make the workspace")?;
        for (path, text) in FILES {
            let path = place.workspace().join(path);
            let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            made.and_then(|()| std::fs::write(&path, text)).doing("fill the workspace")?;
        }
        let (lamps, bank) = (Arc::new(Lamps::new(3)), Arc::new(Bank::with_books(place.books())));
        let shop = Shop::open(&place, &lamps, &bank, &commands).await?;
        Ok(Self { screen, place, commands, shop, lamps, bank, scene: "", calls: 0, checks: 0 })
    }

    /// Opens workspace and session anew, as a process does that is started after another one died.
    pub(super) async fn reopen(&mut self) -> Result<(), DemoError> {
        self.shop = Shop::open(&self.place, &self.lamps, &self.bank, &self.commands).await?;
        Ok(())
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
        let outcome = self.shop.executor.call(call).await;
        self.answer(&outcome.event, outcome.text())?;
        Ok(outcome.event)
    }

    /// As [`Stage::call`], showing the first line of the answer only.
    pub(super) async fn call_briefly(&mut self, tool: &str, arguments: Value) -> Result<(), DemoError> {
        let call = self.propose(tool, &arguments)?;
        let outcome = self.shop.executor.call(call).await;
        self.answer(&outcome.event, outcome.text().lines().next().unwrap_or_default())
    }

    /// Says that another process makes a call here.
    pub(super) fn call_elsewhere(&mut self, tool: &str, arguments: &Value) -> Result<(), DemoError> {
        self.propose(tool, arguments).map(drop)
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
        self.shop.executor.session()
    }

    pub(super) fn workspace(&self) -> &Workspace {
        &self.shop.workspace
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

    /// What the bank has in its books.
    pub(super) fn charges(&self) -> Result<Vec<Receipt>, DemoError> {
        self.bank.charges().doing("read the bank's books")
    }

    /// A file, as anybody reads it.
    pub(super) fn read(&self, path: &str) -> Result<String, DemoError> {
        std::fs::read_to_string(self.place.workspace().join(path)).doing("read the workspace")
    }

    /// Everything in the workspace, as anybody sees it.
    pub(super) fn tree(&self) -> Result<Tree, DemoError> {
        let mut tree = Tree::new();
        walk(self.place.workspace(), "", &mut tree).doing("look through the workspace")?;
        Ok(tree)
    }

    /// What anybody outside a call sees of an order.
    pub(super) fn sight(&self, order: u32) -> Result<Sight, DemoError> {
        let tree = self.tree()?;
        let text = |path: &str| tree.get(path).cloned().flatten();
        Ok(Sight {
            shipments: self.session().slice::<Shipment>().len(),
            order_file: text(&tools::order_path(order)).unwrap_or_default(),
            label_file: text(&tools::label_path(order)),
            lamps: *self.lamps.read(),
        })
    }
}

/// What is below a directory, but for the runtime's own state.
fn walk(dir: &Path, below: &str, tree: &mut Tree) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let path = format!("{below}{}", entry.file_name().to_string_lossy());
        if path == STATE {
            continue;
        }
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), &format!("{path}/"), tree)?;
            tree.insert(path, None);
        } else {
            tree.insert(path, Some(std::fs::read_to_string(entry.path())?));
        }
    }
    Ok(())
}

/// How a call ended, in a word and a colour.
pub(super) fn verdict(event: &ToolInvoked) -> (String, anstyle::Style) {
    let style = match event.ending {
        Ending::Succeeded if event.replayed => return ("replayed".to_owned(), ODD),
        Ending::Succeeded => GOOD,
        Ending::InDoubt | Ending::Interrupted => ODD,
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
