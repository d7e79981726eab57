//! What came of handlers that reach outside, written down and given again: a replay has their results and their files, and nothing
//! happens outside.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wink::filesystem::host::HostFilesystem;
use wink::filesystem::{Filesystem, FsError};
use wink::limits::CancelToken;
use wink::session::InvocationId;
use wink::tool::{ToolContext, ToolError, ToolResult};
use wink::transaction::RestoreFailedError;

use super::Line;
use super::clock::ReplayingClock;
use super::files::ReplayedFiles;
use super::images::FileChange;
use super::put::{Put, put};
use super::write::Shared;
use crate::lock;

/// What a handler returns.
type Returned = Result<ToolResult<Value>, ToolError>;

/// What came of a call's handler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedOutcome {
    call: InvocationId,
    tool: Arc<str>,
    came: Came,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Came {
    Returned {
        success: bool,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<Value>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        hidden: bool,
    },
    Raised(Raised),
    /// Nobody waited for it any more.
    GivenUp,
}

/// An error of a handler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raised {
    text: String,
    chain: Vec<String>,
    in_doubt: bool,
    /// Why something could not be undone, if that is what it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    not_restored: Option<String>,
}

impl From<&Returned> for Came {
    fn from(returned: &Returned) -> Self {
        match returned {
            Ok(result) => Self::Returned {
                success: result.is_success(),
                message: result.message().to_owned(),
                value: result.payload().cloned(),
                hidden: result.is_value_excluded(),
            },
            Err(error) => Self::Raised(Raised {
                text: error.text(),
                chain: error.chain(),
                in_doubt: error.leaves_doubt(),
                not_restored: match (error.find::<RestoreFailedError>(), error.find::<FsError>()) {
                    (Some(failed), _) => Some(failed.reason.clone()),
                    (None, Some(FsError::NotUndone { reason, .. })) => Some(reason.clone()),
                    (None, _) => None,
                },
            }),
        }
    }
}

impl From<Raised> for ToolError {
    fn from(Raised { text, chain, in_doubt, not_restored }: Raised) -> Self {
        let mut causes = chain;
        // What was told by itself comes first; else it is the first line of the cause.
        let is_told = causes.first() == Some(&text);
        if is_told {
            causes.remove(0);
        }
        let error = match (not_restored, Cause::of(causes)) {
            (Some(reason), _) => Self::from(RestoreFailedError { reason }).tell(text),
            (None, Some(cause)) if is_told => Self::from(cause).tell(text),
            (None, Some(cause)) => Self::from(cause),
            (None, None) => Self::new(text),
        };
        if in_doubt { error.in_doubt() } else { error }
    }
}

/// A cause of an error, and its causes.
#[derive(Debug)]
struct Cause {
    text: String,
    cause: Option<Box<Self>>,
}

impl Cause {
    fn of(texts: Vec<String>) -> Option<Self> {
        let chained = |cause: Option<Box<Self>>, text| Some(Box::new(Self { text, cause }));
        texts.into_iter().rev().fold(None, chained).map(|cause| *cause)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

/// Stands around handlers of a run: writes down what comes of them, or gives what came of them then. For handlers that do nothing to
/// the session, but return something and change files.
#[derive(Clone)]
pub struct Handlers(Around);

#[derive(Clone)]
enum Around {
    Recorded(Arc<Shared>),
    Replayed(Arc<ReplayedOutcomes>),
}

impl Handlers {
    pub(super) fn recorded(shared: &Arc<Shared>) -> Self {
        Self(Around::Recorded(Arc::clone(shared)))
    }

    pub(super) fn replayed(outcomes: &Arc<ReplayedOutcomes>) -> Self {
        Self(Around::Replayed(Arc::clone(outcomes)))
    }

    /// What comes of a call's handler, which is not run where that is known.
    ///
    /// # Errors
    /// What the handler returns; and when what came of it is not known.
    pub async fn handled(&self, cx: &ToolContext, run: impl Future<Output = Returned>) -> Returned {
        match &self.0 {
            Around::Recorded(shared) => {
                shared.files.stands_in_for(cx.invocation().id);
                let mut handling = Handling { cx, shared, came: Came::GivenUp };
                let returned = run.await;
                handling.came = Came::from(&returned);
                returned
            }
            Around::Replayed(outcomes) => outcomes.came(cx).await,
        }
    }
}

/// Writes what came of a handler, or that nobody waited for it.
struct Handling<'a> {
    cx: &'a ToolContext,
    shared: &'a Shared,
    came: Came,
}

impl Drop for Handling<'_> {
    fn drop(&mut self) {
        let (call, tool) = (self.cx.invocation().id, Arc::clone(self.cx.tool().name()));
        let outcome = RecordedOutcome { call, tool, came: self.came.clone() };
        self.shared.aside(Line { outcome: Some(outcome), ..Line::default() });
    }
}

