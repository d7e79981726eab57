//! What calls change in the workspace's files: looked at when they are committed, written down or compared.
//!
//! A recording has what was there before a run as each call found it, and so does not need what the workspace remembers: that is as
//! much as undoing takes, and no more.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock};

use wink::filesystem::host::{HostFilesystem, PastContent, PastEntry};
use wink::filesystem::{EntryKind, FsPath};
use wink::session::{InvocationId, Logbook};

use super::images::{Content, FileChange, FileImage, FilesChanged, digest, scrubbed};
use super::scrub::Scrubber;
use crate::lock;

/// No larger file is in a recording.
const MOST_OF_A_FILE: u64 = 16 << 20;

/// No more of all files is in a recording.
const MOST_OF_ALL: u64 = 256 << 20;

/// Larger files are not put back from what the workspace remembers.
const MOST_REMEMBERED: u64 = 1 << 30;

/// The files that calls change, and the log that says which did.
#[derive(Clone)]
pub struct WatchedFiles {
    files: Arc<HostFilesystem>,
    log: Logbook,
}

impl WatchedFiles {
    /// The files of a workspace, and the log of the session that the run is in.
    pub fn new(files: Arc<HostFilesystem>, log: Logbook) -> Self {
        Self { files, log }
    }

    /// What a call changed, with all that was there before, as far as the workspace remembers it. Nothing, if there is no such call.
    ///
    /// # Errors
    /// When what it remembers cannot be read.
    pub async fn remembered(&self, call: InvocationId) -> Result<Option<FilesChanged>, String> {
        let keeping = Keeping { most: MOST_REMEMBERED, left: u64::MAX, known: BTreeSet::new() };
        self.changed(call, &Mutex::new(keeping), Afterwards::Compared, &Scrubber::new()).await
    }

    async fn changed(
        &self,
        call: InvocationId,
        keeping: &Mutex<Keeping>,
        afterwards: Afterwards,
        scrubber: &Scrubber,
    ) -> Result<Option<FilesChanged>, String> {
        let changed = self.log.changes(call).await.map_err(|error| error.to_string())?;
        if changed.forgotten && changed.journals.is_empty() {
            return Ok(None);
        }
        let past = self.files.past_changes(&changed.journals).map_err(|error| error.to_string())?;
        let mut keeping = lock(keeping);
        let mut changes = Vec::new();
        for change in past.changes {
            let of_before = match keeping.knows(&change.path) {
                true => Wanted::Compared,
                false => Wanted::Kept,
            };
            let of_after = match afterwards {
                Afterwards::Kept => Wanted::Kept,
                Afterwards::Compared => Wanted::Compared,
            };
            let mut image = |entry: Option<&PastEntry>, wanted| {
                entry.map(|entry| self.image(entry, wanted, &mut keeping, scrubber)).transpose()
            };
            let before = image(change.before.as_ref(), of_before)?;
            let after = image(change.after.as_ref(), of_after)?;
            let change = FileChange { path: change.path, from: change.moved_from, before, after };
            if !change.is_none() {
                changes.push(change);
            }
        }
        keeping.learn(&changes);
        let forgotten = changed.forgotten || !past.forgotten.is_empty();
        Ok(Some(FilesChanged { call, changes, forgotten }))
    }

    fn image(
        &self,
        entry: &PastEntry,
        wanted: Wanted,
        keeping: &mut Keeping,
        scrubber: &Scrubber,
    ) -> Result<FileImage, String> {
        let bare = FileImage { kind: entry.kind, mode: entry.mode, digest: None, len: None, content: None };
        if matches!(entry.kind, EntryKind::Directory | EntryKind::Other) {
            return Ok(bare);
        }
        let content = self.files.past_content(entry, keeping.most).map_err(|error| error.to_string())?;
        let bytes = match content {
            PastContent::Bytes(bytes) => scrubbed(bytes, scrubber),
            PastContent::TooLarge | PastContent::Lost => None,
        };
        Ok(match (bytes, wanted) {
            (None, Wanted::Compared) => FileImage { len: Some(entry.len), ..bare },
            (None, Wanted::Kept) => {
                FileImage { len: Some(entry.len), content: Some(Content::NotKept), ..bare }
            }
            (Some(bytes), Wanted::Compared) => FileImage { digest: Some(digest(&bytes)), ..bare },
            (Some(bytes), Wanted::Kept) => {
                FileImage { digest: Some(digest(&bytes)), content: Some(keeping.keep(bytes)), ..bare }
            }
        })
    }
}

/// Whether what is there after a call is kept, or only compared.
#[derive(Clone, Copy)]
pub(super) enum Afterwards {
    Kept,
    Compared,
}

/// What is wanted of something that was at a path.
#[derive(Clone, Copy)]
enum Wanted {
    Kept,
    Compared,
}

