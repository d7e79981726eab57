//! Limits: of calls, and of the sandbox.

use std::sync::Arc;
use std::time::Duration;

use wink::executor::{ExecutorBuilder, ExecutorLimits};
use wink::limits::{Budget, BudgetLimits, BudgetTracker, Clock, Deadline, InvalidDeadline};
use wink::tool::schema::ParseLimits;

use super::guard::GuardPlan;
use super::suite::SandboxPlan;
use crate::file::{
    At, BudgetTable, LimitsTable, SIZE_HINT, SandboxTable, SectionTable, Size, SuiteName, TIME_HINT, Time,
};
use crate::problem::Problems;

/// How long a command may take that says nothing of its own.
const TOOL_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// What calls of an agent are held to.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) deadline: Option<Duration>,
    pub(crate) budget: Option<Budget>,
    /// For commands that say nothing of their own.
    pub(crate) tool_timeout: Duration,
    pub(crate) limits: ExecutorLimits,
    /// Guarded paths.
    pub(crate) guard: GuardPlan,
    /// Where commands see the workspace.
    pub(crate) shown: Shown,
}

/// Where commands of an agent see the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// Where it is.
    InPlace,
    /// At `/workspace`: some of them run in a sandbox.
    AtWorkspace,
}

impl Shown {
    /// By the sections of an agent file.
    pub(super) fn of(sections: &[At<SectionTable>]) -> Self {
        let is_confined = |section: &At<SectionTable>| {
            section.suites.iter().any(|suite| suite.value == SuiteName::Sandbox)
                || section.tool.iter().any(|tool| tool.sandbox.as_ref().is_some_and(|sandbox| sandbox.value))
                || Self::of(&section.section) == Self::AtWorkspace
        };
        if sections.iter().any(is_confined) { Self::AtWorkspace } else { Self::InPlace }
    }
}

impl Held {
    /// Holds the calls of an executor to this.
    pub(crate) fn apply(
        &self,
        builder: ExecutorBuilder,
        clock: &dyn Clock,
    ) -> Result<ExecutorBuilder, InvalidDeadline> {
        let mut builder = builder.limits(self.limits.clone());
        if let Some(ahead) = self.deadline {
            builder = builder.deadline(Deadline::after(ahead, clock)?);
        }
        if let Some(budget) = self.budget {
            builder = builder.budget(Arc::new(BudgetTracker::new(budget)));
        }
        Ok(builder)
    }
}

pub(super) fn held(
    table: Option<&At<LimitsTable>>,
    guard: GuardPlan,
    shown: Shown,
    problems: &mut Problems,
) -> Held {
    let plain = LimitsTable::default();
    let table = table.map_or(&plain, |table| &table.value);
    let usual = ExecutorLimits::default();
    let deadline = table.deadline.as_ref().and_then(|deadline| {
        let ahead = self::duration(deadline, problems)?;
        // A moment goes by until the session is open.
        if ahead <= Duration::from_secs(1) {
            problems.hint(&deadline.span, "a deadline is more than a second ahead", TIME_HINT);
        }
        Some(ahead)
    });
    let arguments = size(table.arguments.as_ref(), ParseLimits::MAX_BYTES, problems);
    if let Some(written) = table.arguments.as_ref().filter(|_| arguments > ParseLimits::MAX_BYTES) {
        let hint = "say as much or less, such as \"1 MiB\"";
        problems.hint(&written.span, "arguments are never larger than 8 MiB", hint);
    }
    let depth = count(table.arguments_depth.as_ref(), ParseLimits::MAX_DEPTH);
    Held {
        guard,
        shown,
        deadline,
        budget: table.budget.as_ref().and_then(|budget| self::budget(budget, problems)),
        tool_timeout: time(table.tool_timeout.as_ref(), TOOL_TIMEOUT, problems),
        limits: ExecutorLimits {
            policy_timeout: time(table.policy_timeout.as_ref(), usual.policy_timeout, problems),
            probe_timeout: time(table.probe_timeout.as_ref(), usual.probe_timeout, problems),
            max_answer_bytes: size(table.answer.as_ref(), usual.max_answer_bytes, problems),
            max_logged_bytes: size(table.logged.as_ref(), usual.max_logged_bytes, problems),
            max_calls_at_once: count(table.calls_at_once.as_ref(), usual.max_calls_at_once),
            parse: ParseLimits::default().with_bytes(arguments).with_depth(depth),
            ..usual
        },
    }
}

fn budget(table: &At<BudgetTable>, problems: &mut Problems) -> Option<Budget> {
    let limit = |limit: &Option<At<u32>>| limit.as_ref().map(|limit| i64::from(limit.value));
    let limits = BudgetLimits {
        max_total_tokens: limit(&table.max_total_tokens),
        max_input_tokens: limit(&table.max_input_tokens),
        max_output_tokens: limit(&table.max_output_tokens),
    };
    let hint = "set `max_total_tokens`, `max_input_tokens` or `max_output_tokens`";
    Budget::new(limits).map_err(|error| problems.hint(&table.span, error.to_string(), hint)).ok()
}

