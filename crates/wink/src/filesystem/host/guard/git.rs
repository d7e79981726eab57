//! Repositories: what git runs or is led by in one.
//!
//! A directory counts as a repository if it is named `.git`, complete or not, or if it holds `HEAD` with `objects` and `refs`, or
//! with `commondir`. One that became a repository by the change is judged with everything in it, however old that is.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::super::io_error;
use super::super::layer::Node;
use super::super::name::to_shown;
use super::super::view::{Spot, View};
use super::config::{ConfigEntry, parse};
use super::keys::is_harmless;
use super::leads::{WORK_TREE, owner};
use super::rules::{folded, is_git};
use super::{ChangedBy, GuardRule, Judged, reason, refused};
use crate::filesystem::{EntryKind, FsResult};

const REPOSITORY: GuardRule = GuardRule {
    name: "git repository",
    paths: &[".git/", "HEAD with objects/ and refs/"],
    why: "file tools write nothing in the directory of a repository; use git in a command",
};
const LINK: GuardRule = GuardRule {
    name: "git link",
    paths: &[".git as a file or link"],
    why: "a command makes `.git` a file only for a new submodule or worktree of a repository in the workspace, and never a link",
};
const HOOKS: GuardRule = GuardRule {
    name: "git hooks",
    paths: &[".git/hooks/"],
    why: "git runs them; only samples (`*.sample`) may change",
};
const CONFIG: GuardRule = GuardRule {
    name: "git config",
    paths: &[".git/config*"],
    why: "git runs programs that it names; only keys that cannot run one may change",
};
const POINTER: GuardRule = GuardRule {
    name: "git directories",
    paths: &[".git/commondir", ".git/gitdir"],
    why: "they say where git finds its configuration and hooks; `git worktree add` may make them",
};
const ATTRIBUTES: GuardRule = GuardRule {
    name: "git attributes",
    paths: &[".git/info/attributes"],
    why: "they say which files git runs programs on",
};
const REMOTES: GuardRule = GuardRule {
    name: "git remotes",
    paths: &[".git/remotes/", ".git/branches/"],
    why: "git reads addresses there that can name a program; use `git remote add`",
};
const INCOMPLETE: &str =
    "git repository: a `.git` with configuration or hooks is made by `git init` or `git clone`, complete";

pub(super) const RULES: &[GuardRule] =
    &[REPOSITORY, LINK, HOOKS, CONFIG, POINTER, ATTRIBUTES, REMOTES, WORK_TREE];

/// No configuration that people write is larger.
const MAX_CONFIG: u64 = 1024 * 1024;

/// What an entry of a repository is to git.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Hooks,
    Config,
    Pointer,
    Attributes,
    /// The remotes of old versions of git, a file each.
    Remotes,
    /// A directory that has to be none by a link.
    Info,
    /// Nothing that could run a program.
    Free,
}

fn part(inside: &Path) -> Part {
    let mut names = inside.iter();
    let Some(first) = names.next() else { return Part::Free };
    let second = names.next();
    match &*folded(first) {
        b"hooks" => Part::Hooks,
        name if name.starts_with(b"config") => Part::Config,
        b"commondir" | b"gitdir" => Part::Pointer,
        b"remotes" | b"branches" => Part::Remotes,
        b"info" => match second.map(folded).as_deref() {
            Some(b"attributes") => Part::Attributes,
            Some(_) => Part::Free,
            None => Part::Info,
        },
        _ => Part::Free,
    }
}

