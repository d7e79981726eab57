//! The same operations with paths as text.

use crate::BoxFuture;

use super::{
    DeleteMode, Edit, EditReceipt, Filesystem, FsPath, FsResult, Metadata, MkdirOptions, ReadWindow,
    WriteMode, WriteOptions, WriteReceipt,
};

/// Short forms for [`Filesystem`], with `&str` paths held to its limits.
pub trait FilesystemExt: Filesystem {
    /// The path that `text` means here.
    fn path(&self, text: &str) -> FsResult<FsPath> {
        if self.is_shown() {
            FsPath::parse_shown(text, self.limits())
        } else {
            FsPath::parse(text, self.limits())
        }
    }

    /// The whole text of a file.
    fn read_text<'a>(&'a self, path: &'a str) -> BoxFuture<'a, FsResult<String>> {
        Box::pin(async move { Ok(self.read(&self.path(path)?, ReadWindow::Entire).await?.text) })
    }

    /// Writes a text file, new or in place of the old one, making missing parents.
    fn write_text<'a>(&'a self, path: &'a str, text: &'a str) -> BoxFuture<'a, FsResult<WriteReceipt>> {
        self.write_as(path, text, WriteMode::Overwrite)
    }

    /// Writes a text file in a mode, making missing parents.
    fn write_as<'a>(
        &'a self,
        path: &'a str,
        text: &'a str,
        mode: WriteMode,
    ) -> BoxFuture<'a, FsResult<WriteReceipt>> {
        Box::pin(async move { self.write(&self.path(path)?, text.as_bytes(), WriteOptions::new(mode)).await })
    }

    /// Replaces the one occurrence of `old` in a file.
    fn edit_text<'a>(
        &'a self,
        path: &'a str,
        old: &'a str,
        new: &'a str,
    ) -> BoxFuture<'a, FsResult<EditReceipt>> {
        Box::pin(async move { self.edit(&self.path(path)?, &Edit::once(old, new)).await })
    }

    /// What is known about a path.
    fn stat_at<'a>(&'a self, path: &'a str) -> BoxFuture<'a, FsResult<Metadata>> {
        Box::pin(async move { self.stat(&self.path(path)?).await })
    }

    /// Whether there is something at a path.
    fn exists_at<'a>(&'a self, path: &'a str) -> BoxFuture<'a, FsResult<bool>> {
        Box::pin(async move { self.exists(&self.path(path)?).await })
    }

    /// Makes a directory and its missing parents; an existing one will do.
    fn mkdir_all<'a>(&'a self, path: &'a str) -> BoxFuture<'a, FsResult<()>> {
        Box::pin(async move {
            self.mkdir(&self.path(path)?, MkdirOptions { parents: true, exist_ok: true }).await
        })
    }

    /// Deletes a file, or a directory with everything in it.
    fn delete_all<'a>(&'a self, path: &'a str) -> BoxFuture<'a, FsResult<()>> {
        Box::pin(async move { self.delete(&self.path(path)?, DeleteMode::Recursive).await })
    }

    /// Moves a file or directory.
    fn rename_to<'a>(&'a self, from: &'a str, to: &'a str) -> BoxFuture<'a, FsResult<()>> {
        Box::pin(async move { self.rename(&self.path(from)?, &self.path(to)?).await })
    }

    /// The names in a directory, sorted; those of directories end in `/`.
    fn names<'a>(&'a self, dir: &'a str) -> BoxFuture<'a, FsResult<Vec<String>>> {
        Box::pin(async move {
            let entries = self.list(&self.path(dir)?).await?;
            Ok(entries
                .iter()
                .map(|entry| match entry.kind {
                    super::EntryKind::Directory => format!("{}/", entry.name()),
                    _ => entry.name().to_owned(),
                })
                .collect())
        })
    }
}

impl<F: Filesystem + ?Sized> FilesystemExt for F {}
