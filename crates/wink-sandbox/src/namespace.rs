//! A sandbox without a daemon and without any program of its own: namespaces, a root of its own, no capabilities,
//! Landlock, seccomp, cgroups.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::mount::MountFlags;
use rustix::process::{Resource, Rlimit};
use wink::BoxFuture;
use wink::limits::Clock;

use crate::capabilities::{Capabilities, Report, Scratch, no_scratch, probe_prepared};
use crate::cgroup::Controller;
use crate::child::{Confine, HANDED_OVER, Landlock, Namespaces, Rights, SLOTS, Step};
use crate::error::{LaunchError, SandboxError};
use crate::launch::{Finished, NO_HUSKY, PATH, Prepared, Streams, Until, own_ids, proc_at, run};
use crate::limits::{Limits, at_most};
use crate::overlay::{WorkspaceView, c_path, c_text};
use crate::sandbox::{Job, Sandbox, WORKSPACE};

/// The daemon-less sandbox.
///
/// A command sees the machine's programs and libraries (or a directory with others) read-only, an empty `/tmp`, its
/// own processes, no network but its own loopback, and the workspace at `/workspace`. As the superuser it runs as the owner of the
/// workspace, without capabilities; otherwise in a user namespace.
#[derive(Debug)]
pub struct NamespaceSandbox {
    limits: Limits,
    /// In place of the machine's own programs.
    root: Option<PathBuf>,
    /// Whether it takes a user namespace.
    user: bool,
    /// Where nothing else counts processes.
    count_by_rlimit: bool,
}

impl NamespaceSandbox {
    /// A sandbox with the machine's own programs.
    pub fn new(limits: Limits) -> Result<Self, SandboxError> {
        Self::make(None, limits)
    }

    /// A sandbox with the programs of another root directory.
    pub fn with_root(root: impl Into<PathBuf>, limits: Limits) -> Result<Self, SandboxError> {
        Self::make(Some(root.into()), limits)
    }

    /// The same, or an error if writing outside the workspace is stopped by the mounts alone, since this kernel has no
    /// Landlock that can be used. [`Sandbox::report`] says which it is.
    pub fn require_landlock(self) -> Result<Self, SandboxError> {
        let able = Capabilities::detect();
        match able.usable_landlock() {
            Some(_) => Ok(self),
            None => Err(missing_landlock(able.landlock)),
        }
    }

    fn make(root: Option<PathBuf>, limits: Limits) -> Result<Self, SandboxError> {
        limits.check()?;
        let able = Capabilities::detect();
        if !able.seccomp {
            return Err(SandboxError::Missing {
                part: "seccomp",
                reason: "the kernel did not take the filters".to_owned(),
                advice: "use a kernel with CONFIG_SECCOMP_FILTER, or the sandbox of podman",
            });
        }
        let superuser = rustix::process::geteuid().is_root() && able.pid_namespaces;
        let user = !superuser;
        let count_by_rlimit = user && able.cgroups.version(Controller::Pids).is_none();
        let sandbox = Self { limits, root, user, count_by_rlimit };
        sandbox.check_limits(able)?;
        sandbox.try_once()?;
        Ok(sandbox)
    }

    fn check_limits(&self, able: &Capabilities) -> Result<(), SandboxError> {
        let asked = [
            (self.limits.memory.is_some(), "memory", Controller::Memory),
            (self.limits.cpu.is_some(), "cpu", Controller::Cpu),
            (self.limits.processes.is_some() && !self.count_by_rlimit, "processes", Controller::Pids),
        ];
        for (asked, limit, controller) in asked {
            if let Some(reason) = able.cgroups.refusals.get(&controller)
                && asked
            {
                return Err(SandboxError::Unenforceable {
                    limit,
                    reason: format!("no cgroup can be made ({reason})"),
                    advice: "run with a cgroup that this user may write (systemd-run --user --scope -p Delegate=yes), \
                             use the sandbox of podman, or lift this limit (`None` in Rust, `unlimited` in an agent file)",
                });
            }
        }
        Ok(())
    }

