//! What happens between clone and exec: a plan, made whole beforehand, and the code that follows it in the new process.
//!
//! The new process is a copy of one thread of a program with many. Until it executes something else it may not allocate,
//! lock or panic, so everything it needs ([`Plan`]) is there before: every path as a C string, every descriptor open.
//! `raw` has the unsafe code and the proof of it, `enter` the order of things, which is safe code.
//!
//! There are two processes: *init*, the first of its process namespace (or, without one, the reaper of all that its
//! descendants leave behind), and the *command*, its child. When init is gone, so is everything below it, unless it is a reaper
//! that was killed: then whoever started it looks for them.

mod enter;
mod raw;

use std::ffi::CString;
use std::os::fd::OwnedFd;

use rustix::mount::MountFlags;
use rustix::process::{Resource, Rlimit};
use seccompiler::BpfProgram;

pub(crate) use enter::restrict;
pub(crate) use raw::{Child, landlock_abi, start};

/// Where the report's end is in the new process.
pub(super) const REPORT: i32 = 3;
/// Where the end of the gate is: nothing is begun before it is opened.
pub(super) const GATE: i32 = 4;
/// Where its cgroups begin; there are at most eight.
pub(super) const CGROUPS: i32 = 5;
/// Where what [`Step::Open`] opened begins.
pub(crate) const SLOTS: i32 = 16;
/// Descriptors that the parent hands over lie at or above this, out of the way of all these.
pub(crate) const HANDED_OVER: i32 = 64;

/// How an opened path is named in options of a mount.
pub(crate) fn slot_path(slot: u8) -> String {
    format!("/proc/self/fd/{}", SLOTS + i32::from(slot))
}

/// The namespaces that init begins in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Namespaces {
    pub(crate) user: bool,
    pub(crate) mount: bool,
    pub(crate) pid: bool,
    /// Network, IPC and host name.
    pub(crate) rest: bool,
}

/// What is done to the mounts before the command runs. Paths are relative to the new root once there is one.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing that is mounted from here on is seen outside.
    Private,
    /// Opens a path, whatever is mounted over it later.
    Open {
        path: CString,
        slot: u8,
    },
    /// An empty directory that will be the root; from here on paths are relative to it.
    Root {
        at: CString,
    },
    Directory {
        at: CString,
        mode: u32,
    },
    File {
        at: CString,
    },
    Link {
        target: CString,
        at: CString,
    },
    /// What was opened, with everything mounted below it.
    Bind {
        slot: u8,
        at: CString,
        read_only: bool,
        devices: bool,
    },
    Mount {
        kind: CString,
        at: CString,
        flags: MountFlags,
        data: CString,
    },
    /// As [`Step::Mount`], if there is a directory.
    Mask {
        at: CString,
        data: CString,
    },
    /// The same file or directory once more, read-only; left out where there is none.
    Freeze {
        at: CString,
    },
    /// A file or directory that cannot be read; left out where there is none.
    Hide {
        at: CString,
    },
    /// The new root becomes the root, and what was there is out of reach.
    Pivot,
}

/// What the command is given of the machine.
#[derive(Debug)]
pub(crate) struct Landlock {
    pub(crate) handled: u64,
    pub(crate) scoped: u64,
    /// Paths and what may be done below them; those that are not there are left out.
    pub(crate) rules: Vec<(CString, u64)>,
}

impl Landlock {
    /// All that this version can refuse, and nothing allowed yet.
    pub(crate) fn nothing(version: u32) -> Self {
        /// Up to and with the making of links; then to link and move between directories; then to cut files off; then
        /// ioctls of devices.
        const RIGHTS: [u64; 4] = [(1 << 13) - 1, (1 << 14) - 1, (1 << 15) - 1, (1 << 16) - 1];
        /// Signals and abstract sockets of nobody outside.
        const SCOPES: u64 = 3;
        let (handled, scoped) = match version {
            ..=1 => (RIGHTS[0], 0),
            2 => (RIGHTS[1], 0),
            3 | 4 => (RIGHTS[2], 0),
            5 => (RIGHTS[3], 0),
            6.. => (RIGHTS[3], SCOPES),
        };
        Self { handled, scoped, rules: Vec::new() }
    }
}

/// What the command may do.
#[derive(Debug)]
pub(crate) enum Rights {
    /// What the program may.
    All,
    /// The same, but for changing what is mounted: it cannot take away what hides something from it.
    FixedMounts,
    Confined(Confine),
}

