//! Footprints: what a call reads and writes. Calls whose footprints are disjoint may overlap in time, so what a
//! footprint does not name cannot be touched.

use std::any::{TypeId, type_name};
use std::sync::Arc;

use crate::filesystem::{Filesystem, FsPath, meanings};
use crate::session::{SliceType, ToolInvoked};

/// Something that a call can touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Area {
    Slice(TypeId, &'static str),
    /// A path and everything below it.
    Path(FsPath),
    /// A directory on disk, as all who write into it need it.
    Disk,
    Resource(TypeId, &'static str),
    /// One item of a policy's state, and those below it (`item/…`).
    PolicyItem(Arc<str>, Arc<str>),
    History,
    /// The world outside, which no rollback reaches.
    Outside,
    Everything,
}

impl Area {
    fn path(&self) -> Option<&FsPath> {
        match self {
            Self::Path(path) => Some(path),
            _ => None,
        }
    }

    fn overlaps(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Everything, _) | (_, Self::Everything) => true,
            (Self::Path(a), Self::Path(b)) => {
                within(a.as_str(), b.as_str()) || within(b.as_str(), a.as_str())
            }
            (Self::PolicyItem(policy, a), Self::PolicyItem(other, b)) => {
                policy == other && (within(a, b) || within(b, a))
            }
            (a, b) => a == b,
        }
    }
}

impl std::fmt::Display for Area {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Slice(_, name) => write!(f, "slice {name}"),
            Self::Path(path) if path.is_root() => f.write_str("the workspace root"),
            Self::Path(path) => write!(f, "path {path}"),
            Self::Disk => f.write_str("the directory on disk"),
            Self::Resource(_, name) => write!(f, "resource {name}"),
            Self::PolicyItem(policy, item) => write!(f, "item {item} of policy {policy}"),
            Self::History => f.write_str("the history of calls"),
            Self::Outside => f.write_str("the world outside"),
            Self::Everything => f.write_str("everything"),
        }
    }
}

/// Whether `path` is `base` or below it.
fn within(path: &str, base: &str) -> bool {
    base.is_empty() || path.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The deepest directory that both paths lie in.
fn common_parent(one: &FsPath, other: &FsPath) -> FsPath {
    let same = one.segments().zip(other.segments()).take_while(|(one, other)| one == other).count();
    // A path is not in itself.
    one.prefix(same.min(one.depth().saturating_sub(1)).min(other.depth().saturating_sub(1)))
}

/// Whether something is looked at or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Looked at.
    Read,
    /// Changed.
    Write,
}

/// Where the files of a call are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkspaceKind {
    Memory,
    Elsewhere,
}

/// What one call reads and writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "a footprint is declared on a tool"]
pub struct Footprint {
    reads: Vec<Area>,
    writes: Vec<Area>,
}

impl Footprint {
    /// A call that touches nothing but its parameters.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// A call that may touch anything, and so overlaps with nothing.
    pub fn everything() -> Self {
        Self { reads: Vec::new(), writes: vec![Area::Everything] }
    }

    /// Reads the slice of `T`.
    pub fn read_slice<T: SliceType>(self) -> Self {
        self.reading(Area::Slice(TypeId::of::<T>(), T::NAME))
    }

    /// Changes the slice of `T`.
    pub fn write_slice<T: SliceType>(self) -> Self {
        self.writing(Area::Slice(TypeId::of::<T>(), T::NAME))
    }

    /// Reads a path and what is below it.
    pub fn read_path(self, path: &str) -> Self {
        path_areas(path).into_iter().fold(self, Self::reading)
    }

    /// Changes a path or what is below it.
    pub fn write_path(self, path: &str) -> Self {
        path_areas(path).into_iter().fold(self, Self::writing)
    }