    /// Everything but a program, once, so that what is missing is known before a command is.
    fn try_once(&self) -> Result<(), SandboxError> {
        let scratch = Scratch::fresh().map_err(no_scratch)?;
        let root = scratch.path().to_owned();
        let job = Job::new(
            crate::launch::Command::Shell(String::new()),
            WorkspaceView::Direct { root, state_name: None, record: None },
        );
        probe_prepared(self.prepare(&job)?).map_err(|error| SandboxError::Missing {
            part: "way to make this sandbox",
            reason: error.to_string(),
            advice: advice(self.user && !Capabilities::detect().user_namespaces),
        })
    }

    fn prepare(&self, job: &Job) -> Result<Prepared, SandboxError> {
        let able = Capabilities::detect();
        let mut environment: BTreeMap<OsString, OsString> =
            [("PATH", PATH), ("HOME", "/tmp"), ("LANG", "C.UTF-8"), NO_HUSKY]
                .map(|(k, v)| (k.into(), v.into()))
                .into();
        environment.extend(job.env.iter().map(|(name, value)| (name.into(), value.into())));
        let prepared = Prepared::new(&job.command, &environment, &job.cwd, Path::new(WORKSPACE))?;
        let wants_cgroup = self.limits.memory.is_some()
            || self.limits.cpu.is_some()
            || (self.limits.processes.is_some() && !self.count_by_rlimit);
        let cgroup = wants_cgroup
            .then(|| able.cgroups.make(&self.limits))
            .transpose()
            .map_err(|source| LaunchError::Surroundings { what: "making its cgroup", source })?;
        Ok(Prepared {
            namespaces: Namespaces { user: self.user, mount: true, pid: true, rest: true },
            ids: self.user.then(own_ids),
            steps: self.steps(&job.workspace)?,
            cgroup,
            record: job.workspace.record().cloned(),
            rights: Rights::Confined(self.confine(&job.workspace)?),
            ..prepared
        })
    }

    fn steps(&self, workspace: &WorkspaceView) -> Result<Vec<Step>, SandboxError> {
        if let WorkspaceView::Overlay(dirs) = workspace {
            Capabilities::detect().can_mount(dirs)?;
        }
        let mut view = View::default();
        match &self.root {
            Some(root) => view.whole(root)?,
            None => view.machine()?,
        }
        view.devices()?;
        let mut steps = vec![Step::Private];
        steps.extend(workspace.open()?);
        steps.extend(view.open);
        // Any directory will do that is always there, and that nothing needs any more; but not the workspace's, which would be
        // shown with all that is mounted on it.
        steps.push(Step::Root { at: c"/dev".to_owned() });
        steps.extend(view.fill);
        for (at, mode) in [("tmp", 0o1777), ("proc", 0o555), ("workspace", 0o755), ("dev/shm", 0o1777)] {
            steps.push(Step::Directory { at: c_text("a path", at)?, mode });
        }
        let temporary = format!("mode=1777,size={}", self.limits.temporary);
        for at in ["tmp", "dev/shm"] {
            steps.push(Step::Mount {
                kind: c"tmpfs".to_owned(),
                at: c_text("a path", at)?,
                flags: MountFlags::NOSUID | MountFlags::NODEV,
                data: c_text("an option", &temporary)?,
            });
        }
        steps.push(proc_at("proc")?);
        for path in HIDDEN {
            steps.push(Step::Hide { at: c_text("a path", path)? });
        }
        for path in FROZEN {
            steps.push(Step::Freeze { at: c_text("a path", path)? });
        }
        steps.extend(workspace.mount("workspace")?);
        steps.push(Step::Pivot);
        Ok(steps)
    }

    fn confine(&self, workspace: &WorkspaceView) -> Result<Confine, SandboxError> {
        let become_user = if self.user {
            None
        } else {
            let owner = fs::metadata(workspace.root())
                .map_err(|source| LaunchError::Surroundings { what: "looking at the workspace", source })?;
            Some((owner.uid(), owner.gid()))
        };
        let mut rlimits = vec![rlimit(Resource::Core, 0), rlimit(Resource::Nofile, self.limits.open_files)];
        rlimits.extend(self.limits.file.map(|bytes| rlimit(Resource::Fsize, bytes)));
        if let Some(most) = self.limits.processes
            && self.count_by_rlimit
        {
            // Counted within the user namespace, where init is one as well.
            rlimits.push(rlimit(Resource::Nproc, u64::from(most) + 1));
        }
        let landlock = landlock(Capabilities::detect().usable_landlock(), WORKSPACE)?;
        Ok(Confine { become_user, landlock, seccomp: crate::seccomp::filters()?, rlimits })
    }
}

