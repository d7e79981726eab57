//! Running programs, where this machine can do it safely: `shell_execute` in a sandbox, on an overlay of the workspace.

use wink::prelude::*;
use wink::session::ToolInvoked;

#[cfg(target_os = "linux")]
type Ready = (std::sync::Arc<dyn wink_sandbox::Sandbox>, &'static str);
#[cfg(not(target_os = "linux"))]
type Ready = (std::convert::Infallible, &'static str);

/// A sandbox and what becomes of what commands do in it, or why there is none.
pub(super) struct Commands(Result<Ready, String>);

impl Commands {
    /// None, for this reason.
    pub(super) fn none(reason: impl Into<String>) -> Self {
        Self(Err(reason.into()))
    }

    /// What this machine can do.
    #[cfg(target_os = "linux")]
    pub(super) fn find() -> Self {
        use wink_sandbox::{Capabilities, Limits, NamespaceSandbox, OverlayKind};
        let able = Capabilities::detect();
        let capture = match able.overlay {
            Some(OverlayKind::Trusted) => "an overlay that the superuser mounts",
            Some(OverlayKind::User) => "an overlay in a user namespace",
            None => return Self::none(&able.why_no_overlay),
        };
        // Not every user may make cgroups, and nothing here needs to be held back.
        let limits = Limits { memory: None, cpu: None, processes: None, ..Limits::default() };
        match NamespaceSandbox::new(limits) {
            Ok(sandbox) => Self(Ok((std::sync::Arc::new(sandbox), capture))),
            Err(error) => Self::none(error.to_string()),
        }
    }

    /// What this machine can do.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn find() -> Self {
        Self::none("overlays and namespaces are Linux's")
    }

    /// How what a command does is held apart, or why no command can be run.
    pub(super) fn capture(&self) -> Result<&'static str, &str> {
        self.0.as_ref().map(|(_, capture)| *capture).map_err(String::as_str)
    }

    /// The tool, if there is one.
    #[cfg(target_os = "linux")]
    pub(super) fn section(&self) -> Option<Section> {
        use wink_sandbox::tool::{HostLayers, shell_execute};
        let (sandbox, _) = self.0.as_ref().ok()?;
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