/// What the sandbox of an agent is made of.
#[cfg(target_os = "linux")]
pub(super) fn sandbox(table: Option<&At<SandboxTable>>, problems: &mut Problems) -> SandboxPlan {
    use crate::command::Lifted;
    use crate::file::LiftedLimit;
    use wink_sandbox::Limits;

    let Some(table) = table else { return SandboxPlan::default() };
    let usual = Limits::default();
    let bytes = |size: &Option<At<Size>>, problems: &mut Problems| {
        size.as_ref().and_then(|size| self::bytes(size, problems))
    };
    let mut limits = Limits {
        memory: bytes(&table.memory, problems).or(usual.memory),
        cpu: table.cpu.as_ref().map(|cpu| cpu.value).or(usual.cpu),
        processes: table.processes.as_ref().map(|most| most.value).or(usual.processes),
        time: time(table.time.as_ref(), usual.time, problems),
        output: count(table.output.as_ref(), usual.output),
        temporary: bytes(&table.temporary, problems).unwrap_or(usual.temporary),
        file: bytes(&table.file, problems).or(usual.file),
        open_files: usual.open_files,
    };
    let mut unenforceable = Lifted::default();
    for lifted in &table.unlimited {
        match lifted.value {
            LiftedLimit::Memory => limits.memory = None,
            LiftedLimit::Cpu => limits.cpu = None,
            LiftedLimit::Processes => limits.processes = None,
            LiftedLimit::File => limits.file = None,
            LiftedLimit::Unenforceable => unenforceable = Lifted::Unenforceable,
        }
    }
    if let Err(error) = limits.check() {
        problems.hint(&table.span, error.to_string(), "set it higher, or leave it out for what is usual");
    }
    SandboxPlan { engine: engine(table, problems), limits, lifted: unenforceable }
}

#[cfg(target_os = "linux")]
fn engine(table: &At<SandboxTable>, problems: &mut Problems) -> crate::command::Engine {
    use crate::command::Engine;
    use crate::file::EngineName;

    let engine = table.engine.as_ref().map_or(EngineName::Namespaces, |engine| engine.value);
    match (engine, &table.image, &table.root) {
        (EngineName::Namespaces, None, None) => Engine::Namespaces,
        (EngineName::Namespaces, None, Some(root)) => Engine::NamespacesIn(root.value.clone().into()),
        (EngineName::Namespaces, Some(image), _) => {
            problems.hint(
                &image.span,
                "an image is podman's",
                "say `engine = \"podman\"`, or `root` for a directory",
            );
            Engine::Namespaces
        }
        (EngineName::Podman, Some(image), None) => Engine::PodmanImage(image.value.clone()),
        (EngineName::Podman, None, Some(root)) => Engine::PodmanIn(root.value.clone().into()),
        (EngineName::Podman, Some(_), Some(root)) => {
            let message = "podman runs an image or a root directory, not both";
            problems.hint(&root.span, message, "remove `image` or `root`");
            Engine::Namespaces
        }
        (EngineName::Podman, None, None) => {
            problems.hint(
                &table.span,
                "podman needs something to run",
                "say `image = \"…\"` or `root = \"…\"`",
            );
            Engine::Namespaces
        }
    }
}

/// What the sandbox of an agent is made of.
#[cfg(not(target_os = "linux"))]
pub(super) fn sandbox(_: Option<&At<SandboxTable>>, _: &mut Problems) -> SandboxPlan {}

pub(super) fn duration(time: &At<Time>, problems: &mut Problems) -> Option<Duration> {
    let duration = time.duration();
    if duration.is_none() {
        problems.hint(&time.span, format!("{:?} is no stretch of time", time.0), TIME_HINT);
    }
    duration
}

fn bytes(size: &At<Size>, problems: &mut Problems) -> Option<u64> {
    let bytes = size.bytes();
    if bytes.is_none() {
        problems.hint(&size.span, format!("{:?} is no amount of bytes", size.0), SIZE_HINT);
    }
    bytes
}

pub(super) fn time(time: Option<&At<Time>>, usual: Duration, problems: &mut Problems) -> Duration {
    time.and_then(|time| duration(time, problems)).unwrap_or(usual)
}

pub(super) fn size(size: Option<&At<Size>>, usual: usize, problems: &mut Problems) -> usize {
    let bytes = size.and_then(|size| bytes(size, problems));
    bytes.map_or(usual, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
}

pub(super) fn count(count: Option<&At<u32>>, usual: usize) -> usize {
    count.map_or(usual, |count| usize::try_from(count.value).unwrap_or(usize::MAX))
}
