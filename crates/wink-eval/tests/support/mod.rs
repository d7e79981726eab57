//! A desk with the tool on it.

#![allow(dead_code, unreachable_pub, reason = "not every test needs all of it")]

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use wink::executor::{Executor, Outcome, ToolCall};
use wink::filesystem::{Filesystem, MemoryFilesystem};
use wink::prelude::*;
use wink::resource::Binding;
use wink_eval::{AstevalSection, Interpreter, Limits, WorkerProcess};

pub const WORKER: &str = env!("CARGO_BIN_EXE_wink-eval-worker");

pub struct Desk {
    pub executor: Executor,
    pub files: Arc<dyn Filesystem>,
}

/// Half a second is long for a program that ends, and short for one that does not.
pub fn brief() -> Limits {
    Limits { time: Duration::from_millis(500), ..Limits::default() }
}

impl Desk {
    pub async fn new() -> Self {
        Self::with(WorkerProcess::new(WORKER), Limits::default(), &[]).await
    }

    pub async fn with(interpreter: impl Interpreter, limits: Limits, files: &[(&str, &str)]) -> Self {
        Self::of(&Session::new(), interpreter, limits, files).await
    }

    pub async fn of(
        session: &Session,
        interpreter: impl Interpreter,
        limits: Limits,
        files: &[(&str, &str)],
    ) -> Self {
        let files: Arc<dyn Filesystem> =
            Arc::new(MemoryFilesystem::from_files(files.iter().copied()).expect("valid files"));
        let section = AstevalSection::new(interpreter).limits(limits).section();
        let prompt = PromptTemplate::builder("tests", "python").section(section);
        let prompt =
            prompt.resource(Binding::filesystem(Arc::clone(&files))).build().expect("valid").prompt();
        let executor = Executor::open(&prompt, session).await.expect("opens");
        Self { executor, files }
    }

    pub async fn call(&self, arguments: Value) -> Outcome {
        self.executor.call(ToolCall::new("c", "evaluate_python", arguments.to_string())).await
    }

    pub async fn says(&self, arguments: Value) -> String {
        let outcome = self.call(arguments).await;
        format!("{}{}", if outcome.is_success() { "" } else { "FAILED: " }, outcome.text())
    }

    pub async fn runs(&self, code: &str) -> String {
        self.says(json!({ "code": code })).await
    }
}
