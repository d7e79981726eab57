//! What this machine can do for commands, found out by doing it once.

use std::ffi::CString;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cgroup::{Cgroups, Controller, Version};
use crate::child::{Confine, Namespaces, Rights, Step, landlock_abi};
use crate::error::{LaunchError, SandboxError};
use crate::launch::{Command, Control, Prepared, Streams, own_ids, proc_at, supervise, text};
use wink::filesystem::STATE;
use wink::filesystem::host::OverlayDirs;

use crate::overlay::{OverlayKind, WorkspaceView};

/// What this machine can do for commands of this program.
#[derive(Debug, Clone)]
pub struct Capabilities {
    /// How a workspace can be overlaid, if it can. A directory on a filesystem that takes no overlay may still refuse;
    /// [`probe_overlay`] asks for one.
    pub overlay: Option<OverlayKind>,
    /// Why it cannot; empty if it can.
    pub why_no_overlay: String,
    /// Whether a command can have a process namespace while it keeps all of its rights.
    pub pid_namespaces: bool,
    /// Whether a command can have a user namespace, and a process namespace in it.
    pub user_namespaces: bool,
    /// The version of Landlock; see [`Capabilities::usable_landlock`].
    pub landlock: Option<u32>,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
    pub(crate) cgroups: Cgroups,
    findings: Vec<Finding>,
}

/// One thing that was found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// About what.
    pub what: String,
    /// What it is.
    pub found: String,
    /// How it was found out.
    pub how: String,
}

/// What a machine can enforce, each with how it was found out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// What was found.
    pub findings: Vec<Finding>,
}

impl Report {
    pub(crate) fn add(&mut self, what: &str, found: impl Into<String>, how: impl Into<String>) {
        self.findings.push(Finding { what: what.to_owned(), found: found.into(), how: how.into() });
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.findings
            .iter()
            .try_for_each(|finding| writeln!(f, "{}: {} ({})", finding.what, finding.found, finding.how))
    }
}

impl Capabilities {
    /// What this machine can do. Found out once; after that it is known.
    pub fn detect() -> &'static Self {
        static KNOWN: OnceLock<Capabilities> = OnceLock::new();
        KNOWN.get_or_init(find_out)
    }

    /// Who mounts these.
    pub(crate) fn can_mount(&self, dirs: &OverlayDirs) -> Result<OverlayKind, LaunchError> {
        let none = |reason: String| LaunchError::NoOverlay { workspace: dirs.lower.clone(), reason };
        match self.overlay {
            Some(OverlayKind::User) if !dirs.user_xattr => {
                Err(none("only the superuser can mount one without userxattr".to_owned()))
            }
            Some(kind) => Ok(kind),
            None => Err(none(self.why_no_overlay.clone())),
        }
    }

    /// The version of Landlock, if it can be used: with the first one no file could be moved between directories.
    pub fn usable_landlock(&self) -> Option<u32> {
        self.landlock.filter(|version| *version >= 2)
    }

    /// Whether the state directory of a workspace can be hidden from commands that are in no sandbox: where mounts can
    /// be made for their eyes only.
    pub fn hides_state(&self) -> bool {
        self.pid_namespaces || self.user_namespaces
    }

    /// The same, to be read.
    pub fn report(&self) -> Report {
        Report { findings: self.findings.clone() }
    }
}

