//! Which system calls a command in a sandbox is refused.
//!
//! Everything that changes namespaces, mounts, modules, keys or the clock, that looks into other processes, or that is known
//! best for what went wrong with it. Most of it needs capabilities that the command does not have anyway: two locks.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Is, SeccompCondition as Condition,
    SeccompFilter, SeccompRule as Rule, TargetArch, sock_filter,
};

use wink::serde_json::{Value, json};

use crate::error::SandboxError;

type Rules = BTreeMap<i64, Vec<Rule>>;

/// The filters, in the order of being applied.
pub(crate) fn filters() -> Result<Vec<BpfProgram>, SandboxError> {
    compiled(refused())
}

/// Filters for a process that only computes: it opens, starts and reaches nothing, and signals nobody but itself.
pub(crate) fn sealing() -> Result<Vec<BpfProgram>, SandboxError> {
    compiled(refused().and_then(|mut rules| {
        rules.extend(SEALED.iter().map(|(_, number)| (*number, Vec::new())));
        #[cfg(target_arch = "x86_64")]
        rules.extend(SEALED_ON_X86.iter().map(|(_, number)| (*number, Vec::new())));
        // Threads are its own.
        let not_a_thread = Condition::new(0, Length::Dword, Is::MaskedEq(libc::CLONE_THREAD as u64), 0)?;
        rules.insert(libc::SYS_clone, vec![Rule::new(vec![not_a_thread])?]);
        let other = Condition::new(0, Length::Dword, Is::Ne, u64::from(std::process::id()))?;
        rules.insert(libc::SYS_tgkill, vec![Rule::new(vec![other])?]);
        Ok(rules)
    }))
}

fn compiled(rules: Result<Rules, seccompiler::BackendError>) -> Result<Vec<BpfProgram>, SandboxError> {
    let failed =
        |error: seccompiler::BackendError| SandboxError::Failed(format!("no seccomp filter: {error}"));
    let compile = |rules: Rules, errno: i32| -> Result<BpfProgram, seccompiler::BackendError> {
        let arch = TargetArch::try_from(std::env::consts::ARCH)?;
        SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno as u32), arch)?.try_into()
    };
    Ok(vec![
        compile(rules.map_err(failed)?, libc::EPERM).map_err(failed)?,
        compile(unknown(), libc::ENOSYS).map_err(failed)?,
        other_numbers(),
    ])
}

