//! What the paths of one call led to when its policies looked at them.
//!
//! A policy decides about a place, and the handler works at one. Between the two another process can swap a directory for a
//! symbolic link. So a filesystem with links notes here what its policies' look met on the way, and the call's fork compares
//! what it meets with that: a difference is a conflict, and the handler never gets to the other place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::FileVersion;
use crate::support::lock::lock;

/// The symbolic links and file versions that the policies of one call met in a filesystem.
///
/// For implementations of [`Filesystem::held_to`](super::Filesystem::held_to). While policies decide, what is met first is noted;
/// once they have, it is only compared.
#[derive(Debug, Default)]
pub struct Resolutions {
    state: Mutex<ResolutionState>,
}

#[derive(Debug, Default)]
struct ResolutionState {
    /// By place, a path without links: where the link there points, or that there is none.
    links: BTreeMap<PathBuf, Option<PathBuf>>,
    /// By place: the version of the file there, or that there is nothing.
    files: BTreeMap<PathBuf, Option<FileVersion>>,
    is_sealed: bool,
}

impl Resolutions {
    /// Notes what is at `place`: a link to `target`, or no link (a file, a directory, nothing). False when the call met
    /// something else there before.
    #[must_use = "false is a conflict"]
    pub fn met(&self, place: &Path, target: Option<&Path>) -> bool {
        let mut state = lock(&self.state);
        match state.links.get(place) {
            Some(before) => before.as_deref() == target,
            None => {
                if !state.is_sealed {
                    state.links.insert(place.to_owned(), target.map(Path::to_owned));
                }
                true
            }
        }
    }

    /// Notes the version of the file at `place`, or that nothing is there, unless one is noted already.
    pub fn saw(&self, place: &Path, version: Option<FileVersion>) {
        let mut state = lock(&self.state);
        if !state.is_sealed && !state.files.contains_key(place) {
            state.files.insert(place.to_owned(), version);
        }
    }

    /// Whether a file that is to be changed is as a policy saw it. True for one that no policy looked at.
    pub fn is_as_seen(&self, place: &Path, version: Option<FileVersion>) -> bool {
        lock(&self.state).files.get(place).is_none_or(|before| *before == version)
    }

    /// The policies have decided: nothing is noted any more.
    pub(crate) fn seal(&self) {
        lock(&self.state).is_sealed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_met_first_counts_and_nothing_is_learned_afterwards() {
        let (seen, here, there) = (Resolutions::default(), Path::new("a"), Path::new("b"));
        assert!(seen.met(here, None) && seen.met(here, None) && !seen.met(here, Some(there)));
        let version = Some(FileVersion::new([1, 2, 3, 4, 5]));
        assert!(seen.is_as_seen(here, None) && seen.is_as_seen(here, version), "not looked at");
        seen.saw(here, None);
        seen.saw(here, version);
        assert!(seen.is_as_seen(here, None) && !seen.is_as_seen(here, version));
        seen.seal();
        assert!(!seen.met(here, Some(there)), "still compared");
        assert!(seen.met(there, None) && seen.met(there, Some(here)), "not noted");
        seen.saw(there, None);
        assert!(seen.is_as_seen(there, version), "nor is this");
    }
}
