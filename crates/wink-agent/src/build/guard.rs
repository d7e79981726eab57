//! Guarded paths that the file opens or adds.

use wink::filesystem::FsResult;
use wink::filesystem::host::PathGuard;

use crate::file::{At, GuardTable};
use crate::problem::Problems;

/// What an agent file says of guarded paths: patterns that are right.
#[derive(Debug, Clone, Default)]
pub(crate) struct GuardPlan {
    open: Vec<String>,
    add: Vec<String>,
}

impl GuardPlan {
    /// What a workspace guards, as the file changes it.
    pub(crate) fn over(&self, guard: PathGuard) -> FsResult<PathGuard> {
        let guard = self.open.iter().try_fold(guard, |guard, pattern| guard.opening(pattern))?;
        self.add.iter().try_fold(guard, |guard, pattern| guard.adding(pattern))
    }
}

pub(super) fn guard(table: Option<&At<GuardTable>>, problems: &mut Problems) -> GuardPlan {
    let mut patterns = |written: &[At<String>]| {
        let mut right = Vec::new();
        for pattern in written {
            match PathGuard::none().opening(pattern).and_then(|guard| guard.adding(pattern)) {
                Ok(_) => right.push(pattern.value.clone()),
                Err(error) => {
                    let hint =
                        "write a path from the root of the workspace, such as \"deploy/**\" or \"**/.envrc\"";
                    problems.hint(&pattern.span, error.to_string(), hint);
                }
            }
        }
        right
    };
    let Some(table) = table else { return GuardPlan::default() };
    GuardPlan { open: patterns(&table.open), add: patterns(&table.add) }
}
