//! Single operations: each checks everything first, then changes the tree under one lock.

use std::sync::Arc;

use crate::filesystem::text::{apply_edit, read_window};
use crate::filesystem::{
    BytesRead, DeleteMode, DirEntry, Edit, EditReceipt, EntryKind, FsError, FsPath, FsResult, Metadata,
    MkdirOptions, ReadWindow, TextRead, WriteMode, WriteOptions, WriteReceipt,
};
use crate::support::lock::lock;

use super::tree::{self, Dir, File, Node, Place, Stamp, locate};
use super::{MemoryFilesystem, Overwrite};

const FILE_MODE: u32 = 0o644;

impl MemoryFilesystem {
    pub(super) fn do_read(&self, path: &FsPath, window: ReadWindow) -> FsResult<TextRead> {
        let root = self.root();
        let file = self.readable(&root, path)?;
        read_window(path, &file.content, file.stamp.version, window, &self.limits)
    }

    pub(super) fn do_read_bytes(&self, path: &FsPath) -> FsResult<BytesRead> {
        let root = self.root();
        let file = self.readable(&root, path)?;
        Ok(BytesRead { bytes: file.content.clone(), version: file.stamp.version })
    }

    pub(super) fn do_write(
        &self,
        path: &FsPath,
        content: &[u8],
        options: WriteOptions,
    ) -> FsResult<WriteReceipt> {
        self.writable()?;
        path.check(&self.limits)?;
        let max = self.limits.max_write_bytes;
        if content.len() > max {
            return Err(FsError::TooLarge { path: path.clone(), bytes: content.len(), max });
        }
        let stamp = self.stamp(FILE_MODE);
        let mut state = lock(&self.state);
        if !state.is_fresh() {
            state.settle();
        }
        let created = match locate(&state.root, path)? {
            Place::Dir(_) => return Err(FsError::IsDirectory { path: path.clone() }),
            Place::File(old) => {
                let content: Arc<[u8]> = match options.mode {
                    WriteMode::Create => return Err(FsError::Exists { path: path.clone() }),
                    WriteMode::Overwrite => Arc::from(content),
                    WriteMode::Append => {
                        self.limits.check_read(path, old.content.len() as u64)?;
                        Arc::from([&*old.content, content].concat())
                    }
                };
                let new = Arc::new(File { stamp: Stamp { mode: old.stamp.mode, ..stamp }, content });
                if state.is_fresh() {
                    let old = Arc::clone(old);
                    state.first = Some(Overwrite { path: path.clone(), old, new });
                } else {
                    self.touch(&mut state, path);
                    tree::replace(&mut state.root, path, Node::File(new));
                }
                false
            }
            Place::Missing { present } => {
                let made = first_made(path, present, options.create_parents)?;
                let file = File { stamp, content: Arc::from(content) };
                self.touch(&mut state, &made);
                tree::insert(&mut state.root, path, Node::File(Arc::new(file)), &stamp);
                true
            }
        };
        Ok(WriteReceipt { bytes_written: content.len(), created, version: stamp.version })
    }

    pub(super) fn do_edit(&self, path: &FsPath, edit: &Edit) -> FsResult<EditReceipt> {
        self.writable()?;
        let stamp = self.stamp(FILE_MODE);
        let mut state = self.settled();
        let old = self.readable(&state.root, path)?;
        let (content, replacements) = apply_edit(path, &old.content, edit, &self.limits)?;
        let stamp = Stamp { mode: old.stamp.mode, ..stamp };
        let file = File { stamp, content: Arc::from(content.into_bytes()) };
        self.touch(&mut state, path);
        tree::replace(&mut state.root, path, Node::File(Arc::new(file)));
        Ok(EditReceipt { replacements, version: stamp.version })
    }

    pub(super) fn do_delete(&self, path: &FsPath, mode: DeleteMode) -> FsResult<()> {
        self.writable()?;
        if path.is_root() {
            return Err(FsError::RootProtected);
        }
        let stamp = self.stamp(FILE_MODE);
        let mut state = self.settled();
        match locate(&state.root, path)? {
            Place::Missing { .. } => return Err(FsError::NotFound { path: path.clone() }),
            Place::Dir(dir) if mode == DeleteMode::Single && !dir.entries.is_empty() => {
                return Err(FsError::NotEmpty { path: path.clone() });
            }
            Place::Dir(_) | Place::File(_) => {}
        }
        self.touch(&mut state, path);
        let removed = tree::remove(&mut state.root, path, &stamp);
        // A large tree takes a while to free: not under the lock.
        drop(state);
        drop(removed);
        Ok(())
    }

