//! What happened to a workspace beside what was asked of it: for the operator, who may fetch it any time.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;

use super::journal::{KeptAside, Recovered};
use crate::support::lock::lock;

/// Of what nobody fetches, the latest are kept.
const MOST: usize = 1_000;

/// Collects until it is taken.
#[derive(Default)]
pub(super) struct Report(Mutex<Recovered>);

impl Report {
    pub(super) fn add(&self, more: Recovered) {
        if more == Recovered::default() {
            return;
        }
        for KeptAside { path, aside } in &more.aside {
            tracing::warn!(
                path = %path.display(),
                before = aside.as_ref().map(|aside| tracing::field::display(aside.display())),
                "changed by somebody else meanwhile, and left so"
            );
        }
        for trash in &more.trash {
            tracing::warn!(
                trash = %trash.display(),
                "a command worked in the workspace itself and was undone; what it, or anybody else meanwhile, had changed \
                 is in the trash"
            );
        }
        for noticed in &more.noticed {
            tracing::warn!(
                path = %noticed.display(),
                "a call changed what other programs may run later; look at it before they do"
            );
        }
        let mut all = lock(&self.0);
        extend(&mut all.noticed, more.noticed);
        extend(&mut all.kept, more.kept);
        extend(&mut all.rolled_back, more.rolled_back);
        extend(&mut all.aside, more.aside);
        extend(&mut all.trash, more.trash);
    }

    pub(super) fn aside(&self, aside: Vec<KeptAside>) {
        self.add(Recovered { aside, ..Recovered::default() });
    }

    pub(super) fn noticed(&self, places: BTreeSet<PathBuf>) {
        self.add(Recovered { noticed: places.into_iter().collect(), ..Recovered::default() });
    }

    pub(super) fn take(&self) -> Recovered {
        std::mem::take(&mut *lock(&self.0))
    }
}

fn extend<T>(all: &mut Vec<T>, more: Vec<T>) {
    all.extend(more);
    all.drain(..all.len().saturating_sub(MOST));
}
