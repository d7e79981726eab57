//! The order of things in the new processes. No allocation, no lock, no panic: see `raw`.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_bind,
    mount_change, mount_remount, move_mount, open_tree, unmount,
};
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::raw::{self, Vectors};
use super::{CGROUPS, Confine, GATE, IdMaps, Landlock, Message, Plan, REPORT, Rights, SLOTS, Stage, Step};

/// A stage that failed, and why.
type Done = Result<(), (Stage, Errno)>;

fn at(stage: Stage) -> impl FnOnce(Errno) -> (Stage, Errno) {
    move |errno| (stage, errno)
}

fn tell(message: Message) -> bool {
    rustix::io::write(raw::fixed(REPORT), &message.encode()).is_ok()
}

fn give_up((stage, errno): (Stage, Errno)) -> ! {
    tell(Message::Failed { stage, errno: errno.raw_os_error() });
    raw::exit(127)
}

/// The first process: makes the command's surroundings, starts it, and takes in what it leaves behind.
pub(super) fn init(plan: &Plan, vectors: &Vectors) -> ! {
    if let Err(failure) = prepare(plan) {
        give_up(failure);
    }
    if !may_begin() {
        raw::exit(127);
    }
    let command = match raw::command(plan, vectors) {
        Ok(pid) => pid,
        Err(errno) => give_up((Stage::Command, errno)),
    };
    // All but the report: nobody waits for the end of a stream on account of this process.
    raw::close(0, 2);
    raw::close(GATE, u32::MAX);
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() == command => {
                tell(Message::Over { status: status.as_raw() });
                // In a process namespace of its own, everything else ends with this process.
                if plan.namespaces.pid {
                    raw::exit(0);
                }
            }
            Ok(Some(_)) | Err(Errno::INTR) => {}
            // Whoever started this died: nobody else will end what is below.
            Ok(None) if raw::next_signal() == Some(ORPHANED) => end_children(),
            Ok(None) => {}
            // Nobody is left; whoever started this has the report.
            Err(_) => raw::exit(0),
        }
    }
}

/// Waits until the gate is opened. Whoever was to open it may have died instead.
fn may_begin() -> bool {
    let mut byte = [0; 1];
    loop {
        match rustix::io::read(raw::fixed(GATE), &mut byte) {
            Err(Errno::INTR) => {}
            read => return read == Ok(1),
        }
    }
}

