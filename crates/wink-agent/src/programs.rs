//! The programs that an agent's commands would start, and which of them are not there. Nothing is started to find out.

use std::ffi::OsString;
use std::path::Path;

use rustix::fs::{Access, access};

/// A program that a tool's command would start outside of a sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Startable {
    pub(crate) tool: String,
    pub(crate) program: String,
    /// Where the tool says that programs are, if it does.
    pub(crate) path: Option<String>,
}

/// A program that a tool's command would start, and that cannot be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingProgram {
    /// The tool.
    pub tool: String,
    /// The program, as the agent file has it.
    pub program: String,
}

impl Startable {
    /// It, if it cannot be started in this workspace.
    pub(crate) fn missing_in(&self, workspace: &Path) -> Option<MissingProgram> {
        let is_there = match self.program.contains('/') {
            true => can_be_run(&workspace.join(&self.program)),
            false => {
                let path = self.path.as_ref().map(OsString::from).or_else(|| std::env::var_os("PATH"));
                let path = path.unwrap_or_default();
                std::env::split_paths(&path).any(|dir| can_be_run(&workspace.join(dir).join(&self.program)))
            }
        };
        let Self { tool, program, .. } = self.clone();
        (!is_there).then_some(MissingProgram { tool, program })
    }
}

fn can_be_run(program: &Path) -> bool {
    program.is_file() && access(program, Access::EXEC_OK).is_ok()
}