impl Judged<'_> {
    /// Every repository that something was changed in.
    pub(super) fn repositories(&self, by: ChangedBy) -> FsResult<()> {
        let repositories = self.touched(by)?;
        if repositories.is_empty() {
            return Ok(());
        }
        match by {
            ChangedBy::FileTool => {
                for path in self.changed.iter().filter(|path| !self.guard.is_open(path)) {
                    let is_inside = path.ancestors().any(|above| repositories.contains(above));
                    if is_inside {
                        self.refuse_unless_same(path, &reason(&REPOSITORY))?;
                    }
                }
                Ok(())
            }
            ChangedBy::Command => repositories.iter().try_for_each(|path| self.repository(path)),
        }
    }

    /// The directories that are repositories, and what else is named `.git`, in or at which something was changed.
    fn touched(&self, by: ChangedBy) -> FsResult<BTreeSet<&Path>> {
        let (mut seen, mut found) = (HashSet::new(), BTreeSet::new());
        let (mut before, mut after) = (Known::new(self.before), Known::new(self.after));
        for path in self.changed {
            if path.file_name().is_some_and(is_git) {
                found.insert(path.as_path());
            }
            let unseen: Vec<&Path> = path.ancestors().skip(1).take_while(|dir| seen.insert(*dir)).collect();
            for dir in unseen.into_iter().rev() {
                let is_touched = dir.file_name().is_some_and(is_git)
                    || after.is_repository(dir)?
                    || (by == ChangedBy::FileTool && before.is_repository(dir)?);
                if is_touched {
                    found.insert(dir);
                }
            }
        }
        Ok(found)
    }

    /// What a command left of a repository.
    fn repository(&self, at: &Path) -> FsResult<()> {
        let is_named = at.file_name().is_some_and(is_git);
        if self.guard.is_open(at) {
            return Ok(());
        }
        match self.now(at)?.map(|spot| spot.kind()) {
            // Nothing is left to be run.
            None => Ok(()),
            Some(EntryKind::Directory) => {
                let was_dir = self.was(at)?.is_some_and(|spot| spot.kind() == EntryKind::Directory);
                match was_dir && (is_named || is_repository(self.before, at)?) {
                    true => self.old_repository(at),
                    false => self.new_repository(at),
                }
            }
            Some(EntryKind::File) => self.git_file(at),
            Some(_) => self.refuse_unless_same(at, &reason(&LINK)),
        }
    }

    /// Judges what was changed in a repository.
    fn old_repository(&self, at: &Path) -> FsResult<()> {
        // Paths are sorted by their components, so what is inside follows.
        for path in self.changed.range(at.to_owned()..).take_while(|path| path.starts_with(at)) {
            let inside = path.strip_prefix(at).unwrap_or(path);
            if part(inside) != Part::Free && !self.guard.is_open(path) {
                self.entry(at, path, Age::Old)?;
            }
        }
        Ok(())
    }

    /// Judges all of a repository that was none before.
    fn new_repository(&self, at: &Path) -> FsResult<()> {
        let is_complete = is_repository(self.after, at)?;
        for path in self.entries(at)? {
            let inside = path.strip_prefix(at).unwrap_or(&path);
            let part = part(inside);
            if part == Part::Free || self.guard.is_open(&path) {
                continue;
            }
            if !is_complete && !matches!(part, Part::Info | Part::Remotes) {
                return Err(refused(&path, INCOMPLETE));
            }
            if matches!(part, Part::Hooks | Part::Info | Part::Remotes)
                && self.now(&path)?.is_some_and(|spot| spot.kind() == EntryKind::Directory)
            {
                for path in self.entries(&path)? {
                    let inside = path.strip_prefix(at).unwrap_or(&path);
                    if self::part(inside) != Part::Free && !self.guard.is_open(&path) {
                        self.entry(at, &path, Age::New)?;
                    }
                }
                continue;
            }
            self.entry(at, &path, Age::New)?;
        }
        Ok(())
    }

    /// What is in a directory after the change.
    pub(super) fn entries(&self, dir: &Path) -> FsResult<Vec<PathBuf>> {
        let failed = |error| io_error(&to_shown(dir), "listed", &error);
        let Some(spot) = self.now(dir)? else { return Ok(Vec::new()) };
        let children = self.after.children(&spot).map_err(failed)?;
        Ok(children.into_iter().map(|(name, _)| dir.join(name)).collect())
    }

    /// Judges an entry of a repository that is not free.
    fn entry(&self, repository: &Path, path: &Path, age: Age) -> FsResult<()> {
        if age == Age::Old && self.is_same(path)? {
            return Ok(());
        }
        let now = self.now(path)?;
        let kind = now.as_ref().map(Spot::kind);
        let inside = path.strip_prefix(repository).unwrap_or(path);
        // What goes with a directory is judged by itself.
        let is_plain_directory =
            inside.iter().count() == 1 && matches!(kind, None | Some(EntryKind::Directory));
        match part(inside) {
            Part::Hooks => {
                let is_sample = inside.iter().count() == 2
                    && path.as_os_str().as_bytes().ends_with(b".sample")
                    && matches!(kind, None | Some(EntryKind::File));
                if is_sample || is_plain_directory { Ok(()) } else { Err(refused(path, &reason(&HOOKS))) }
            }
            Part::Config => self.config(repository, path, now.as_ref(), age),
            Part::Pointer => match age {
                Age::New if self.is_new_worktree(repository, path, now.as_ref())? => Ok(()),
                _ => Err(refused(path, &reason(&POINTER))),
            },
            Part::Attributes => Err(refused(path, &reason(&ATTRIBUTES))),
            // Git's template has an empty directory, and `git remote rename` removes the file.
            Part::Remotes if is_plain_directory || kind.is_none() => Ok(()),
            Part::Remotes => Err(refused(path, &reason(&REMOTES))),
            Part::Info if is_plain_directory => Ok(()),
            Part::Info => Err(refused(path, &reason(&ATTRIBUTES))),
            Part::Free => Ok(()),
        }
    }

    /// Only keys that cannot run a program may differ. The others stay as they are, in their order.
    fn config(&self, repository: &Path, path: &Path, now: Option<&Spot>, age: Age) -> FsResult<()> {
        let no = || Err(refused(path, &reason(&CONFIG)));
        let name = path.file_name().map(folded).unwrap_or_default();
        let is_known = matches!(&*name, b"config" | b"config.worktree")
            && path.parent() == Some(repository)
            && now.is_none_or(|spot| spot.kind() == EntryKind::File);
        if !is_known {
            return no();
        }
        let was = match age {
            Age::Old => self.was(path)?,
            Age::New => None,
        };
        let (Some(before), Some(after)) = (self.config_of(path, was.as_ref())?, self.config_of(path, now)?)
        else {
            return no();
        };
        let of_programs = |view, entries: Vec<ConfigEntry>| -> Vec<ConfigEntry> {
            // What cannot be looked up is refused.
            let is_worktree =
                |value: &[u8]| self.is_worktree_of(view, repository, value).is_ok_and(|is_one| is_one);
            entries.into_iter().filter(|entry| !is_harmless(entry, is_worktree)).collect()
        };
        let (before, after) = (of_programs(self.before, before), of_programs(self.after, after));
        if before == after {
            return Ok(());
        }
        let differing = after.iter().find(|entry| !before.contains(entry));
        let differing = differing.or_else(|| before.iter().find(|entry| !after.contains(entry)));
        Err(match differing {
            Some(entry) => {
                let key = String::from_utf8_lossy(&entry.key);
                let key = crate::filesystem::quoted(&*key).into_owned();
                refused(path, &format!("{}; `{key}` with this value is not among them", reason(&CONFIG)))
            }
            None => refused(path, &reason(&CONFIG)),
        })
    }

    /// The entries of a configuration; none if it is not understood.
    pub(super) fn config_of(&self, path: &Path, spot: Option<&Spot>) -> FsResult<Option<Vec<ConfigEntry>>> {
        let Some(spot) = spot else { return Ok(Some(Vec::new())) };
        if spot.kind() != EntryKind::File || spot.len() > MAX_CONFIG {
            return Ok(None);
        }
        Ok(self.content(path, spot)?.and_then(|text| parse(&text)))
    }

    /// A file in the place of `.git`: new, and of a submodule or worktree of a repository in the workspace.
    fn git_file(&self, path: &Path) -> FsResult<()> {
        if self.is_same(path)? {
            return Ok(());
        }
        let no = Err(refused(path, &reason(&LINK)));
        let now = self.now(path)?;
        if self.was(path)?.is_some() {
            return no;
        }
        let Some(text) = self.line(path, now.as_ref())? else { return no };
        let parent = path.parent().unwrap_or(Path::new(""));
        let Some(target) = self.git_file_target(self.after, parent, &text)? else { return no };
        let owner = |named| owner(self.after, &target, named);
        let is_theirs = owner("modules")?.is_some() || owner("worktrees")?.is_some();
        if is_theirs && is_repository(self.after, &target)? { Ok(()) } else { no }
    }
}

