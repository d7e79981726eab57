//! Places where a process may die: for tests that kill one exactly there, or make something else happen there.

use std::sync::Arc;

use crate::support::steps::listen;

/// Every step there is, by the name it is reached under: `room.what-was-just-done`.
pub const ALL: &[&str] = &[
    "disk.lift-written",
    "disk.lifted",
    "disk.mode-put-back",
    "disk.lifting-over",
    "host.content-read",
    "host.staged",
    "host.planned",
    "host.merged",
    "host.kept",
    "host.kept-synced",
    "journal.pre-images-saved",
    "journal.pre-images-synced",
    "journal.intent-written",
    "journal.intent-synced",
    "journal.step-done",
    "journal.tree-synced",
    "journal.kept",
    "journal.pruned",
    "journal.step-undone",
    "journal.undone",
    "journal.undone-synced",
    "journal.gone",
    "store.begin-written",
    "store.claim-written",
    "store.start-written",
    "store.before-commit",
    "store.committed",
    "scan.baseline-ready",
    "scan.begun",
    "scan.fork-shown",
    "scan.command-over",
    "scan.compared",
    "scan.entry-taken-out",
    "scan.taken-out",
    "scan.entry-brought-back",
    "scan.brought-back",
    "scan.restored",
    "scan.over",
    "scan.trash-pruned",
    "command.layer-made",
    "sandbox.command-over",
    "command.layer-read",
];

/// Has `listener` called, on the thread concerned, whenever a step was just done. For the whole process, and in place of
/// any other.
pub fn on_every_step(listener: impl Fn(&'static str) + Send + Sync + 'static) {
    listen(Some(Arc::new(listener)));
}

/// Nobody listens any more.
pub fn stop_listening() {
    listen(None);
}

/// For other crates of the runtime: says that `step` was just done.
#[doc(hidden)]
pub use crate::support::steps::reach;