/// A profile of podman's, which lists what is allowed, without what is refused here.
pub(crate) fn stricter(mut profile: Value) -> Option<Value> {
    let names: Vec<&str> = REFUSED.iter().filter_map(|(name, _)| name.strip_prefix("SYS_")).collect();
    let replaced = ["clone", "clone3", "openat2", "socket", "creat", "open", "openat"];
    let modes = MODES.iter().map(|(name, _)| *name);
    let replaced: Vec<&str> = replaced.into_iter().chain(modes).collect();
    let rules = profile.get_mut("syscalls")?.as_array_mut()?;
    for rule in rules.iter_mut() {
        let listed = rule.get_mut("names")?.as_array_mut()?;
        listed.retain(|name| {
            !name.as_str().is_some_and(|name| names.contains(&name) || replaced.contains(&name))
        });
    }
    rules.retain(|rule| rule.get("names").and_then(Value::as_array).is_some_and(|names| !names.is_empty()));
    let namespaces = NAMESPACES.iter().fold(0, |all, flag| all | flag);
    rules.push(json!({ "names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": libc::EPERM }));
    rules.push(
        json!({ "names": ["clone3", "openat2"], "action": "SCMP_ACT_ERRNO", "errnoRet": libc::ENOSYS }),
    );
    rules.push(json!({ "names": ["clone"], "action": "SCMP_ACT_ALLOW", "args": [
        { "index": 0, "value": namespaces, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ" }
    ] }));
    rules.extend(FAMILIES.iter().map(|family| {
        let is = json!([{ "index": 0, "value": family, "valueTwo": 0, "op": "SCMP_CMP_EQ" }]);
        json!({ "names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": is })
    }));
    let none_of = |index: u32, bits: u32| json!({ "index": index, "value": bits, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ" });
    let allow = |name: &str, is: Value| json!({ "names": [name], "action": "SCMP_ACT_ALLOW", "args": [is] });
    rules.extend(MODES.iter().map(|(name, mode)| {
        let devices = if name.starts_with("mknod") { DEVICE } else { 0 };
        allow(name, none_of(*mode, RUN_AS | devices))
    }));
    for (name, flags) in [("open", 1), ("openat", 2)] {
        rules.push(allow(name, none_of(flags, MAKES as u32)));
        rules.push(allow(name, none_of(flags + 1, RUN_AS)));
    }
    Some(profile)
}

/// Calls that set a mode, and which argument it is.
const MODES: [(&str, u32); 7] = [
    ("chmod", 1),
    ("creat", 1),
    ("fchmod", 1),
    ("fchmodat", 2),
    ("fchmodat2", 2),
    ("mknod", 1),
    ("mknodat", 2),
];

/// A program with these runs with the rights of its owner or group, whoever runs it.
const RUN_AS: u32 = libc::S_ISUID | libc::S_ISGID;

/// The bit of a mode that devices of both kinds have, and nothing else has.
const DEVICE: u32 = libc::S_IFCHR & libc::S_IFBLK;

/// With these an open makes a file.
const MAKES: i32 = libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY);

/// The kinds of sockets that a network namespace keeps to itself.
const FAMILIES: [i32; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

fn refused() -> Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = REFUSED.iter().map(|(_, number)| (*number, Vec::new())).collect();
    #[cfg(target_arch = "x86_64")]
    rules.extend(REFUSED_ON_X86.iter().map(|(_, number)| (*number, Vec::new())));

    // New namespaces, one by one: any of them is too many.
    for flag in NAMESPACES {
        let flag = *flag as u64;
        rules.entry(libc::SYS_clone).or_default().push(Rule::new(vec![has(0, flag)?])?);
    }
    let none_of: Result<Vec<Condition>, _> =
        FAMILIES.iter().map(|family| Condition::new(0, Length::Dword, Is::Ne, *family as u64)).collect();
    let none_of = Rule::new(none_of?)?;
    rules.insert(libc::SYS_socket, vec![none_of.clone()]);
    rules.insert(libc::SYS_socketpair, vec![none_of]);
    // Typing for a terminal.
    for request in [libc::TIOCSTI, libc::TIOCLINUX] {
        let rule = Rule::new(vec![Condition::new(1, Length::Dword, Is::Eq, request)?])?;
        rules.entry(libc::SYS_ioctl).or_default().push(rule);
    }
    // Devices; and programs that would run with their owner's rights when somebody else runs them.
    set_mode(&mut rules, libc::SYS_fchmod, 1)?;
    set_mode(&mut rules, libc::SYS_fchmodat, 2)?;
    set_mode(&mut rules, SYS_FCHMODAT2, 2)?;
    make_file(&mut rules, libc::SYS_openat, 2, 3)?;
    devices(&mut rules, libc::SYS_mknodat, 2)?;
    set_mode(&mut rules, libc::SYS_mknodat, 2)?;
    #[cfg(target_arch = "x86_64")]
    {
        set_mode(&mut rules, libc::SYS_chmod, 1)?;
        set_mode(&mut rules, libc::SYS_creat, 1)?;
        make_file(&mut rules, libc::SYS_open, 1, 2)?;
        devices(&mut rules, libc::SYS_mknod, 1)?;
        set_mode(&mut rules, libc::SYS_mknod, 1)?;
    }
    Ok(rules)
}

/// What cannot be looked into: programs then use the older call, which can.
fn unknown() -> Rules {
    [libc::SYS_clone3, libc::SYS_openat2].into_iter().map(|number| (number, Vec::new())).collect()
}

fn has(argument: u8, bits: u64) -> Result<Condition, seccompiler::BackendError> {
    Condition::new(argument, Length::Dword, Is::MaskedEq(bits), bits)
}

fn set_mode(rules: &mut Rules, call: i64, mode: u8) -> Result<(), seccompiler::BackendError> {
    for bit in [libc::S_ISUID, libc::S_ISGID] {
        rules.entry(call).or_default().push(Rule::new(vec![has(mode, u64::from(bit))?])?);
    }
    Ok(())
}

/// The mode counts only where a file is made.
fn make_file(rules: &mut Rules, call: i64, flags: u8, mode: u8) -> Result<(), seccompiler::BackendError> {
    for bit in [libc::S_ISUID, libc::S_ISGID] {
        for made in [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY] {
            let rule = Rule::new(vec![has(flags, made as u64)?, has(mode, u64::from(bit))?])?;
            rules.entry(call).or_default().push(rule);
        }
    }
    Ok(())
}

fn devices(rules: &mut Rules, call: i64, mode: u8) -> Result<(), seccompiler::BackendError> {
    for kind in [libc::S_IFCHR, libc::S_IFBLK] {
        let is = Condition::new(mode, Length::Dword, Is::MaskedEq(u64::from(libc::S_IFMT)), u64::from(kind))?;
        rules.entry(call).or_default().push(Rule::new(vec![is])?);
    }
    Ok(())
}

/// On x86_64 there is a second set of numbers for the same calls, which the filters above do not know.
fn other_numbers() -> BpfProgram {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const ALLOW: u32 = 0x7fff_0000;
    let refuse = 0x0005_0000 | libc::ENOSYS as u32;
    vec![
        sock_filter { code: LOAD_NUMBER, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: 0x4000_0000 },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: refuse },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: ALLOW },
    ]
}

