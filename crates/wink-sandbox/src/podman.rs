//! A sandbox of podman: each command in a container of its own, which is really gone afterwards.
//!
//! Podman is a program like any other here: it is launched, and with it ends everything that it started (conmon, the
//! runtime, the container's processes). What is left then is podman's own note of the container, which is removed by name.

mod inside;

use std::ffi::OsString;
use std::fs;
use std::future::{Future, poll_fn};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;

use rustix::process::Resource;
use wink::BoxFuture;
use wink::limits::{CancelToken, Clock};

use crate::capabilities::{Capabilities, Report, Scratch, no_scratch};
use crate::cgroup::{Controller, Version};
use crate::error::{LaunchError, SandboxError};
use crate::launch::{Command, Ended, Finished, Launch, Tree};
use crate::limits::{Limits, at_most};
use crate::overlay::WorkspaceView;
use crate::owned;
use crate::sandbox::{Job, Sandbox, WORKSPACE};

const INSTALL: &str =
    "install podman and runc (apt-get install podman runc), or use the sandbox of namespaces";

/// What podman said is told before this.
const CANNOT_RUN: &str = "try `podman run` of the same image or root by hand until it works: the image has to be there \
    (`podman images`), with a /bin/sh; without the superuser it takes subordinate ids (/etc/subuid, /etc/subgid); where crun fails, \
    install runc, which is then used";

/// What a container is made of. It has to have `/bin/sh`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Image(String),
    Root(PathBuf),
}

