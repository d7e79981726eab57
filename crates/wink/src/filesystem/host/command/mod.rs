//! Commands on forks: what they may do is shown to them as an ordinary directory, and what they did becomes the fork's.
//!
//! By an overlay where there can be one; where not, by a scan, in the workspace itself. Which one it is can be asked for
//! and can be seen.

#[cfg(target_os = "linux")]
mod overlay;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::guard::ChangedBy;
use super::layer::Layer;
use super::name::to_shown;
use super::scan::{CommandRecord, Scan, Undone};
use super::{HostFilesystem, STATE, Shared};
use crate::filesystem::{FsError, FsPath, FsResult};
use crate::limits::CancelToken;
use crate::support::lock::lock;
use crate::support::steps::reach;
#[cfg(target_os = "linux")]
use overlay::OverlayLayer;

/// How what a command does is found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capture {
    /// It works on an overlay over the workspace, which itself stays as it is. Costs what was changed.
    Overlay,
    /// It works in the workspace itself, which nobody else may change meanwhile; everything is looked at before and after, and
    /// the workspace restored from a copy. Costs a look at every file, and once a copy of everything.
    Scan,
}

impl fmt::Display for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overlay => "overlay",
            Self::Scan => "scan",
        })
    }
}

/// What a command works on. Dropping it forgets what the command did.
#[must_use = "what a command did is forgotten unless it is finished"]
pub struct CommandLayer {
    fork: Arc<Shared>,
    /// What the fork was when this was made.
    layer: Layer,
    way: Way,
}

enum Way {
    #[cfg(target_os = "linux")]
    Overlay(Box<OverlayLayer>),
    Scan(Box<Scan>),
}

/// What to mount an overlay of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverlayDirs {
    /// The workspace.
    pub lower: PathBuf,
    /// What differs from it.
    pub upper: PathBuf,
    /// For the kernel.
    pub work: PathBuf,
    /// The entry of the workspace that the command must not see.
    pub state_name: &'static str,
    /// Whether to mount with `userxattr`, as one must without privileges. Else `redirect_dir=on` has to be given. In both
    /// cases `metacopy=off`, which is what kernels do unless they were told otherwise.
    pub user_xattr: bool,
}

impl HostFilesystem {
    /// How what commands do is found out here, if that was asked for when this was opened.
    pub fn capture(&self) -> Option<Capture> {
        self.shared.base.capture
    }

    /// This fork as something that a command can work on. The fork must be left alone until that is finished.
    ///
    /// In the way that was asked for when the workspace was opened; else on an overlay, if `can_mount` says that these
    /// directories can be mounted, and by a scan if not. A scan waits until nobody else changes the workspace, and copies what
    /// changed since the last one; `cancel` stops that.
    pub fn command_layer(
        &self,
        cancel: &CancelToken,
        can_mount: impl FnOnce(&OverlayDirs) -> Result<(), String>,
    ) -> FsResult<CommandLayer> {
        if let Some(capture) = self.capture() {
            return self.make_layer(capture, cancel);
        }
        let why_not = match self.command_layer_by(Capture::Overlay) {
            Ok(layer) => match layer.overlay().map_or(Ok(()), |dirs| can_mount(&dirs)) {
                Ok(()) => return Ok(layer),
                Err(reason) => reason,
            },
            Err(error @ (FsError::Unsupported { .. } | FsError::Io { .. })) if self.shared.fork.is_some() => {
                error.to_string()
            }
            Err(error) => return Err(error),
        };
        tracing::debug!(
            reason = why_not,
            "no overlay of the workspace; a command works in it, and it is scanned"
        );
        self.make_layer(Capture::Scan, cancel)
    }

    /// The same in a given way, whatever was asked for.
    pub fn command_layer_by(&self, capture: Capture) -> FsResult<CommandLayer> {
        self.make_layer(capture, &CancelToken::new())
    }

    /// The same for a program that works in the workspace itself, and cannot be shown an overlay: by a scan. `cancel` stops the
    /// wait for it.
    pub fn scan_layer(&self, cancel: &CancelToken) -> FsResult<CommandLayer> {
        self.make_layer(Capture::Scan, cancel)
    }

    fn make_layer(&self, capture: Capture, cancel: &CancelToken) -> FsResult<CommandLayer> {
        let Some(fork) = &self.shared.fork else {
            return Err(FsError::Unsupported {
                operation: "running a command on a workspace that is not a fork",
            });
        };
        let layer = lock(&fork.state).layer.clone();
        let way = match capture {
            #[cfg(target_os = "linux")]
            Capture::Overlay => Way::Overlay(Box::new(OverlayLayer::new(&self.shared, layer.clone())?)),
            #[cfg(not(target_os = "linux"))]
            Capture::Overlay => return Err(FsError::Unsupported { operation: "an overlay on this system" }),
            Capture::Scan => Way::Scan(Box::new(Scan::begin(&self.shared, layer.clone(), cancel)?)),
        };
        Ok(CommandLayer { fork: Arc::clone(&self.shared), layer, way })
    }
}

