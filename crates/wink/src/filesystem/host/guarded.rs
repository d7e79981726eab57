//! Places that are not for forks to change: what says what tools may do is the user's.
//!
//! What counts is what a fork would leave at the place itself, however it came to be there: by name, through links, by
//! moving a directory on the way, or by a command.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::layer::{Layer, Node};
use super::name::to_shown;
use super::resolve::depends_on;
use super::view::{Spot, View};
use super::{Base, HostFilesystem, Shared, io_error};
use crate::filesystem::{EntryKind, FsError, FsPath, FsResult};

/// The places that are guarded.
#[derive(Debug, Clone, Default)]
pub(super) struct Guarded(Arc<[Place]>);

#[derive(Debug, Clone)]
struct Place {
    path: PathBuf,
    reach: Reach,
}

/// What of a directory is guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// That it is one.
    Itself,
    /// And everything in it.
    Below,
}

impl HostFilesystem {
    /// The same workspace, of which no fork changes what is at `paths` on disk, nor makes something there: such a change is
    /// [`FsError::Guarded`], also when it came through a symbolic link or from a command. Where a path leads over links,
    /// those are guarded as well, and what they lead to. What leaves a file with the same contents and mode is no change.
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
        self.with_guarded(paths, Reach::Itself)
    }

    /// The same for directories with everything in them: whatever changes something there is refused, be it back to what it
    /// was.
    ///
    /// # Errors
    /// As for [`HostFilesystem::guarding`].
    pub fn guarding_below(&self, dirs: impl IntoIterator<Item = impl Into<PathBuf>>) -> FsResult<Self> {
        self.with_guarded(dirs, Reach::Below)
    }

    fn with_guarded(
        &self,
        paths: impl IntoIterator<Item = impl Into<PathBuf>>,
        reach: Reach,
    ) -> FsResult<Self> {
        let Shared { base, instance, fork, guarded, held } = &*self.shared;
        if fork.is_some() {
            return Err(FsError::Unsupported { operation: "guarding places of a fork" });
        }
        let mut places = guarded.0.to_vec();
        for path in paths {
            let path = path.into();
            if !path.components().all(|component| matches!(component, Component::Normal(_))) {
                return Err(FsError::Outside { path: path.display().to_string() });
            }
            places.push(Place { path, reach });
        }
        let guarded = Guarded(places.into());
        let (base, held) = (Arc::clone(base), held.clone());
        let shared = Shared { base, instance: *instance, fork: None, guarded, held };
        Ok(Self { shared: Arc::new(shared) })
    }
}

impl Guarded {
    /// Refuses a layer that changes what is at one of the places.
    pub(super) fn check(&self, base: &Base, layer: &Layer) -> FsResult<()> {
        if layer.is_empty() {
            return Ok(());
        }
        let nothing = Layer::default();
        let depends = |path: &PathBuf| depends_on(base.view(&nothing), &to_shown(path), path);
        let places = self.0.iter().flat_map(|Place { path, reach }| {
            [path.clone()].into_iter().chain(depends(path)).map(|path| Place { path, reach: *reach })
        });
        for Place { path: place, reach } in places.filter(|place| !shows_through(layer, place)) {
            let place = &*place;
            let path = to_shown(place);
            let found =
                |layer| there(base.view(layer), place).map_err(|error| io_error(&path, "looked at", &error));
            if !base.is_same(layer, &path, reach, found(&nothing)?, found(layer)?)? {
                return Err(FsError::Guarded { path });
            }
        }
        Ok(())
    }
}

/// Whether a layer leaves a place alone, with everything on the way to it.
fn shows_through(layer: &Layer, place: &Place) -> bool {
    let (mut dir, mut at) = (&layer.root, PathBuf::new());
    for name in &place.path {
        if dir.source.as_deref() != Some(at.as_path()) {
            return false;
        }
        at.push(name);
        match dir.changed.get(name) {
            None => return true,
            Some(Node::Dir(child)) => dir = child,
            Some(Node::Moved(_) | Node::File(_) | Node::Link(_) | Node::Gone) => return false,
        }
    }
    // A directory, the one that is there.
    dir.source.as_deref() == Some(&place.path) && (place.reach == Reach::Itself || dir.changed.is_empty())
}

/// What is at a place, links on the way being no way.
fn there(view: View<'_>, place: &Path) -> io::Result<Option<Spot>> {
    let mut spot = view.root();
    for name in place {
        if spot.kind() != EntryKind::Directory {
            return Ok(None);
        }
        match view.child(&spot, name)? {
            Some(child) => spot = child,
            None => return Ok(None),
        }
    }
    Ok(Some(spot))
}

impl Base {
    /// Whether what is there after is what was there before.
    fn is_same(
        &self,
        layer: &Layer,
        path: &FsPath,
        reach: Reach,
        before: Option<Spot>,
        after: Option<Spot>,
    ) -> FsResult<bool> {
        let (Some(before), Some(after)) = (&before, &after) else {
            return Ok(before.is_none() && after.is_none());
        };
        let failed = |error| io_error(path, "looked at", &error);
        let view = self.view(layer);
        match (before.kind(), after.kind()) {
            (EntryKind::Directory, EntryKind::Directory) => Ok(reach == Reach::Itself),
            (EntryKind::Symlink, EntryKind::Symlink) => {
                Ok(view.target(before).map_err(failed)? == view.target(after).map_err(failed)?)
            }
            (EntryKind::File, EntryKind::File) => {
                let mode = |spot| Ok(view.about(spot).map_err(failed)?.0.mode);
                if before.len() != after.len() || mode(before)? != mode(after)? {
                    return Ok(false);
                }
                let bytes = |spot| Ok(self.try_content(path, spot)?.map(|(bytes, _)| bytes));
                let before = bytes(before)?;
                Ok(before.is_some() && before == bytes(after)?)
            }
            _ => Ok(false),
        }
    }
}
