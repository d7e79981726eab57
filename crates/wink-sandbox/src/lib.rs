//! Running commands for tools.

#![cfg(target_os = "linux")]

mod capabilities;
mod cgroup;
mod child;
mod error;
mod launch;
mod limits;
mod namespace;
mod overlay;
mod podman;
mod sandbox;
mod seccomp;
pub mod testing;
pub mod tool;

pub use capabilities::{Capabilities, Finding, Report, probe_overlay};
pub use cgroup::{Controller, Version};
pub use error::{LaunchError, SandboxError};
pub use launch::{Command, Ended, Finished, Launch, Output, Tree};
pub use limits::Limits;
pub use namespace::NamespaceSandbox;
pub use overlay::{OverlayKind, Workspace};
pub use podman::PodmanSandbox;
pub use sandbox::{Job, Sandbox, WORKSPACE};
pub use tool::{Executed, PodmanSandboxSection, SandboxSection, ShellExecute};
pub use wink::filesystem::host::OverlayDirs;
