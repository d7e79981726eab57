//! Single changes of a layer: each checks everything first, then changes the layer, and never the workspace.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{Disk, Meta};
use super::layer::{Dir, Expected, Layer, Node};
use super::look::{Content, no_file};
use super::name::to_shown;
use super::resolve::{Found, Last, Resolved};
use super::view::{Spot, View, is_in_state};
use super::{Base, io_error};
use crate::filesystem::text::apply_edit;
use crate::filesystem::{
    DeleteMode, Edit, EditReceipt, EntryKind, FileVersion, FsError, FsPath, FsResult, MkdirOptions,
    WriteMode, WriteOptions, WriteReceipt,
};

const FILE_MODE: u32 = 0o644;
const DIR_MODE: u32 = 0o755;

impl Base {
    pub(super) fn write(
        &self,
        layer: &mut Layer,
        path: &FsPath,
        content: &[u8],
        options: WriteOptions,
    ) -> FsResult<WriteReceipt> {
        path.check(&self.limits)?;
        let max = self.limits.max_write_bytes;
        if content.len() > max {
            return Err(FsError::TooLarge { path: path.clone(), bytes: content.len(), max });
        }
        if options.mode == WriteMode::Create
            && let Found::There(spot) = self.resolve(layer, path, Last::Itself)?.found
        {
            return Err(match spot.kind() {
                EntryKind::Directory => FsError::IsDirectory { path: path.clone() },
                _ => FsError::Exists { path: path.clone() },
            });
        }
        let Resolved { path: real, found } = self.resolve_for_change(layer, path, Last::Followed)?;
        let (created, version) = match found {
            Found::There(spot) if spot.kind() != EntryKind::File => return Err(no_file(path, spot.kind())),
            Found::There(spot) => match options.mode {
                WriteMode::Append => {
                    let Content { real, spot, mut bytes, .. } = self.content(layer, path)?;
                    bytes.extend_from_slice(content);
                    (false, self.put_file(layer, path, &real, Some(&spot), &bytes)?)
                }
                _ => (false, self.put_file(layer, path, &real, Some(&spot), content)?),
            },
            Found::Missing { present } => {
                first_made(&real, present, options.create_parents)?;
                if let Some(parent) = real.parent() {
                    self.make_dirs(layer, path, parent, present)?;
                }
                (true, self.put_file(layer, path, &real, None, content)?)
            }
        };
        Ok(WriteReceipt { bytes_written: content.len(), created, version })
    }

    pub(super) fn edit(&self, layer: &mut Layer, path: &FsPath, edit: &Edit) -> FsResult<EditReceipt> {
        let Content { real, spot, bytes, .. } = self.content(layer, path)?;
        let (text, replacements) = apply_edit(path, &bytes, edit, &self.limits)?;
        let version = self.put_file(layer, path, &real, Some(&spot), text.as_bytes())?;
        Ok(EditReceipt { replacements, version })
    }

    pub(super) fn delete(&self, layer: &mut Layer, path: &FsPath, mode: DeleteMode) -> FsResult<()> {
        if path.is_root() {
            return Err(FsError::RootProtected);
        }
        let failed = |error: io::Error| io_error(path, "deleted", &error);
        let Resolved { path: real, found } = self.resolve_for_change(layer, path, Last::Itself)?;
        let Found::There(spot) = found else { return Err(FsError::NotFound { path: path.clone() }) };
        let view = self.view(layer);
        match spot.kind() {
            EntryKind::Other => return Err(no_file(path, EntryKind::Other)),
            EntryKind::Directory
                if mode == DeleteMode::Single && !view.children(&spot).map_err(failed)?.is_empty() =>
            {
                return Err(FsError::NotEmpty { path: path.clone() });
            }
            _ => {}
        }
        self.check_dir(layer, path, real.parent().unwrap_or(Path::new("")))?;
        self.take_away(layer, &real, &spot)
    }