    pub(super) fn do_mkdir(&self, path: &FsPath, options: MkdirOptions) -> FsResult<()> {
        self.writable()?;
        path.check(&self.limits)?;
        let stamp = self.stamp(Dir::MODE);
        let mut state = self.settled();
        let made = match locate(&state.root, path)? {
            Place::File(_) => return Err(FsError::NotDirectory { path: path.clone() }),
            Place::Dir(_) if options.exist_ok => return Ok(()),
            Place::Dir(_) => return Err(FsError::Exists { path: path.clone() }),
            Place::Missing { present } => first_made(path, present, options.parents)?,
        };
        self.touch(&mut state, &made);
        tree::insert(&mut state.root, path, Node::Dir(Arc::new(Dir::empty(stamp))), &stamp);
        Ok(())
    }

    pub(super) fn do_rename(&self, from: &FsPath, to: &FsPath) -> FsResult<()> {
        self.writable()?;
        if from.is_root() || to.is_root() {
            return Err(FsError::RootProtected);
        }
        to.check(&self.limits)?;
        let stamp = self.stamp(FILE_MODE);
        let mut state = self.settled();
        let node = match locate(&state.root, from)? {
            Place::File(file) => Node::File(file.clone()),
            Place::Dir(dir) => Node::Dir(dir.clone()),
            Place::Missing { .. } => return Err(FsError::NotFound { path: from.clone() }),
        };
        if from == to {
            return Ok(());
        }
        if to.starts_with(from) {
            return Err(FsError::IntoItself { from: from.clone(), to: to.clone() });
        }
        match locate(&state.root, to)? {
            Place::File(_) | Place::Dir(_) => return Err(FsError::Exists { path: to.clone() }),
            Place::Missing { present } => first_made(to, present, false)?,
        };
        // Only a move further down can make what is inside too deep, so only then it is looked at.
        if to.depth() > from.depth() {
            let depth = to.depth() + tree::height(&node);
            if depth > self.limits.max_segments {
                let max = self.limits.max_segments;
                return Err(FsError::TooDeep { path: format!("{to}/…"), depth, max });
            }
        }
        self.touch(&mut state, from);
        self.touch(&mut state, to);
        tree::remove(&mut state.root, from, &stamp);
        tree::insert(&mut state.root, to, node, &stamp);
        Ok(())
    }

    pub(super) fn do_stat(&self, path: &FsPath) -> FsResult<Metadata> {
        let root = self.root();
        let (kind, len, stamp) = match locate(&root, path)? {
            Place::File(file) => (EntryKind::File, file.content.len() as u64, file.stamp),
            Place::Dir(dir) => (EntryKind::Directory, 0, dir.stamp),
            Place::Missing { .. } => return Err(FsError::NotFound { path: path.clone() }),
        };
        let Stamp { version, modified, mode } = stamp;
        Ok(Metadata { kind, len, version, mode, modified })
    }

    pub(super) fn do_list(&self, path: &FsPath) -> FsResult<Vec<DirEntry>> {
        let root = self.root();
        let dir = dir_at(&root, path)?;
        Ok(dir.entries.iter().map(|(name, node)| entry(path.child(name), node)).collect())
    }

    /// The file at a path, if it is not too large.
    fn readable<'a>(&self, root: &'a Arc<Dir>, path: &FsPath) -> FsResult<&'a Arc<File>> {
        let file = file_at(root, path)?;
        self.limits.check_read(path, file.content.len() as u64)?;
        Ok(file)
    }
}

/// The topmost path that has to be made for `path` to exist, when its first `present` segments do.
fn first_made(path: &FsPath, present: usize, parents: bool) -> FsResult<FsPath> {
    if present + 1 == path.depth() {
        return Ok(path.clone());
    }
    let missing = path.prefix(present + 1);
    if parents { Ok(missing) } else { Err(FsError::NotFound { path: missing }) }
}

fn file_at<'a>(root: &'a Arc<Dir>, path: &FsPath) -> FsResult<&'a Arc<File>> {
    match locate(root, path)? {
        Place::File(file) => Ok(file),
        Place::Dir(_) => Err(FsError::IsDirectory { path: path.clone() }),
        Place::Missing { .. } => Err(FsError::NotFound { path: path.clone() }),
    }
}

pub(super) fn dir_at<'a>(root: &'a Arc<Dir>, path: &FsPath) -> FsResult<&'a Arc<Dir>> {
    match locate(root, path)? {
        Place::Dir(dir) => Ok(dir),
        Place::File(_) => Err(FsError::NotDirectory { path: path.clone() }),
        Place::Missing { .. } => Err(FsError::NotFound { path: path.clone() }),
    }
}

pub(super) fn entry(path: FsPath, node: &Node) -> DirEntry {
    match node {
        Node::File(file) => DirEntry { path, kind: EntryKind::File, len: file.content.len() as u64 },
        Node::Dir(_) => DirEntry { path, kind: EntryKind::Directory, len: 0 },
    }
}
