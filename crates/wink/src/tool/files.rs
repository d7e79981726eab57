//! The workspace in a call: the call's fork of it, each operation held to the footprint and the gate.

use std::ops::Deref;
use std::sync::Arc;

use super::footprint::{Access, Area};
use crate::filesystem::{
    BytesRead, DeleteMode, DirEntry, Edit, EditReceipt, Filesystem, FilesystemExt, FsError, FsPath,
    GrepOutcome, GrepQuery, Metadata, MkdirOptions, ReadWindow, TextRead, WriteMode, WriteOptions,
    WriteReceipt,
};
use crate::transaction::{AccessError, Work};

/// A file operation of a handler did not work.
#[derive(Debug, Clone, thiserror::Error)]
pub enum FilesError {
    /// The call may not do this.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The filesystem says why.
    #[error(transparent)]
    Fs(#[from] FsError),
}

/// The workspace in a call, to look at. Paths are relative to its root.
pub struct ReadFilesView<'a> {
    work: &'a Work,
    files: Arc<dyn Filesystem>,
}

/// The workspace in a call. What is written here stands or falls with the call.
pub struct FilesView<'a> {
    read: ReadFilesView<'a>,
}

impl<'a> ReadFilesView<'a> {
    pub(crate) fn new(work: &'a Work, files: Arc<dyn Filesystem>) -> Self {
        Self { work, files }
    }

    fn path(&self, access: Access, path: &str) -> Result<FsPath, FilesError> {
        self.work.is_open()?;
        let path = self.files.path(path)?;
        self.work.check(access, || Area::Path(path.clone()))?;
        Ok(path)
    }

    /// What an operation did counts only if the call was not over meanwhile.
    fn stands<T>(&self, done: T) -> Result<T, FilesError> {
        self.work.is_open()?;
        Ok(done)
    }

    /// Reads lines of a text file.
    pub async fn read(&self, path: &str, window: ReadWindow) -> Result<TextRead, FilesError> {
        let path = self.path(Access::Read, path)?;
        Ok(self.files.read(&path, window).await?)
    }

    /// The whole text of a file.
    pub async fn read_text(&self, path: &str) -> Result<String, FilesError> {
        Ok(self.read(path, ReadWindow::Entire).await?.text)
    }

    /// The whole contents of a file.
    pub async fn read_bytes(&self, path: &str) -> Result<BytesRead, FilesError> {
        let path = self.path(Access::Read, path)?;
        Ok(self.files.read_bytes(&path).await?)
    }

    /// What is known about a path.
    pub async fn stat(&self, path: &str) -> Result<Metadata, FilesError> {
        let path = self.path(Access::Read, path)?;
        Ok(self.files.stat(&path).await?)
    }

    /// Whether there is something at a path.
    pub async fn exists(&self, path: &str) -> Result<bool, FilesError> {
        let path = self.path(Access::Read, path)?;
        Ok(self.files.exists(&path).await?)
    }

    /// The entries of a directory, sorted by name.
    pub async fn list(&self, path: &str) -> Result<Vec<DirEntry>, FilesError> {
        let path = self.path(Access::Read, path)?;
        Ok(self.files.list(&path).await?)
    }

    /// What matches a pattern below `base`.
    pub async fn glob(&self, base: &str, pattern: &str) -> Result<Vec<DirEntry>, FilesError> {
        let base = self.path(Access::Read, base)?;
        Ok(self.files.glob(&base, pattern).await?)
    }

    /// Lines that match a regular expression at or below `base`.
    pub async fn grep(&self, base: &str, query: &GrepQuery) -> Result<GrepOutcome, FilesError> {
        let base = self.path(Access::Read, base)?;
        Ok(self.files.grep(&base, query).await?)
    }

    /// How many lines a read returns unless it asks for others.
    pub fn default_window(&self) -> usize {
        self.files.limits().default_window
    }

    /// The path that `text` means here.
    pub fn resolve(&self, text: &str) -> Result<FsPath, FsError> {
        self.files.path(text)
    }
}

impl<'a> FilesView<'a> {
    pub(crate) fn new(work: &'a Work, files: Arc<dyn Filesystem>) -> Self {
        Self { read: ReadFilesView::new(work, files) }
    }

    /// Writes a file.
    pub async fn write(
        &self,
        path: &str,
        content: &[u8],
        options: WriteOptions,
    ) -> Result<WriteReceipt, FilesError> {
        let path = self.read.path(Access::Write, path)?;
        self.read.stands(self.read.files.write(&path, content, options).await?)
    }

    /// Writes a text file, new or in place of the old one, making missing parents.
    pub async fn write_text(&self, path: &str, text: &str) -> Result<WriteReceipt, FilesError> {
        self.write(path, text.as_bytes(), WriteOptions::new(WriteMode::Overwrite)).await
    }

    /// Replaces an exact text in a file.
    pub async fn edit(&self, path: &str, edit: &Edit) -> Result<EditReceipt, FilesError> {
        let path = self.read.path(Access::Write, path)?;
        self.read.stands(self.read.files.edit(&path, edit).await?)
    }

    /// Deletes a file or a directory.
    pub async fn delete(&self, path: &str, mode: DeleteMode) -> Result<(), FilesError> {
        let path = self.read.path(Access::Write, path)?;
        self.read.stands(self.read.files.delete(&path, mode).await?)
    }

    /// Creates a directory.
    pub async fn mkdir(&self, path: &str, options: MkdirOptions) -> Result<(), FilesError> {
        let path = self.read.path(Access::Write, path)?;
        self.read.stands(self.read.files.mkdir(&path, options).await?)
    }

    /// Moves a file or directory.
    pub async fn rename(&self, from: &str, to: &str) -> Result<(), FilesError> {
        let from = self.read.path(Access::Write, from)?;
        let to = self.read.path(Access::Write, to)?;
        self.read.stands(self.read.files.rename(&from, &to).await?)
    }
}

/// Everything that can be looked at is there too.
impl<'a> Deref for FilesView<'a> {
    type Target = ReadFilesView<'a>;

    fn deref(&self) -> &ReadFilesView<'a> {
        &self.read
    }
}
