//! Stand-in until the real one is merged.
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{Disk, Meta, Replace};
use super::host_disk::HostDisk;
use super::plan::{Plan, PlanStep, Source};
use crate::store::JournalId;

pub(super) struct Applied {
    id: JournalId,
    undo: Vec<Undo>,
}
enum Undo {
    Rename(PathBuf, PathBuf, Replace),
    Meta(PathBuf, Meta),
}
impl Applied {
    pub(super) fn id(&self) -> JournalId {
        self.id
    }
    pub(super) fn roll_back(self, disk: &HostDisk) -> io::Result<()> {
        for undo in self.undo.into_iter().rev() {
            match undo {
                Undo::Rename(from, to, replace) => disk.rename(&from, &to, replace)?,
                Undo::Meta(path, meta) => disk.set_meta(&path, meta)?,
            }
        }
        Ok(())
    }
    pub(super) fn apply(disk: &Arc<HostDisk>, plan: &Plan) -> io::Result<Self> {
        plan.check(Path::new(".wink")).map_err(io::Error::other)?;
        let id = JournalId::fresh();
        let dir = Path::new(".wink/journal");
        super::staged::make_dir(disk, dir)?;
        let dir = dir.join(id.to_string());
        super::staged::make_dir(disk, &dir)?;
        let mut undo = Vec::new();
        let mut slots: HashMap<u32, PathBuf> = HashMap::new();
        let mut parents = Vec::new();
        for (n, step) in plan.steps.iter().enumerate() {
            let parent = step.path().parent().unwrap_or(Path::new("")).to_owned();
            if let Some(entry) = disk.look(&parent)? {
                parents.push(Undo::Meta(parent, entry.meta));
            }
            match step {
                PlanStep::Take { path, slot } => {
                    let to = dir.join(format!("pre{slot}"));
                    disk.rename(path, &to, Replace::Refused)?;
                    undo.push(Undo::Rename(to.clone(), path.clone(), Replace::Refused));
                    slots.insert(*slot, to);
                }
                PlanStep::Put { path, from, replaces } => {
                    let from = match from {
                        Source::Staged(p) => p.clone(),
                        Source::Taken(s) => slots[s].clone(),
                    };
                    if *replaces {
                        let pre = dir.join(format!("link{n}"));
                        disk.link(path, &pre)?;
                        undo.push(Undo::Rename(pre, path.clone(), Replace::Refused));
                        disk.rename(&from, path, Replace::Allowed)?;
                    } else {
                        disk.rename(&from, path, Replace::Refused)?;
                    }
                    undo.push(Undo::Rename(path.clone(), from, Replace::Refused));
                }
                PlanStep::Meta { path, meta } => disk.set_meta(path, *meta)?,
            }
        }
        parents.reverse();
        parents.extend(undo);
        Ok(Self { id, undo: parents })
    }
}
