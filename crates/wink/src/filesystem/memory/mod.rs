//! The in-memory filesystem.
//!
//! One lock around an immutable root: readers take the root and let go, writers replace it. Every operation
//! is complete at its first poll, but for a long search. Forks and snapshots are roots, too.

mod merge;
mod ops;
mod search;
mod snapshot;
mod tree;

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::Timestamp;
use serde_json::Value;

use crate::BoxFuture;
use crate::limits::{Clock, SystemClock};
use crate::support::lock::lock;

use super::{
    BytesRead, DeleteMode, DirEntry, Edit, EditReceipt, FileVersion, Filesystem, FsError, FsLimits, FsPath,
    FsResult, FsSnapshot, GrepOutcome, GrepQuery, MergeReceipt, Metadata, MkdirOptions, ReadWindow, TextRead,
    WriteMode, WriteOptions, WriteReceipt,
};
use tree::{Dir, File, Node, Stamp};

/// Files in memory.
///
/// ```
/// use wink::filesystem::{FilesystemExt, MemoryFilesystem};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// let files = MemoryFilesystem::from_files([("notes/a.txt", "one\n")])?;
/// files.edit_text("notes/a.txt", "one", "two").await?;
/// assert_eq!(files.read_text("/notes/./a.txt").await?, "two\n");
/// # Ok::<(), wink::filesystem::FsError>(())
/// # }).unwrap();
/// ```
pub struct MemoryFilesystem {
    limits: FsLimits,
    clock: Arc<dyn Clock>,
    access: Access,
    numbers: Arc<Numbers>,
    instance: Instance,
    /// What a fork is a fork of.
    origin: Option<Instance>,
    state: Mutex<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    ReadWrite,
    ReadOnly,
}

/// Which filesystem a fork, receipt or snapshot belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Instance {
    lineage: u64,
    number: u64,
}

struct State {
    root: Arc<Dir>,
    /// In a fork: the root that it started from.
    start: Option<Arc<Dir>>,
    /// In a fork: the one thing that was done so far, not in `root` yet.
    first: Option<Overwrite>,
    /// In a fork whose one thing was merged: the file that `start` had there, and has no longer.
    merged: Option<(FsPath, Arc<File>)>,
    /// In a fork: everything that differs from the origin is at or below one of these. It may name too much
    /// (a change that was taken back), never too little.
    touched: BTreeSet<FsPath>,
}

/// A file that got new contents, and nothing else: what most calls do, and what can be merged without copying the
/// directories above it.
struct Overwrite {
    path: FsPath,
    old: Arc<File>,
    new: Arc<File>,
}

impl State {
    fn of(root: Arc<Dir>) -> Self {
        Self { root, start: None, first: None, merged: None, touched: BTreeSet::new() }
    }

    /// Brings what was done so far into the root.
    fn settle(&mut self) {
        if let (Some((path, old)), Some(start)) = (self.merged.take(), &mut self.start) {
            tree::replace(start, &path, Node::File(old));
            self.touched.insert(path);
        }
        if let Some(Overwrite { path, new, .. }) = self.first.take() {
            tree::replace(&mut self.root, &path, Node::File(new));
            self.touched.insert(path);
        }
    }

    /// Whether nothing was done yet in this fork.
    fn is_fresh(&self) -> bool {
        let same = |start| Arc::ptr_eq(start, &self.root);
        self.first.is_none()
            && self.merged.is_none()
            && self.touched.is_empty()
            && self.start.as_ref().is_some_and(same)
    }
}

/// Numbers that a filesystem and its forks never use twice.
struct Numbers {
    /// Random, so that versions stay apart when a snapshot comes back in another process.
    lineage: u64,
    next: AtomicU64,
}

impl Numbers {
    fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn instance(&self) -> Instance {
        Instance { lineage: self.lineage, number: self.take() }
    }

    fn version(&self) -> FileVersion {
        FileVersion::new([self.lineage, self.take(), 0, 0, 0])
    }
}

impl MemoryFilesystem {
    /// An empty one, with the default limits and the machine's clock.
    pub fn new() -> Self {
        let numbers = Numbers { lineage: RandomState::new().hash_one(()), next: AtomicU64::new(0) };
        let stamp = Stamp { version: numbers.version(), modified: Timestamp::UNIX_EPOCH, mode: Dir::MODE };
        Self {
            limits: FsLimits::DEFAULT,
            clock: Arc::new(SystemClock),
            access: Access::ReadWrite,
            instance: numbers.instance(),
            numbers: Arc::new(numbers),
            origin: None,
            state: Mutex::new(State::of(Arc::new(Dir::empty(stamp)))),
        }
    }

    /// One with these files, making the directories they are in.
    pub fn from_files<P: AsRef<str>, C: AsRef<[u8]>>(
        files: impl IntoIterator<Item = (P, C)>,
    ) -> FsResult<Self> {
        Self::new().with_files(files)
    }

