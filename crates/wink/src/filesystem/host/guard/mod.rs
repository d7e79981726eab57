//! Guarded paths: what other programs run or read on their own is not for tools to change.
//!
//! One check decides about a change, of a file tool or of a command: it compares the tree before with the tree after, so it does
//! not matter how something came to be where it is: by name, through links, by moving a directory on the way, or by a command. A
//! change is judged when it is made, and again when a fork is merged, since others may have changed the workspace meanwhile.
//! It costs what was changed, and a look at each directory above that.

mod config;
mod git;
mod keys;
mod leads;
mod places;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::places::Place;
use self::rules::Named;
use super::disk::Disk;
use super::layer::{Dir, Expected, Layer, Node, differences};
use super::name::to_shown;
use super::view::{Spot, View};
use super::{Base, HostFilesystem, Shared, io_error};
use crate::filesystem::search::GlobPattern;
use crate::filesystem::{EntryKind, FsError, FsPath, FsResult};

/// A rule about guarded paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GuardRule {
    /// What an error calls it.
    pub name: &'static str,
    /// What is guarded, at any depth. A slash at the end stands for everything inside.
    pub paths: &'static [&'static str],
    /// Why.
    pub why: &'static str,
}

/// Which paths of a workspace are refused to file tools and commands.
///
/// By default, at any depth and whatever the case of the letters: `.git` and what git runs or reads in a repository, `wink.toml`,
/// `.wink`, the configuration of clients (`.mcp.json`, `.claude/` and the like), `.envrc`, what editors run (`.vscode/tasks.json`,
/// `.vscode/settings.json`, `.vscode/launch.json`, `.idea/`), and `.cargo/config*`. File tools write nothing in a repository's directory; a
/// command may create, clone and use repositories, and change the keys of `config` that cannot run a program
/// ([`PathGuard::config_keys`]).
///
/// Patterns are relative to the root: `*` does not cross `/`, `**` matches zero or more directories. A pattern stands for what it
/// matches and everything inside.
///
/// ```
/// use wink::filesystem::host::{HostFilesystem, HostOptions, PathGuard};
/// use wink::filesystem::{Filesystem, FilesystemExt, FsErrorKind};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # let dir = tempfile::tempdir()?;
/// let guard = PathGuard::default().opening(".vscode/settings.json")?.adding("deploy/**")?;
/// let files = HostFilesystem::open(dir.path(), HostOptions { guard, ..HostOptions::default() })?;
/// # runtime.block_on(async {
/// let fork = files.fork()?;
/// fork.write_text(".vscode/settings.json", "{}").await?;
/// for path in [".envrc", "sub/.git/hooks/pre-commit", "deploy/run.sh"] {
///     let refused = fork.write_text(path, "x").await;
///     assert_eq!(refused.map_err(|error| error.kind()), Err(FsErrorKind::Guarded));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct PathGuard {
    defaults: Defaults,
    open: Vec<Pattern>,
    add: Vec<Pattern>,
}

/// Whether the rules hold that are there without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Defaults {
    On,
    Off,
}

#[derive(Clone)]
struct Pattern {
    text: Arc<str>,
    glob: Arc<GlobPattern>,
}

impl Default for PathGuard {
    fn default() -> Self {
        Self { defaults: Defaults::On, open: Vec::new(), add: Vec::new() }
    }
}

impl fmt::Debug for PathGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PathGuard")
            .field("defaults", &self.defaults)
            .field("open", &self.opened().collect::<Vec<_>>())
            .field("add", &self.added().collect::<Vec<_>>())
            .finish()
    }
}

impl PathGuard {
    /// Nothing is guarded: for workspaces in which tools may change everything.
    pub fn none() -> Self {
        Self { defaults: Defaults::Off, ..Self::default() }
    }

    /// The same, but for what a pattern matches, which tools may change.
    ///
    /// # Errors
    /// When the pattern is none.
    pub fn opening(mut self, pattern: &str) -> FsResult<Self> {
        let glob = Arc::new(GlobPattern::new(pattern)?);
        self.open.push(Pattern { text: pattern.into(), glob });
        Ok(self)
    }

    /// The same, and what a pattern matches is guarded too, whatever the case of its letters.
    ///
    /// # Errors
    /// When the pattern is none.
    pub fn adding(mut self, pattern: &str) -> FsResult<Self> {
        let glob = Arc::new(GlobPattern::new(&pattern.to_lowercase())?);
        self.add.push(Pattern { text: pattern.into(), glob });
        Ok(self)
    }

