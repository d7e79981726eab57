//! The agent's own file is nobody's to change but the user's: whoever writes it says what may be run next time, and as whom.
//!
//! This says where that file is, or would be looked for. The workspace that an agent is opened in guards those places
//! ([`HostFilesystem::guarding`]), so that a call which leaves something else there fails and is undone, however it did that.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use wink::filesystem::host::HostFilesystem;
use wink::filesystem::{FsLimits, FsPath, FsResult};

use crate::agent::FILE_NAME;

/// Where an agent's file is, or would be looked for.
#[derive(Debug, Clone)]
pub(crate) struct OwnFiles(Arc<[FsPath]>);

impl OwnFiles {
    /// The usual place, and a file as far as it is in the workspace: itself, and where it leads if it is a link.
    pub(crate) fn new(workspace: &Path, file: &Path) -> Self {
        /// As many links as Linux follows.
        const LINKS: usize = 40;
        let workspace = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
        let next = |path: &PathBuf| {
            let target = path.read_link().ok()?;
            Some(path.parent().unwrap_or(Path::new("")).join(target))
        };
        let inside = |path: PathBuf| {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new(".")).canonicalize().ok()?;
            let path = parent.join(path.file_name()?);
            path.strip_prefix(&workspace).ok()?.to_str().map(str::to_owned)
        };
        let links = std::iter::successors(Some(file.to_owned()), next).take(LINKS);
        let paths: Vec<String> = links.filter_map(inside).collect();
        Self::named([FILE_NAME].into_iter().chain(paths.iter().map(String::as_str)))
    }

    fn named<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        // A path beyond these limits cannot be named by a tool either, and commands are held to the same.
        Self(names.filter_map(|name| FsPath::parse(name, &FsLimits::DEFAULT).ok()).collect())
    }

    /// The workspace, with these in it guarded.
    pub(crate) fn guarded_in(&self, files: &HostFilesystem) -> FsResult<HostFilesystem> {
        files.guarding(self.0.iter().cloned())
    }
}

impl Default for OwnFiles {
    /// The usual place.
    fn default() -> Self {
        Self::named([FILE_NAME].into_iter())
    }
}
