//! Suites: ready-made sections below the one that names them.

use wink::prompt::Section;
use wink::suites::{
    PlanningStrategy, PlanningToolsSection, VfsConfig, VfsToolsSection, WorkspaceDigestSection,
};

use super::Build;
use super::limits::{count, size};
#[cfg(target_os = "linux")]
pub(super) use crate::command::SandboxPlan;
use crate::file::{At, PlanningName, SectionTable, SuiteName};

/// There are no sandboxes elsewhere.
#[cfg(not(target_os = "linux"))]
pub(super) type SandboxPlan = ();

impl Build<'_> {
    /// The section of a suite.
    pub(super) fn suite(
        &mut self,
        suite: &At<SuiteName>,
        table: &SectionTable,
        above: &str,
    ) -> Option<Section> {
        if let Some((_, there)) = self.suites.iter().find(|(known, _)| *known == suite.value) {
            let message = format!("the suite `{}` is there already, in section `{there}`", suite.name());
            self.problems.hint(&suite.span, message, "name it once");
            return None;
        }
        self.suites.push((suite.value, above.to_owned()));
        let section = match suite.value {
            SuiteName::Planning => self.planning(table),
            SuiteName::Files => self.files(table),
            SuiteName::Digest => WorkspaceDigestSection::new().section(),
            SuiteName::Sandbox => self.shell(suite)?,
            SuiteName::Eval => self.python(suite)?,
        };
        let path = format!("{above}.{}", section.key());
        self.take_path(path.trim_start_matches('.'), &suite.span);
        for tool in section.own_tools() {
            if self.take_name(tool.name(), &path, &suite.span) {
                self.know(tool.clone(), &path, &suite.span);
            }
        }
        Some(section)
    }

    /// Settings of suites that are not there.
    pub(super) fn settings(&mut self, table: &SectionTable) {
        let planning = table.planning.as_ref().map(|settings| (SuiteName::Planning, &settings.span));
        let files = table.files.as_ref().map(|settings| (SuiteName::Files, &settings.span));
        for (suite, span) in planning.into_iter().chain(files) {
            if !table.suites.iter().any(|named| named.value == suite) {
                let name = suite.name();
                let message =
                    format!("these are settings of the suite `{name}`, which the section does not have");
                self.problems.hint(span, message, format!("add \"{name}\" to its `suites`"));
            }
        }
    }

    fn planning(&mut self, table: &SectionTable) -> Section {
        let strategy = table.planning.as_ref().and_then(|settings| settings.strategy.as_ref());
        let strategy = match strategy.map(|strategy| strategy.value) {
            None | Some(PlanningName::React) => PlanningStrategy::ReAct,
            Some(PlanningName::PlanActReflect) => PlanningStrategy::PlanActReflect,
            Some(PlanningName::GoalDecomposeRouteSynthesise) => {
                PlanningStrategy::GoalDecomposeRouteSynthesise
            }
        };
        PlanningToolsSection::new().strategy(strategy).section()
    }

    /// The tools work in the workspace that the session is opened in, which takes the place of the suite's own.
    fn files(&mut self, table: &SectionTable) -> Section {
        let mut config = VfsConfig::default();
        if let Some(settings) = &table.files {
            let own = &settings.value;
            config.read_before_write = own.read_before_write.as_ref().is_none_or(|first| first.value);
            config.max_read_bytes = size(own.read.as_ref(), config.max_read_bytes, self.problems);
            config.max_entries = count(own.entries.as_ref(), config.max_entries);
            config.max_match_chars = count(own.match_characters.as_ref(), config.max_match_chars);
        }
        VfsToolsSection::new().config(config).section()
    }

    #[cfg(target_os = "linux")]
    fn shell(&mut self, _: &At<SuiteName>) -> Option<Section> {
        use std::sync::Arc;
        let sandbox = crate::command::LazySandbox::new(self.sandbox.clone());
        Some(wink_sandbox::tool::shell_section(Arc::new(sandbox), Arc::new(wink_sandbox::tool::HostLayers)))
    }

    #[cfg(not(target_os = "linux"))]
    fn shell(&mut self, suite: &At<SuiteName>) -> Option<Section> {
        self.problems.hint(&suite.span, "the suite `sandbox` needs Linux", "remove it here");
        None
    }

    #[cfg(feature = "eval")]
    fn python(&mut self, suite: &At<SuiteName>) -> Option<Section> {
        match wink_eval::WorkerProcess::this_program() {
            Ok(worker) => Some(wink_eval::AstevalSection::new(worker).section()),
            Err(error) => {
                let message = format!("the suite `eval` cannot be used: {error}");
                self.problems.hint(&suite.span, message, "remove the suite here");
                None
            }
        }
    }

    #[cfg(not(feature = "eval"))]
    fn python(&mut self, suite: &At<SuiteName>) -> Option<Section> {
        let message = "this program was built without the suite `eval`";
        self.problems.hint(&suite.span, message, "build it with `--features eval`, or remove the suite");
        None
    }
}
