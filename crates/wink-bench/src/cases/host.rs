//! Calls that change five files of a workspace on disk, whose sessions are in its store: what an agent's call costs.

use std::fmt::Write;
use std::rc::Rc;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wink::executor::{Executor, ToolCall};
use wink::filesystem::host::{Capture, HostOptions};
#[cfg(target_os = "linux")]
use wink::filesystem::{Filesystem, host::HostFilesystem};
#[cfg(target_os = "linux")]
use wink::limits::SystemClock;
use wink::prelude::*;
#[cfg(target_os = "linux")]
use wink_sandbox::{
    Launch,
    tool::{HostLayers, WorkspaceLayers},
};
use wink_store::{Workspace, WorkspaceOptions};

use super::place::{Tree, content, runtime, wait};
use super::{Case, End, Size, Way};

/// What a failing call says, and nothing else that goes wrong does.
const FAILURE: &str = "the tests do not pass";

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct Edit {
    paths: Vec<String>,
    content: String,
    then_fail: bool,
}

impl Edit {
    fn end(&self) -> Result<ToolResult<()>, ToolError> {
        match self.then_fail {
            true => Err(ToolError::new(FAILURE)),
            false => Ok(ToolResult::ok((), "edited")),
        }
    }
}

async fn api(edit: Edit, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let files = cx.filesystem().await?;
    for path in &edit.paths {
        files.write_text(path, &edit.content).await?;
    }
    edit.end()
}

/// As `shell_execute` does it, in no sandbox: the layer says what the command is shown.
#[cfg(target_os = "linux")]
async fn command(edit: Edit, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let files = cx.resource::<dyn Filesystem>().await?;
    let host = HostFilesystem::of(&*files).ok_or_else(|| ToolError::new("not on disk"))?;
    let layer = HostLayers.layer(&files).await?;
    let mut script = String::new();
    for path in &edit.paths {
        // A builtin of the shell: no process but its own is measured.
        let _ = writeln!(script, "printf '%s' \"$TEXT\" > {path}");
    }
    let launch = Launch::shell(script, host.root()).env("TEXT", &edit.content).workspace(layer.workspace());
    let finished = launch.run(&(Arc::new(SystemClock) as _)).await?;
    if finished.ended.code() != 0 {
        return Err(ToolError::new(finished.stderr.text(1_000).0));
    }
    layer.finish().await?;
    edit.end()
}

pub(super) fn make(way: Way, end: End, size: Size) -> Option<Case> {
    let tree = Tree::of(size);
    let runtime = runtime();
    let capture = match way {
        Way::Api => None,
        Way::Overlay => Some(Capture::Overlay),
        Way::Scan => Some(Capture::Scan),
    };
    let files = HostOptions { capture, ..HostOptions::default() };
    let options = WorkspaceOptions { files, ..WorkspaceOptions::default() };
    let workspace =
        Workspace::open_with(tree.root(), options).unwrap_or_else(|error| unreachable!("{error}"));
    let tool = match way {
        Way::Api => Tool::new("edit", "Edit files.", api),
        #[cfg(target_os = "linux")]
        Way::Overlay | Way::Scan => Tool::new("edit", "Edit files.", command),
        #[cfg(not(target_os = "linux"))]
        Way::Overlay | Way::Scan => return None,
    };
    let template =
        PromptTemplate::builder("bench", "host").section(Section::tools("tools", "Tools").tool(tool)).build();
    let prompt = template.unwrap_or_else(|error| unreachable!("{error}")).prompt();
    let who = format!("{way:?}_{end:?}");
    let session = wait(&runtime, workspace.session(who.as_str()).open());
    let executor =
        wait(&runtime, Executor::builder(&prompt, &session).resources(workspace.resources()).open());

    let mut number = 0;
    let mut call = move |tree: &Tree| {
        number += 1;
        let edit = Edit {
            paths: tree.changed(number),
            content: content(&who, number),
            then_fail: end == End::Rollback,
        };
        let arguments = serde_json::to_string(&edit).unwrap_or_else(|error| unreachable!("{error}"));
        let outcome = runtime.block_on(executor.call(ToolCall::new("call_1", "edit", arguments)));
        match end {
            End::Commit => assert!(outcome.is_success(), "{}", outcome.text()),
            End::Rollback => assert_eq!(outcome.text(), FAILURE),
        }
        edit
    };
    let edit = call(&tree);
    for path in &edit.paths {
        let found = std::fs::read_to_string(tree.root().join(path)).unwrap_or_default();
        assert_eq!(found == edit.content, end == End::Commit, "{path} has what the call leaves");
    }
    let tree: Rc<Tree> = tree;
    Some(Box::new(move || {
        call(&tree);
    }))
}
