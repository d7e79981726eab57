//! The operations of the trait: each waits for a disk, so it is done where nobody else has to wait.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::{HostFilesystem, Shared, Shown};
use crate::BoxFuture;
use crate::filesystem::search::SearchStop;
use crate::filesystem::{
    BytesRead, DeleteMode, DirEntry, Edit, EditReceipt, Filesystem, FsError, FsLimits, FsPath, FsResult,
    FsSnapshot, GrepOutcome, GrepQuery, MergeReceipt, Metadata, MkdirOptions, ReadWindow, Resolutions,
    Revert, Reverted, TextRead, UndoForce, WriteOptions, WriteReceipt, WriteTurn,
};

impl HostFilesystem {
    /// Does `work` on a thread that may wait; here if there is no runtime to provide one.
    fn off<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> FsResult<T> + Send + 'static,
    ) -> BoxFuture<'a, FsResult<T>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let Ok(runtime) = tokio::runtime::Handle::try_current() else { return work(&shared) };
            match runtime.spawn_blocking(move || work(&shared)).await {
                Ok(done) => done,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => Err(FsError::Io {
                        path: FsPath::root(),
                        kind: std::io::ErrorKind::Interrupted,
                        message: "the runtime is shutting down; nothing was done".to_owned(),
                    }),
                },
            }
        })
    }

    /// As [`Self::off`], for work that ends early when its caller stops waiting.
    fn search<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared, &SearchStop) -> FsResult<T> + Send + 'static,
    ) -> BoxFuture<'a, FsResult<T>> {
        let stop = SearchStop::default();
        let dropped = stop.on_drop();
        let searching = self.off(move |shared| work(shared, &stop));
        Box::pin(async move {
            let _dropped = dropped;
            searching.await
        })
    }
}

impl Filesystem for HostFilesystem {
    fn limits(&self) -> &FsLimits {
        &self.shared.base.limits
    }

    fn writers_take_turns(&self) -> bool {
        true
    }

    fn is_shown(&self) -> bool {
        self.shared.shown == Shown::AtWorkspace
    }

    fn is_read_only(&self) -> bool {
        self.shared.base.writing.is_none()
    }

    fn read<'a>(&'a self, path: &'a FsPath, window: ReadWindow) -> BoxFuture<'a, FsResult<TextRead>> {
        let path = path.clone();
        self.off(move |shared| shared.read(&path, window))
    }

    fn read_bytes<'a>(&'a self, path: &'a FsPath) -> BoxFuture<'a, FsResult<BytesRead>> {
        let path = path.clone();
        self.off(move |shared| shared.read_bytes(&path))
    }

