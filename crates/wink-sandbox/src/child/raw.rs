//! The system calls for which there is no safe function, and the one place where a process is cloned.
//!
//! Proof for `start`, beyond the notes at each call: `clone` without `CLONE_VM` gives the child its own copy of all
//! memory, and it goes on on its own copy of this thread's stack. Other threads do not exist there, so a lock that one
//! of them held stays locked for ever: the child must neither allocate nor take a lock, nor unwind. `enter::init`, all
//! that it runs, makes only raw system calls (rustix's linux_raw backend makes them without libc, and with C strings without
//! allocating) on data that the plan holds, and leaves by `exit` or `execve`; it never returns into the caller's frames.

#![expect(
    unsafe_code,
    reason = "clone, execve, Landlock and fixed descriptors have no safe form; see the proof above"
)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::process::Signal;

use super::{Namespaces, Plan, SLOTS, enter};

/// Init, seen from outside.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) pid: i32,
    pub(crate) pidfd: OwnedFd,
}

/// The arrays of pointers that `execve` wants. They are made before the clone and point into a plan that outlives them.
pub(super) struct Vectors {
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
}

impl Vectors {
    fn of(plan: &Plan) -> Self {
        Self { arguments: pointers(&plan.arguments), environment: pointers(&plan.environment) }
    }
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}

/// Makes a process that follows the plan. It dies with the calling thread.
pub(crate) fn start(plan: &Plan) -> io::Result<Child> {
    let vectors = Vectors::of(plan);
    let mut pidfd: RawFd = -1;
    let flags = flags(plan.namespaces) | libc::CLONE_PIDFD as u64;
    let pid = without_signals(|| {
        // SAFETY: see the proof above; `pidfd` is valid for the kernel's write.
        match unsafe { clone(flags, &raw mut pidfd) } {
            Ok(0) => enter::init(plan, &vectors),
            cloned => cloned,
        }
    })?;
    // SAFETY: with CLONE_PIDFD the kernel has put a fresh descriptor there that nobody else owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Child { pid, pidfd })
}

/// In init: makes the command's process.
pub(super) fn command(plan: &Plan, vectors: &Vectors) -> Result<i32, Errno> {
    // SAFETY: init has one thread and runs nothing but `enter`, and so does its child.
    match unsafe { clone(0, std::ptr::null_mut()) } {
        Ok(0) => enter::command(plan, vectors),
        Ok(pid) => Ok(pid),
        Err(error) => Err(error),
    }
}

fn flags(namespaces: Namespaces) -> u64 {
    let mut flags = 0;
    let mut add = |wanted: bool, flag: i32| {
        if wanted {
            flags |= flag as u64;
        }
    };
    add(namespaces.user, libc::CLONE_NEWUSER);
    add(namespaces.mount, libc::CLONE_NEWNS);
    add(namespaces.pid, libc::CLONE_NEWPID);
    add(namespaces.rest, libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS);
    flags
}

/// # Safety
/// The child may only do what the module's proof allows; `pidfd` is valid if `flags` has `CLONE_PIDFD`.
unsafe fn clone(flags: u64, pidfd: *mut RawFd) -> Result<i32, Errno> {
    let flags = flags | libc::SIGCHLD as u64;
    let none: u64 = 0;
    // Not clone3, which many containers refuse. Without CLONE_VM and a stack this is a fork; the third argument is where
    // the pidfd goes, and the order of the last two, which differs between machines, does not matter.
    // SAFETY: as promised by the caller.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, none, pidfd, none, none) };
    if pid < 0 { Err(last_error()) } else { Ok(pid as i32) }
}

/// Runs `during` without being interrupted by a signal: a handler of the program must not run in the child.
fn without_signals<T>(during: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are initialised before they are used; the mask is this thread's own.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
            (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let done = during();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        done
    }
}

/// In init: handlers of the program do not exist here. What it ignores stays ignored.
pub(super) fn forget_handlers() {
    for signal in 1..=64 {
        // SAFETY: all zero is a valid value of this plain structure, and means the default.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut action);
            if action.sa_sigaction != libc::SIG_IGN && action.sa_sigaction != libc::SIG_DFL {
                action = std::mem::zeroed();
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    }
}

fn last_error() -> Errno {
    // SAFETY: always valid; errno is this thread's own.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

/// Makes descriptor `to` be what `from` is, kept over an `execve` or not.
pub(super) fn place(from: &impl AsRawFd, to: RawFd, kept: bool) -> Result<(), Errno> {
    let flags = if kept { 0 } else { libc::O_CLOEXEC };
    // SAFETY: in the new process nothing owns the low descriptors that `to` names.
    if unsafe { libc::dup3(from.as_raw_fd(), to, flags) } < 0 { Err(last_error()) } else { Ok(()) }
}

/// Closes all descriptors from `first` to `last`.
pub(super) fn close(first: RawFd, last: u32) {
    // SAFETY: in the new process nobody uses them any more; there are no destructors to come, since it never returns.
    unsafe { libc::syscall(libc::SYS_close_range, first as u32, last, 0_u32) };
}

/// A descriptor at its fixed place.
pub(super) fn fixed(number: RawFd) -> BorrowedFd<'static> {
    // SAFETY: fixed places are filled once and stay open until the process is over. One that was not filled makes
    // system calls fail and nothing else.
    unsafe { BorrowedFd::borrow_raw(number) }
}

/// What [`super::Step::Open`] opened.
pub(super) fn slot(number: u8) -> BorrowedFd<'static> {
    fixed(SLOTS + i32::from(number))
}

