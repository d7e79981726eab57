//! Where git is led by paths that it reads from files of a repository: `core.worktree`, `gitdir` and `.git` as a file.
//!
//! Git follows symbolic links on such a path, so a path is accepted only if there is none on the way, in the tree as it is after the
//! change. Nor may a later change make one there: every new link is compared with the ways of the repositories above it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::super::io_error;
use super::super::name::to_shown;
use super::super::view::{Spot, View};
use super::git::is_repository;
use super::rules::{by_name, folded, is_git};
use super::{GuardRule, Judged, reason, refused};
use crate::filesystem::{EntryKind, FsResult, SHOWN_AT};

pub(super) const WORK_TREE: GuardRule = GuardRule {
    name: "git work tree",
    paths: &["links on the way to `core.worktree` of a submodule"],
    why: "git would write the submodule's files where the link leads; make a directory, or unset `core.worktree` first",
};

/// Where a path leads.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    /// To a place of the workspace, over directories alone. There need not be anything.
    Place(PathBuf),
    /// Over this link.
    Link(PathBuf),
    /// Elsewhere.
    Elsewhere,
}

impl Judged<'_> {
    /// Refuses new links on the way to where repositories above them have their files.
    pub(super) fn new_links(&self) -> FsResult<()> {
        let mut links = BTreeSet::new();
        for path in self.changed.iter().filter(|path| !self.guard.is_open(path)) {
            let is_link = self.now(path)?.is_some_and(|spot| spot.kind() == EntryKind::Symlink);
            if is_link && !self.is_same(path)? {
                links.insert(path.as_path());
            }
        }
        let dirs: BTreeSet<&Path> = links.iter().flat_map(|link| link.ancestors().skip(1)).collect();
        let mut todo = Vec::new();
        for dir in dirs {
            if let Some(git) = self.git_of(self.after, dir)?
                && is_repository(self.after, &git)?
            {
                todo.push(git);
            }
        }
        let mut seen = BTreeSet::new();
        while let Some(dir) = todo.pop() {
            let is_dir = self.now(&dir)?.is_some_and(|spot| spot.kind() == EntryKind::Directory);
            if !is_dir || !seen.insert(dir.clone()) {
                continue;
            }
            if !is_repository(self.after, &dir)? {
                // Names of submodules can have slashes.
                todo.extend(self.entries(&dir)?);
                continue;
            }
            if let Some(link) = self.links_to_files_of(&dir)?.iter().find(|link| links.contains(&***link)) {
                return Err(refused(link, &reason(&WORK_TREE)));
            }
            todo.extend(["modules", "worktrees"].map(|name| dir.join(name)));
        }
        Ok(())
    }

    /// The links on the way to where a repository has its files: the first for each value of `core.worktree`.
    fn links_to_files_of(&self, repository: &Path) -> FsResult<Vec<PathBuf>> {
        let mut links = Vec::new();
        for name in ["config", "config.worktree"] {
            let path = repository.join(name);
            let entries = self.config_of(&path, self.now(&path)?.as_ref())?.unwrap_or_default();
            for entry in entries.iter().filter(|entry| entry.key == b"core.worktree") {
                let value = entry.value.as_deref().unwrap_or_default();
                if let Way::Link(link) = self.way(self.after, repository, value)? {
                    links.push(link);
                }
            }
        }
        Ok(links)
    }

    /// Whether this is where a submodule has its files: a directory of its project that is no part of a repository.
    pub(super) fn is_worktree_of(&self, view: View<'_>, repository: &Path, value: &[u8]) -> FsResult<bool> {
        if owner(view, repository, "modules")?.is_none() {
            return Ok(false);
        }
        let Way::Place(place) = self.way(view, repository, value)? else { return Ok(false) };
        if place.iter().any(is_git) || by_name(&place).is_some() {
            return Ok(false);
        }
        for above in place.ancestors() {
            if is_repository(view, above)? {
                return Ok(false);
            }
        }
        // New links are compared with the repositories above them, so this has to be one of those.
        for above in place.ancestors().skip(1) {
            if self.git_of(view, above)?.is_some_and(|git| repository.starts_with(git)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a file is what `git worktree add` makes in the directory of a new worktree.
    pub(super) fn is_new_worktree(&self, at: &Path, path: &Path, now: Option<&Spot>) -> FsResult<bool> {
        let owner = owner(self.after, at, "worktrees")?;
        let is_placed = owner.is_some() && at.parent().and_then(Path::parent) == owner;
        let Some(text) = self.line(path, now)?.filter(|_| is_placed) else { return Ok(false) };
        Ok(match path.file_name().map(folded).as_deref() {
            Some(b"commondir") => text == b"../..",
            _ => match self.way(self.after, at, &text)? {
                Way::Place(place) => place.file_name().is_some_and(is_git),
                Way::Link(_) | Way::Elsewhere => false,
            },
        })
    }

    /// The repository of a directory with files, in the workspace: its `.git`, or what that leads to.
    fn git_of(&self, view: View<'_>, dir: &Path) -> FsResult<Option<PathBuf>> {
        let path = dir.join(".git");
        let spot = at(view, &path)?;
        match spot.as_ref().map(Spot::kind) {
            Some(EntryKind::Directory) => Ok(Some(path)),
            Some(EntryKind::File) => match self.line(&path, spot.as_ref())? {
                Some(text) => self.git_file_target(view, dir, &text),
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// Where the text of a `.git` file in `dir` leads.
    pub(super) fn git_file_target(
        &self,
        view: View<'_>,
        dir: &Path,
        text: &[u8],
    ) -> FsResult<Option<PathBuf>> {
        let Some(target) = text.strip_prefix(b"gitdir: ") else { return Ok(None) };
        Ok(match self.way(view, dir, target)? {
            Way::Place(place) if !place.as_os_str().is_empty() => Some(place),
            Way::Place(_) | Way::Link(_) | Way::Elsewhere => None,
        })
    }

    /// The only line of a small file.
    pub(super) fn line(&self, path: &Path, spot: Option<&Spot>) -> FsResult<Option<Vec<u8>>> {
        const MOST: u64 = 8 * 1024;
        let Some(spot) = spot.filter(|spot| spot.kind() == EntryKind::File && spot.len() <= MOST) else {
            return Ok(None);
        };
        let text = self.content(path, spot)?;
        let line = text.map(|text| text.strip_suffix(b"\n").unwrap_or(&text).to_vec());
        Ok(line.filter(|line| !line.contains(&b'\n') && !line.contains(&0)))
    }

    /// Follows a path that git reads from a file in `dir`. Git writes `..` only at its beginning; elsewhere it would lead back from
    /// directories that say nothing about where the path ends.
    fn way(&self, view: View<'_>, dir: &Path, text: &[u8]) -> FsResult<Way> {
        let text = Path::new(OsStr::from_bytes(text));
        let roots = [Some(self.base.root.clone()), self.base.root.canonicalize().ok(), Some(SHOWN_AT.into())];
        let rest = roots.iter().flatten().find_map(|root| text.strip_prefix(root).ok());
        let mut place = if rest.is_some() { PathBuf::new() } else { dir.to_owned() };
        let (mut may_go_up, mut is_dir) = (rest.is_none(), true);
        for component in rest.unwrap_or(text).components() {
            match component {
                Component::Normal(name) if is_dir => {
                    may_go_up = false;
                    place.push(name);
                    is_dir = match at(view, &place)?.map(|spot| spot.kind()) {
                        Some(EntryKind::Symlink) => return Ok(Way::Link(place)),
                        kind => matches!(kind, None | Some(EntryKind::Directory)),
                    };
                }
                Component::CurDir => {}
                Component::ParentDir if may_go_up && place.pop() => {}
                _ => return Ok(Way::Elsewhere),
            }
        }
        Ok(Way::Place(place))
    }
}

/// The repository that something is in the directory `named` of.
pub(super) fn owner<'p>(view: View<'_>, path: &'p Path, named: &str) -> FsResult<Option<&'p Path>> {
    for above in path.ancestors().skip(1) {
        if above.file_name() == Some(OsStr::new(named))
            && let Some(owner) = above.parent()
            && is_repository(view, owner)?
        {
            return Ok(Some(owner));
        }
    }
    Ok(None)
}

fn at(view: View<'_>, path: &Path) -> FsResult<Option<Spot>> {
    view.at(path).map_err(|error| io_error(&to_shown(path), "looked at", &error))
}