/// What came of handlers then.
pub(super) struct ReplayedOutcomes {
    outcomes: HashMap<InvocationId, RecordedOutcome>,
    files: Arc<ReplayedFiles>,
    clock: Arc<ReplayingClock>,
    /// The first thing that was not as it was then.
    difference: Arc<Mutex<Option<String>>>,
}

impl ReplayedOutcomes {
    pub(super) fn new(
        outcomes: Vec<RecordedOutcome>,
        files: &Arc<ReplayedFiles>,
        clock: &Arc<ReplayingClock>,
        difference: &Arc<Mutex<Option<String>>>,
    ) -> Self {
        let outcomes = outcomes.into_iter().map(|outcome| (outcome.call, outcome)).collect();
        let (files, clock, difference) = (Arc::clone(files), Arc::clone(clock), Arc::clone(difference));
        Self { outcomes, files, clock, difference }
    }

    fn differs(&self, message: String) -> ToolError {
        lock(&self.difference).get_or_insert_with(|| message.clone());
        ToolError::new(message)
    }

    async fn came(&self, cx: &ToolContext) -> Returned {
        let (call, tool) = (cx.invocation().id, cx.tool().name());
        let Some(outcome) = self.outcomes.get(&call).filter(|outcome| outcome.tool == *tool) else {
            let message = format!("{tool} is called, and what came of that is not in the recording");
            return Err(self.differs(message));
        };
        match outcome.came.clone() {
            Came::Returned { success, message, value, hidden } => {
                if success {
                    self.put_files(call, cx).await?;
                }
                let result = match (success, value) {
                    (true, Some(value)) => ToolResult::ok(value, message),
                    (true, None) => ToolResult::done(message),
                    (false, Some(value)) => ToolResult::failed(value, message),
                    (false, None) => ToolResult::error(message),
                };
                Ok(if hidden { result.exclude_value_from_context() } else { result })
            }
            Came::Raised(raised) => Err(raised.into()),
            Came::GivenUp if self.clock.gives_up() => {
                self.clock.time_is_up();
                std::future::pending().await
            }
            Came::GivenUp => Err(self.differs(format!("{tool} was given up when this was recorded"))),
        }
    }

    /// Makes the changes to files that the call made then, in its own copy.
    async fn put_files(&self, call: InvocationId, cx: &ToolContext) -> Result<(), ToolError> {
        let Some(changed) = self.files.of(call).filter(|changed| !changed.changes.is_empty()) else {
            return Ok(());
        };
        let (files, changes) = (cx.resource::<dyn Filesystem>().await?, changed.changes.clone());
        let put = tokio::task::spawn_blocking(move || in_layer(&*files, &changes)).await;
        match put.unwrap_or_else(|error| Err(error.into()))? {
            Put::Whole => Ok(()),
            Put::Partly => {
                let message =
                    format!("not all that {} changed in files is in the recording", cx.tool().name());
                Err(self.differs(message))
            }
        }
    }
}

/// As a program would have made them: in the workspace itself, which is looked at before and after.
fn in_layer(files: &dyn Filesystem, changes: &[FileChange]) -> Result<Put, ToolError> {
    let Some(files) = HostFilesystem::of(files) else {
        return Err(ToolError::new("the workspace is not a directory on disk"));
    };
    let layer = files.scan_layer(&CancelToken::new())?;
    let put = put(layer.root(), changes)?;
    layer.finish()?;
    Ok(put)
}