    pub(super) fn mkdir(&self, layer: &mut Layer, path: &FsPath, options: MkdirOptions) -> FsResult<()> {
        path.check(&self.limits)?;
        let Resolved { path: real, found } = self.resolve_for_change(layer, path, Last::Followed)?;
        match found {
            Found::There(spot) if spot.kind() != EntryKind::Directory => {
                Err(FsError::NotDirectory { path: path.clone() })
            }
            Found::There(_) if options.exist_ok => Ok(()),
            Found::There(_) => Err(FsError::Exists { path: path.clone() }),
            Found::Missing { present } => {
                first_made(&real, present, options.parents)?;
                self.make_dirs(layer, path, &real, present)
            }
        }
    }

    pub(super) fn rename(&self, layer: &mut Layer, from: &FsPath, to: &FsPath) -> FsResult<()> {
        if from.is_root() || to.is_root() {
            return Err(FsError::RootProtected);
        }
        to.check(&self.limits)?;
        let Resolved { path: old, found } = self.resolve_for_change(layer, from, Last::Itself)?;
        let Found::There(spot) = found else { return Err(FsError::NotFound { path: from.clone() }) };
        if spot.kind() == EntryKind::Other {
            return Err(no_file(from, EntryKind::Other));
        }
        if from == to {
            return Ok(());
        }
        let into_itself = || FsError::IntoItself { from: from.clone(), to: to.clone() };
        if to.starts_with(from) {
            return Err(into_itself());
        }
        let Resolved { path: new, found } = self.resolve_for_change(layer, to, Last::Itself)?;
        if new.starts_with(&old) && new != old {
            return Err(into_itself());
        }
        match found {
            Found::There(_) => return Err(FsError::Exists { path: to.clone() }),
            Found::Missing { present } => first_made(&new, present, false)?,
        }
        self.check_height(layer, &spot, &old, &new, to)?;
        for (path, real) in [(from, &old), (to, &new)] {
            self.check_dir(layer, path, real.parent().unwrap_or(Path::new("")))?;
        }
        if spot.kind() == EntryKind::Directory && old.parent() != new.parent() {
            self.check_dir(layer, from, &old)?;
        }
        let node = self.lift(layer, from, &spot)?;
        self.vacate(layer, &old, &spot)?;
        self.place(layer, &new, node)
    }

    /// Removes what is at `real`, and everything in it.
    pub(super) fn take_away(&self, layer: &mut Layer, real: &Path, spot: &Spot) -> FsResult<()> {
        let path = to_shown(real);
        let seen =
            everything_below(self.view(layer), spot).map_err(|error| io_error(&path, "deleted", &error))?;
        for (place, expected) in seen {
            layer.record(&place, expected);
        }
        self.vacate(layer, real, spot)
    }

    /// Nothing is at `real` any more, where `spot` was.
    pub(super) fn vacate(&self, layer: &mut Layer, real: &Path, spot: &Spot) -> FsResult<()> {
        self.note(layer, &to_shown(real), real, Some(spot))?;
        let is_below = self.is_below(layer, real);
        layer.remove(real, is_below);
        Ok(())
    }

    /// Puts something at `real`, where nothing is or what it replaces.
    pub(super) fn place(&self, layer: &mut Layer, real: &Path, node: Node) -> FsResult<()> {
        self.note(layer, &to_shown(real), real, None)?;
        let below = self.view(layer).place_below(real);
        match &node {
            // Back where it belongs.
            Node::Moved(source) if below.as_deref() == Some(source) => layer.forget(real),
            _ => layer.put(real, node),
        }
        Ok(())
    }

    /// Where a path leads, if something may be changed there.
    fn resolve_for_change(&self, layer: &Layer, path: &FsPath, last: Last) -> FsResult<Resolved> {
        let resolved = self.resolve(layer, path, last)?;
        if is_in_state(&resolved.path) {
            return Err(FsError::Io {
                path: path.clone(),
                kind: io::ErrorKind::PermissionDenied,
                message: format!(
                    "'{}' is where the runtime keeps its own state; use another name",
                    super::STATE
                ),
            });
        }
        Ok(resolved)
    }

