//! The agent's own file is nobody's to change but the user's: whoever writes it says what may be run next time, and as whom.
//!
//! This says where that file is, or would be looked for. The workspace that an agent is opened in guards those places
//! ([`HostFilesystem::guarding`]), so that a call which leaves something else there fails and is undone, however it did that.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use wink::filesystem::FsResult;
use wink::filesystem::host::HostFilesystem;

use crate::agent::FILE_NAME;

/// Where an agent's file is, or would be looked for: paths in the workspace. What links on the way lead to is looked for when
/// something is changed.
#[derive(Debug, Clone)]
pub(crate) struct OwnFiles(Arc<[PathBuf]>);

impl OwnFiles {
    /// The usual place, and a file as far as it can be reached in the workspace: by the path that was given, and by those of
    /// the links that lead there from elsewhere.
    pub(crate) fn new(workspace: &Path, file: &Path) -> Self {
        /// As many links as Linux follows.
        const LINKS: usize = 40;
        let next = |path: &PathBuf| {
            let target = path.read_link().ok()?;
            Some(path.parent().unwrap_or(Path::new("")).join(target))
        };
        let real = workspace.canonicalize();
        let roots = [std::path::absolute(workspace), real].into_iter().flatten().collect::<Vec<_>>();
        let inside = |path: &Path| {
            let rest = roots.iter().find_map(|root| path.strip_prefix(root).ok())?;
            let is_plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
            (is_plain && !rest.as_os_str().is_empty()).then(|| rest.to_owned())
        };
        let mut paths = vec![PathBuf::from(FILE_NAME)];
        for path in std::iter::successors(Some(file.to_owned()), next).take(LINKS) {
            let Ok(path) = std::path::absolute(path) else { continue };
            let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
            let by_parent = parent.zip(path.file_name()).map(|(parent, name)| parent.join(name));
            paths.extend([Some(path), by_parent].into_iter().flatten().filter_map(|path| inside(&path)));
        }
        paths.dedup();
        Self(paths.into())
    }

    /// The workspace, with these in it guarded.
    pub(crate) fn guarded_in(&self, files: &HostFilesystem) -> FsResult<HostFilesystem> {
        files.guarding(self.0.iter())
    }
}

impl Default for OwnFiles {
    /// The usual place.
    fn default() -> Self {
        Self(Arc::from([PathBuf::from(FILE_NAME)]))
    }
}