const SYS_FCHMODAT2: i64 = 452;

const NAMESPACES: &[i32] = &[
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// Names and numbers of system calls.
macro_rules! calls {
    ($($call:ident,)*) => { &[$((stringify!($call), libc::$call),)*] };
}

const REFUSED: &[(&str, i64)] = calls![
    SYS_acct,
    SYS_add_key,
    SYS_adjtimex,
    SYS_bpf,
    SYS_chroot,
    SYS_clock_adjtime,
    SYS_clock_settime,
    SYS_delete_module,
    SYS_fanotify_init,
    SYS_finit_module,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fsopen,
    SYS_fspick,
    SYS_init_module,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_io_uring_setup,
    SYS_kcmp,
    SYS_kexec_file_load,
    SYS_kexec_load,
    SYS_keyctl,
    SYS_mount,
    SYS_mount_setattr,
    SYS_move_mount,
    SYS_name_to_handle_at,
    SYS_open_by_handle_at,
    SYS_open_tree,
    SYS_perf_event_open,
    SYS_pidfd_getfd,
    SYS_pivot_root,
    SYS_process_madvise,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_ptrace,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_reboot,
    SYS_request_key,
    SYS_setdomainname,
    SYS_sethostname,
    SYS_setns,
    SYS_settimeofday,
    SYS_swapoff,
    SYS_swapon,
    SYS_syslog,
    SYS_umount2,
    SYS_unshare,
    SYS_userfaultfd,
    SYS_vhangup,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_ON_X86: &[(&str, i64)] =
    calls![SYS_ioperm, SYS_iopl, SYS_modify_ldt, SYS_uselib, SYS_ustat, SYS__sysctl,];

/// What a process that only computes has no use for.
const SEALED: &[(&str, i64)] = calls![
    SYS_accept,
    SYS_accept4,
    SYS_bind,
    SYS_chdir,
    SYS_connect,
    SYS_execve,
    SYS_execveat,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_fchown,
    SYS_fchownat,
    SYS_inotify_add_watch,
    SYS_kill,
    SYS_linkat,
    SYS_listen,
    SYS_memfd_create,
    SYS_mkdirat,
    SYS_mknodat,
    SYS_mq_open,
    SYS_msgget,
    SYS_openat,
    SYS_pidfd_open,
    SYS_pidfd_send_signal,
    SYS_prlimit64,
    SYS_renameat,
    SYS_renameat2,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_semget,
    SYS_shmget,
    SYS_socket,
    SYS_socketpair,
    SYS_symlinkat,
    SYS_tkill,
    SYS_truncate,
    SYS_unlinkat,
    SYS_utimensat,
];

#[cfg(target_arch = "x86_64")]
const SEALED_ON_X86: &[(&str, i64)] = calls![
    SYS_chmod,
    SYS_chown,
    SYS_creat,
    SYS_fork,
    SYS_lchown,
    SYS_link,
    SYS_mkdir,
    SYS_mknod,
    SYS_open,
    SYS_rename,
    SYS_rmdir,
    SYS_symlink,
    SYS_unlink,
    SYS_utime,
    SYS_utimes,
    SYS_vfork,
];

#[cfg(test)]
mod tests;
