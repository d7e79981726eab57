//! A filesystem to look at: what a read-only handler gets in place of its call's fork.

use std::any::Any;
use std::sync::Arc;

use serde_json::Value;

use super::{
    BytesRead, DeleteMode, DirEntry, Edit, EditReceipt, Filesystem, FsError, FsLimits, FsPath, FsResult,
    FsSnapshot, GrepOutcome, GrepQuery, MergeReceipt, Metadata, MkdirOptions, ReadWindow, Resolutions,
    TextRead, WriteOptions, WriteReceipt, WriteTurn,
};
use crate::BoxFuture;

/// Another filesystem, without a way to change it.
pub(crate) struct Looking(pub(crate) Arc<dyn Filesystem>);

fn refused<'a, T: Send + 'a>() -> BoxFuture<'a, FsResult<T>> {
    Box::pin(std::future::ready(Err(FsError::ReadOnly)))
}

impl Filesystem for Looking {
    fn limits(&self) -> &FsLimits {
        self.0.limits()
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn is_shown(&self) -> bool {
        self.0.is_shown()
    }

    fn enter_turn(&self, turn: &WriteTurn) {
        self.0.enter_turn(turn);
    }

    fn read<'a>(&'a self, path: &'a FsPath, window: ReadWindow) -> BoxFuture<'a, FsResult<TextRead>> {
        self.0.read(path, window)
    }

    fn read_bytes<'a>(&'a self, path: &'a FsPath) -> BoxFuture<'a, FsResult<BytesRead>> {
        self.0.read_bytes(path)
    }

    fn write<'a>(
        &'a self,
        _: &'a FsPath,
        _: &'a [u8],
        _: WriteOptions,
    ) -> BoxFuture<'a, FsResult<WriteReceipt>> {
        refused()
    }

    fn edit<'a>(&'a self, _: &'a FsPath, _: &'a Edit) -> BoxFuture<'a, FsResult<EditReceipt>> {
        refused()
    }

    fn delete<'a>(&'a self, _: &'a FsPath, _: DeleteMode) -> BoxFuture<'a, FsResult<()>> {
        refused()
    }

    fn mkdir<'a>(&'a self, _: &'a FsPath, _: MkdirOptions) -> BoxFuture<'a, FsResult<()>> {
        refused()
    }

    fn rename<'a>(&'a self, _: &'a FsPath, _: &'a FsPath) -> BoxFuture<'a, FsResult<()>> {
        refused()
    }

    fn stat<'a>(&'a self, path: &'a FsPath) -> BoxFuture<'a, FsResult<Metadata>> {
        self.0.stat(path)
    }

    fn exists<'a>(&'a self, path: &'a FsPath) -> BoxFuture<'a, FsResult<bool>> {
        self.0.exists(path)
    }

    fn places<'a>(&'a self, path: &'a FsPath) -> BoxFuture<'a, FsResult<Vec<FsPath>>> {
        self.0.places(path)
    }

    fn held_to(&self, seen: &Arc<Resolutions>) -> Option<Arc<dyn Filesystem>> {
        self.0.held_to(seen).map(|held| Arc::new(Self(held)) as Arc<dyn Filesystem>)
    }

    fn list<'a>(&'a self, dir: &'a FsPath) -> BoxFuture<'a, FsResult<Vec<DirEntry>>> {
        self.0.list(dir)
    }

    fn glob<'a>(&'a self, base: &'a FsPath, pattern: &'a str) -> BoxFuture<'a, FsResult<Vec<DirEntry>>> {
        self.0.glob(base, pattern)
    }

    fn grep<'a>(&'a self, base: &'a FsPath, query: &'a GrepQuery) -> BoxFuture<'a, FsResult<GrepOutcome>> {
        self.0.grep(base, query)
    }

    /// A copy is its owner's, to do with as they like; it does not come back.
    fn fork(&self) -> FsResult<Arc<dyn Filesystem>> {
        self.0.fork()
    }

    fn merge(&self, _: &dyn Filesystem) -> FsResult<MergeReceipt> {
        Err(FsError::ReadOnly)
    }

    fn unmerge(&self, _: MergeReceipt) -> FsResult<()> {
        Err(FsError::ReadOnly)
    }

    fn changes(&self) -> Vec<FsPath> {
        self.0.changes()
    }

    fn snapshot(&self) -> FsResult<FsSnapshot> {
        self.0.snapshot()
    }

    fn restore(&self, _: &FsSnapshot) -> FsResult<()> {
        Err(FsError::ReadOnly)
    }

    fn decode_snapshot(&self, json: &Value) -> FsResult<FsSnapshot> {
        self.0.decode_snapshot(json)
    }

    /// What is behind it, for whoever looks for a certain kind. Changing that fails the call when it is to be kept.
    fn as_any(&self) -> &dyn Any {
        self.0.as_any()
    }
}