/// Kills all children, again and again: what they leave behind becomes a child of this process.
fn end_children() -> ! {
    let mut text = [0; 4096];
    loop {
        // What does not fit into the text is there the next time.
        let children =
            rustix::fs::open(c"/proc/thread-self/children", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let length = children.and_then(|children| rustix::io::read(&children, &mut text)).unwrap_or(0);
        let mut number = 0_i32;
        for byte in text.iter().take(length) {
            match byte {
                b'0'..=b'9' => number = number.wrapping_mul(10).wrapping_add(i32::from(byte - b'0')),
                _ => {
                    if let Some(pid) = Pid::from_raw(number) {
                        let _ = rustix::process::kill_process(pid, Signal::KILL);
                    }
                    number = 0;
                }
            }
        }
        // One at least is dead now; then there may be others.
        if rustix::process::wait(WaitOptions::empty()).is_err() {
            raw::exit(0);
        }
    }
}

/// How init is told of the death of the program, where that does not kill it: it has others to end first.
const ORPHANED: Signal = Signal::TERM;

fn prepare(plan: &Plan) -> Done {
    raw::forget_handlers();
    raw::place(&plan.report, REPORT, false).map_err(at(Stage::Prepare))?;
    raw::place(&plan.gate, GATE, false).map_err(at(Stage::Prepare))?;
    for (number, cgroup) in (CGROUPS..SLOTS).zip(&plan.cgroups) {
        raw::place(cgroup, number, false).map_err(at(Stage::Prepare))?;
    }
    for (number, stream) in [&plan.stdin, &plan.stdout, &plan.stderr].into_iter().enumerate() {
        raw::place(stream, number as i32, true).map_err(at(Stage::Prepare))?;
    }
    // Locks of the program live as long as any copy of their descriptors: keep none.
    raw::close(CGROUPS + plan.cgroups.len() as i32, u32::MAX);
    // Whoever started this is a thread that waits for it, so that this is the death of the program.
    let orphaned = if plan.namespaces.pid { Signal::KILL } else { ORPHANED };
    rustix::process::set_parent_process_death_signal(Some(orphaned)).map_err(at(Stage::Prepare))?;
    if !tell(Message::Alive) {
        // It died before it could be told of.
        raw::exit(127);
    }
    if let Some(ids) = &plan.ids {
        map_ids(ids).map_err(at(Stage::Identities))?;
    }
    // The memory of this process is a copy of the program's: nobody below may look at it through /proc.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(at(Stage::Prepare))?;
    if !plan.namespaces.pid {
        // Any number but none says yes.
        let this = rustix::process::getpid();
        rustix::process::set_child_subreaper(Some(this)).map_err(at(Stage::Prepare))?;
        // If it is killed, those that it kept are still known by its session.
        rustix::process::setsid().map_err(at(Stage::Prepare))?;
    }
    if plan.namespaces.rest {
        raw::loopback();
        let _ = rustix::system::sethostname(b"sandbox");
    }
    for step in &plan.steps {
        take(step)?;
    }
    Ok(())
}

fn map_ids(ids: &IdMaps) -> Result<(), Errno> {
    let write = |path: &CStr, text: &CStr| {
        let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::write(&file, text.to_bytes()).map(drop)
    };
    write(c"/proc/self/uid_map", &ids.uid)?;
    write(c"/proc/self/setgroups", c"deny")?;
    write(c"/proc/self/gid_map", &ids.gid)
}

/// Opens a path to speak of, not to read.
fn point_at(path: &CStr) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

/// Leaves out what is not there.
fn if_there(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

fn take(step: &Step) -> Done {
    match step {
        Step::Private => {
            let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            mount_change(c"/", private).map_err(at(Stage::Private))
        }
        Step::Open { path, slot } => {
            let opened = point_at(path).map_err(at(Stage::Open))?;
            raw::place(&opened, SLOTS + i32::from(*slot), false).map_err(at(Stage::Open))
        }
        Step::Root { at: path } => {
            let flags = MountFlags::NOSUID | MountFlags::NODEV;
            mount(c"tmpfs", path.as_c_str(), c"tmpfs", flags, c"mode=755,size=1m")
                .map_err(at(Stage::Root))?;
            rustix::process::chdir(path.as_c_str()).map_err(at(Stage::Root))
        }
        Step::Directory { at: path, mode } => {
            rustix::fs::mkdir(path.as_c_str(), Mode::from_raw_mode(*mode)).map_err(at(Stage::Entry))?;
            // Whatever the program's mask is.
            rustix::fs::chmod(path.as_c_str(), Mode::from_raw_mode(*mode)).map_err(at(Stage::Entry))
        }
        Step::File { at: path } => {
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::open(path.as_c_str(), flags, Mode::from_raw_mode(0o644))
                .map(drop)
                .map_err(at(Stage::Entry))
        }
        Step::Link { target, at: path } => {
            rustix::fs::symlink(target.as_c_str(), path.as_c_str()).map_err(at(Stage::Entry))
        }
        Step::Bind { slot, at: path, read_only, devices } => {
            bind(*slot, path, *read_only, *devices).map_err(at(Stage::Bind))
        }
        Step::Mount { kind, at: path, flags, data } => {
            mount(kind.as_c_str(), path.as_c_str(), kind.as_c_str(), *flags, data.as_c_str())
                .map_err(at(Stage::Mount))
        }
        Step::Mask { at: path, data } => mask(path, data).map_err(at(Stage::Mask)),
        Step::Freeze { at: path } => if_there(freeze(path)).map_err(at(Stage::Freeze)),
        Step::Hide { at: path } => if_there(hide(path)).map_err(at(Stage::Freeze)),
        Step::Pivot => pivot().map_err(at(Stage::Pivot)),
    }
}

fn bind(slot: u8, path: &CStr, read_only: bool, devices: bool) -> Result<(), Errno> {
    // What was opened as the end of a link is the link's target: the flags say nothing of following.
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(raw::slot(slot), c"", flags)?;
    raw::restrict_mount(tree.as_fd(), read_only, devices)?;
    move_mount(&tree, c"", CWD, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// An empty directory that nobody can write, over one that nobody may see.
fn mask(path: &CStr, data: &CStr) -> Result<(), Errno> {
    match rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {}
        Ok(_) | Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error),
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
    mount(c"tmpfs", path, c"tmpfs", flags, data)
}

fn freeze(path: &CStr) -> Result<(), Errno> {
    mount_bind(path, path)?;
    let flags =
        MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount_remount(path, flags, c"")
}

fn hide(path: &CStr) -> Result<(), Errno> {
    let stat = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        mount(c"tmpfs", path, c"tmpfs", MountFlags::RDONLY, c"mode=000,size=4k")
    } else {
        mount_bind(c"dev/null", path)
    }
}

/// The new root is the working directory. What was the root is stacked below it and let go.
fn pivot() -> Result<(), Errno> {
    rustix::process::pivot_root(c".", c".")?;
    unmount(c".", UnmountFlags::DETACH)?;
    rustix::process::chdir(c"/")?;
    // Entries of the root itself are ours alone.
    mount_remount(c"/", MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV, c"")
}

/// The second process, which becomes the command.
pub(super) fn command(plan: &Plan, vectors: &Vectors) -> ! {
    if let Err(failure) = confine(plan) {
        give_up(failure);
    }
    raw::usual_signals();
    give_up((Stage::Execute, raw::execute(plan, vectors)))
}

fn confine(plan: &Plan) -> Done {
    if plan.namespaces.pid {
        let _ = rustix::process::setsid();
    } else {
        // It stays in the session of init, but what it sends to its group does not reach that.
        rustix::process::setpgid(None, None).map_err(at(Stage::Prepare))?;
    }
    for number in (CGROUPS..SLOTS).take(plan.cgroups.len()) {
        rustix::io::write(raw::fixed(number), b"0").map_err(at(Stage::Cgroup))?;
    }
    begin_in(plan).map_err(at(Stage::Workspace))?;
    match &plan.rights {
        Rights::All => Ok(()),
        Rights::FixedMounts => fix_mounts().map_err(at(Stage::Capabilities)),
        Rights::Confined(confine) => give_up_rights(confine),
    }
}

/// Goes to the working directory, which is below the workspace whatever links there are on the way.
fn begin_in(plan: &Plan) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let workspace = rustix::fs::open(plan.workspace.as_c_str(), flags, Mode::empty())?;
    if plan.cwd.is_empty() {
        return rustix::process::fchdir(&workspace);
    }
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let cwd = rustix::fs::openat2(&workspace, plan.cwd.as_c_str(), flags, Mode::empty(), inside)?;
    rustix::process::fchdir(&cwd)
}

/// Gives up the right to mount and unmount. In a user namespace of its own a command gets it back for what it mounts there; what
/// is mounted already is locked in such a place.
fn fix_mounts() -> Result<(), Errno> {
    let mount = CapabilitySet::SYS_ADMIN;
    let mut sets = rustix::thread::capabilities(None)?;
    if !sets.permitted.contains(mount) {
        return Ok(());
    }
    // Otherwise it would come back with the program that is executed.
    rustix::thread::remove_capability_from_bounding_set(mount)?;
    sets.effective.remove(mount);
    sets.permitted.remove(mount);
    sets.inheritable.remove(mount);
    rustix::thread::set_capabilities(None, sets)
}

fn give_up_rights(confine: &Confine) -> Done {
    for (resource, limit) in &confine.rlimits {
        rustix::process::setrlimit(*resource, *limit).map_err(at(Stage::Limits))?;
    }
    // Before the user is changed: it needs a capability.
    drop_bounding_set();
    if let Some((user, group)) = confine.become_user {
        let (user, group) = (rustix::fs::Uid::from_raw(user), rustix::fs::Gid::from_raw(group));
        rustix::thread::set_thread_groups(&[]).map_err(at(Stage::User))?;
        rustix::thread::set_thread_res_gid(group, group, group).map_err(at(Stage::User))?;
        rustix::thread::set_thread_res_uid(user, user, user).map_err(at(Stage::User))?;
    }
    let _ = rustix::thread::clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )
    .map_err(at(Stage::Capabilities))?;
    rustix::thread::set_no_new_privs(true).map_err(at(Stage::Capabilities))?;
    if let Some(landlock) = &confine.landlock {
        restrict(landlock).map_err(at(Stage::Landlock))?;
    }
    for filter in &confine.seccomp {
        seccompiler::apply_filter(filter).map_err(|_| (Stage::Seccomp, Errno::INVAL))?;
    }
    Ok(())
}

/// Those that the kernel does not know are not there to be dropped.
fn drop_bounding_set() {
    for capability in CapabilitySet::all().iter() {
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
}

/// Holds this thread, and what it starts, to the rules.
pub(crate) fn restrict(landlock: &Landlock) -> Result<(), Errno> {
    let ruleset = raw::landlock_ruleset(landlock.handled, landlock.scoped)?;
    for (path, access) in &landlock.rules {
        match point_at(path) {
            Ok(below) => raw::landlock_allow(&ruleset, below.as_fd(), *access)?,
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    raw::landlock_restrict(&ruleset)
}
