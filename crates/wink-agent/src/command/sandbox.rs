//! The sandbox of an agent, made when it is first needed: most calls need none, and making one takes a process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;
use wink::BoxFuture;
use wink::limits::Clock;
use wink_sandbox::{Finished, Job, Limits, NamespaceSandbox, PodmanSandbox, Report, Sandbox, SandboxError};

/// What a sandbox is to be made of.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SandboxPlan {
    pub(crate) engine: Engine,
    pub(crate) limits: Limits,
    pub(crate) lifted: Lifted,
}

/// What becomes of limits that the machine cannot enforce.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Lifted {
    /// There is no sandbox then.
    #[default]
    Never,
    /// They are lifted. What is left still confines.
    Unenforceable,
}

/// What runs the commands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Engine {
    /// Namespaces, with the machine's own programs.
    #[default]
    Namespaces,
    /// Namespaces, with the programs of this root directory.
    NamespacesIn(PathBuf),
    /// Podman, with an image.
    PodmanImage(String),
    /// Podman, with a root directory.
    PodmanIn(PathBuf),
}

impl SandboxPlan {
    /// The same for a command that is held to the time of its tool, which ends it first.
    pub(crate) fn for_command(&self, timeout: Duration, output: usize) -> Self {
        let time = timeout.saturating_add(Duration::from_secs(60));
        Self { limits: Limits { time, output, ..self.limits.clone() }, ..self.clone() }
    }

    async fn make(&self, clock: &Arc<dyn Clock>) -> Result<Arc<dyn Sandbox>, SandboxError> {
        let mut limits = self.limits.clone();
        loop {
            match self.make_with(limits.clone(), clock).await {
                Err(SandboxError::Unenforceable { limit, .. })
                    if self.lifted == Lifted::Unenforceable && lift(&mut limits, limit) => {}
                made => return made,
            }
        }
    }

    async fn make_with(
        &self,
        limits: Limits,
        clock: &Arc<dyn Clock>,
    ) -> Result<Arc<dyn Sandbox>, SandboxError> {
        Ok(match &self.engine {
            Engine::Namespaces => Arc::new(NamespaceSandbox::new(limits)?),
            Engine::NamespacesIn(root) => Arc::new(NamespaceSandbox::with_root(root, limits)?),
            Engine::PodmanImage(image) => Arc::new(PodmanSandbox::from_image(image, limits, clock).await?),
            Engine::PodmanIn(root) => Arc::new(PodmanSandbox::from_root(root, limits, clock).await?),
        })
    }
}

/// Lifts a limit, by its name. Whether there was one.
fn lift(limits: &mut Limits, limit: &str) -> bool {
    match limit {
        "memory" => limits.memory.take().is_some(),
        "cpu" => limits.cpu.take().is_some(),
        "processes" => limits.processes.take().is_some(),
        _ => false,
    }
}

/// A sandbox that is made when it is first needed. Where it cannot be made, nothing runs.
pub(crate) struct LazySandbox {
    plan: SandboxPlan,
    made: OnceCell<Arc<dyn Sandbox>>,
}

impl LazySandbox {
    pub(crate) fn new(plan: SandboxPlan) -> Self {
        Self { plan, made: OnceCell::new() }
    }
}

impl Sandbox for LazySandbox {
    fn name(&self) -> &'static str {
        match self.plan.engine {
            Engine::Namespaces | Engine::NamespacesIn(_) => "namespaces",
            Engine::PodmanImage(_) | Engine::PodmanIn(_) => "podman",
        }
    }

    fn limits(&self) -> &Limits {
        &self.plan.limits
    }

    fn report(&self) -> Report {
        self.made.get().map(|made| made.report()).unwrap_or_default()
    }

    fn run<'a>(
        &'a self,
        job: Job,
        clock: &'a Arc<dyn Clock>,
    ) -> BoxFuture<'a, Result<Finished, SandboxError>> {
        Box::pin(async move {
            let made = self.made.get_or_try_init(|| self.plan.make(clock)).await?;
            made.run(job, clock).await
        })
    }
}
