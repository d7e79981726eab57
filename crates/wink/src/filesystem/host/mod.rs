//! The workspace on disk: a directory, forks that never touch it before they are merged, and the journal that makes
//! a merge all or nothing.

pub mod disk;
mod host_disk;
pub mod journal;
mod lock;
pub mod plan;

pub use host_disk::HostDisk;
pub use lock::WorkspaceLock;