/// Rights are given up before the command runs.
#[derive(Debug)]
pub(crate) struct Confine {
    /// User and group to become.
    pub(crate) become_user: Option<(u32, u32)>,
    pub(crate) landlock: Option<Landlock>,
    pub(crate) seccomp: Vec<BpfProgram>,
    pub(crate) rlimits: Vec<(Resource, Rlimit)>,
}

/// The identities inside a user namespace, as the kernel wants them written.
#[derive(Debug)]
pub(crate) struct IdMaps {
    pub(crate) uid: CString,
    pub(crate) gid: CString,
}

/// Everything that the new process needs.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) namespaces: Namespaces,
    pub(crate) ids: Option<IdMaps>,
    pub(crate) steps: Vec<Step>,
    pub(crate) cgroups: Vec<OwnedFd>,
    /// The workspace as the command sees it, and the directory below it to begin in.
    pub(crate) workspace: CString,
    pub(crate) cwd: CString,
    /// Where the program may be, in the order of trying.
    pub(crate) programs: Vec<CString>,
    pub(crate) arguments: Vec<CString>,
    pub(crate) environment: Vec<CString>,
    pub(crate) rights: Rights,
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) report: OwnedFd,
    pub(crate) gate: OwnedFd,
}

/// What could not be done in the new process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Stage {
    Prepare = 1,
    Identities,
    Private,
    Open,
    Root,
    Entry,
    Bind,
    Mount,
    Mask,
    Freeze,
    Pivot,
    Command,
    Cgroup,
    Workspace,
    Limits,
    User,
    Capabilities,
    Landlock,
    Seccomp,
    Execute,
}

impl Stage {
    const ALL: [Self; 20] = [
        Self::Prepare,
        Self::Identities,
        Self::Private,
        Self::Open,
        Self::Root,
        Self::Entry,
        Self::Bind,
        Self::Mount,
        Self::Mask,
        Self::Freeze,
        Self::Pivot,
        Self::Command,
        Self::Cgroup,
        Self::Workspace,
        Self::Limits,
        Self::User,
        Self::Capabilities,
        Self::Landlock,
        Self::Seccomp,
        Self::Execute,
    ];

    pub(crate) fn what(self) -> &'static str {
        match self {
            Self::Prepare => "handing over its descriptors",
            Self::Identities => "mapping its user and group",
            Self::Private => "making its mounts its own",
            Self::Open => "opening what it is to be given",
            Self::Root => "making its root",
            Self::Entry => "filling its root",
            Self::Bind => "giving it a part of the machine",
            Self::Mount => "mounting its overlay or its /proc, /dev or /tmp",
            Self::Mask => "hiding the state directory of the workspace",
            Self::Freeze => "making a part of it read-only",
            Self::Pivot => "changing its root",
            Self::Command => "starting it",
            Self::Cgroup => "putting it into its cgroup",
            Self::Workspace => "going to its working directory",
            Self::Limits => "setting its resource limits",
            Self::User => "changing its user",
            Self::Capabilities => "taking its capabilities",
            Self::Landlock => "confining it with Landlock",
            Self::Seccomp => "filtering its system calls",
            Self::Execute => "executing the program",
        }
    }
}

/// What the new processes tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// Init is there.
    Alive,
    /// The command could not be started.
    Failed { stage: Stage, errno: i32 },
    /// The command is over, with this status of `wait`.
    Over { status: i32 },
}

impl Message {
    pub(crate) const LENGTH: usize = 12;

    pub(super) fn encode(self) -> [u8; Self::LENGTH] {
        let (tag, one, two) = match self {
            Self::Alive => (0_i32, 0, 0),
            Self::Failed { stage, errno } => (1, stage as i32, errno),
            Self::Over { status } => (2, status, 0),
        };
        let [a, b, c, d] = tag.to_ne_bytes();
        let [e, f, g, h] = one.to_ne_bytes();
        let [i, j, k, l] = two.to_ne_bytes();
        [a, b, c, d, e, f, g, h, i, j, k, l]
    }

    pub(crate) fn decode(bytes: [u8; Self::LENGTH]) -> Option<Self> {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
        let one = i32::from_ne_bytes([e, f, g, h]);
        match i32::from_ne_bytes([a, b, c, d]) {
            0 => Some(Self::Alive),
            1 => {
                let stage = Stage::ALL.into_iter().find(|stage| *stage as i32 == one)?;
                Some(Self::Failed { stage, errno: i32::from_ne_bytes([i, j, k, l]) })
            }
            2 => Some(Self::Over { status: one }),
            _ => None,
        }
    }
}
