//! Reading: what a fork, or the workspace itself, shows.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::disk::{Disk, Entry};
use super::host_disk::AtMost;
use super::layer::{Expected, Layer};
use super::name::{to_disk, to_shown};
use super::resolve::{Found, Last, Resolved, resolve};
use super::view::{Spot, View};
use super::{Base, Shared, io_error};
use crate::filesystem::text::read_window;
use crate::filesystem::{
    BytesRead, DirEntry, EntryKind, FileVersion, FsError, FsPath, FsResult, Metadata, ReadWindow, TextRead,
};
use crate::support::lock::lock;
use crate::support::steps::reach;

impl Base {
    pub(super) fn view<'a>(&'a self, layer: &'a Layer) -> View<'a> {
        View { disk: &self.disk, layer }
    }

    pub(super) fn resolve(&self, layer: &Layer, path: &FsPath, last: Last) -> FsResult<Resolved> {
        resolve(self.view(layer), path, &to_disk(path)?, last)
    }

    /// What is at a path, links followed, and where that really is.
    pub(super) fn find(&self, layer: &Layer, path: &FsPath) -> FsResult<(PathBuf, Spot)> {
        match self.resolve(layer, path, Last::Followed)? {
            Resolved { path, found: Found::There(spot) } => Ok((path, spot)),
            Resolved { .. } => Err(FsError::NotFound { path: path.clone() }),
        }
    }

    /// The directory at a path.
    pub(super) fn find_dir(&self, layer: &Layer, path: &FsPath) -> FsResult<Spot> {
        let (_, spot) = self.find(layer, path)?;
        match spot.kind() {
            EntryKind::Directory => Ok(spot),
            _ => Err(FsError::NotDirectory { path: path.clone() }),
        }
    }

    /// The contents of a file, and which state of it they are.
    pub(super) fn content(&self, layer: &Layer, path: &FsPath) -> FsResult<Content> {
        let (real, spot, (bytes, version)) =
            self.at_rest(layer, path, |spot| self.try_content(path, spot))?;
        Ok(Content { real, spot, bytes, version })
    }

    /// Reads what is at a path until it did not change meanwhile.
    pub(super) fn at_rest<T>(
        &self,
        layer: &Layer,
        path: &FsPath,
        mut read: impl FnMut(&Spot) -> FsResult<Option<T>>,
    ) -> FsResult<(PathBuf, Spot, T)> {
        // Somebody may write while we read. Once more is enough for whoever replaces files whole.
        for _ in 0..2 {
            let (real, spot) = self.find(layer, path)?;
            if let Some(content) = read(&spot)? {
                return Ok((real, spot, content));
            }
        }
        Err(FsError::Io {
            path: path.clone(),
            kind: io::ErrorKind::ResourceBusy,
            message: "it changed while it was being read; read it again when it is at rest".to_owned(),
        })
    }

    /// The contents of what was found; none if it changed meanwhile.
    pub(super) fn try_content(&self, path: &FsPath, spot: &Spot) -> FsResult<Option<(Vec<u8>, FileVersion)>> {
        self.try_read(path, spot, AtMost::into_vec)
    }

    /// What `read` makes of the contents of what was found; none if they changed meanwhile.
    pub(super) fn try_read<T>(
        &self,
        path: &FsPath,
        spot: &Spot,
        read: impl FnOnce(AtMost) -> io::Result<T>,
    ) -> FsResult<Option<(T, FileVersion)>> {
        let failed = |error: io::Error| io_error(path, "read", &error);
        let max = self.limits.max_read_bytes;
        self.limits.check_read(path, spot.len())?;
        match spot {
            Spot::File(staged) => Ok(Some((staged.read(max, read).map_err(failed)?, staged.version()))),
            Spot::Base(place, before) if before.kind == EntryKind::File => {
                let content = match self.disk.open_at_most(place, max).and_then(read) {
                    // Gone, or grown.
                    Err(error)
                        if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::FileTooLarge) =>
                    {
                        return Ok(None);
                    }
                    content => content.map_err(failed)?,
                };
                reach("host.content-read");
                let after = self.disk.look(place).map_err(failed)?;
                let is_same = after.is_some_and(|after| after.version() == before.version());
                Ok(is_same.then(|| (content, before.version())))
            }
            spot => Err(no_file(path, spot.kind())),
        }
    }
}

/// A file as it was read.
pub(super) struct Content {
    /// Its path without links.
    pub(super) real: PathBuf,
    pub(super) spot: Spot,
    pub(super) bytes: Vec<u8>,
    pub(super) version: FileVersion,
}

