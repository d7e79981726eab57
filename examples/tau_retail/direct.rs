//! Runs the tools without a runtime, straight on a database: the yardstick for what the tools themselves do.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::database::{Database, Initial, Shop};
use crate::domain::{Answer, RetailTool, ToolVisitor, visit_tools};
use crate::replay::{Engine, Fault, Reply};

/// What a fault leaves of the call that it strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterFault {
    /// Nothing: its effect is taken back.
    RolledBack,
    /// The effect, though its answer was lost.
    Kept,
}

/// The tools over a database in memory.
pub(crate) struct Direct {
    initial: Arc<Initial>,
    database: Database,
    tools: HashMap<&'static str, Run>,
    after_fault: AfterFault,
}

type Run = fn(&dyn Shop, &Value) -> serde_json::Result<Answer>;

impl Direct {
    pub(crate) fn new(initial: Arc<Initial>, after_fault: AfterFault) -> Self {
        let mut tools = Tools(HashMap::new());
        visit_tools(&mut tools);
        Self { database: Database::new(Arc::clone(&initial)), initial, tools: tools.0, after_fault }
    }
}

impl Engine for Direct {
    type Error = serde_json::Error;

    fn start_task(&mut self) -> Result<(), Self::Error> {
        self.database = Database::new(Arc::clone(&self.initial));
        Ok(())
    }

    fn call(&mut self, name: &str, args: &Value, fault: Fault) -> Result<Reply, Self::Error> {
        let Some(run) = self.tools.get(name) else {
            return Ok(Reply::Answer(format!("Unknown action {name}")));
        };
        let (text, changes) = match run(&self.database, args)? {
            Ok(done) => (done.text, done.changes),
            Err(refusal) => (refusal.to_string(), Vec::new()),
        };
        match (fault, self.after_fault) {
            (Fault::AfterEffect, AfterFault::RolledBack) => Ok(Reply::Lost),
            (Fault::AfterEffect, AfterFault::Kept) => {
                self.database.apply(changes);
                Ok(Reply::Lost)
            }
            (Fault::None, _) => {
                self.database.apply(changes);
                Ok(Reply::Answer(text))
            }
        }
    }

    fn database_sha256(&self) -> Result<String, Self::Error> {
        self.database.sha256()
    }
}

struct Tools(HashMap<&'static str, Run>);

impl ToolVisitor for Tools {
    fn visit<T: RetailTool>(&mut self) {
        self.0.insert(T::NAME, |shop, args| Ok(T::deserialize(args)?.run(shop)));
    }
}