/// What to do about a sandbox that cannot be made, and whether it is for want of a user namespace.
fn advice(no_user_namespace: bool) -> &'static str {
    match no_user_namespace {
        true => {
            "allow user namespaces (by sysctl: kernel.unprivileged_userns_clone=1 and a user.max_user_namespaces above 0, where there is \
             one kernel.apparmor_restrict_unprivileged_userns=0), run as the superuser, or use the sandbox of podman"
        }
        false => {
            "mend what failed (the report of Capabilities::detect() says what works here), or use the sandbox of podman"
        }
    }
}

fn rlimit(resource: Resource, most: u64) -> (Resource, Rlimit) {
    let most = at_most(resource, most);
    (resource, Rlimit { current: Some(most), maximum: Some(most) })
}

impl Sandbox for NamespaceSandbox {
    fn name(&self) -> &'static str {
        "namespaces"
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn report(&self) -> Report {
        let able = Capabilities::detect();
        let mut report = able.report();
        report.add(
            "writing outside the workspace",
            match able.usable_landlock() {
                Some(_) => "stopped by read-only mounts, and by Landlock",
                None => "stopped by read-only mounts only",
            },
            "from the version of Landlock",
        );
        if self.count_by_rlimit && self.limits.processes.is_some() {
            report.add(
                "limit on processes here",
                "RLIMIT_NPROC of the user namespace",
                "there is no cgroup for it",
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
            let until = Until { time: Some(job.time(&self.limits)), cancel: job.cancel.clone() };
            let streams = Streams { stdin: job.stdin.clone(), keep: self.limits.output_bytes() };
            Ok(run(self.prepare(&job)?, streams, until, clock).await?)
        })
    }
}

/// Files of `/proc` that tell of the machine, or steer it.
const HIDDEN: &[&str] = &[
    "proc/acpi",
    "proc/config.gz",
    "proc/kcore",
    "proc/keys",
    "proc/key-users",
    "proc/kpagecount",
    "proc/kpageflags",
    "proc/latency_stats",
    "proc/modules",
    "proc/sched_debug",
    "proc/scsi",
    "proc/sysrq-trigger",
    "proc/timer_list",
    "proc/timer_stats",
    "proc/vmallocinfo",
];

const FROZEN: &[&str] = &["proc/asound", "proc/bus", "proc/fs", "proc/irq", "proc/sys"];