    /// Uses a resource in a way that others notice. One that is not snapshotable keeps what was done to it, so that
    /// such a call only starts when every call before it has ended.
    pub fn use_resource<T: ?Sized + 'static>(self) -> Self {
        self.all_files_of::<T>().writing(Area::Resource(TypeId::of::<T>(), type_name::<T>()))
    }

    /// Uses a resource that others may use at the same time.
    pub fn share_resource<T: ?Sized + 'static>(self) -> Self {
        self.all_files_of::<T>().reading(Area::Resource(TypeId::of::<T>(), type_name::<T>()))
    }

    /// Whoever has the filesystem itself can reach every path.
    fn all_files_of<T: ?Sized + 'static>(self) -> Self {
        if TypeId::of::<T>() == TypeId::of::<dyn Filesystem>() { self.write_path("") } else { self }
    }

    /// Asks which calls succeeded before.
    pub fn read_history(self) -> Self {
        self.reading(Area::History)
    }

    /// Asks what the policy under `key` remembers under `item` and below it (`item/…`).
    pub fn read_remembered(self, key: &Arc<str>, item: impl Into<Arc<str>>) -> Self {
        self.reading(Area::PolicyItem(Arc::clone(key), item.into()))
    }

    /// Changes what the policy under `key` remembers under `item` or below it (`item/…`).
    pub fn write_remembered(self, key: &Arc<str>, item: impl Into<Arc<str>>) -> Self {
        self.writing(Area::PolicyItem(Arc::clone(key), item.into()))
    }

    /// Has effects that no rollback reaches: it only starts when every call before it has ended.
    pub fn outside(self) -> Self {
        self.writing(Area::Outside)
    }

    pub(crate) fn reading(mut self, area: Area) -> Self {
        self.reads.push(area);
        self
    }

    pub(crate) fn writing(mut self, area: Area) -> Self {
        self.writes.push(area);
        self
    }

    /// Whether it may change files.
    pub(crate) fn writes_files(&self) -> bool {
        self.writes.iter().any(|area| matches!(area, Area::Path(_)))
    }

    /// Both footprints as one.
    pub fn and(mut self, other: Self) -> Self {
        self.reads.extend(other.reads);
        self.writes.extend(other.writes);
        self
    }

    /// Whether calls with these footprints can overlap and nobody can tell.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        let clash = |writes: &[Area], other: &Self| {
            writes
                .iter()
                .any(|area| other.reads.iter().chain(&other.writes).any(|theirs| area.overlaps(theirs)))
        };
        !self.is_alone() && !other.is_alone() && !clash(&self.writes, other) && !clash(&other.writes, self)
    }

    /// Whether both may touch something in a directory that one of them may have to make, so that the other can tell
    /// which of them came first; `lasts` says of a directory whether it is there and stays.
    pub(crate) fn shares_parents(&self, other: &Self, lasts: impl Fn(&FsPath) -> bool) -> bool {
        let clash = |writes: &[Area], other: &Self| {
            writes.iter().filter_map(Area::path).any(|one| {
                let theirs = other.reads.iter().chain(&other.writes).filter_map(Area::path);
                theirs.map(|other| common_parent(one, other)).any(|dir| !dir.is_root() && !lasts(&dir))
            })
        };
        clash(&self.writes, other) || clash(&other.writes, self)
    }

    /// The resources that it names; none when it names everything.
    pub(crate) fn named_resources(&self) -> Option<Vec<TypeId>> {
        let mut named = Vec::new();
        for area in self.reads.iter().chain(&self.writes) {
            match area {
                Area::Everything => return None,
                Area::Resource(resource, _) => named.push(*resource),
                _ => {}
            }
        }
        Some(named)
    }

    /// Whether it may ask which calls went before. Every call becomes history, so it overlaps with none, not even
    /// with one that touches nothing.
    pub(crate) fn is_alone(&self) -> bool {
        self.reads.iter().chain(&self.writes).any(|area| match area {
            Area::History | Area::Everything => true,
            Area::Slice(slice, _) => *slice == TypeId::of::<ToolInvoked>(),
            Area::Path(_) | Area::Disk | Area::Resource(..) | Area::PolicyItem(..) | Area::Outside => false,
        })
    }

    /// Whether it names nothing but what is in memory and undone with the call: slices, what policies remember, history, and
    /// files if the workspace is in memory.
    pub(crate) fn is_in_memory(&self, workspace: WorkspaceKind) -> bool {
        self.reads.iter().chain(&self.writes).all(|area| match area {
            Area::Slice(..) | Area::PolicyItem(..) | Area::History => true,
            Area::Path(_) => workspace == WorkspaceKind::Memory,
            Area::Disk | Area::Resource(..) | Area::Outside | Area::Everything => false,
        })
    }

    /// Whether it changes what no rollback reaches.
    pub(crate) fn is_lasting(&self) -> bool {
        self.writes.contains(&Area::Outside)
    }

    /// The resources that it uses in a way that others notice.
    pub(crate) fn used_resources(&self) -> impl Iterator<Item = TypeId> {
        self.writes.iter().filter_map(|area| match area {
            Area::Resource(resource, _) => Some(*resource),
            _ => None,
        })
    }

    pub(crate) fn allows(&self, access: Access, wanted: &Area) -> bool {
        let covers = |declared: &Area| match (declared, wanted) {
            (Area::Everything, _) => true,
            (Area::Path(base), Area::Path(path)) => within(path.as_str(), base.as_str()),
            (Area::PolicyItem(policy, base), Area::PolicyItem(other, item)) => {
                policy == other && within(item, base)
            }
            (declared, wanted) => declared == wanted,
        };
        // What may be changed may be looked at.
        self.writes.iter().any(covers) || (access == Access::Read && self.reads.iter().any(covers))
    }
}

fn path_areas(path: &str) -> Vec<Area> {
    match meanings(path) {
        Ok(paths) => paths.into_iter().map(Area::Path).collect(),
        // A path that is no path cannot be touched; whatever it meant, the call must not overlap with anything.
        Err(_) => vec![Area::Everything],
    }
}
