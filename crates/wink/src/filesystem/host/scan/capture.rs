//! What a command did, as changes of its fork: found by comparing, and taken from the trash when the workspace is restored.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::failed;
use super::restore::Restored;
use super::trash::TrashDir;
use super::walk::Tree;
use crate::filesystem::host::Base;
use crate::filesystem::host::command::{attributes, root_changed, special};
use crate::filesystem::host::disk::{Disk, Entry, OwnedBy};
use crate::filesystem::host::layer::{Dir, Layer, Link, Node};
use crate::filesystem::host::name::to_shown;
use crate::filesystem::host::view::{View, made_version};
use crate::filesystem::{EntryKind, FsResult};

/// The differences between two states of a tree.
#[derive(Default)]
pub(super) struct Differences {
    /// What went, or became something of another kind, with all that was in it.
    gone: Vec<PathBuf>,
    /// What came or changed, directories before what is in them.
    made: Vec<(PathBuf, Entry)>,
    /// What of it has a time that was set.
    timed: HashSet<PathBuf>,
    /// Directories with another mode, owner or time.
    metas: Vec<(PathBuf, Entry, Entry)>,
}

/// What a command changed: `before` is what it was given, `restored` what it left, and it `began` not before that, as the disk
/// counts.
pub(super) fn differences(before: &Tree, restored: &Restored, began: i128) -> FsResult<Differences> {
    let Restored { found, stayed, .. } = restored;
    let mut differences = Differences::default();
    let mut below: Option<&Path> = None;
    for (path, known) in before {
        if below.is_some_and(|dir| path.starts_with(dir)) {
            continue;
        }
        if found.get(path).map(|entry| entry.kind) != Some(known.kind) {
            differences.gone.push(path.clone());
            below = Some(path);
        }
    }
    for (path, entry) in found {
        let known = before.get(path).filter(|known| known.kind == entry.kind);
        let is_same = match known {
            Some(known) if entry.kind == EntryKind::Directory => {
                match path.as_os_str().is_empty() {
                    true if rights(known) != rights(entry) => return Err(root_changed()),
                    true => {}
                    false if known.meta != entry.meta => {
                        differences.metas.push((path.clone(), known.clone(), entry.clone()))
                    }
                    false => {}
                }
                true
            }
            Some(known) => known == entry || stayed.contains(path),
            None => false,
        };
        if is_same {
            continue;
        }
        if entry.kind == EntryKind::Other {
            return Err(special(path));
        }
        differences.made.push((path.clone(), entry.clone()));
    }
    if let Some(path) = restored.attributes.first() {
        return Err(attributes(path));
    }
    differences.keep_set(began);
    differences.add_names(restored);
    Ok(differences)
}

/// Who may do what with it.
fn rights(entry: &Entry) -> (u32, Option<OwnedBy>) {
    (entry.meta.mode, entry.meta.owner)
}

/// Whether a time was set, and did not come of a change.
fn is_time_set(entry: &Entry, began: i128) -> bool {
    entry.meta.modified < began || entry.meta.modified > entry.changed
}

impl Differences {
    /// The time of a directory mostly says that something in it changed, which committing that says as well.
    fn keep_set(&mut self, began: i128) {
        let changed = self.gone.iter().chain(self.made.iter().map(|(path, _)| path));
        let parents: HashSet<&Path> = changed.filter_map(|path| path.parent()).collect();
        self.metas.retain(|(path, known, entry)| {
            rights(known) != rights(entry) || !parents.contains(path.as_path()) || is_time_set(entry, began)
        });
        self.timed = self
            .made
            .iter()
            .filter(|(_, entry)| is_time_set(entry, began))
            .map(|(path, _)| path.clone())
            .collect();
    }

