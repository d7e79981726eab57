//! The agent's own file is nobody's to change but the user's: whoever writes it says what may be run next time, and as whom. So
//! are the overrides of its texts, which say what it is told.
//!
//! This says where those are, or would be looked for. The workspace that an agent is opened in guards those places
//! ([`HostFilesystem::guarding`]), so that a call which leaves something else there fails and is undone, however it did that.

use std::path::{Component, Path, PathBuf};

use wink::filesystem::FsResult;
use wink::filesystem::host::HostFilesystem;

use crate::agent::{FILE_NAME, OVERRIDES_NAME, Origin};
use crate::build::{Held, Shown};

/// The workspace as an agent's calls see it: its file opens and adds guarded paths; where that file is, or would be looked for, and
/// what is beside it, stays guarded.
pub(crate) fn guarded(files: &HostFilesystem, origin: &Origin, held: &Held) -> FsResult<HostFilesystem> {
    let usual = files.root().join(FILE_NAME);
    let used = match origin {
        Origin::File(file) => Some(file.as_path()),
        Origin::Builtin | Origin::Text(_) => None,
    };
    let named: Vec<&Path> = [usual.as_path()].into_iter().chain(used).collect();
    let own = named.iter().flat_map(|file| paths_to(file, files.root()));
    let overrides = named.iter().flat_map(|file| paths_to(&overrides_beside(file), files.root()));
    let guard = held.guard.over(files.guard().clone())?;
    let files = files.with_guard(guard)?.guarding(own)?.guarding_below(overrides)?;
    match held.shown {
        Shown::AtWorkspace => files.shown_at_workspace(),
        Shown::InPlace => Ok(files),
    }
}

/// Where the overrides are of an agent that is in this file, or would be.
pub(crate) fn overrides_beside(file: &Path) -> PathBuf {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    dir.unwrap_or(Path::new(".")).join(OVERRIDES_NAME)
}

/// The paths in the workspace by which a file can be reached: the one that was given, and those of links that lead there
/// from elsewhere. What links in the workspace lead to is looked for when something is changed.
fn paths_to(file: &Path, workspace: &Path) -> Vec<PathBuf> {
    /// As many links as Linux follows.
    const LINKS: usize = 40;
    let next = |path: &PathBuf| {
        let target = path.read_link().ok()?;
        Some(path.parent().unwrap_or(Path::new("")).join(target))
    };
    let roots = [std::path::absolute(workspace), workspace.canonicalize()];
    let inside = |path: &Path| {
        let rest = roots.iter().flatten().find_map(|root| path.strip_prefix(root).ok())?;
        let is_plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
        (is_plain && !rest.as_os_str().is_empty()).then(|| rest.to_owned())
    };
    let mut paths = Vec::new();
    for path in std::iter::successors(Some(file.to_owned()), next).take(LINKS) {
        let Ok(path) = std::path::absolute(path) else { continue };
        let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
        let by_parent = parent.zip(path.file_name()).map(|(parent, name)| parent.join(name));
        paths.extend([Some(path), by_parent].into_iter().flatten().filter_map(|path| inside(&path)));
    }
    paths
}
