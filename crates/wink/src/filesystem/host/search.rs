//! Glob and grep over what a fork shows. Links are not followed, and what is neither file nor directory is not opened.

use std::io;

use super::name::shown;
use super::view::{Child, Spot, View};
use super::{Shared, io_error};
use crate::filesystem::search::{GlobPattern, LineSearch, SearchStop};
use crate::filesystem::{DirEntry, EntryKind, FsPath, FsResult, GrepOutcome, GrepQuery};

impl Shared {
    pub(super) fn glob(&self, base: &FsPath, pattern: &str, stop: &SearchStop) -> FsResult<Vec<DirEntry>> {
        let pattern = GlobPattern::new(pattern)?;
        let layer = self.layer();
        let view = self.base.view(&layer);
        let dir = self.base.find_dir(&layer, base)?;
        let mut matching = Vec::new();
        walk((view, stop), base, &dir, pattern.max_depth(), &mut |path, child| {
            if path.relative_to(base).is_some_and(|relative| pattern.matches(relative)) {
                matching.push((path, child));
            }
        })?;
        let mut found = Vec::with_capacity(matching.len());
        for (path, child) in matching {
            stop.check()?;
            // One that is gone meanwhile is not found.
            if let Ok(Some(spot)) = view.child_spot(child) {
                found.push(DirEntry { path, kind: spot.kind(), len: spot.len() });
            }
        }
        found.sort_unstable_by(|one, two| one.path.cmp(&two.path));
        Ok(found)
    }

    pub(super) fn grep(&self, base: &FsPath, query: &GrepQuery, stop: &SearchStop) -> FsResult<GrepOutcome> {
        let mut search = LineSearch::new(query, &self.base.limits, stop)?;
        let layer = self.layer();
        let view = self.base.view(&layer);
        let (_, spot) = self.base.find(&layer, base)?;
        match spot.kind() {
            EntryKind::Directory => {
                let mut files = Vec::new();
                walk((view, stop), base, &spot, search.max_depth(), &mut |path, child| {
                    if path.relative_to(base).is_some_and(|relative| search.wants(relative)) {
                        files.push((path, child));
                    }
                })?;
                // The walk goes by directories, the answer by paths.
                files.sort_unstable_by(|one, two| one.0.cmp(&two.0));
                for (path, child) in files {
                    stop.check()?;
                    if search.is_full() {
                        break;
                    }
                    let Ok(Some(spot)) = view.child_spot(child) else { continue };
                    if spot.kind() == EntryKind::File && search.takes(&path, spot.len()) {
                        // What cannot be read, or is written to just now, is left out like what is not text.
                        match self.base.try_read(&path, &spot, |content| search.search(&path, content)) {
                            Ok(Some((found, _))) => search.add(found),
                            Ok(None) => tracing::debug!(%path, "changed while it was searched"),
                            Err(error) => tracing::debug!(%path, %error, "not searched"),
                        }
                    }
                }
            }
            _ if search.wants(base.name().unwrap_or_default()) => {
                let (.., (found, _)) = self.base.at_rest(&layer, base, |spot| {
                    self.base.try_read(base, spot, |content| search.search(base, content))
                })?;
                search.add(found);
            }
            _ => {}
        }
        Ok(search.finish())
    }
}

/// Calls `visit` for everything below `dir`, at most `depth` segments down.
fn walk(
    (view, stop): (View<'_>, &SearchStop),
    path: &FsPath,
    dir: &Spot,
    depth: usize,
    visit: &mut impl FnMut(FsPath, Child),
) -> FsResult<()> {
    let Some(below) = depth.checked_sub(1) else { return Ok(()) };
    stop.check()?;
    let children = match view.children(dir) {
        Ok(children) => children,
        // Gone, replaced or swapped for a link since it was seen: there is nothing to find in it.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(());
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !path.is_root() => {
            tracing::debug!(%path, "a directory that may not be listed is left out");
            return Ok(());
        }
        Err(error) if is_link(&error) => return Ok(()),
        Err(error) => return Err(io_error(path, "listed", &error)),
    };
    for (name, child) in children {
        let path = path.child(&shown(&name));
        let dir = match &child {
            Child::Base(place, EntryKind::Directory) => view.base(place.clone()),
            Child::Base(..) => Ok(None),
            Child::Node(node) => view.spot(node),
        };
        visit(path.clone(), child);
        if let Ok(Some(spot)) = dir
            && spot.kind() == EntryKind::Directory
        {
            walk((view, stop), &path, &spot, below, visit)?;
        }
    }
    Ok(())
}

/// Whether the disk refused because there is a link where it may follow none.
pub(super) fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}