    /// What has a new name keeps its others: they are taken along, though nothing else became of them.
    fn add_names(&mut self, restored: &Restored) {
        let inode = |entry: &Entry| (entry.dev, entry.ino);
        let has_names = |entry: &Entry| entry.kind == EntryKind::File && entry.links > 1;
        let known: HashSet<_> =
            self.made.iter().filter(|(_, entry)| has_names(entry)).map(|(_, entry)| inode(entry)).collect();
        if known.is_empty() {
            return;
        }
        let made: HashSet<&PathBuf> = self.made.iter().map(|(path, _)| path).collect();
        let others = restored.found.iter().filter(|(path, entry)| {
            has_names(entry)
                && known.contains(&inode(entry))
                && !restored.stayed.contains(*path)
                && !made.contains(path)
        });
        let others: Vec<_> = others.map(|(path, entry)| (path.clone(), entry.clone())).collect();
        self.made.extend(others);
    }
}

/// Brings the differences into the layer that the command was given. The workspace is restored but for what is `lost`, and so
/// is what the layer expects of it.
pub(super) fn capture(
    base: &Base,
    layer: &mut Layer,
    differences: &Differences,
    lost: &[PathBuf],
    trash: &Arc<TrashDir>,
) -> FsResult<()> {
    let stage = &base.writing()?.stage;
    let spot = |layer: &Layer, path: &Path| {
        View { disk: &base.disk, layer }.at(path).map_err(failed(path, "taken over from the command"))
    };
    for path in &differences.gone {
        if let Some(spot) = spot(layer, path)? {
            base.take_away(layer, path, &spot)?;
        }
        lost.iter().filter(|lost| lost.starts_with(path)).for_each(|lost| layer.lose(lost));
    }
    for (path, entry) in &differences.made {
        let failed = failed(path, "taken over from the command");
        let node = match entry.kind {
            EntryKind::Directory => {
                let attributes = base.disk.dir_attributes(&trash.at(path)).map_err(&failed)?.any();
                let keeps_time = differences.timed.contains(path);
                Node::Dir(Arc::new(Dir { keeps_time, attributes, ..Dir::new(entry.meta) }))
            }
            EntryKind::Symlink => {
                let target = base.disk.read_link(&trash.at(path)).map_err(&failed)?;
                let version = made_version(entry.meta.modified);
                Node::Link(Arc::new(Link {
                    target,
                    meta: entry.meta,
                    version,
                    _trash: Some(Arc::clone(trash)),
                }))
            }
            _ => Node::File(stage.from_trash(trash.at(path), trash).map_err(&failed)?),
        };
        let there = spot(layer, path)?;
        base.note(layer, &to_shown(path), path, there.as_ref())?;
        layer.put(path, node);
    }
    for (path, known, entry) in &differences.metas {
        // The time of what is somebody else's, and everybody may write: nobody but they can set it.
        if rights(known) == rights(entry) && !base.disk.may_set(known) {
            continue;
        }
        if rights(known) != rights(entry) {
            // Another process may set them before this is merged.
            let there = spot(layer, path)?;
            base.note(layer, &to_shown(path), path, there.as_ref())?;
        }
        if let Some(dir) = layer.dir_mut(path) {
            dir.meta = Some(entry.meta);
        }
    }
    Ok(())
}

/// Removes from the trash what the command was given and left alone, and what did not become the fork's: it has that.
pub(super) fn tidy(
    base: &Base,
    before: &Tree,
    found: &Tree,
    differences: Option<&Differences>,
    trash: &TrashDir,
) {
    let made: HashSet<&PathBuf> =
        differences.into_iter().flat_map(|differences| &differences.made).map(|(path, _)| path).collect();
    for (path, entry) in found.iter().rev().filter(|(path, _)| !path.as_os_str().is_empty()) {
        let at = trash.at(path);
        let removed = match before.get(path) {
            Some(known) if known.kind == EntryKind::Directory && entry.kind == EntryKind::Directory => {
                base.disk.remove_dir(&at)
            }
            Some(known) if known == entry && !made.contains(path) => base.disk.unlink(&at),
            _ => Ok(()),
        };
        // Most of it is not there, and the rest goes when the trash does.
        drop(removed);
    }
}