    /// File tools keep to the modes of directories, as every program of the user does: what merges a fork does not.
    fn check_dir(&self, layer: &Layer, path: &FsPath, dir: &Path) -> FsResult<()> {
        let failed = |error: io::Error| io_error(path, "changed", &error);
        let view = self.view(layer);
        let Some(spot) = view.at(dir).map_err(failed)? else { return Ok(()) };
        let may = match &spot {
            Spot::Base(place, _) => self.disk.may_change(place).map_err(failed)?,
            Spot::Dir(changed) if changed.meta.is_none() && changed.source.is_some() => {
                let source = changed.source.as_deref().unwrap_or(dir);
                self.disk.may_change(source).map_err(failed)?
            }
            Spot::Dir(_) => {
                let meta = view.about(&spot).map_err(failed)?.0;
                self.disk.can_own() || meta.mode & 0o300 == 0o300
            }
            Spot::File(_) | Spot::Link(_) => true,
        };
        if may {
            return Ok(());
        }
        Err(FsError::Io {
            path: path.clone(),
            kind: io::ErrorKind::PermissionDenied,
            message: format!(
                "it cannot be changed: permission denied; the directory '{}' is read-only for this user",
                to_shown(dir)
            ),
        })
    }

    /// Stages contents and puts them at `real`, where `spot` is now.
    fn put_file(
        &self,
        layer: &mut Layer,
        path: &FsPath,
        real: &Path,
        spot: Option<&Spot>,
        content: &[u8],
    ) -> FsResult<FileVersion> {
        let failed = |error: io::Error| io_error(path, "written", &error);
        self.check_dir(layer, path, real.parent().unwrap_or(Path::new("")))?;
        let mode = match spot {
            Some(spot) => self.view(layer).about(spot).map_err(failed)?.0.mode,
            None => FILE_MODE & !self.umask,
        };
        let stage = &self.writing()?.stage;
        let staged = match spot {
            Some(Spot::Base(place, _)) => stage.write_over(content, mode, place),
            Some(Spot::File(old)) => stage.write_over(content, mode, old.path()),
            _ => match self.giving(layer, real).map_err(failed)? {
                Some(dir) => stage.write_given(content, &dir),
                None => stage.write(content, mode),
            },
        };
        let staged = staged.map_err(failed)?;
        self.note(layer, path, real, spot)?;
        let version = staged.version();
        layer.put(real, Node::File(staged));
        Ok(version)
    }

    /// The directory of the workspace that gives a new entry at `real` its group or access control list, if one does. New directories
    /// on the way hand it on.
    fn giving(&self, layer: &Layer, real: &Path) -> io::Result<Option<PathBuf>> {
        for dir in real.ancestors().skip(1) {
            let place = match self.view(layer).at(dir)? {
                Some(Spot::Base(place, _)) => place,
                Some(Spot::Dir(dir)) => match &dir.source {
                    Some(source) => source.to_path_buf(),
                    None => continue,
                },
                _ => continue,
            };
            return Ok(self.disk.gives(&place)?.then_some(place));
        }
        Ok(None)
    }

    /// Makes the directories on the way to and at `real`, of which the first `present` are there.
    fn make_dirs(&self, layer: &mut Layer, path: &FsPath, real: &Path, present: usize) -> FsResult<()> {
        let meta = Meta { mode: DIR_MODE & !self.umask, modified: self.now(), owner: None };
        let mut dir: PathBuf = real.iter().take(present).collect();
        self.check_dir(layer, path, &dir)?;
        for name in real.iter().skip(present) {
            dir.push(name);
            self.note(layer, path, &dir, None)?;
            layer.put(&dir, Node::Dir(Arc::new(Dir::new(meta))));
        }
        Ok(())
    }

