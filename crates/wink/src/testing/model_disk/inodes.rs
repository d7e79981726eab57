//! Files, links and directories by number: what they are, and what of that is durable.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

use crate::filesystem::EntryKind;
use crate::filesystem::host::disk::{Meta, OwnedBy};
use crate::testing::Dice;

#[derive(Debug, Clone, Default)]
pub(super) struct Inodes {
    all: BTreeMap<u64, Inode>,
    last: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Inode {
    content: Content,
    meta: Meta,
    pub(super) changed: i128,
    /// Whether the contents are durable. They are written once.
    is_durable: bool,
    /// What is durable of mode and time.
    durable_meta: Meta,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    File(Vec<u8>),
    Directory,
    /// Durable with the entry.
    Link(PathBuf),
}

impl Inode {
    pub(super) fn kind(&self) -> EntryKind {
        match &self.content {
            Content::File(_) => EntryKind::File,
            Content::Directory => EntryKind::Directory,
            Content::Link(_) => EntryKind::Symlink,
        }
    }

    pub(super) fn len(&self) -> u64 {
        match &self.content {
            Content::File(bytes) => bytes.len() as u64,
            Content::Directory => 4096,
            Content::Link(target) => target.as_os_str().len() as u64,
        }
    }

    pub(super) fn meta(&self) -> Meta {
        self.meta
    }

    pub(super) fn content(&self) -> &Content {
        &self.content
    }

    pub(super) fn read(&self) -> io::Result<Vec<u8>> {
        match &self.content {
            Content::File(bytes) => Ok(bytes.clone()),
            Content::Directory => Err(Errno::ISDIR.into()),
            Content::Link(_) => Err(Errno::LOOP.into()),
        }
    }
}

/// Whoever makes something owns it.
const OURS: Option<OwnedBy> = Some(OwnedBy { user: 0, group: 0 });

impl Inodes {
    pub(super) fn add(&mut self, content: Content, meta: Meta, changed: i128) -> u64 {
        self.last += 1;
        let is_link = matches!(content, Content::Link(_));
        let meta = Meta { owner: meta.owner.or(OURS), ..meta };
        let durable_meta = if is_link { meta } else { Meta { mode: 0o600, modified: 0, owner: OURS } };
        let inode = Inode { content, meta, changed, is_durable: is_link, durable_meta };
        self.all.insert(self.last, inode);
        self.last
    }

    pub(super) fn get(&self, inode: u64) -> io::Result<&Inode> {
        Ok(self.all.get(&inode).ok_or(Errno::STALE)?)
    }

    pub(super) fn set_meta(&mut self, inode: u64, meta: Meta, now: i128) -> io::Result<()> {
        let found = self.all.get_mut(&inode).ok_or(Errno::STALE)?;
        let owner = found.meta.owner;
        found.meta = match found.content {
            Content::Link(_) => Meta { mode: found.meta.mode, ..meta },
            _ => meta,
        };
        found.meta.owner = meta.owner.or(owner);
        found.changed = now;
        if matches!(found.content, Content::Link(_)) {
            // There is no way to sync a link.
            found.durable_meta = found.meta;
        }
        Ok(())
    }

    pub(super) fn change(&mut self, inode: u64, now: i128) -> io::Result<()> {
        self.all.get_mut(&inode).ok_or(Errno::STALE)?.changed = now;
        Ok(())
    }

    pub(super) fn sync(&mut self, inode: u64) {
        if let Some(found) = self.all.get_mut(&inode) {
            found.is_durable = true;
            found.durable_meta = found.meta;
        }
    }

    pub(super) fn sync_all(&mut self) {
        let all: Vec<u64> = self.all.keys().copied().collect();
        all.into_iter().for_each(|inode| self.sync(inode));
    }

    /// Each file that is not durable may be whole, cut off anywhere, or empty; each mode and time old or new.
    pub(super) fn crash(&mut self, chance: &mut Dice) {
        for inode in self.all.values_mut() {
            if let Content::File(bytes) = &mut inode.content
                && !inode.is_durable
                && chance.below(2) == 0
            {
                bytes.truncate(chance.below(bytes.len() + 1));
            }
            if inode.meta != inode.durable_meta && chance.below(2) == 0 {
                inode.meta = inode.durable_meta;
            }
            inode.is_durable = true;
            inode.durable_meta = inode.meta;
        }
    }
}