impl CommandLayer {
    /// How what the command does is found out.
    pub fn capture(&self) -> Capture {
        match self.way {
            #[cfg(target_os = "linux")]
            Way::Overlay(_) => Capture::Overlay,
            Way::Scan(_) => Capture::Scan,
        }
    }

    /// What to mount; nothing if the command works in the workspace itself.
    pub fn overlay(&self) -> Option<OverlayDirs> {
        match &self.way {
            #[cfg(target_os = "linux")]
            Way::Overlay(overlay) => Some(overlay.dirs()),
            Way::Scan(_) => None,
        }
    }

    /// Where the process that the command's are below is to be written down before it begins anything; nothing if it does
    /// not work in the workspace itself. Whoever restores the workspace ends those processes first.
    pub fn record(&self) -> Option<CommandRecord> {
        match &self.way {
            #[cfg(target_os = "linux")]
            Way::Overlay(_) => None,
            Way::Scan(scan) => scan.record().ok(),
        }
    }

    /// The workspace.
    pub fn root(&self) -> &Path {
        &self.fork.base.root
    }

    /// The entry of the workspace that the command must not see.
    pub fn state_name(&self) -> &'static str {
        STATE
    }

    /// Forgets what the command did, as dropping this does, and says what became of it. The command and everything it
    /// started must be gone.
    pub fn undo(self) -> FsResult<Undone> {
        match self.way {
            #[cfg(target_os = "linux")]
            Way::Overlay(_) => Ok(Undone::default()),
            Way::Scan(scan) => scan.undo(),
        }
    }

    /// Makes what the command did the fork's. The command and everything it started must be gone, and the mount as well.
    ///
    /// What can be in no workspace (a pipe, a socket, a device) is an error, and so is, on an overlay, a file that somebody
    /// else changed while the command did: then the fork is as it was before.
    pub fn finish(self) -> FsResult<()> {
        let Self { fork, layer: before, way } = self;
        let mut layer = match way {
            #[cfg(target_os = "linux")]
            Way::Overlay(overlay) => overlay.read_back()?,
            Way::Scan(scan) => scan.finish()?,
        };
        fork.look_through(&mut layer, |layer| {
            fork.guarded.check(&fork.base, &before, layer, ChangedBy::Command)
        })?;
        let Some(fork) = &fork.fork else { return Err(FsError::Foreign { what: "command" }) };
        let mut state = lock(&fork.state);
        if !Arc::ptr_eq(&state.layer.root, &before.root) {
            return Err(FsError::Io {
                path: FsPath::root(),
                kind: io::ErrorKind::ResourceBusy,
                message: "files were changed through the runtime while a command ran; what the command did is forgotten"
                    .to_owned(),
            });
        }
        state.layer = layer;
        drop(state);
        reach("command.layer-read");
        Ok(())
    }
}

/// Directories in directories. A command can make more than any stack or path can hold.
pub(super) const MOST_LEVELS: usize = 100;

pub(super) fn too_deep() -> FsError {
    FsError::Io {
        path: FsPath::root(),
        kind: io::ErrorKind::InvalidInput,
        message: format!(
            "the command left directories nested more than {MOST_LEVELS} deep, or paths longer than the system takes, \
             which a workspace does not take; have them removed"
        ),
    }
}

/// What a journal cannot undo is not done.
pub(super) fn attributes(path: &Path) -> FsError {
    FsError::Io {
        path: to_shown(path),
        kind: io::ErrorKind::InvalidInput,
        message: "the command changed extended attributes of this directory, which cannot be undone; have them left as they are"
            .to_owned(),
    }
}

/// Where something is mounted, neither an overlay nor a scan can tell what a command does.
pub(super) fn mounted_there(path: &Path) -> FsError {
    FsError::Io {
        path: to_shown(path),
        kind: io::ErrorKind::CrossesDevices,
        message: "something else is mounted here, which a command could change and nobody restore, so no command is run; unmount \
                  it, or mount it outside the workspace"
            .to_owned(),
    }
}

pub(super) fn root_changed() -> FsError {
    FsError::Io {
        path: FsPath::root(),
        kind: io::ErrorKind::InvalidInput,
        message: "the command changed mode or owner of the workspace itself, which cannot be undone; have it change what is in \
                  the workspace only"
            .to_owned(),
    }
}

pub(super) fn special(path: &Path) -> FsError {
    FsError::Io {
        path: to_shown(path),
        kind: io::ErrorKind::InvalidInput,
        message:
            "the command left a pipe, socket or device here, which a workspace cannot keep; have it removed"
                .to_owned(),
    }
}