/// Why what is at `path` cannot be used as a file.
pub(super) fn no_file(path: &FsPath, kind: EntryKind) -> FsError {
    match kind {
        EntryKind::Directory => FsError::IsDirectory { path: path.clone() },
        _ => FsError::Io {
            path: path.clone(),
            kind: io::ErrorKind::InvalidInput,
            message: "it is a pipe, socket or device; only files and directories can be used".to_owned(),
        },
    }
}

impl Shared {
    pub(super) fn read(&self, path: &FsPath, window: ReadWindow) -> FsResult<TextRead> {
        let Content { bytes, version, spot, .. } = self.base.content(&self.layer(), path)?;
        self.saw(&spot);
        read_window(path, &bytes, version, window, &self.base.limits)
    }

    pub(super) fn read_bytes(&self, path: &FsPath) -> FsResult<BytesRead> {
        let Content { bytes, version, spot, .. } = self.base.content(&self.layer(), path)?;
        self.saw(&spot);
        Ok(BytesRead { bytes: bytes.into(), version })
    }

    /// What a fork has read is what it writes over, if it does: who changes the file in between is not overwritten.
    fn saw(&self, spot: &Spot) {
        if let Spot::Base(place, entry) = spot {
            self.saw_at(place, Some(entry));
        }
    }

    fn saw_at(&self, place: &Path, found: Option<&Entry>) {
        if let Some(fork) = &self.fork {
            lock(&fork.state).layer.record(place, Expected::exactly(found));
        }
    }

    /// What a fork was told of a file, or that there is none, is what it writes over, like what it has read. Of a file that
    /// it has read or looked at before, the version is that of then: a policy that remembers it as read must not remember
    /// one that another process wrote since.
    pub(super) fn stat(&self, path: &FsPath) -> FsResult<Metadata> {
        let layer = self.layer();
        let spot = match self.base.resolve(&layer, path, Last::Followed)? {
            Resolved { found: Found::There(spot), .. } => spot,
            Resolved { path: real, found: Found::Missing { .. } } => {
                if let Some(place) = self.base.view(&layer).place_below(&real) {
                    if let Some(held) = &layer.held {
                        held.saw(&place, None);
                    }
                    self.saw_at(&place, None);
                }
                return Err(FsError::NotFound { path: path.clone() });
            }
        };
        if let Spot::Base(place, entry) = &spot
            && entry.kind != EntryKind::Directory
        {
            if let Some(held) = &layer.held {
                held.saw(place, Some(entry.version()));
            }
            self.saw(&spot);
        }
        let about = self.base.view(&layer).about(&spot);
        let (meta, mut version) = about.map_err(|error| io_error(path, "looked at", &error))?;
        if let Spot::Base(place, _) = &spot
            && let Some(read) = layer.records.get(&**place).and_then(Expected::version)
        {
            // What the fork has read of the file, or is about to replace, and not what another process made of it since.
            version = read;
        }
        let modified = Timestamp::from_nanosecond(meta.modified).unwrap_or(Timestamp::UNIX_EPOCH);
        Ok(Metadata { kind: spot.kind(), len: spot.len(), version, mode: meta.mode, modified })
    }

    /// Where an operation on a path would work: on a link at its end, or on what that leads to.
    pub(super) fn places(&self, path: &FsPath) -> FsResult<Vec<FsPath>> {
        let layer = self.layer();
        let mut places = vec![path.clone()];
        for last in [Last::Itself, Last::Followed] {
            let place = to_shown(&self.base.resolve(&layer, path, last)?.path);
            if !places.contains(&place) {
                places.push(place);
            }
        }
        Ok(places)
    }

    pub(super) fn list(&self, path: &FsPath) -> FsResult<Vec<DirEntry>> {
        let layer = self.layer();
        let (real, dir) = self.base.find(&layer, path)?;
        if dir.kind() != EntryKind::Directory {
            return Err(FsError::NotDirectory { path: path.clone() });
        }
        let view = self.base.view(&layer);
        let failed = |error: io::Error| io_error(&to_shown(&real), "listed", &error);
        let mut entries = Vec::new();
        for (name, child) in view.children(&dir).map_err(failed)? {
            if let Some(spot) = view.child_spot(child).map_err(failed)? {
                let path = path.child(&super::name::shown(&name));
                entries.push(DirEntry { path, kind: spot.kind(), len: spot.len() });
            }
        }
        entries.sort_unstable_by(|one, two| one.path.cmp(&two.path));
        Ok(entries)
    }
}