    fn write<'a>(
        &'a self,
        path: &'a FsPath,
        content: &'a [u8],
        options: WriteOptions,
    ) -> BoxFuture<'a, FsResult<WriteReceipt>> {
        let (path, content) = (path.clone(), content.to_vec());
        self.off(move |shared| {
            let changed = shared.change(|base, layer| base.write(layer, &path, &content, options))?;
            Ok(WriteReceipt { version: changed.now(changed.done.version), ..changed.done })
        })
    }

    fn edit<'a>(&'a self, path: &'a FsPath, edit: &'a Edit) -> BoxFuture<'a, FsResult<EditReceipt>> {
        let (path, edit) = (path.clone(), edit.clone());
        self.off(move |shared| {
            let changed = shared.change(|base, layer| base.edit(layer, &path, &edit))?;
            Ok(EditReceipt { version: changed.now(changed.done.version), ..changed.done })
        })
    }

    fn delete<'a>(&'a self, path: &'a FsPath, mode: DeleteMode) -> BoxFuture<'a, FsResult<()>> {
        let path = path.clone();
        self.off(move |shared| shared.change(|base, layer| base.delete(layer, &path, mode)).map(drop))
    }

    fn mkdir<'a>(&'a self, path: &'a FsPath, options: MkdirOptions) -> BoxFuture<'a, FsResult<()>> {
        let path = path.clone();
        self.off(move |shared| shared.change(|base, layer| base.mkdir(layer, &path, options)).map(drop))
    }

    fn rename<'a>(&'a self, from: &'a FsPath, to: &'a FsPath) -> BoxFuture<'a, FsResult<()>> {
        let (from, to) = (from.clone(), to.clone());
        self.off(move |shared| shared.change(|base, layer| base.rename(layer, &from, &to)).map(drop))
    }

    fn stat<'a>(&'a self, path: &'a FsPath) -> BoxFuture<'a, FsResult<Metadata>> {
        let path = path.clone();
        self.off(move |shared| shared.stat(&path))
    }

    fn places<'a>(&'a self, path: &'a FsPath) -> BoxFuture<'a, FsResult<Vec<FsPath>>> {
        let path = path.clone();
        self.off(move |shared| shared.places(&path))
    }

    fn held_to(&self, seen: &Arc<Resolutions>) -> Option<Arc<dyn Filesystem>> {
        Some(Arc::new(Self { shared: Arc::new(self.shared.held_to(seen)) }))
    }

    fn list<'a>(&'a self, dir: &'a FsPath) -> BoxFuture<'a, FsResult<Vec<DirEntry>>> {
        let dir = dir.clone();
        self.off(move |shared| shared.list(&dir))
    }

    fn glob<'a>(&'a self, base: &'a FsPath, pattern: &'a str) -> BoxFuture<'a, FsResult<Vec<DirEntry>>> {
        let (base, pattern) = (base.clone(), pattern.to_owned());
        self.search(move |shared, stop| shared.glob(&base, &pattern, stop))
    }

    fn grep<'a>(&'a self, base: &'a FsPath, query: &'a GrepQuery) -> BoxFuture<'a, FsResult<GrepOutcome>> {
        let (base, query) = (base.clone(), query.clone());
        self.search(move |shared, stop| shared.grep(&base, &query, stop))
    }

    fn fork(&self) -> FsResult<Arc<dyn Filesystem>> {
        Ok(Arc::new(Self { shared: Arc::new(self.shared.fork()) }))
    }

    fn merge(&self, fork: &dyn Filesystem) -> FsResult<MergeReceipt> {
        let fork = Self::of(fork).ok_or(FsError::Foreign { what: "fork" })?;
        self.shared.merge(&fork.shared)
    }

    fn unmerge(&self, receipt: MergeReceipt) -> FsResult<()> {
        self.shared.unmerge(receipt)
    }

    fn keep(&self, receipt: MergeReceipt) {
        self.shared.keep(receipt);
    }

    fn blocks(&self) -> bool {
        self.shared.blocks()
    }

    fn write_turn(&self, patience: Option<Duration>) -> BoxFuture<'_, FsResult<Option<WriteTurn>>> {
        self.wait_for_turn(patience)
    }

    fn enter_turn(&self, turn: &WriteTurn) {
        self.shared.enter(turn);
    }

    fn changes(&self) -> Vec<FsPath> {
        self.shared.changes()
    }

    fn revert<'a>(&'a self, journals: &'a [Revert], force: UndoForce) -> BoxFuture<'a, FsResult<Reverted>> {
        let journals = journals.to_vec();
        self.off(move |shared| shared.revert(&journals, force))
    }

    fn snapshot(&self) -> FsResult<FsSnapshot> {
        self.shared.snapshot()
    }

    fn restore(&self, snapshot: &FsSnapshot) -> FsResult<()> {
        self.shared.restore(snapshot)
    }

    fn decode_snapshot(&self, json: &Value) -> FsResult<FsSnapshot> {
        self.shared.decode_snapshot(json)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::mpsc;

    use super::*;

    // case 258
    #[tokio::test]
    async fn a_search_ends_when_its_caller_stops_waiting() {
        let dir = tempfile::TempDir::new().unwrap();
        let files =
            HostFilesystem::open(dir.path(), crate::filesystem::host::HostOptions::default()).unwrap();
        let (ended, when) = mpsc::channel();
        let mut searching = files.search(move |_, stop| {
            while stop.check().is_ok() {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
            Ok(())
        });
        std::future::poll_fn(|cx| {
            assert!(searching.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        assert!(when.try_recv().is_err());
        drop(searching);
        when.recv().unwrap();
    }
}