/// The sandbox of podman.
#[derive(Debug)]
pub struct PodmanSandbox {
    limits: Limits,
    source: Source,
    /// Holds its configuration, so that the machine's own does not matter.
    settings: Arc<Scratch>,
    versions: Vec<(&'static str, String)>,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl PodmanSandbox {
    /// Containers of an image that is there; none is fetched.
    pub async fn from_image(
        image: impl Into<String>,
        limits: Limits,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, SandboxError> {
        Self::make(Source::Image(image.into()), limits, clock).await
    }

    /// Containers of a directory with a root in it, which stays as it is.
    pub async fn from_root(
        root: impl Into<PathBuf>,
        limits: Limits,
        clock: &Arc<dyn Clock>,
    ) -> Result<Self, SandboxError> {
        Self::make(Source::Root(root.into()), limits, clock).await
    }

    async fn make(source: Source, limits: Limits, clock: &Arc<dyn Clock>) -> Result<Self, SandboxError> {
        limits.check()?;
        check_cgroups(&limits)?;
        let settings = Arc::new(Scratch::fresh().map_err(no_scratch)?);
        let runc = version("runc", settings.path(), clock).await;
        let text = configuration(&limits, runc.is_ok());
        fs::write(settings.path().join("containers.conf"), text).map_err(no_scratch)?;
        fs::write(settings.path().join("seccomp.json"), profile()?).map_err(no_scratch)?;
        let missing = |error: LaunchError| SandboxError::Missing {
            part: "podman",
            reason: error.to_string(),
            advice: INSTALL,
        };
        let podman = version("podman", settings.path(), clock).await.map_err(missing)?;
        let mut versions = vec![("podman", podman)];
        versions.extend(runc.ok().map(|version| ("runc", version)));
        let sandbox = Self { limits, source, settings, versions };
        sandbox.remove_forgotten(clock).await?;
        sandbox.try_once(clock).await?;
        Ok(sandbox)
    }

    fn podman<A: Into<OsString>>(&self, args: impl IntoIterator<Item = A>) -> Launch {
        podman(self.settings.path(), args)
    }

    /// Removes a container, with everything that runs in it. Whether it is gone.
    async fn remove(&self, name: &str, clock: &Arc<dyn Clock>) -> Result<bool, SandboxError> {
        for _ in 0..ATTEMPTS {
            let removing = self.podman(remove(name)).time_limit(Duration::from_secs(10));
            if removing.run(clock).await?.ended == Ended::Exited(0) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Is written when a container's first process is there: until then everything that fails is podman.
    fn pidfile(&self, name: &str) -> PathBuf {
        self.settings.path().join(name)
    }

    /// Containers of programs that died before they could remove them.
    async fn remove_forgotten(&self, clock: &Arc<dyn Clock>) -> Result<(), SandboxError> {
        let list = ["ps", "--all", "--filter", "name=^wink-", "--format", "{{.Names}}"];
        let listed = self.podman(list).time_limit(Duration::from_secs(30)).run(clock).await?;
        let (names, _) = listed.stdout.text(1_000_000);
        for name in names.lines() {
            if owned::is_orphaned(name) {
                self.remove(name, clock).await?;
            }
        }
        Ok(())
    }

    /// A container, once: that it runs, and that its limits are what was asked for.
    async fn try_once(&self, clock: &Arc<dyn Clock>) -> Result<(), SandboxError> {
        let scratch = Scratch::fresh().map_err(no_scratch)?;
        let root = scratch.path().to_owned();
        let job = Job::new(
            Command::Shell(inside::LOOK.to_owned()),
            WorkspaceView::Direct { root, state_name: None, record: None },
        );
        let finished = self.run(job, clock).await.map_err(|error| SandboxError::Missing {
            part: "way to run a container",
            reason: error.to_string(),
            advice: CANNOT_RUN,
        })?;
        inside::check(&finished.stdout.text(1000).0, &self.limits)
    }

    fn arguments(&self, name: &str, job: &Job) -> Result<Vec<OsString>, SandboxError> {
        let mut args: Vec<OsString> = Vec::new();
        let mut add = |words: &[&str]| args.extend(words.iter().map(OsString::from));
        add(&["run", "--rm", "--name", name, "--network", "none", "--pull", "never", "--log-driver", "none"]);
        add(&["--pidfile", utf8(&self.pidfile(name))?]);
        add(&["--read-only", "--read-only-tmpfs=false", "--cap-drop", "all"]);
        add(&["--security-opt", "no-new-privileges", "--ipc", "private", "--hostname", "sandbox"]);
        let seccomp = self.settings.path().join("seccomp.json");
        add(&["--security-opt", &format!("seccomp={}", utf8(&seccomp)?)]);
        add(&["--tmpfs", &format!("/tmp:size={},mode=1777,notmpcopyup", self.limits.temporary)]);
        // A second watch, for the case that this program dies.
        add(&["--timeout", &(job.time(&self.limits).as_secs() + 10).to_string()]);
        if let Some(memory) = self.limits.memory {
            let memory = memory.to_string();
            add(&["--memory", &memory, "--memory-swap", &memory]);
        }
        if let Some(cpu) = self.limits.cpu {
            add(&["--cpus", &cpu.to_string()]);
        }
        add(&["--pids-limit", &self.limits.processes.map_or(-1, i64::from).to_string()]);
        if rustix::process::geteuid().is_root() {
            let owner = fs::metadata(job.workspace.root())
                .map_err(|source| LaunchError::Surroundings { what: "looking at the workspace", source })?;
            add(&["--user", &format!("{}:{}", owner.uid(), owner.gid())]);
        }
        add(&["--env", "HOME=/tmp", "--env", "LANG=C.UTF-8", "--env", "HUSKY=0"]);
        for (name, value) in &job.env {
            add(&["--env", &format!("{name}={value}")]);
        }
        if job.stdin.is_some() {
            add(&["--interactive"]);
        }
        for word in mounts(&job.workspace)? {
            add(&[&word]);
        }
        add(&["--workdir", WORKSPACE]);
        match &self.source {
            Source::Image(image) => add(&["--entrypoint", "/bin/sh", image]),
            Source::Root(root) => {
                let root = utf8(root)?;
                add(&["--entrypoint", "/bin/sh", "--rootfs", root]);
            }
        }
        add(&["-c", FIRST, "sh", &job.cwd]);
        args.extend(job.command.words());
        Ok(args)
    }
}

/// Podman's own, with nothing of this program's environment but where its home is.
fn podman<A: Into<OsString>>(settings: &Path, args: impl IntoIterator<Item = A>) -> Launch {
    Launch::program("podman", args, "/")
        .inherit("HOME")
        .inherit("XDG_RUNTIME_DIR")
        .env("CONTAINERS_CONF", settings.join("containers.conf"))
        // It knows processes by their numbers.
        .tree(Tree::Reaper)
}

fn remove(name: &str) -> [&str; 6] {
    ["rm", "--force", "--time", "0", "--ignore", name]
}

async fn version(program: &str, settings: &Path, clock: &Arc<dyn Clock>) -> Result<String, LaunchError> {
    let launch = Launch::program(program, ["--version"], settings).inherit("HOME");
    let said = launch.time_limit(Duration::from_secs(30)).run(clock).await?;
    Ok(said.stdout.text(200).0.lines().next().unwrap_or_default().to_owned())
}

fn configuration(limits: &Limits, runc: bool) -> String {
    let open = at_most(Resource::Nofile, limits.open_files);
    let file = limits.file.map(|file| at_most(Resource::Fsize, file));
    let file = file.map_or(String::new(), |file| format!(", \"fsize={file}:{file}\""));
    let runtime = if runc { "runtime = \"runc\"\n" } else { "" };
    // Nobody here can raise limits, so they are named; the default would. All of them here: with any on the command line, podman
    // forgets these.
    format!(
        "[containers]\ndefault_ulimits = [\"nofile={open}:{open}\", \"nproc=4096:4096\", \"core=0:0\"{file}]\n\
         [engine]\n{runtime}cgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\n"
    )
}

/// What podman allows by itself is meant for containers in containers.
fn profile() -> Result<String, SandboxError> {
    let places = ["/etc/containers/seccomp.json", "/usr/share/containers/seccomp.json"];
    let found = places.iter().find_map(|place| fs::read_to_string(place).ok());
    let parsed = found.and_then(|text| wink::serde_json::from_str(&text).ok());
    let profile = parsed.and_then(crate::seccomp::stricter).ok_or_else(|| SandboxError::Missing {
        part: "seccomp profile of podman",
        reason: format!("there is none that can be read at {}", places.join(" or ")),
        advice: "install the one that comes with podman (containers-common)",
    })?;
    Ok(profile.to_string())
}

/// Without the superuser, podman leaves limits out where there is only the first version of cgroups.
fn check_cgroups(limits: &Limits) -> Result<(), SandboxError> {
    let able = Capabilities::detect();
    let asked = [
        (limits.memory.is_some(), "memory", Controller::Memory),
        (limits.cpu.is_some(), "cpu", Controller::Cpu),
        (limits.processes.is_some(), "processes", Controller::Pids),
    ];
    for (asked, limit, controller) in asked {
        let works =
            rustix::process::geteuid().is_root() || able.cgroups.version(controller) == Some(Version::Two);
        if asked && !works {
            return Err(SandboxError::Unenforceable {
                limit,
                reason: "podman without the superuser needs cgroups of version 2".to_owned(),
                advice: "run as the superuser, or lift this limit (`None` in Rust, `unlimited` in an agent file)",
            });
        }
    }
    Ok(())
}

fn mounts(workspace: &WorkspaceView) -> Result<Vec<String>, SandboxError> {
    let (volume, state_name) = match workspace {
        WorkspaceView::Direct { root, state_name, .. } => {
            (format!("{}:{WORKSPACE}:rw", volume_path(root)?), state_name.as_deref())
        }
        WorkspaceView::Overlay(dirs) => {
            // It marks things its own way.
            if dirs.user_xattr == rustix::process::geteuid().is_root() {
                let reason =
                    "podman marks changes in trusted.overlay.* as the superuser, in user.overlay.* otherwise";
                return Err(LaunchError::NoOverlay {
                    workspace: dirs.lower.clone(),
                    reason: reason.to_owned(),
                }
                .into());
            }
            let (lower, upper, work) =
                (volume_path(&dirs.lower)?, volume_path(&dirs.upper)?, volume_path(&dirs.work)?);
            let volume = format!("{lower}:{WORKSPACE}:O,upperdir={upper},workdir={work}");
            (volume, Some(dirs.state_name))
        }
    };
    let mut words = vec!["--volume".to_owned(), volume];
    if let Some(name) = state_name
        && workspace.root().join(name).is_dir()
    {
        // Podman would copy into it what it hides.
        words.extend(["--tmpfs".to_owned(), format!("{WORKSPACE}/{name}:ro,size=4k,mode=555,notmpcopyup")]);
    }
    Ok(words)
}

fn utf8(path: &Path) -> Result<&str, SandboxError> {
    path.to_str().ok_or_else(|| SandboxError::Failed(format!("{path:?} is not UTF-8, which podman needs")))
}

/// Podman takes these apart at colons and commas, without a way to escape them.
fn volume_path(path: &Path) -> Result<&str, SandboxError> {
    let text = utf8(path)?;
    if text.contains([':', ',', '\\']) {
        let reason = format!("podman cannot mount {path:?}: there is a colon, comma or backslash in it");
        return Err(SandboxError::Failed(reason));
    }
    Ok(text)
}

/// A container's first process, which no signal of its own ends: the command is its child. Podman would make a working
/// directory that is not there, and follow links out of the workspace, so that is done here.
const FIRST: &str = "\
if test -n \"$1\"; then cd -- \"$1\" 2>/dev/null || { echo 'Error: cwd: No such directory' >&2; exit 126; }; fi
case \"$(pwd -P)\" in /workspace|/workspace/*) ;; *) echo 'Error: cwd: It leads out of the workspace' >&2; exit 126;; esac
shift; \"$@\"; exit $?";

/// Ends a container that is not wanted any more, unless it is gone by then.
struct Unwanted {
    name: String,
    settings: Arc<Scratch>,
    gone: bool,
}

impl Drop for Unwanted {
    fn drop(&mut self) {
        if self.gone {
            return;
        }
        let (settings, name) = (Arc::clone(&self.settings), self.name.clone());
        let (living, alive) = mpsc::channel::<()>();
        let removing = std::thread::Builder::new().name("wink-podman".to_owned()).spawn(move || {
            let _living = living;
            let attempt = |_| podman(settings.path(), remove(&name)).run_here().unwrap_or(false);
            if !(0..ATTEMPTS).any(attempt) {
                tracing::warn!(name, "a container could not be removed; the next sandbox of podman will try");
            }
        });
        // Whoever throws the layer away next relies on it not being mounted.
        if removing.is_ok() {
            let _ = alive.recv_timeout(Duration::from_secs(10));
        }
    }
}

/// Podman does not remove a container at first whose watcher was killed: it notes that, and then it does.
const ATTEMPTS: usize = 3;

impl Sandbox for PodmanSandbox {
    fn name(&self) -> &'static str {
        "podman"
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report(&self) -> Report {
        let mut report = Capabilities::detect().report();
        for (what, version) in &self.versions {
            report.add(
                what,
                version,
                "asked it, and ran a container whose limits were looked at from inside",
            );
        }
        report
    }

    fn run<'a>(
        &'a self,
        job: Job,
        clock: &'a Arc<dyn Clock>,
    ) -> BoxFuture<'a, Result<Finished, SandboxError>> {
        Box::pin(async move {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = owned::name(number);
            let args = self.arguments(&name, &job)?;
            let cwd = job.cwd.clone();
            let time = job.time(&self.limits);
            let began = clock.monotonic();
            let end = CancelToken::new();
            let mut launch = self
                .podman(args)
                .recorded_in(job.workspace.record().cloned())
                .keep_output(self.limits.output_bytes())
                .cancelled_by(end.clone());
            if let Some(stdin) = job.stdin {
                launch = launch.stdin(stdin);
            }
            let pidfile = self.pidfile(&name);
            let unwanted =
                || Unwanted { name: name.clone(), settings: Arc::clone(&self.settings), gone: false };
            // Dropped in the other order: podman is asked to end the container, then it is ended itself, and then it
            // is asked again, for the case that it was about to make one.
            let mut after = unwanted();
            let mut running = pin!(launch.run(clock));
            let mut before = unwanted();
            let stopped =
                stopped(running.as_mut(), began.saturating_add(time), job.cancel.as_ref(), clock).await;
            let finished = match stopped {
                Ok(finished) => finished?,
                Err(ended) => {
                    self.remove(&name, clock).await?;
                    end.cancel();
                    let finished = running.await?;
                    Finished { ended, duration: clock.monotonic().saturating_sub(began), ..finished }
                }
            };
            let gone = self.remove(&name, clock).await?;
            (before.gone, after.gone) = (gone, gone);
            drop(before);
            let began = fs::remove_file(&pidfile).is_ok();
            own_failure(finished, began, cwd)
        })
    }
}

/// Runs until it is over, or its time is, or somebody cancels it.
async fn stopped<F: Future>(
    mut running: Pin<&mut F>,
    until: Duration,
    cancel: Option<&CancelToken>,
    clock: &Arc<dyn Clock>,
) -> Result<F::Output, Ended> {
    let mut timer = clock.sleep_until(until);
    let mut cancelled = pin!(async {
        match cancel {
            Some(token) => token.cancelled().await,
            None => std::future::pending().await,
        }
    });
    poll_fn(|cx| {
        if let Poll::Ready(over) = running.as_mut().poll(cx) {
            return Poll::Ready(Ok(over));
        }
        if timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(Ended::TimedOut));
        }
        cancelled.as_mut().poll(cx).map(|()| Err(Ended::Cancelled))
    })
    .await
}

/// Tells what podman said, and what [`FIRST`] did, from what the command did.
fn own_failure(finished: Finished, began: bool, cwd: String) -> Result<Finished, SandboxError> {
    if matches!(finished.ended, Ended::TimedOut | Ended::Cancelled) {
        return Ok(finished);
    }
    let (said, _) = finished.stderr.text(2000);
    if !began {
        return Err(SandboxError::Failed(format!("podman: {}", said.trim())));
    }
    let wrong = (finished.ended == Ended::Exited(126)).then(|| said.strip_prefix("Error: cwd: ")).flatten();
    match wrong.and_then(|reason| reason.strip_suffix('\n')).filter(|reason| !reason.contains('\n')) {
        Some(reason) => Err(LaunchError::Cwd { cwd, source: std::io::Error::other(reason) }.into()),
        None => Ok(finished),
    }
}