    /// The rules that hold without asking; none of them if nothing is guarded.
    pub fn rules(&self) -> impl Iterator<Item = &'static GuardRule> {
        let rules = git::RULES.iter().chain(rules::BY_NAME);
        rules.filter(|_| self.defaults == Defaults::On)
    }

    /// The patterns of what is open.
    pub fn opened(&self) -> impl Iterator<Item = &str> {
        self.open.iter().map(|pattern| &*pattern.text)
    }

    /// The patterns of what is guarded beside the rules.
    pub fn added(&self) -> impl Iterator<Item = &str> {
        self.add.iter().map(|pattern| &*pattern.text)
    }

    /// What is reported when a call changed it, and not refused.
    pub fn reported() -> &'static [&'static str] {
        rules::REPORTED
    }

    /// The keys of a repository's `config` that a command may change. `*` stands for any subsection or name.
    pub fn config_keys() -> impl Iterator<Item = String> {
        keys::listed()
    }

    /// Whether tools may change a path whatever the rules say.
    fn is_open(&self, path: &Path) -> bool {
        has_match(&self.open, path, |text| text)
    }

    fn is_added(&self, path: &Path) -> bool {
        has_match(&self.add, path, |text| text.to_lowercase())
    }
}

/// Whether a pattern matches a path, or something above it.
fn has_match(patterns: &[Pattern], path: &Path, as_compared: fn(String) -> String) -> bool {
    !patterns.is_empty()
        && path.ancestors().filter(|above| !above.as_os_str().is_empty()).any(|above| {
            let text = as_compared(to_shown(above).as_str().to_owned());
            patterns.iter().any(|pattern| pattern.glob.matches(&text))
        })
}

impl HostFilesystem {
    /// Which paths are guarded here.
    pub fn guard(&self) -> &PathGuard {
        &self.shared.guarded.guard
    }

    /// The same workspace with other guarded paths. Places that were added by [`HostFilesystem::guarding`] stay guarded.
    ///
    /// # Errors
    /// When this is a fork: what it has changed already would not be known to be allowed.
    pub fn with_guard(&self, guard: PathGuard) -> FsResult<Self> {
        let places = Arc::clone(&self.shared.guarded.places);
        self.with_guarded(Guarded { guard: Arc::new(guard), places })
    }

    fn with_guarded(&self, guarded: Guarded) -> FsResult<Self> {
        let Shared { base, instance, fork, held, shown, .. } = &*self.shared;
        if fork.is_some() {
            return Err(FsError::Unsupported { operation: "guarding places of a fork" });
        }
        let (base, held) = (Arc::clone(base), held.clone());
        let shared = Shared { base, instance: *instance, fork: None, guarded, held, shown: *shown };
        Ok(Self { shared: Arc::new(shared) })
    }
}

/// Who makes a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChangedBy {
    /// An operation of the filesystem.
    FileTool,
    /// A command; and a merge, of which every change was judged when it was made.
    Command,
}

/// What forks of a workspace do not change.
#[derive(Debug, Clone)]
pub(super) struct Guarded {
    guard: Arc<PathGuard>,
    places: Arc<[Place]>,
}

impl Guarded {
    pub(super) fn new(guard: PathGuard) -> Self {
        Self { guard: Arc::new(guard), places: Arc::new([]) }
    }

    /// The same for a layer that is to be merged into the workspace as it is now.
    pub(super) fn check_merge(
        &self,
        base: &Base,
        layer: &Layer,
        by: ChangedBy,
    ) -> FsResult<BTreeSet<PathBuf>> {
        let merged =
            as_merged(base, layer).map_err(|error| io_error(&FsPath::root(), "looked through", &error))?;
        self.check(base, &Layer::default(), &merged, by)
    }

    /// Refuses a change from one layer to another that a rule forbids. Gives the places of which the operator is told.
    pub(super) fn check(
        &self,
        base: &Base,
        before: &Layer,
        after: &Layer,
        by: ChangedBy,
    ) -> FsResult<BTreeSet<PathBuf>> {
        let PathGuard { defaults, add, .. } = &*self.guard;
        let has_rules = *defaults == Defaults::On || !add.is_empty() || !self.places.is_empty();
        if !has_rules || Arc::ptr_eq(&before.root, &after.root) {
            return Ok(BTreeSet::new());
        }
        let changed = differences(&base.disk, before, after)
            .map_err(|error| io_error(&FsPath::root(), "looked through", &error))?;
        let judged = Judged {
            base,
            guard: &self.guard,
            changed: &changed,
            before: base.view(before),
            after: base.view(after),
        };
        judged.places(&self.places)?;
        judged.names()?;
        if *defaults == Defaults::Off {
            return Ok(BTreeSet::new());
        }
        judged.repositories(by)?;
        judged.new_links()?;
        Ok(changed.iter().filter_map(|path| rules::reported(path)).collect())
    }
}

