//! What a journal keeps belongs to nobody else: it must not change with files of the tree.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;

use super::super::disk::Replace;
use super::Journal;
use super::intent::{Intent, Record};
use super::shelf::Place;
use crate::filesystem::EntryKind;

/// The names of a file that are in a journal.
#[derive(Default)]
struct Names {
    /// Those of what was replaced.
    images: Vec<PathBuf>,
    here: u64,
    /// How many it has anywhere.
    all: u64,
}

impl Journal {
    /// A pre-image that is still a name of a file in the tree would change with it: it becomes a copy, and so do the others
    /// that are names of that file, of the same copy. Without space for one they stay as they are, and whoever wants them can
    /// see by their time whether they are still what they were.
    pub(super) fn detach(&self, place: &Place, intent: &Intent) {
        let mut files: HashMap<(u64, u64), Names> = HashMap::new();
        for step in &intent.steps {
            let (held, is_image) = match step {
                Record::Put { replaced: Some((_, number)), .. } => (place.image(*number), true),
                Record::Take { slot, .. } => (place.taken(*slot), false),
                Record::Put { .. } | Record::Meta { .. } => continue,
            };
            if let Ok(Some(entry)) = self.disk.look(&held)
                && entry.kind != EntryKind::Directory
                && entry.links > 1
            {
                let names = files.entry((entry.dev, entry.ino)).or_default();
                (names.here, names.all) = (names.here + 1, entry.links);
                names.images.extend(is_image.then_some(held));
            }
        }
        for names in files.into_values().filter(|names| names.here < names.all) {
            if let Err(error) = self.copy_images(&names.images) {
                tracing::warn!(%error, "a pre-image is still a name of a file in the workspace");
            }
        }
    }

    fn copy_images(&self, images: &[PathBuf]) -> io::Result<()> {
        let mut copied: Option<&PathBuf> = None;
        for image in images {
            let copy = image.with_extension("copy");
            match copied {
                Some(other) => self.disk.link(other, &copy)?,
                None => self.disk.copy(image, &copy)?,
            }
            self.disk.rename(&copy, image, Replace::Allowed)?;
            copied = Some(image);
        }
        Ok(())
    }
}
