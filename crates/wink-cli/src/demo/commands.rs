//! Running programs, where this machine can do it safely: `shell_execute` in a sandbox, whose changes of the workspace are
//! captured.

use wink::prelude::*;
use wink::session::ToolInvoked;
use wink_store::Workspace;

#[cfg(target_os = "linux")]
type Ready = std::sync::Arc<dyn wink_sandbox::Sandbox>;
#[cfg(not(target_os = "linux"))]
type Ready = std::convert::Infallible;

/// A sandbox, or why there is none.
pub(super) struct Commands(Result<Ready, String>);

impl Commands {
    /// None, for this reason.
    pub(super) fn none(reason: impl Into<String>) -> Self {
        Self(Err(reason.into()))
    }

    /// What this machine can do.
    #[cfg(target_os = "linux")]
    pub(super) fn find() -> Self {
        use wink_sandbox::{Limits, NamespaceSandbox};
        // Not every user may make cgroups, and nothing here needs to be held back.
        let limits = Limits { memory: None, cpu: None, processes: None, ..Limits::default() };
        match NamespaceSandbox::new(limits) {
            Ok(sandbox) => Self(Ok(std::sync::Arc::new(sandbox))),
            Err(error) => Self::none(error.to_string()),
        }
    }

    /// What this machine can do.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn find() -> Self {
        Self::none("sandboxes are Linux's")
    }

    /// How what a command does in this workspace is captured, or why no command can be run.
    #[cfg(target_os = "linux")]
    pub(super) fn capture(&self, workspace: &Workspace) -> Result<String, String> {
        self.0.as_ref().map_err(Clone::clone)?;
        let found = wink_sandbox::tool::capture_of(workspace.files());
        found.map(|(_, finding)| finding.found).map_err(|error| error.to_string())
    }

    /// How what a command does in this workspace is captured, or why no command can be run.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn capture(&self, _: &Workspace) -> Result<String, String> {
        self.0.as_ref().map(|never| match *never {}).map_err(Clone::clone)
    }

    /// The tool, if there is one.
    #[cfg(target_os = "linux")]
    pub(super) fn section(&self) -> Option<Section> {
        use wink_sandbox::tool::{HostLayers, shell_execute};
        let sandbox = self.0.as_ref().ok()?;
        let tool = shell_execute(std::sync::Arc::clone(sandbox), std::sync::Arc::new(HostLayers));
        Some(Section::tools("shell", "Shell").tool(tool))
    }

    /// The tool, if there is one.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn section(&self) -> Option<Section> {
        None
    }

    /// What a command of this call printed, if it ran.
    #[cfg(target_os = "linux")]
    pub(super) fn printed(event: &ToolInvoked) -> Option<String> {
        event.value.typed::<wink_sandbox::Executed>().map(|executed| executed.stdout)
    }

    /// What a command of this call printed, if it ran.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn printed(_: &ToolInvoked) -> Option<String> {
        None
    }
}