/// Since when a repository is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    Old,
    New,
}

/// Directories that were looked up already: each is found from the one above it, so that a deep tree costs a look for each of its
/// directories and not for each of their paths' parts.
struct Known<'v, 'p> {
    view: View<'v>,
    spots: HashMap<&'p Path, Option<Spot>>,
}

impl<'v, 'p> Known<'v, 'p> {
    fn new(view: View<'v>) -> Self {
        Self { view, spots: HashMap::new() }
    }

    fn is_repository(&mut self, dir: &'p Path) -> FsResult<bool> {
        let above = dir.parent().and_then(|above| self.spots.get(above));
        let spot = match (above, dir.file_name()) {
            (Some(None), _) => Ok(None),
            (Some(Some(above)), Some(name)) => self.view.child(above, name),
            _ => self.view.at(dir),
        };
        let spot = spot.map_err(|error| io_error(&to_shown(dir), "looked at", &error))?;
        let is_repository = spot.as_ref().map_or(Ok(false), |spot| is_repository_at(self.view, dir, spot));
        self.spots.insert(dir, spot);
        is_repository
    }
}

/// Whether git takes a directory for a repository, whatever it is called.
pub(super) fn is_repository(view: View<'_>, dir: &Path) -> FsResult<bool> {
    let spot = view.at(dir).map_err(|error| io_error(&to_shown(dir), "looked at", &error))?;
    spot.map_or(Ok(false), |spot| is_repository_at(view, dir, &spot))
}

fn is_repository_at(view: View<'_>, dir: &Path, spot: &Spot) -> FsResult<bool> {
    if spot.kind() != EntryKind::Directory {
        return Ok(false);
    }
    let failed = |error| io_error(&to_shown(dir), "looked at", &error);
    let has = |name: &str| -> FsResult<bool> {
        if view.child(spot, OsStr::new(name)).map_err(failed)?.is_some() {
            return Ok(true);
        }
        // On a filesystem without regard to case it is there, too.
        Ok(matches!(spot, Spot::Dir(dir) if dir.changed.iter().any(|(other, node)| {
            !matches!(node, Node::Gone) && other.as_bytes().eq_ignore_ascii_case(name.as_bytes())
        })))
    };
    Ok(has("HEAD")? && (has("commondir")? || (has("objects")? && has("refs")?)))
}