fn find_out() -> Capabilities {
    let mut report = Report::default();
    let said = |result: &Result<(), LaunchError>| match result {
        Ok(()) => "work".to_owned(),
        Err(error) => format!("do not work: {error}"),
    };
    let fresh_proc = || proc_at("/proc").map(|proc| vec![Step::Private, proc]);
    let own = Namespaces { mount: true, pid: true, ..Namespaces::default() };
    let pid = fresh_proc().and_then(|steps| probe(own, steps, Rights::All));
    report.add("process namespaces with all rights kept", said(&pid), "made one and mounted /proc in it");
    let user = fresh_proc().and_then(|steps| probe(Namespaces { user: true, ..own }, steps, Rights::All));
    report.add("user namespaces", said(&user), "made one, mapped this user, and mounted /proc in it");

    let hidden = match pid.is_ok() || user.is_ok() {
        true => "hidden from every command",
        false => {
            "NOT hidden from commands in no sandbox: they can read and spoil it; what is removed or replaced there is found out afterwards"
        }
    };
    report.add("the state directory of a workspace", hidden, "it takes one of these namespaces");

    let overlay = scratch_place()
        .map_err(|source| LaunchError::Surroundings { what: "making a temporary directory", source })
        .and_then(|place| probe_overlay_in(&place));
    let (overlay, why_no_overlay) = match overlay {
        Ok(kind) => (Some(kind), String::new()),
        Err(error) => (None, error.to_string()),
    };
    let found = match overlay {
        Some(OverlayKind::Trusted) => "works, as the superuser, with redirect_dir=on",
        Some(OverlayKind::User) => "works, in a user namespace, with userxattr",
        None => &why_no_overlay,
    };
    report.add("overlay", found, "mounted one in the directory for temporary files");

    let landlock = landlock_abi();
    let found = match landlock {
        None => "none, so it is not used".to_owned(),
        Some(abi @ ..2) => format!("version {abi}, too old to be used"),
        Some(abi) => format!("version {abi}"),
    };
    report.add("Landlock", found, "asked the kernel for its version");
    let filtered = crate::seccomp::filters().ok().map(|seccomp| {
        let confine = Confine { become_user: None, landlock: None, seccomp, rlimits: Vec::new() };
        probe(Namespaces::default(), Vec::new(), Rights::Confined(confine))
    });
    let seccomp = matches!(filtered, Some(Ok(())));
    report.add(
        "seccomp",
        if seccomp { "works" } else { "does not work" },
        "applied the filters to a process",
    );

    let cgroups = Cgroups::find();
    for controller in Controller::ALL {
        let what = match controller {
            Controller::Memory => "limit on memory",
            Controller::Cpu => "limit on processors",
            Controller::Pids => "limit on processes",
        };
        let found = match (cgroups.version(controller), cgroups.refusals.get(&controller)) {
            (Some(Version::One), _) => "cgroup version 1".to_owned(),
            (Some(Version::Two), _) => "cgroup version 2".to_owned(),
            (None, reason) => format!("none: {}", reason.map_or("unknown", String::as_str)),
        };
        let how = match cgroups.place(controller) {
            Some(place) => format!("made a cgroup in {}", place.display()),
            None => "tried to make a cgroup wherever one could be".to_owned(),
        };
        report.add(what, found, how);
    }
    Capabilities {
        overlay,
        why_no_overlay,
        pid_namespaces: pid.is_ok(),
        user_namespaces: user.is_ok(),
        landlock,
        seccomp,
        cgroups,
        findings: report.findings,
    }
}

/// Whether these directories can be overlaid, and how: by doing it, in a process of its own.
pub fn probe_overlay(dirs: &OverlayDirs) -> Result<OverlayKind, LaunchError> {
    let attempt = |kind: OverlayKind| {
        // What a user namespace cannot do with these, it cannot do.
        let workspace = WorkspaceView::Overlay(dirs.clone());
        let mut steps = vec![Step::Private];
        steps.extend(workspace.open()?);
        steps.extend(workspace.mount(&text(&dirs.lower)?)?);
        let user = kind == OverlayKind::User;
        probe(Namespaces { user, mount: true, ..Namespaces::default() }, steps, Rights::All).map(|()| kind)
    };
    // Without a user namespace everybody stays who they are, so that comes first.
    attempt(OverlayKind::Trusted)
        .or_else(|_| attempt(OverlayKind::User))
        .map_err(|error| LaunchError::NoOverlay { workspace: dirs.lower.clone(), reason: error.to_string() })
}

/// Whether directories on the file system of this one can be overlaid, and how. They are made in it, and gone afterwards.
pub fn probe_overlay_in(parent: &Path) -> Result<OverlayKind, LaunchError> {
    let failed = |source| LaunchError::Surroundings { what: "making a temporary directory", source };
    let scratch = Scratch::new(parent).map_err(failed)?;
    let dir = |name: &str| {
        let dir = scratch.path().join(name);
        std::fs::create_dir(&dir).map(|()| dir).map_err(failed)
    };
    let (lower, upper, work) = (dir("lower")?, dir("upper")?, dir("work")?);
    let dirs = |user_xattr| OverlayDirs {
        lower: lower.clone(),
        upper: upper.clone(),
        work: work.clone(),
        state_name: STATE,
        user_xattr,
    };
    probe_overlay(&dirs(false)).or_else(|_| probe_overlay(&dirs(true)))
}

