//! The workspace on disk: a directory, forks that never touch it before they are merged, and the journal that makes
//! a merge all or nothing.

pub mod disk;
mod host_disk;

pub use host_disk::HostDisk;
