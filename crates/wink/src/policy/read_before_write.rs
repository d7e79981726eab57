//! What is overwritten was looked at before.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::context::PolicyFilesError;
use super::covered::{named_paths, with_paths};
use super::{Decision, PolicyCall, PolicyContext, PolicyMemory, ResultView, ToolPolicy};
use crate::BoxFuture;
use crate::filesystem::{EntryKind, shown};
use crate::resource::BoxError;
use crate::tool::footprint::Footprint;

/// Denies changing a file that this session has neither read nor made, or that changed since.
///
/// It remembers the version of each file that it saw read or written; whoever else changes the file changes its
/// version. New files may be written. A result that was replayed from the ledger looked at nothing, so it does not
/// count.
#[derive(Debug, Clone)]
#[must_use = "a policy does nothing until a section or template has it"]
pub struct ReadBeforeWritePolicy {
    /// Path parameters by tool.
    reads: HashMap<String, String>,
    writes: HashMap<String, String>,
}

impl ReadBeforeWritePolicy {
    /// Knows the file tools of the suites: `read_file`, `write_file`, `edit_file` and `delete_file`, each with
    /// parameter `path`.
    pub fn new() -> Self {
        let named =
            |tools: &[&str]| tools.iter().map(|tool| ((*tool).to_owned(), "path".to_owned())).collect();
        Self { reads: named(&["read_file"]), writes: named(&["write_file", "edit_file", "delete_file"]) }
    }

    /// A success of `tool` has read the file (or the list of files) that `parameter` names.
    pub fn reads(mut self, tool: impl Into<String>, parameter: impl Into<String>) -> Self {
        self.reads.insert(tool.into(), parameter.into());
        self
    }

    /// `tool` changes the file (or the list of files) that `parameter` names; `list[].field` is the field of each
    /// object in a list, such as `writes[].path` of `evaluate_python`.
    pub fn writes(mut self, tool: impl Into<String>, parameter: impl Into<String>) -> Self {
        self.writes.insert(tool.into(), parameter.into());
        self
    }

    /// The path parameter of a tool that this policy knows.
    fn parameter(&self, tool: &str) -> Option<&str> {
        self.writes.get(tool).or_else(|| self.reads.get(tool)).map(String::as_str)
    }

    async fn decide(&self, call: &PolicyCall<'_>, cx: &PolicyContext<'_>) -> Result<Decision, BoxError> {
        let tool = &**call.tool.name();
        let Some(parameter) = self.writes.get(tool) else { return Ok(Decision::Allow) };
        let Some(paths) = named_paths(call.params, parameter) else {
            return Ok(Decision::deny(format!(
                "Cannot call '{tool}' - parameter '{parameter}' names no file, so it is unknown what would be \
                 written to\nGive the path of a file in '{parameter}'."
            )));
        };
        for text in paths {
            match self.decide_path(text, cx).await? {
                Decision::Allow => {}
                refusal => return Ok(refusal),
            }
        }
        Ok(Decision::Allow)
    }

    async fn decide_path(&self, text: &str, cx: &PolicyContext<'_>) -> Result<Decision, BoxError> {
        let path = match cx.path(text).await {
            Ok(Some(path)) => path,
            Ok(None) => {
                let text = shown(text);
                return Ok(Decision::deny(format!(
                    "Cannot write to {text}: there is no filesystem, so it is unknown whether it was read first"
                )));
            }
            Err(PolicyFilesError::Fs(error)) => {
                return Ok(Decision::deny(format!("Cannot write to {}: {error}", shown(text))));
            }
            Err(error) => return Err(error.into()),
        };
        let Some(there) = cx.stat(&path).await? else { return Ok(Decision::Allow) };
        if there.kind == EntryKind::Directory {
            return Ok(Decision::deny(format!(
                "Cannot write to {path}: it is a directory, and only a file can be read first"
            )));
        }
        let seen = cx.remembered(path.as_str());
        if seen.as_deref().and_then(Value::as_str) == Some(there.version.to_string().as_str()) {
            return Ok(Decision::Allow);
        }
        Ok(Decision::deny(format!("Cannot write to {path} without reading it first")))
    }

    async fn remember(
        &self,
        call: &PolicyCall<'_>,
        cx: &PolicyContext<'_>,
        memory: &PolicyMemory<'_>,
    ) -> Result<(), BoxError> {
        let Some(parameter) = self.parameter(call.tool.name()) else { return Ok(()) };
        let Some(paths) = named_paths(call.params, parameter) else { return Ok(()) };
        for text in paths {
            let Some(path) = cx.path(text).await? else { return Ok(()) };
            match cx.stat(&path).await?.filter(|there| there.kind != EntryKind::Directory) {
                Some(there) => memory.remember(path.as_str(), Value::String(there.version.to_string()))?,
                None if cx.remembered(path.as_str()).is_some() => memory.forget(path.as_str())?,
                None => {}
            }
        }
        Ok(())
    }
}

/// Whether a read began after the last line of its file: then the model has seen nothing of it.
fn shows_nothing(call: &PolicyCall<'_>, result: &ResultView<'_>) -> bool {
    if call.params.get("offset").and_then(Value::as_u64).is_none_or(|offset| offset == 0) {
        return false;
    }
    let value = result.json().unwrap_or_default();
    let count = |name: &str| value.get(name).and_then(Value::as_u64);
    count("count") == Some(0) && count("total_lines").is_some_and(|lines| lines > 0)
}

impl Default for ReadBeforeWritePolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl ToolPolicy for ReadBeforeWritePolicy {
    fn kind(&self) -> &'static str {
        "read_before_write"
    }

    fn covers(&self, call: &PolicyCall<'_>) -> bool {
        self.parameter(call.tool.name()).is_some()
    }

    fn check<'a>(
        &'a self,
        call: &'a PolicyCall<'a>,
        cx: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        Box::pin(self.decide(call, cx))
    }

    fn on_result<'a>(
        &'a self,
        call: &'a PolicyCall<'a>,
        result: &'a ResultView<'a>,
        cx: &'a PolicyContext<'a>,
        memory: &'a PolicyMemory<'a>,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        if result.replayed || shows_nothing(call, result) {
            return Box::pin(std::future::ready(Ok(())));
        }
        Box::pin(self.remember(call, cx, memory))
    }

    fn wants_results(&self) -> bool {
        true
    }

    fn footprint(&self, call: &PolicyCall<'_>, key: &Arc<str>) -> Footprint {
        let parameter = self.parameter(call.tool.name());
        parameter.into_iter().fold(Footprint::nothing(), |footprint, parameter| {
            with_paths(footprint, call.params, parameter, |footprint, path| {
                footprint.write_remembered(key, path.as_str()).read_path(path.as_str())
            })
        })
    }
}
