//! Files: workspaces on disk, commands in them, and file systems that have to behave alike.
//!
//! One program for all of them, since each links the whole library; `docs/testing.md` names the tests that stay apart.

mod filesystem;
mod filesystem_model;
mod host_calls;
mod host_commands;
mod host_filesystem;
mod host_guard;
mod host_hostile;
mod host_isolation;
mod host_model;
mod host_modes;
mod host_policies;
mod host_policy_races;
mod host_scan;
mod host_scan_others;
mod host_undo;
mod journal;
mod listening;
mod overlay;
mod suite_digest;
mod suite_files;
mod suite_mounts;
mod write_turns;
