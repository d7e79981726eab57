//! Glob and grep over a tree in memory. A long search runs on another thread, and ends early when its caller stops waiting.

use std::sync::Arc;

use super::MemoryFilesystem;
use super::ops::{dir_at, entry};
use super::tree::{self, Node, Place, locate};
use crate::filesystem::search::{GlobPattern, LineSearch, SearchStop};
use crate::filesystem::{DirEntry, FsError, FsPath, FsResult, GrepOutcome, GrepQuery};
use crate::support::background::off_this_thread;

/// A search of no more entries, or of no more bytes, is done before a thread would have begun.
const SHORT_ENTRIES: usize = 1000;
const SHORT_BYTES: usize = 4096;

impl MemoryFilesystem {
    pub(super) async fn do_glob(&self, base: &FsPath, pattern: &str) -> FsResult<Vec<DirEntry>> {
        let pattern = GlobPattern::new(pattern)?;
        let root = self.root();
        let is_long = !tree::is_within(dir_at(&root, base)?, SHORT_ENTRIES, usize::MAX);
        let base = base.clone();
        searched(is_long, move |stop| {
            let mut found = Vec::new();
            tree::walk(&base, dir_at(&root, &base)?, pattern.max_depth(), &mut |path, node| {
                stop.check()?;
                if path.relative_to(&base).is_some_and(|relative| pattern.matches(relative)) {
                    found.push(entry(path, node));
                }
                Ok(())
            })?;
            found.sort_unstable_by(|one, two| one.path.cmp(&two.path));
            Ok(found)
        })
        .await
    }

    pub(super) async fn do_grep(&self, base: &FsPath, query: &GrepQuery) -> FsResult<GrepOutcome> {
        let root = self.root();
        let is_long = match locate(&root, base)? {
            Place::Missing { .. } => return Err(FsError::NotFound { path: base.clone() }),
            Place::File(file) => file.content.len() > SHORT_BYTES,
            Place::Dir(dir) => !tree::is_within(dir, SHORT_ENTRIES, SHORT_BYTES),
        };
        let (base, query, limits) = (base.clone(), query.clone(), self.limits);
        searched(is_long, move |stop| {
            let mut search = LineSearch::new(&query, &limits, stop)?;
            let mut files = Vec::new();
            match locate(&root, &base)? {
                Place::Missing { .. } => return Err(FsError::NotFound { path: base.clone() }),
                Place::File(file) => {
                    if search.wants(base.name().unwrap_or_default()) {
                        limits.check_read(&base, file.content.len() as u64)?;
                        files.push((base.clone(), Arc::clone(file)));
                    }
                }
                Place::Dir(dir) => tree::walk(&base, dir, search.max_depth(), &mut |path, node| {
                    stop.check()?;
                    if let Node::File(file) = node
                        && path.relative_to(&base).is_some_and(|relative| search.wants(relative))
                    {
                        files.push((path, Arc::clone(file)));
                    }
                    Ok(())
                })?,
            }
            // The walk goes by segments ("a/b" before "a.txt"), the answer by paths.
            files.sort_unstable_by(|one, two| one.0.cmp(&two.0));
            for (path, file) in files {
                stop.check()?;
                if search.is_full() {
                    break;
                }
                if search.takes(&path, file.content.len() as u64) {
                    // Reading from memory does not fail, unless the search is stopped.
                    if let Ok(found) = search.search(&path, &*file.content) {
                        search.add(found);
                    }
                }
            }
            Ok(search.finish())
        })
        .await
    }
}

/// Does `work` here if it is short, else on another thread, until the future is dropped.
async fn searched<T: Send + 'static>(
    is_long: bool,
    work: impl FnOnce(&SearchStop) -> FsResult<T> + Send + 'static,
) -> FsResult<T> {
    let stop = SearchStop::default();
    if !is_long {
        return work(&stop);
    }
    let _dropped = stop.on_drop();
    off_this_thread(move || work(&stop)).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::mpsc;

    use super::*;

    // case 258
    #[tokio::test]
    async fn a_search_ends_when_its_caller_stops_waiting() {
        let (ended, when) = mpsc::channel();
        let mut searching = Box::pin(searched(true, move |stop| {
            while stop.check().is_ok() {
                std::thread::yield_now();
            }
            ended.send(()).unwrap();
            Ok(())
        }));
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