pub(super) fn exit(status: i32) -> ! {
    // SAFETY: ends the process without running anything else of it.
    unsafe { libc::_exit(status) }
}

/// Waits for a signal. All are blocked in init, so that none is missed and none interrupts it.
pub(super) fn next_signal() -> Option<Signal> {
    // SAFETY: the set is initialised before it is used; nothing is written through the null pointer.
    let signal = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigwaitinfo(&raw const all, std::ptr::null_mut())
    };
    Signal::from_named_raw(signal)
}

/// Signals as a program expects them: none blocked, a broken pipe and a file that may not grow kill.
pub(super) fn usual_signals() {
    // SAFETY: these calls are async-signal-safe, and the set is initialised before it is used.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
    }
}

/// Executes the first program of the plan that is there. Returns only if none could be.
pub(super) fn execute(plan: &Plan, vectors: &Vectors) -> Errno {
    let mut told = Errno::NOENT;
    for program in &plan.programs {
        // SAFETY: the pointers end with null and point into the plan, which is alive.
        unsafe { libc::execve(program.as_ptr(), vectors.arguments.as_ptr(), vectors.environment.as_ptr()) };
        match last_error() {
            Errno::NOENT | Errno::NOTDIR => {}
            // As shells do: go on looking, but say so if nothing else is found.
            Errno::ACCESS => told = Errno::ACCESS,
            other => return other,
        }
    }
    told
}

/// Makes a tree of mounts, not attached yet, read-only or free of devices and setuid programs, all the way down.
pub(super) fn restrict_mount(tree: BorrowedFd<'_>, read_only: bool, devices: bool) -> Result<(), Errno> {
    let mut set = libc::MOUNT_ATTR_NOSUID;
    if read_only {
        set |= libc::MOUNT_ATTR_RDONLY;
    }
    if !devices {
        set |= libc::MOUNT_ATTR_NODEV;
    }
    let attributes = libc::mount_attr { attr_set: set, attr_clr: 0, propagation: 0, userns_fd: 0 };
    // SAFETY: the structure is valid for reads of its size, the path is an empty C string.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attributes,
            size_of_val(&attributes),
        )
    };
    if result < 0 { Err(last_error()) } else { Ok(()) }
}

/// Brings up the loopback device of a fresh network namespace. Programs expect it, and can do without.
pub(super) fn loopback() {
    // SAFETY: the request is a valid, zeroed structure whose name is filled within its bounds; the socket is closed here.
    unsafe {
        let socket = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if socket < 0 {
            return;
        }
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(c"lo".to_bytes()) {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        libc::ioctl(socket, libc::SIOCSIFFLAGS, &raw const request);
        libc::close(socket);
    }
}

#[repr(C)]
struct RulesetAttributes {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: i32,
}

/// The version of Landlock that the kernel has, if it has one that is switched on.
pub(crate) fn landlock_abi() -> Option<u32> {
    const VERSION: u32 = 1;
    // SAFETY: asks for a number; no memory is passed.
    let abi = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<RulesetAttributes>(),
            0_usize,
            VERSION,
        )
    };
    u32::try_from(abi).ok().filter(|abi| *abi > 0)
}

/// An empty set of rules.
pub(super) fn landlock_ruleset(handled: u64, scoped: u64) -> Result<OwnedFd, Errno> {
    let attributes = RulesetAttributes { handled_access_fs: handled, handled_access_net: 0, scoped };
    // An older kernel knows the first field only.
    let size = if scoped == 0 { size_of::<u64>() } else { size_of_val(&attributes) };
    // SAFETY: the structure is valid for reads of `size`.
    let fd = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attributes, size, 0_u32) };
    if fd < 0 {
        return Err(last_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Allows what is named below a path.
pub(super) fn landlock_allow(ruleset: &OwnedFd, below: BorrowedFd<'_>, access: u64) -> Result<(), Errno> {
    const PATH_BENEATH: u32 = 1;
    let rule = PathBeneath { allowed_access: access, parent_fd: below.as_raw_fd() };
    // SAFETY: the structure is valid for reads; the kernel knows its size by the type of rule.
    let result = unsafe {
        libc::syscall(libc::SYS_landlock_add_rule, ruleset.as_raw_fd(), PATH_BENEATH, &raw const rule, 0_u32)
    };
    if result < 0 { Err(last_error()) } else { Ok(()) }
}

/// From here on this process and its descendants are held to the rules.
pub(super) fn landlock_restrict(ruleset: &OwnedFd) -> Result<(), Errno> {
    // SAFETY: no memory is passed.
    let result = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0_u32) };
    if result < 0 { Err(last_error()) } else { Ok(()) }
}
