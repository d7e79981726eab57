//! Layers for commands by overlay: a fork as the upper directory of an overlay mount, and the way back.
//!
//! A command sees the fork as an ordinary directory and does with it what it likes. What it did is then in the upper
//! directory (new and changed files, and marks for what was removed, replaced or moved), and becomes the fork's. It costs
//! as much as was changed, however much there is. The workspace itself is only read.

mod make;
mod read;
mod xattr;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{OverlayDirs, mounted_there};
use crate::filesystem::host::clear::remove_tree;
use crate::filesystem::host::disk::{Disk, Meta};
use crate::filesystem::host::fork::journal_error;
use crate::filesystem::host::host_disk::HostDisk;
use crate::filesystem::host::journal::Pin;
use crate::filesystem::host::layer::{Layer, Node};
use crate::filesystem::host::{STATE, Shared, io_error};
use crate::filesystem::{FileVersion, FsPath, FsResult};
use crate::support::steps::reach;
use xattr::{Mark, Xattrs};

/// A fork as the upper directory of an overlay. Dropping it forgets what the command did.
pub(super) struct OverlayLayer {
    fork: Arc<Shared>,
    /// What the fork was when this was made.
    layer: Layer,
    /// The directory of this layer, in the state directory.
    dir: PathBuf,
    xattrs: Xattrs,
    /// Files that were put into the upper directory, and what they are in the fork.
    made: HashMap<PathBuf, (FileVersion, Node)>,
    /// What the upper directory itself was made like.
    root: Option<Meta>,
    /// The time of the disk before anything of the workspace was looked at for the command: an entry of the workspace with
    /// this time or a later one was changed by another process while the command ran.
    began: i128,
    /// The last journal at that time: what later ones changed was changed by another process too.
    since: Arc<Pin>,
}

impl OverlayLayer {
    pub(super) fn new(fork: &Arc<Shared>, layer: Layer) -> FsResult<Self> {
        refuse_mounts(&fork.base.disk)?;
        let writing = fork.base.writing()?;
        let dir = writing.stage.fresh_layer();
        let since = writing.journal.pin_now().map_err(|error| journal_error(&error))?;
        let mut made = Self {
            fork: Arc::clone(fork),
            layer,
            dir,
            xattrs: Xattrs::Trusted,
            made: HashMap::new(),
            root: None,
            began: 0,
            since: Arc::new(since),
        };
        made.make().map_err(|error| io_error(&FsPath::root(), "prepared for a command", &error))?;
        reach("command.layer-made");
        Ok(made)
    }

    /// What to mount.
    pub(super) fn dirs(&self) -> OverlayDirs {
        let root = &self.fork.base.root;
        OverlayDirs {
            lower: root.clone(),
            upper: root.join(self.upper()),
            work: root.join(self.dir.join("work")),
            state_name: STATE,
            user_xattr: self.xattrs == Xattrs::User,
        }
    }

    /// A mark of something in the upper directory.
    fn mark(&self, at: &Path, mark: Mark) -> io::Result<Option<Vec<u8>>> {
        // Its mode may forbid to read it, which marks take.
        let disk = &self.fork.base.disk;
        disk.opened(&[&self.inside(at)], || self.xattrs.get(&self.absolute(at), mark))
    }

    fn upper(&self) -> PathBuf {
        self.dir.join("upper")
    }
}

/// An overlay shows what is below a mount instead of what is mounted, and nothing could be put there.
fn refuse_mounts(disk: &HostDisk) -> FsResult<()> {
    let mounts = disk
        .mounts()
        .map_err(|error| io_error(&FsPath::root(), "looked at: what is mounted in it", &error))?;
    match mounts.iter().find(|mount| !mount.starts_with(STATE)) {
        Some(mount) => Err(mounted_there(mount)),
        None => Ok(()),
    }
}

impl Drop for OverlayLayer {
    fn drop(&mut self) {
        let disk: &dyn Disk = &*self.fork.base.disk;
        if let Err(error) = remove_tree(disk, &self.dir) {
            tracing::warn!(%error, "a command's layer could not be removed; the next to open the workspace will");
        }
    }
}
