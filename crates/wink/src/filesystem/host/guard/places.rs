//! Places that are guarded by their path, and what links lead there.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::super::disk::Disk;
use super::super::layer::Layer;
use super::super::name::to_shown;
use super::super::resolve::depends_on;
use super::super::view::View;
use super::{Defaults, Guarded, Judged, rules};
use crate::filesystem::host::HostFilesystem;
use crate::filesystem::{EntryKind, FsError, FsResult};

const BY_PLACE: &str = "agent's own: what is there says what tools may do, or what the model is told";
const BY_LINK: &str = "link: a guarded path leads here by a link";

/// A place that is guarded.
#[derive(Debug, Clone)]
pub(super) struct Place {
    path: PathBuf,
    reach: Reach,
}

/// What of a directory is guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// That it is one.
    Itself,
    /// And everything in it.
    Below,
}

impl Place {
    fn covers(&self, path: &Path) -> bool {
        path == self.path || (self.reach == Reach::Below && path.starts_with(&self.path))
    }
}

impl HostFilesystem {
    /// The same workspace, of which no fork changes what is at `paths` on disk, nor makes something there: such a change is
    /// [`FsError::Guarded`], also when it came through a symbolic link or from a command. Where a path leads over links,
    /// those are guarded as well, and what they lead to. What leaves a file with the same contents and mode is no change. What
    /// [`PathGuard`](super::PathGuard) opens stays guarded here.
    ///
    /// ```
    /// use wink::filesystem::host::{HostFilesystem, HostOptions};
    /// use wink::filesystem::{Filesystem, FilesystemExt, FsErrorKind};
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    /// # let dir = tempfile::tempdir()?;
    /// let files = HostFilesystem::open(dir.path(), HostOptions::default())?;
    /// let guarded = files.guarding(["rules.toml"])?;
    /// # runtime.block_on(async {
    /// let refused = guarded.fork()?.write_text("rules.toml", "").await;
    /// assert_eq!(refused.map_err(|error| error.kind()), Err(FsErrorKind::Guarded));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When a path is not one in the workspace, or this is a fork: what it has changed already would not be known to be
    /// allowed.
    pub fn guarding(&self, paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> FsResult<Self> {
        self.with_places(paths, Reach::Itself)
    }

    /// The same for directories with everything in them.
    ///
    /// # Errors
    /// As for [`HostFilesystem::guarding`].
    pub fn guarding_below(&self, dirs: impl IntoIterator<Item = impl Into<PathBuf>>) -> FsResult<Self> {
        self.with_places(dirs, Reach::Below)
    }

    /// The places that were added by [`HostFilesystem::guarding`] and [`HostFilesystem::guarding_below`].
    pub fn guarded_places(&self) -> impl Iterator<Item = &Path> {
        self.shared.guarded.places.iter().map(|place| &*place.path)
    }

    fn with_places(
        &self,
        paths: impl IntoIterator<Item = impl Into<PathBuf>>,
        reach: Reach,
    ) -> FsResult<Self> {
        let Guarded { guard, places } = &self.shared.guarded;
        let mut places = places.to_vec();
        for path in paths {
            let path = path.into();
            if !path.components().all(|component| matches!(component, Component::Normal(_))) {
                return Err(FsError::Outside { path: path.display().to_string() });
            }
            places.push(Place { path, reach });
        }
        self.with_guarded(Guarded { guard: Arc::clone(guard), places: places.into() })
    }
}

impl Judged<'_> {
    /// The places themselves, and what a guarded path leads to by links, in the workspace as it is.
    pub(super) fn places(&self, places: &[Place]) -> FsResult<()> {
        let nothing = Layer::default();
        let live = self.base.view(&nothing);
        let mut linked = Vec::new();
        for Place { path, reach } in places {
            linked.extend(
                depends_on(live, &to_shown(path), path).into_iter().map(|path| Place { path, reach: *reach }),
            );
        }
        for path in self.changed {
            if places.iter().chain(&linked).any(|place| place.covers(path)) {
                self.refuse_unless_same(path, BY_PLACE)?;
            }
        }
        if self.guard.defaults == Defaults::Off {
            return Ok(());
        }
        let linked = self.linked(live);
        for path in self.changed {
            if linked.iter().any(|place| place.covers(path)) && !self.guard.is_open(path) {
                self.refuse_unless_same(path, BY_LINK)?;
            }
        }
        Ok(())
    }

    /// Where links with guarded names lead that are in the root, or in a directory above what was changed.
    fn linked(&self, live: View<'_>) -> Vec<Place> {
        let mut dirs: std::collections::BTreeSet<&Path> = [Path::new("")].into();
        for path in self.changed {
            for dir in path.ancestors().skip(1) {
                if !dirs.insert(dir) {
                    break;
                }
            }
        }
        let mut linked = Vec::new();
        for dir in dirs {
            if !self.is_dir(dir) {
                continue;
            }
            for (name, inside) in rules::LINKABLE {
                let path = dir.join(name);
                match self.kind(&path) {
                    Some(EntryKind::Symlink) => self.follow(live, &path, &mut linked),
                    Some(EntryKind::Directory) => {
                        for path in inside.iter().map(|name| path.join(name)) {
                            if self.kind(&path) == Some(EntryKind::Symlink) {
                                self.follow(live, &path, &mut linked);
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        linked
    }

    /// What is on disk at a path.
    fn kind(&self, path: &Path) -> Option<EntryKind> {
        self.base.disk.look(path).ok().flatten().map(|entry| entry.kind)
    }

    fn is_dir(&self, path: &Path) -> bool {
        path.as_os_str().is_empty() || self.kind(path) == Some(EntryKind::Directory)
    }

    fn follow(&self, live: View<'_>, link: &Path, linked: &mut Vec<Place>) {
        let mut ends = depends_on(live, &to_shown(link), link);
        // An absolute link leads nowhere for tools, and somewhere for other programs.
        if let Ok(target) = self.base.disk.read_link(link)
            && let Ok(inside) = target.strip_prefix(&self.base.root)
        {
            ends.push(inside.to_owned());
            ends.extend(depends_on(live, &to_shown(inside), inside));
        }
        // A link to a directory that it is in guards nothing more.
        let ends = ends.into_iter().filter(|end| !link.starts_with(end));
        linked.extend(ends.map(|path| Place { path, reach: Reach::Below }));
    }
}
