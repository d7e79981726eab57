//! Running commands for tools: so that nothing of them is left, and, in a sandbox, so that they reach nothing but
//! their workspace. Linux only.
//!
//! - [`Launch`] is the one way in which a process is started. When its future ends or is dropped, every process of the
//!   command is gone.
//! - An overlay ([`Launch::overlay`]) shows a command the workspace of its call, mounted where the workspace is and for its eyes only.
//!   What it changes is in a layer, which the call takes over or forgets.
//! - A [`Sandbox`] runs commands that reach nothing else: [`NamespaceSandbox`], which needs nothing installed, and
//!   [`PodmanSandbox`].
//! - [`seal`] is for a process of the program's own that only computes.
//! - [`SandboxSection`] and [`PodmanSandboxSection`] bring the tool `shell_execute` to a prompt.
//!
//! ```no_run
//! use std::sync::Arc;
//! use wink::filesystem::host::{HostFilesystem, HostOptions};
//! use wink::prelude::*;
//! use wink::resource::Binding;
//! use wink_sandbox::{Limits, NamespaceSandbox, SandboxSection};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let files = HostFilesystem::open("project", HostOptions::default())?;
//! let sandbox = NamespaceSandbox::new(Limits { memory: Some(512 << 20), ..Limits::default() })?;
//! let template = PromptTemplate::builder("examples", "shell")
//!     .section(SandboxSection::new(sandbox).section().resource(Binding::filesystem(Arc::new(files))))
//!     .build()?;
//! # let _ = template;
//! # Ok(())
//! # }
//! ```
//!
//! # What is enforced how
//!
//! | what | [`NamespaceSandbox`] | [`PodmanSandbox`] |
//! | --- | --- | --- |
//! | no process is left | own process namespace; its first process is killed, and dies with the program | podman, conmon and the container are below a process that takes in all orphans; all are killed, the container is removed by name |
//! | no network | own network namespace with a loopback of its own; no sockets but Unix, IP and netlink | `--network none`, the same sockets |
//! | nothing outside can be written | own mounts: everything read-only but `/workspace`, `/tmp` and `/dev/shm`; Landlock once more | read-only root |
//! | nothing secret can be read | a root of its own: programs and libraries, chosen files of `/etc`, or another root directory; no `/root`, `/home`, `/var`, `/run`, `/sys` | the image or root directory |
//! | the state directory of the workspace is not seen | an empty read-only filesystem is mounted over it | the same |
//! | no rights | no capabilities, `no_new_privs`; as the superuser: the workspace's owner, else a user namespace | `--cap-drop all`, `no-new-privileges`, the workspace's owner |
//! | no way to get rights | seccomp refuses mounts, namespaces, tracing, modules, keys, bpf, io_uring, setuid files, devices | podman's profile, without the same calls |
//! | memory, processors | cgroup of either version | the same, by podman; looked at from inside |
//! | processes | cgroup, or `RLIMIT_NPROC` of the user namespace | cgroup |
//! | time | the injected clock, then everything is killed | the same; podman's own `--timeout` if this program dies |
//! | output | kept up to a bound, read and counted beyond it | the same |
//! | `/tmp`, size of files, open files | size of the mount, rlimits | the same |
//!
//! What a machine can do is found out by doing it once ([`Capabilities::detect`]) and can be read ([`Report`]). A limit that
//! was asked for and cannot be enforced is an error when the sandbox is made, which names it and says what to do.
//!
//! What is not promised: secrets in the workspace itself are the command's to read; two commands on one machine can tell
//! by timing that the other is there; a kernel with a hole has one.
//!
//! # What a plain command has
//!
//! A [`Launch`] that is not in a sandbox has the rights of this program, and of its environment what it was given. Where the state directory
//! of the workspace is hidden from it, or the workspace overlaid, it cannot unmount that, unless it is given the right to
//! ([`Mounts::Free`]). This keeps accidents away, and is no wall: the superuser has other ways. Where no mount namespace can be made
//! ([`Capabilities::hides_state`]), the state directory is not hidden; a command that removes or replaces something in it is found out
//! afterwards, and its call fails. As the superuser, and
//! on an overlay, it has a process namespace of its own, so it sees no processes but its own. Otherwise a first process takes in
//! everything that its descendants leave behind; that is how they are found, whatever they do, unless they kill that first
//! process and cover their tracks ([`Launch`]).

#![cfg(target_os = "linux")]

mod capabilities;
mod cgroup;
mod child;
mod error;
mod launch;
mod limits;
mod namespace;
mod overlay;
mod owned;
mod podman;
mod sandbox;
mod seal;
mod seccomp;
pub mod testing;
pub mod tool;

pub use capabilities::{Capabilities, Finding, Report, is_overlay, probe_overlay, probe_overlay_in};
pub use cgroup::{Controller, Version};
pub use error::{LaunchError, SandboxError};
pub use launch::{Command, Ended, Finished, Launch, Mounts, Output, Tree};
pub use limits::Limits;
pub use namespace::NamespaceSandbox;
pub use overlay::{OverlayKind, WorkspaceView};
pub use podman::PodmanSandbox;
pub use sandbox::{Job, Sandbox, WORKSPACE};
pub use seal::{Sealed, seal};
pub use tool::{Executed, PodmanSandboxSection, SandboxSection, ShellExecute, capture_of};
pub use wink::filesystem::host::OverlayDirs;