/// Whether a directory is on an overlay itself, which takes no other.
pub fn is_overlay(dir: &Path) -> bool {
    const OVERLAYFS_SUPER_MAGIC: u64 = 0x794c_7630;
    rustix::fs::statfs(dir).is_ok_and(|about| about.f_type as u64 == OVERLAYFS_SUPER_MAGIC)
}

/// Follows a plan up to the point where a program would be executed.
pub(crate) fn probe(namespaces: Namespaces, steps: Vec<Step>, rights: Rights) -> Result<(), LaunchError> {
    let nothing = Command::Program { program: "/".into(), args: Vec::new() };
    let prepared = Prepared::new(&nothing, &std::collections::BTreeMap::new(), "", Path::new("/"))?;
    let ids = namespaces.user.then(own_ids);
    probe_prepared(Prepared { namespaces, ids, steps, rights, ..prepared })
}

pub(crate) fn probe_prepared(prepared: Prepared) -> Result<(), LaunchError> {
    let control =
        Control::new().map_err(|source| LaunchError::Surroundings { what: "making an event", source })?;
    let nowhere: Vec<CString> = Vec::new();
    match supervise(Prepared { programs: nowhere, ..prepared }, Streams::default(), &control) {
        // There is no program: coming so far is what was asked.
        Err(LaunchError::Program { .. }) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(LaunchError::Lost("it ended before it began".to_owned())),
    }
}

/// Where directories of our own are made: the one for temporary files, or what stands for it.
pub(crate) fn scratch_place() -> std::io::Result<PathBuf> {
    scratch_in(std::env::temp_dir())
}

/// If the place is in a workspace, the state directory: what is made and removed elsewhere in it changes the workspace. One of
/// somebody else's is none: whoever has the directory may replace what is in it, and anybody can put one into `/tmp`.
fn scratch_in(place: PathBuf) -> std::io::Result<PathBuf> {
    let is_own = |state: &PathBuf| {
        let found = std::fs::symlink_metadata(state);
        found.is_ok_and(|found| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw())
    };
    let whole = place.canonicalize().unwrap_or_else(|_| place.clone());
    let mut states = whole.ancestors().map(|dir| dir.join(STATE)).filter(is_own);
    let Some(state) = states.next() else { return Ok(place) };
    let own = state.join("tmp");
    match std::fs::create_dir(&own) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(own),
    }
}

/// A directory of our own that goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Where they are made.
    pub(crate) fn fresh() -> std::io::Result<Self> {
        Self::new(&scratch_place()?)
    }

    pub(crate) fn new(parent: &Path) -> std::io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("wink-{}-{number}", std::process::id()));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(Self(path)),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::fs::remove_dir_all(&self.0).is_err() {
            // The kernel leaves a directory for its own use that nobody may look into, unless they may everything.
            open_up(&self.0);
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

pub(crate) fn no_scratch(error: std::io::Error) -> SandboxError {
    let place = std::env::temp_dir();
    SandboxError::Failed(format!(
        "nothing can be made in {}, the directory for temporary files: {error}; make room there, or set TMPDIR to another",
        place.display()
    ))
}

fn open_up(dir: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let _ = std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700));
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::{STATE, scratch_in};

    #[test]
    fn scratch_is_in_no_workspace_and_in_nothing_of_somebody_elses() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let inside = root.join("inside");
        std::fs::create_dir(&inside).unwrap();
        assert_eq!(scratch_in(inside.clone()).unwrap(), inside);
        let state = root.join(STATE);
        std::fs::create_dir(&state).unwrap();
        assert_eq!(scratch_in(inside.clone()).unwrap(), state.join("tmp"));
        // Only the superuser can give something away.
        if chown(&state, Some(61_234), None).is_ok() {
            assert_eq!(scratch_in(inside.clone()).unwrap(), inside);
        }
        std::fs::rename(&state, root.join("theirs")).unwrap();
        symlink("theirs", &state).unwrap();
        assert_eq!(scratch_in(inside.clone()).unwrap(), inside);
    }
}