/// How much is kept, and what is there already.
struct Keeping {
    most: u64,
    left: u64,
    /// Paths of which it is known what was there before the run.
    known: BTreeSet<FsPath>,
}

impl Keeping {
    fn knows(&self, path: &FsPath) -> bool {
        self.known.contains(path)
    }

    fn keep(&mut self, bytes: Vec<u8>) -> Content {
        match self.left.checked_sub(bytes.len() as u64) {
            Some(left) => {
                self.left = left;
                Content::Bytes(bytes)
            }
            None => Content::NotKept,
        }
    }

    fn learn(&mut self, changes: &[FileChange]) {
        for change in changes {
            // What is moved takes with it what is known of where it was, and is not what was known of where it is.
            for moved in change.from.iter().flat_map(|from| [from, &change.path]) {
                let below = format!("{moved}/");
                self.known.retain(|path| path != moved && !path.as_str().starts_with(&below));
            }
        }
        let stays = changes.iter().filter(|change| change.from.is_none());
        self.known.extend(stays.map(|change| change.path.clone()));
    }
}

/// The files of a run's calls. A call that ends when the run does may not be looked at by then: it is when the run is over.
pub(super) struct CallFiles {
    watched: OnceLock<WatchedFiles>,
    keeping: Mutex<Keeping>,
    /// Calls that are to be looked at.
    begun: Mutex<Vec<InvocationId>>,
    /// Calls that a replay does not make: it has to know what they left.
    stood_in_for: Mutex<HashSet<InvocationId>>,
}

impl Default for CallFiles {
    fn default() -> Self {
        let keeping = Keeping { most: MOST_OF_A_FILE, left: MOST_OF_ALL, known: BTreeSet::new() };
        Self {
            watched: OnceLock::new(),
            keeping: Mutex::new(keeping),
            begun: Mutex::default(),
            stood_in_for: Mutex::default(),
        }
    }
}

impl CallFiles {
    pub(super) fn watch(&self, files: WatchedFiles) {
        // The first counts: a run is in one workspace.
        let _ = self.watched.set(files);
    }

    /// A call is about to be committed.
    pub(super) fn begins(&self, call: InvocationId) {
        if self.watched.get().is_some() {
            lock(&self.begun).push(call);
        }
    }

    /// What this call leaves is needed, and not only how it compares.
    pub(super) fn stands_in_for(&self, call: InvocationId) {
        lock(&self.stood_in_for).insert(call);
    }

    /// The calls that nobody has looked at.
    pub(super) fn left(&self) -> Vec<InvocationId> {
        lock(&self.begun).clone()
    }

    /// What a call changed, if it was committed; once.
    pub(super) async fn changed(&self, call: InvocationId, scrubber: &Scrubber) -> Option<FilesChanged> {
        let watched = self.watched.get()?;
        let afterwards = match lock(&self.stood_in_for).contains(&call) {
            true => Afterwards::Kept,
            false => Afterwards::Compared,
        };
        let changed = watched.changed(call, &self.keeping, afterwards, scrubber).await;
        let mut begun = lock(&self.begun);
        let at = begun.iter().position(|one| *one == call)?;
        begun.swap_remove(at);
        changed.unwrap_or_else(|error| {
            tracing::warn!(%call, error, "what a call changed in files cannot be read");
            Some(FilesChanged { call, changes: Vec::new(), forgotten: true })
        })
    }
}

/// What the calls of a recorded run changed, beside what they change now.
#[derive(Default)]
pub(super) struct ReplayedFiles {
    now: CallFiles,
    then: Vec<FilesChanged>,
    by_call: HashMap<InvocationId, usize>,
    scrubber: OnceLock<Scrubber>,
}

impl ReplayedFiles {
    pub(super) fn new(then: Vec<FilesChanged>) -> Self {
        let by_call = then.iter().enumerate().map(|(at, one)| (one.call, at)).collect();
        Self { then, by_call, ..Self::default() }
    }

    pub(super) fn watch(&self, files: WatchedFiles, scrubber: Scrubber) {
        let _ = self.scrubber.set(scrubber);
        self.now.watch(files);
    }

    pub(super) fn now(&self) -> &CallFiles {
        &self.now
    }

    /// Oldest first.
    pub(super) fn then(&self) -> &[FilesChanged] {
        &self.then
    }

    pub(super) fn of(&self, call: InvocationId) -> Option<&FilesChanged> {
        self.then.get(*self.by_call.get(&call)?)
    }

    /// How what a call changed differs from what it changed then, if it does and that is known.
    pub(super) async fn difference(&self, call: InvocationId) -> Option<String> {
        let none = Scrubber::new();
        let now = self.now.changed(call, self.scrubber.get().unwrap_or(&none)).await?;
        let then = self.of(call).filter(|then| !then.forgotten)?;
        let path = then.difference(&now)?;
        Some(format!(
            "a call changed files otherwise than when this was recorded: {path} is not what it was then"
        ))
    }
}
