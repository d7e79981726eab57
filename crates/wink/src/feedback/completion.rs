//! Completion: who is asked when the model says that it is done, and what it is told if it is not.

use std::sync::Arc;

use serde_json::Value;

use crate::BoxFuture;
use crate::filesystem::{Filesystem, Looking};
use crate::resource::{ResourceContext, ResourceError};
use crate::session::{CallStat, Session, SliceType, SliceView};
use crate::support::future::{CatchPanic, catch};

/// Whether the work is done.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an answer means nothing until the model is told"]
pub enum Completion {
    /// It is.
    Complete,
    /// It is not: what is missing, told to the model.
    Missing(String),
}

/// A completion checker panicked; with what is in the diagnostics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("whether the work is done could not be found out: a completion checker panicked")]
pub struct CheckerPanicked;

/// Somebody who knows whether the work is done.
///
/// ```
/// use wink::feedback::{AllComplete, Completion, CompletionChecker, CompletionContext};
/// use wink::prelude::*;
/// use wink::suites::PlanChecker;
/// use wink::BoxFuture;
///
/// struct Tested;
///
/// impl CompletionChecker for Tested {
///     fn check<'a>(&'a self, cx: &'a CompletionContext<'a>) -> BoxFuture<'a, Completion> {
///         Box::pin(async {
///             match cx.calls("run_tests") {
///                 Some(_) => Completion::Complete,
///                 None => Completion::Missing("The tests have not been run; call run_tests.".into()),
///             }
///         })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let session = Session::new();
/// let checker = AllComplete::new().and(PlanChecker).and(Tested);
/// let missing = CompletionContext::new(&session, "All done.").ask(&checker).await;
/// assert_eq!(missing, Ok(Completion::Missing("The tests have not been run; call run_tests.".into())));
/// # }
/// ```
pub trait CompletionChecker: Send + Sync + 'static {
    /// What it says. It only looks.
    fn check<'a>(&'a self, cx: &'a CompletionContext<'a>) -> BoxFuture<'a, Completion>;
}

/// A shared checker is that checker.
impl<T: CompletionChecker + ?Sized> CompletionChecker for Arc<T> {
    fn check<'a>(&'a self, cx: &'a CompletionContext<'a>) -> BoxFuture<'a, Completion> {
        (**self).check(cx)
    }
}

/// What a checker may look at. Nothing here changes anything.
pub struct CompletionContext<'a> {
    session: &'a Session,
    text: &'a str,
    output: Option<&'a Value>,
    resources: Option<&'a ResourceContext>,
}

impl<'a> CompletionContext<'a> {
    /// The model said `text` in this session, and called no tool.
    pub fn new(session: &'a Session, text: &'a str) -> Self {
        Self { session, text, output: None, resources: None }
    }

    /// What it said was read as this.
    #[must_use]
    pub fn with_output(self, output: &'a Value) -> Self {
        Self { output: Some(output), ..self }
    }

    /// The resources that tools have.
    #[must_use]
    pub fn with_resources(self, resources: &'a ResourceContext) -> Self {
        Self { resources: Some(resources), ..self }
    }

    /// Asks a checker.
    ///
    /// # Errors
    /// When it panics: then nobody knows whether the work is done, and nothing that the model does can change that.
    pub async fn ask(&self, checker: &dyn CompletionChecker) -> Result<Completion, CheckerPanicked> {
        let said = match catch(|| checker.check(self)) {
            Ok(check) => CatchPanic::new(check).await,
            Err(panic) => Err(panic),
        };
        said.map_err(|panic| {
            tracing::error!(panic, "a completion checker panicked");
            CheckerPanicked
        })
    }

    /// What the model said last.
    pub fn text(&self) -> &str {
        self.text
    }

    /// Its structured output, where the prompt has one.
    pub fn output(&self) -> Option<&Value> {
        self.output
    }

    /// The slice of `T`.
    pub fn slice<T: SliceType>(&self) -> SliceView<T> {
        self.session.slice()
    }

    /// How often `tool` succeeded in this session, and when last.
    pub fn calls(&self, tool: &str) -> Option<CallStat> {
        self.session.calls(tool)
    }

    /// The workspace, without a way to change it; none where there is none.
    ///
    /// # Errors
    /// When it cannot be had.
    pub async fn filesystem(&self) -> Result<Option<Arc<dyn Filesystem>>, ResourceError> {
        let Some(resources) = self.resources else { return Ok(None) };
        let files = resources.get_optional::<dyn Filesystem>().await?;
        Ok(files.map(|files| Arc::new(Looking(files)) as Arc<dyn Filesystem>))
    }
}

/// Satisfied when all of its parts are. They are asked in order, and none after the first that is not.
#[derive(Default)]
#[must_use = "a checker does nothing until a template has it"]
pub struct AllComplete {
    parts: Vec<Arc<dyn CompletionChecker>>,
}

/// Satisfied when one of its parts is. They are asked in order, and none after the first that is. Without parts it is
/// satisfied.
#[derive(Default)]
#[must_use = "a checker does nothing until a template has it"]
pub struct AnyComplete {
    parts: Vec<Arc<dyn CompletionChecker>>,
}

impl AllComplete {
    /// Without parts: satisfied.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a part.
    pub fn and(mut self, checker: impl CompletionChecker) -> Self {
        self.parts.push(Arc::new(checker));
        self
    }

    /// One checker for all; none without parts.
    pub(crate) fn into_checker(mut self) -> Option<Arc<dyn CompletionChecker>> {
        match self.parts.len() {
            0 | 1 => self.parts.pop(),
            _ => Some(Arc::new(self)),
        }
    }
}

impl AnyComplete {
    /// Without parts: satisfied.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a part.
    pub fn or(mut self, checker: impl CompletionChecker) -> Self {
        self.parts.push(Arc::new(checker));
        self
    }
}

impl CompletionChecker for AllComplete {
    fn check<'a>(&'a self, cx: &'a CompletionContext<'a>) -> BoxFuture<'a, Completion> {
        Box::pin(async move {
            for part in &self.parts {
                if let missing @ Completion::Missing(_) = part.check(cx).await {
                    return missing;
                }
            }
            Completion::Complete
        })
    }
}

impl CompletionChecker for AnyComplete {
    fn check<'a>(&'a self, cx: &'a CompletionContext<'a>) -> BoxFuture<'a, Completion> {
        Box::pin(async move {
            let mut all = Vec::with_capacity(self.parts.len());
            for part in &self.parts {
                match part.check(cx).await {
                    Completion::Complete => return Completion::Complete,
                    Completion::Missing(text) => all.push(text),
                }
            }
            match all.is_empty() {
                true => Completion::Complete,
                false => Completion::Missing(all.join("\nor: ")),
            }
        })
    }
}