/// A layer as it will be merged: a directory that it made, and that another process has made meanwhile, is one with what is in both.
fn as_merged(base: &Base, layer: &Layer) -> io::Result<Layer> {
    let root = merged_dir(base, layer, &layer.root)?;
    Ok(Layer { root, ..layer.clone() })
}

fn merged_dir(base: &Base, layer: &Layer, dir: &Arc<Dir>) -> io::Result<Arc<Dir>> {
    let mut merged = Arc::clone(dir);
    for (name, node) in &dir.changed {
        let Node::Dir(child) = node else { continue };
        let below = dir.below(name).filter(|_| child.source.is_none());
        let is_absent = |place: &PathBuf| {
            layer.records.get(&**place).is_none_or(|expected| *expected == Expected::Absent)
        };
        let mut made = Arc::clone(child);
        if let Some(place) = below.filter(is_absent)
            && base.disk.look(&place)?.is_some_and(|entry| entry.kind == EntryKind::Directory)
        {
            made = Arc::new(Dir { source: Some(place.into()), ..Dir::clone(child) });
        }
        let made = merged_dir(base, layer, &made)?;
        if !Arc::ptr_eq(&made, child) {
            Arc::make_mut(&mut merged).changed.insert(Arc::clone(name), Node::Dir(made));
        }
    }
    Ok(merged)
}

/// A change that is judged.
struct Judged<'a> {
    base: &'a Base,
    guard: &'a PathGuard,
    /// Every path that differs.
    changed: &'a BTreeSet<PathBuf>,
    before: View<'a>,
    after: View<'a>,
}

impl Judged<'_> {
    /// The rules that go by names alone.
    fn names(&self) -> FsResult<()> {
        for path in self.changed {
            if self.guard.is_added(path) {
                self.refuse_unless_same(path, "guard: the agent file guards it")?;
            }
            let named = match self.guard.defaults {
                Defaults::On => rules::by_name(path),
                Defaults::Off => None,
            };
            let Some(named) = named.filter(|_| !self.guard.is_open(path)) else { continue };
            match named {
                Named::Guarded(rule) => self.refuse_unless_same(path, &reason(rule))?,
                Named::NoLink(rule) => {
                    let is_link = self.now(path)?.is_some_and(|spot| spot.kind() == EntryKind::Symlink);
                    if is_link {
                        self.refuse_unless_same(path, &reason(rule))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn refuse_unless_same(&self, path: &Path, rule: &str) -> FsResult<()> {
        match self.is_same(path)? {
            true => Ok(()),
            false => Err(refused(path, rule)),
        }
    }

    /// What was at a path, no link being followed.
    fn was(&self, path: &Path) -> FsResult<Option<Spot>> {
        self.before.at(path).map_err(|error| io_error(&to_shown(path), "looked at", &error))
    }

    /// What is at a path after the change.
    fn now(&self, path: &Path) -> FsResult<Option<Spot>> {
        self.after.at(path).map_err(|error| io_error(&to_shown(path), "looked at", &error))
    }

    /// Whether what is at a path is what was there: the same kind, contents and mode.
    fn is_same(&self, path: &Path) -> FsResult<bool> {
        let (before, after) = (self.was(path)?, self.now(path)?);
        let (Some(before), Some(after)) = (&before, &after) else {
            return Ok(before.is_none() && after.is_none());
        };
        let failed = |error| io_error(&to_shown(path), "looked at", &error);
        match (before.kind(), after.kind()) {
            (EntryKind::Directory, EntryKind::Directory) => Ok(true),
            (EntryKind::Symlink, EntryKind::Symlink) => {
                let target = self.before.target(before).map_err(failed)?;
                Ok(target == self.after.target(after).map_err(failed)?)
            }
            (EntryKind::File, EntryKind::File) => {
                let mode = |view: View<'_>, spot| Ok(view.about(spot).map_err(failed)?.0.mode);
                if before.len() != after.len() || mode(self.before, before)? != mode(self.after, after)? {
                    return Ok(false);
                }
                let content = self.content(path, before)?;
                Ok(content.is_some() && content == self.content(path, after)?)
            }
            _ => Ok(false),
        }
    }

    /// The contents of a file; none if it is too large to be compared, or changes meanwhile.
    fn content(&self, path: &Path, spot: &Spot) -> FsResult<Option<Vec<u8>>> {
        match self.base.try_content(&to_shown(path), spot) {
            Err(FsError::TooLargeToRead { .. }) => Ok(None),
            content => Ok(content?.map(|(bytes, _)| bytes)),
        }
    }
}

fn reason(rule: &GuardRule) -> String {
    format!("{}: {}", rule.name, rule.why)
}

fn refused(path: &Path, rule: &str) -> FsError {
    FsError::Guarded { path: to_shown(path), rule: rule.to_owned() }
}