/// What a machine's root has of programs and libraries.
const PROGRAMS: &[&str] = &["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// What programs need of `/etc`, without anything secret or about this machine's services.
const SETTINGS: &[&str] = &[
    "alternatives",
    "bash.bashrc",
    "debian_version",
    "fonts",
    "group",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "perl",
    "profile",
    "protocols",
    "services",
    "shells",
    "terminfo",
    "timezone",
];

const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom"];

/// A read-only view of a root, as steps: first everything is opened, then the new root is filled.
#[derive(Default)]
struct View {
    open: Vec<Step>,
    fill: Vec<Step>,
    opened: u8,
}

impl View {
    /// All of a directory but what is made afresh.
    fn whole(&mut self, root: &Path) -> Result<(), SandboxError> {
        let failed = |source| LaunchError::Surroundings { what: "looking at its root directory", source };
        let mut names: Vec<OsString> = fs::read_dir(root)
            .map_err(failed)?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect::<Result<_, _>>()
            .map_err(failed)?;
        names.sort();
        for name in names {
            match name.to_str() {
                Some("dev" | "proc" | "run" | "sys" | "tmp" | "workspace") => {}
                Some(name) => self.entry(&root.join(name), name)?,
                None => {}
            }
        }
        Ok(())
    }

    fn machine(&mut self) -> Result<(), SandboxError> {
        for name in PROGRAMS {
            self.entry(&Path::new("/").join(name), name)?;
        }
        self.directory("etc")?;
        for name in SETTINGS {
            self.entry(&Path::new("/etc").join(name), &format!("etc/{name}"))?;
        }
        Ok(())
    }

    fn devices(&mut self) -> Result<(), SandboxError> {
        self.directory("dev")?;
        for name in DEVICES {
            let at = format!("dev/{name}");
            self.fill.push(Step::File { at: c_text("a path", &at)? });
            self.bind(&Path::new("/dev").join(name), &at, true)?;
        }
        let links = [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")];
        for (name, number) in links {
            let target = c_text("a path", &format!("/proc/self/fd{number}"))?;
            self.fill.push(Step::Link { target, at: c_text("a path", &format!("dev/{name}"))? });
        }
        Ok(())
    }

    fn directory(&mut self, at: &str) -> Result<(), SandboxError> {
        self.fill.push(Step::Directory { at: c_text("a path", at)?, mode: 0o755 });
        Ok(())
    }

    /// A file, directory or link as it is; nothing where there is nothing.
    fn entry(&mut self, source: &Path, at: &str) -> Result<(), SandboxError> {
        let Ok(meta) = fs::symlink_metadata(source) else { return Ok(()) };
        if meta.is_symlink() {
            let target = fs::read_link(source).map_err(|source| LaunchError::Surroundings {
                what: "looking at its root directory",
                source,
            })?;
            self.fill.push(Step::Link { target: c_path(&target)?, at: c_text("a path", at)? });
            return Ok(());
        }
        if meta.is_dir() {
            self.directory(at)?;
        } else if meta.is_file() {
            self.fill.push(Step::File { at: c_text("a path", at)? });
        } else {
            return Ok(());
        }
        self.bind(source, at, false)
    }

    fn bind(&mut self, source: &Path, at: &str, devices: bool) -> Result<(), SandboxError> {
        // The first three are the workspace's.
        let slot = 3 + self.opened;
        if i32::from(slot) >= HANDED_OVER - SLOTS {
            return Err(SandboxError::Failed(
                "its root directory has too many entries; at most 40 work".to_owned(),
            ));
        }
        self.opened += 1;
        self.open.push(Step::Open { path: c_path(source)?, slot });
        self.fill.push(Step::Bind { slot, at: c_text("a path", at)?, read_only: !devices, devices });
        Ok(())
    }
}

fn missing_landlock(version: Option<u32>) -> SandboxError {
    SandboxError::Missing {
        part: "Landlock",
        reason: match version {
            None => "the kernel has none".to_owned(),
            Some(version) => format!(
                "the kernel's is version {version}, with which nothing can be moved between directories"
            ),
        },
        advice: "use a kernel from 5.19 on with Landlock among its security modules, or do without it: the mounts stop the same",
    }
}

/// What may be done where, on top of what the mounts allow. Nothing without a Landlock that can be used.
fn landlock(usable: Option<u32>, workspace: &str) -> Result<Option<Landlock>, LaunchError> {
    const EXECUTE: u64 = 1;
    const WRITE_FILE: u64 = 1 << 1;
    const READ_FILE: u64 = 1 << 2;
    const READ_DIR: u64 = 1 << 3;
    const MAKE_CHAR: u64 = 1 << 6;
    const MAKE_BLOCK: u64 = 1 << 11;
    const TRUNCATE: u64 = 1 << 14;
    let Some(version) = usable else { return Ok(None) };
    let Landlock { handled, scoped, .. } = Landlock::nothing(version);
    let look = READ_FILE | READ_DIR | EXECUTE;
    let all = handled & !(MAKE_CHAR | MAKE_BLOCK);
    let rule = |path, rights: u64| Ok::<_, LaunchError>((c_text("a path", path)?, rights & handled));
    let rules = vec![
        rule("/", look)?,
        rule("/dev", look | WRITE_FILE | TRUNCATE)?,
        rule("/dev/shm", all)?,
        rule("/tmp", all)?,
        rule(workspace, all)?,
    ];
    Ok(Some(Landlock { handled, scoped, rules }))
}

#[cfg(test)]
mod tests;