    /// Adds files, making the directories they are in. Limits and clock that are to hold for them come first.
    pub fn with_files<P: AsRef<str>, C: AsRef<[u8]>>(
        self,
        files: impl IntoIterator<Item = (P, C)>,
    ) -> FsResult<Self> {
        for (path, content) in files {
            let path = FsPath::parse(path.as_ref(), &self.limits)?;
            self.do_write(&path, content.as_ref(), WriteOptions::new(WriteMode::Overwrite))?;
        }
        Ok(self)
    }

    /// With other limits.
    pub fn with_limits(self, limits: FsLimits) -> Self {
        Self { limits, ..self }
    }

    /// With another clock, which gives files their times.
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self }
    }

    /// Refuses every change from now on.
    pub fn read_only(self) -> Self {
        Self { access: Access::ReadOnly, ..self }
    }

    fn root(&self) -> Arc<Dir> {
        self.settled().root.clone()
    }

    /// The state, with everything in its root.
    fn settled(&self) -> MutexGuard<'_, State> {
        let mut state = lock(&self.state);
        state.settle();
        state
    }

    fn writable(&self) -> FsResult<()> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err(FsError::ReadOnly),
        }
    }

    /// A version and time for what is about to be changed. Taken before the lock: the clock is foreign code.
    fn stamp(&self, mode: u32) -> Stamp {
        Stamp { version: self.numbers.version(), modified: self.clock.now(), mode }
    }

    fn touch(&self, state: &mut State, path: &FsPath) {
        if self.origin.is_some() && !state.touched.contains(path) {
            state.touched.insert(path.clone());
        }
    }
}

impl Default for MemoryFilesystem {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryFilesystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryFilesystem").finish_non_exhaustive()
    }
}

impl Filesystem for MemoryFilesystem {
    fn limits(&self) -> &FsLimits {
        &self.limits
    }

    fn is_read_only(&self) -> bool {
        self.access == Access::ReadOnly
    }

    fn read<'a>(&'a self, path: &'a FsPath, window: ReadWindow) -> BoxFuture<'a, FsResult<TextRead>> {
        Box::pin(async move { self.do_read(path, window) })
    }

    fn read_bytes<'a>(&'a self, path: &'a FsPath) -> BoxFuture<'a, FsResult<BytesRead>> {
        Box::pin(async move { self.do_read_bytes(path) })
    }

    fn write<'a>(
        &'a self,
        path: &'a FsPath,
        content: &'a [u8],
        options: WriteOptions,
    ) -> BoxFuture<'a, FsResult<WriteReceipt>> {
        Box::pin(async move { self.do_write(path, content, options) })
    }

    fn edit<'a>(&'a self, path: &'a FsPath, edit: &'a Edit) -> BoxFuture<'a, FsResult<EditReceipt>> {
        Box::pin(async move { self.do_edit(path, edit) })
    }

    fn delete<'a>(&'a self, path: &'a FsPath, mode: DeleteMode) -> BoxFuture<'a, FsResult<()>> {
        Box::pin(async move { self.do_delete(path, mode) })
    }

    fn mkdir<'a>(&'a self, path: &'a FsPath, options: MkdirOptions) -> BoxFuture<'a, FsResult<()>> {
        Box::pin(async move { self.do_mkdir(path, options) })
    }

    fn rename<'a>(&'a self, from: &'a FsPath, to: &'a FsPath) -> BoxFuture<'a, FsResult<()>> {
        Box::pin(async move { self.do_rename(from, to) })
    }

    fn stat<'a>(&'a self, path: &'a FsPath) -> BoxFuture<'a, FsResult<Metadata>> {
        Box::pin(async move { self.do_stat(path) })
    }

    fn list<'a>(&'a self, dir: &'a FsPath) -> BoxFuture<'a, FsResult<Vec<DirEntry>>> {
        Box::pin(async move { self.do_list(dir) })
    }

    fn glob<'a>(&'a self, base: &'a FsPath, pattern: &'a str) -> BoxFuture<'a, FsResult<Vec<DirEntry>>> {
        Box::pin(self.do_glob(base, pattern))
    }

    fn grep<'a>(&'a self, base: &'a FsPath, query: &'a GrepQuery) -> BoxFuture<'a, FsResult<GrepOutcome>> {
        Box::pin(self.do_grep(base, query))
    }

    fn fork(&self) -> FsResult<Arc<dyn Filesystem>> {
        Ok(Arc::new(self.do_fork()))
    }

    fn merge(&self, fork: &dyn Filesystem) -> FsResult<MergeReceipt> {
        self.do_merge(fork)
    }

    fn unmerge(&self, receipt: MergeReceipt) -> FsResult<()> {
        self.do_unmerge(receipt)
    }

    fn changes(&self) -> Vec<FsPath> {
        self.do_changes()
    }

    fn snapshot(&self) -> FsResult<FsSnapshot> {
        Ok(self.do_snapshot())
    }

    fn restore(&self, snapshot: &FsSnapshot) -> FsResult<()> {
        self.do_restore(snapshot)
    }

    fn decode_snapshot(&self, json: &Value) -> FsResult<FsSnapshot> {
        snapshot::decode(json, &self.limits)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
