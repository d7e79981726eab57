//! Where a path leads, component by component, links included, in what a fork sees.
//!
//! A link that is absolute, or that leads out of the root, leads nowhere: [`FsError::Outside`]. What comes out of here is a
//! path without links; the disk is then asked to refuse any, so one that is swapped in meanwhile is an error and not
//! a way out.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::disk::Disk;
use super::name::to_shown;
use super::view::{Spot, View, is_in_state};
use crate::filesystem::{EntryKind, FsError, FsPath, FsResult};

/// As many as the kernel follows.
const MAX_LINKS: usize = 40;

/// Whether a link at the end of a path is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    Followed,
    Itself,
}

/// Where a path leads.
pub(super) struct Resolved {
    /// The path without links, in the fork.
    pub(super) path: PathBuf,
    pub(super) found: Found,
}

pub(super) enum Found {
    There(Spot),
    /// Nothing is there; the first `present` components are directories.
    Missing {
        present: usize,
    },
}

/// Follows `raw`, which is what `path` means on disk.
pub(super) fn resolve(view: View<'_>, path: &FsPath, raw: &Path, last: Last) -> FsResult<Resolved> {
    if view.layer.is_empty()
        && !raw.as_os_str().is_empty()
        && !is_in_state(raw)
        && let Ok(Some(entry)) = view.disk.look(raw)
        && entry.kind != EntryKind::Symlink
    {
        // There is no link on the way, or the disk would have refused.
        for place in raw.ancestors().filter(|place| !place.as_os_str().is_empty()) {
            meet(view, place, None)?;
        }
        let spot = Spot::Base(raw.to_owned(), entry);
        return Ok(Resolved { path: raw.to_owned(), found: Found::There(spot) });
    }
    Walk::new(view, path, raw).run(last)
}

/// The places on which it depends what is found at a path: every link on the way, and where they lead in the end, as far as
/// they lead anywhere.
pub(super) fn depends_on(view: View<'_>, path: &FsPath, raw: &Path) -> Vec<PathBuf> {
    let mut walk = Walk::new(view, path, raw);
    let end = walk.run(Last::Followed);
    walk.links.into_iter().chain(end.map(|resolved| resolved.path)).collect()
}

struct Walk<'a> {
    view: View<'a>,
    /// As it was asked for, for what is said about it.
    path: &'a FsPath,
    /// The directories on the way, without the root.
    stack: Vec<(OsString, Spot)>,
    todo: VecDeque<OsString>,
    /// Where links were followed.
    links: Vec<PathBuf>,
}

impl<'a> Walk<'a> {
    fn new(view: View<'a>, path: &'a FsPath, raw: &Path) -> Self {
        let todo = raw.iter().map(OsString::from).collect();
        Self { view, path, stack: Vec::new(), todo, links: Vec::new() }
    }

    fn run(&mut self, last: Last) -> FsResult<Resolved> {
        let root = self.view.root();
        while let Some(name) = self.todo.pop_front() {
            if name == ".." {
                self.stack.pop().ok_or_else(|| self.outside())?;
                continue;
            }
            let dir = self.stack.last().map_or(&root, |(_, spot)| spot);
            if dir.kind() != EntryKind::Directory {
                return Err(FsError::NotDirectory { path: to_shown(&self.so_far()) });
            }
            let child = self.view.child(dir, &name).map_err(|error| self.io(&error))?;
            let is_held = self.view.layer.held.is_some();
            let below = if is_held { self.view.shows_through(dir, &name) } else { None };
            let is_followed = last == Last::Followed || !self.todo.is_empty();
            match child {
                None => return self.missing(name, below),
                Some(link) if link.kind() == EntryKind::Symlink && (is_followed || is_held) => {
                    let target = self.view.target(&link).map_err(|error| self.io(&error))?;
                    self.meet(below, Some(&target))?;
                    if is_followed {
                        self.follow(&target, &name)?;
                    } else {
                        self.stack.push((name, link));
                    }
                }
                Some(spot) => {
                    self.meet(below, None)?;
                    self.stack.push((name, spot));
                }
            }
        }
        let path = self.so_far();
        let spot = self.stack.pop().map_or(root, |(_, spot)| spot);
        Ok(Resolved { path, found: Found::There(spot) })
    }

    /// Compares what is at a place of the workspace with what the call's policies met there.
    fn meet(&self, place: Option<PathBuf>, target: Option<&Path>) -> FsResult<()> {
        place.map_or(Ok(()), |place| meet(self.view, &place, target))
    }

    fn follow(&mut self, target: &Path, name: &OsStr) -> FsResult<()> {
        self.links.push(self.so_far().join(name));
        if self.links.len() > MAX_LINKS {
            return Err(FsError::Io {
                path: self.path.clone(),
                kind: io::ErrorKind::Other,
                message: "too many symbolic links; they may lead in a circle".to_owned(),
            });
        }
        for component in target.components().rev() {
            match component {
                Component::Normal(name) => self.todo.push_front(name.to_owned()),
                Component::ParentDir => self.todo.push_front(OsString::from("..")),
                Component::CurDir => {}
                Component::RootDir | Component::Prefix(_) => return Err(self.outside()),
            }
        }
        Ok(())
    }

    fn missing(&self, name: OsString, mut below: Option<PathBuf>) -> FsResult<Resolved> {
        let present = self.stack.len();
        let mut path = self.so_far();
        path.push(name);
        self.meet(below.clone(), None)?;
        for name in &self.todo {
            if name == ".." {
                return Err(FsError::NotFound { path: self.path.clone() });
            }
            path.push(name);
            // What comes to be here later may be no link either.
            below = below.map(|place| place.join(name));
            self.meet(below.clone(), None)?;
        }
        Ok(Resolved { path, found: Found::Missing { present } })
    }

    fn so_far(&self) -> PathBuf {
        self.stack.iter().map(|(name, _)| name).collect()
    }

    fn outside(&self) -> FsError {
        FsError::Outside { path: self.path.to_string() }
    }

    fn io(&self, error: &io::Error) -> FsError {
        super::io_error(self.path, "looked at", error)
    }
}

/// Compares what is at a place of the workspace with what the call's policies met there, if they looked.
fn meet(view: View<'_>, place: &Path, target: Option<&Path>) -> FsResult<()> {
    match &view.layer.held {
        Some(held) if !held.met(place, target) => Err(FsError::Conflict { paths: vec![to_shown(place)] }),
        Some(_) | None => Ok(()),
    }
}
