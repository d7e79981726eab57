//! Layers for commands: a fork as the upper directory of an overlay mount, and the way back.
//!
//! A command sees the fork as an ordinary directory and does with it what it likes. What it did is then in the upper
//! directory (new and changed files, and marks for what was removed, replaced or moved), and becomes the fork's. It costs
//! as much as was changed, however much there is. The workspace itself is only read.

mod make;
mod read;
mod xattr;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::disk::Disk;
use super::layer::{Layer, Node};
use super::staged::remove_tree;
use super::{HostFilesystem, STATE, Shared, io_error};
use crate::filesystem::{FileVersion, FsError, FsPath, FsResult};
use crate::support::lock::lock;
use crate::support::steps::reach;
use xattr::Xattrs;

/// What a command works on. Dropping it forgets what the command did.
#[must_use = "what a command did is forgotten unless it is finished"]
pub struct CommandLayer {
    fork: Arc<Shared>,
    /// What the fork was when this was made.
    layer: Layer,
    /// The directory of this layer, in the state directory.
    dir: PathBuf,
    xattrs: Xattrs,
    /// Files that were put into the upper directory, and what they are in the fork.
    made: HashMap<PathBuf, (FileVersion, Node)>,
    /// When the command could begin, as the disk counts: what has this time or a later one there was changed by
    /// somebody else.
    began: i128,
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
    /// This fork as something that a command can work on. The fork must be left alone until that is finished.
    pub fn command_layer(&self) -> FsResult<CommandLayer> {
        let base = &self.shared.base;
        let Some(fork) = &self.shared.fork else {
            return Err(FsError::Unsupported {
                operation: "running a command on a workspace that is not a fork",
            });
        };
        let dir = base.writing()?.stage.fresh_layer();
        let mut made = CommandLayer {
            fork: Arc::clone(&self.shared),
            layer: lock(&fork.state).layer.clone(),
            dir,
            xattrs: Xattrs::Trusted,
            made: HashMap::new(),
            began: 0,
        };
        made.make().map_err(|error| io_error(&FsPath::root(), "prepared for a command", &error))?;
        reach("command.layer-made");
        Ok(made)
    }
}

impl CommandLayer {
    /// What to mount.
    pub fn overlay(&self) -> OverlayDirs {
        let root = &self.fork.base.root;
        OverlayDirs {
            lower: root.clone(),
            upper: root.join(self.upper()),
            work: root.join(self.dir.join("work")),
            state_name: STATE,
            user_xattr: self.xattrs == Xattrs::User,
        }
    }

    /// Makes what the command did the fork's. The command and everything it started must be gone, and the mount as well.
    ///
    /// What can be in no workspace (a pipe, a socket, a device) is an error, and so is a file that somebody else changed
    /// while the command did: then the fork is as it was before.
    pub fn finish(self) -> FsResult<()> {
        let layer = self.read_back()?;
        let Some(fork) = &self.fork.fork else { return Err(FsError::Foreign { what: "command" }) };
        let mut state = lock(&fork.state);
        if !Arc::ptr_eq(&state.layer.root, &self.layer.root) {
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

    fn upper(&self) -> PathBuf {
        self.dir.join("upper")
    }
}

impl Drop for CommandLayer {
    fn drop(&mut self) {
        let disk: &dyn Disk = &*self.fork.base.disk;
        if let Err(error) = remove_tree(disk, &self.dir) {
            tracing::warn!(%error, "a command's layer could not be removed; the next to open the workspace will");
        }
    }
}