    /// Records what the workspace has below `real`, before that changes for the first time. `spot` is what was found
    /// at `real`: the decision to change it was made by looking at that, and not at what may be there by now.
    pub(super) fn note(
        &self,
        layer: &mut Layer,
        path: &FsPath,
        real: &Path,
        spot: Option<&Spot>,
    ) -> FsResult<()> {
        let Some(place) = self.view(layer).place_below(real) else { return Ok(()) };
        let expected = match (layer.records.get(&*place), spot) {
            (Some(recorded), _) => *recorded,
            (None, Some(Spot::Base(from, entry))) if *from == place => Expected::exactly(Some(entry)),
            (None, _) => {
                let found = self.disk.look(&place).map_err(|error| io_error(path, "looked at", &error))?;
                Expected::exactly(found.as_ref())
            }
        };
        if let Some(held) = &layer.held
            && !held.is_as_seen(&place, expected.version())
        {
            return Err(FsError::Conflict { paths: vec![to_shown(&place)] });
        }
        layer.record(&place, expected);
        Ok(())
    }

    /// Whether the workspace has something below `real`, as recorded.
    fn is_below(&self, layer: &Layer, real: &Path) -> bool {
        let place = self.view(layer).place_below(real);
        place.and_then(|place| layer.records.get(&*place)).is_some_and(|expected| expected.kind().is_some())
    }

    /// What is at a place, as a node that can be put elsewhere.
    pub(super) fn lift(&self, layer: &mut Layer, path: &FsPath, spot: &Spot) -> FsResult<Node> {
        Ok(match spot {
            Spot::Base(place, entry) => {
                layer.record(place, Expected::movable(entry));
                Node::Moved(Arc::from(&**place))
            }
            Spot::Dir(dir) => {
                if let Some(source) = &dir.source
                    && let Some(entry) =
                        self.disk.look(source).map_err(|error| io_error(path, "looked at", &error))?
                {
                    layer.record(source, Expected::movable(&entry));
                }
                Node::Dir(Arc::clone(dir))
            }
            Spot::File(staged) => Node::File(Arc::clone(staged)),
            Spot::Link(link) => Node::Link(Arc::clone(link)),
        })
    }

    /// Only a move further down can make what is inside too deep, so only then it is looked at.
    fn check_height(&self, layer: &Layer, spot: &Spot, old: &Path, new: &Path, to: &FsPath) -> FsResult<()> {
        let (before, after, max) = (old.iter().count(), new.iter().count(), self.limits.max_segments);
        if after <= before || spot.kind() != EntryKind::Directory {
            return Ok(());
        }
        let failed = |error: io::Error| io_error(to, "looked at", &error);
        let depth = after + height(self.view(layer), spot, max).map_err(failed)?;
        if depth > max {
            return Err(FsError::TooDeep { path: format!("{to}/…"), depth, max });
        }
        Ok(())
    }
}

/// Refuses what would need parents that may not be made.
fn first_made(real: &Path, present: usize, parents: bool) -> FsResult<()> {
    if parents || present + 1 == real.iter().count() {
        return Ok(());
    }
    let missing: PathBuf = real.iter().take(present + 1).collect();
    Err(FsError::NotFound { path: to_shown(&missing) })
}

/// Segments below the deepest entry, or one more than `max`.
fn height(view: View<'_>, spot: &Spot, max: usize) -> io::Result<usize> {
    let mut deepest = 0;
    if max == 0 || spot.kind() != EntryKind::Directory {
        return Ok(0);
    }
    for (_, child) in view.children(spot)? {
        if let Some(child) = view.child_spot(child)? {
            deepest = deepest.max(1 + height(view, &child, max - 1)?);
        }
    }
    Ok(deepest)
}

/// Every place of the workspace that shows in `spot` and below, as it is.
fn everything_below(view: View<'_>, spot: &Spot) -> io::Result<Vec<(PathBuf, Expected)>> {
    let (mut seen, mut left) = (Vec::new(), vec![spot.clone()]);
    while let Some(spot) = left.pop() {
        match &spot {
            Spot::Base(place, entry) => seen.push((place.clone(), Expected::exactly(Some(entry)))),
            Spot::Dir(dir) => {
                if let Some(source) = &dir.source {
                    let found = view.disk.look(source)?;
                    seen.push((source.to_path_buf(), Expected::exactly(found.as_ref())));
                }
            }
            Spot::File(_) | Spot::Link(_) => {}
        }
        if spot.kind() == EntryKind::Directory {
            left.extend(view.spots_in(&spot)?);
        }
    }
    Ok(seen)
}
