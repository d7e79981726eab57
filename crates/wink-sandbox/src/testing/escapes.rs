//! Attempts to get out, or to take more than was allowed.

use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::time::Duration;

use super::calls::{Call, write_program};
use super::{Bench, SECRET, complained, exists, is_running, mark, said, timed_out};
use crate::launch::Ended;
use crate::sandbox::Job;

pub(super) async fn check(bench: &Bench<'_>) {
    network(bench).await;
    writing_outside(bench).await;
    fork_bomb(bench).await;
    memory_bomb(bench).await;
    large_files(bench).await;
    floods(bench).await;
    secrets(bench).await;
    rights(bench).await;
    mounts_and_devices(bench).await;
    system_calls(bench).await;
    state_directory(bench).await;
    other_processes(bench).await;
    links(bench).await;
}

async fn network(bench: &Bench<'_>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let world = bench.world();
    // Whatever there is to connect with.
    let text = format!(
        "exec 2>/dev/null </dev/null; for to in 127.0.0.1 8.8.8.8; do \
         nc -w 1 $to {port} && echo connected; busybox nc -w 1 $to {port} && echo connected; \
         perl -MIO::Socket::INET -e 'exit !IO::Socket::INET->new(PeerAddr => $ARGV[0], Timeout => 1)' $to:{port} && echo connected; \
         bash -c \"exec 3<>/dev/tcp/$to/{port}\" && echo connected; done; \
         nslookup example.com 8.8.8.8 >/dev/null && echo resolved; getent hosts example.com && echo resolved; \
         sed 1,2d /proc/net/dev | cut -d: -f1; sed 1d /proc/net/route"
    );
    let job = Job { time: Some(Duration::from_secs(20)), ..world.shell(text) };
    let finished = bench.run(job).await;
    assert_eq!(said(&finished).trim(), "lo", "only its own loopback");
    assert!(listener.accept().is_err(), "something connected");
}

async fn writing_outside(bench: &Bench<'_>) {
    let world = bench.world();
    let elsewhere = world.elsewhere();
    let text = format!(
        "for path in / /usr /usr/bin /bin /etc /lib /root /home /var /proc/sys/kernel /sys {} /workspace/..; do \
         (echo > $path/wink-escape) 2>/dev/null && echo wrote $path; mkdir $path/wink-escape-d 2>/dev/null && echo made in $path; done; \
         for path in /proc/sys/kernel/core_pattern /proc/sys/vm/drop_caches /proc/sysrq-trigger /sys/kernel/uevent_helper \
         /etc/passwd /bin/sh; do (echo >> $path) 2>/dev/null && echo wrote $path; done; \
         chmod 777 /usr 2>/dev/null && echo changed; rm /bin/sh 2>/dev/null && echo removed; \
         echo fine > /tmp/x && echo fine > /workspace/x",
        elsewhere.display()
    );
    let finished = bench.run(world.shell(text)).await;
    assert_eq!(
        (said(&finished).as_str(), finished.ended),
        ("", Ended::Exited(0)),
        "{}",
        complained(&finished)
    );
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 1);
    for place in ["/", "/usr", "/usr/bin", "/etc", "/tmp", "/workspace"] {
        assert!(!exists(&std::path::Path::new(place).join("wink-escape")), "{place}");
    }
}

async fn fork_bomb(bench: &Bench<'_>) {
    let Some(most) = bench.sandbox.limits().processes else { return };
    let world = bench.world();
    let text = "(i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); done) 2>/dev/null; set -- /proc/[0-9]*; echo $#";
    let finished = bench.run(Job { time: Some(Duration::from_secs(20)), ..world.shell(text) }).await;
    let count: u32 = said(&finished).trim().parse().unwrap();
    assert!((most / 2..=most + 3).contains(&count), "{count} processes at once, {most} are allowed");
    let mark = mark("bomb", bench.sandbox);
    let bomb = format!(": {mark}; bomb() {{ bomb | bomb & }}; bomb; sleep 1000");
    let finished = bench.run(Job { time: Some(Duration::from_secs(2)), ..world.shell(bomb) }).await;
    assert!(timed_out(&finished) || finished.ended.code() != 0, "{finished:?}");
    assert!(!is_running(&mark), "something outlived the bomb");
}

async fn memory_bomb(bench: &Bench<'_>) {
    let too_much = "head -c 100000000 /dev/zero > /tmp/large 2>/dev/null";
    assert_ne!(bench.sh(too_much).await.0, 0, "/tmp is bounded");
    if bench.sandbox.limits().memory.is_none() {
        return;
    }
    let world = bench.world();
    let finished = bench.run(world.shell("head -c 300000000 /dev/zero | tail -c 300000000 | wc -c")).await;
    assert_ne!(said(&finished).trim(), "300000000", "memory is bounded: {finished:?}");
    let alone = bench.run(world.shell("head -c 300000000 /dev/zero | tail -c 300000000 >/dev/null")).await;
    assert_eq!(alone.ended.code(), 137, "{}", complained(&alone));
}

/// With a fifth of a processor.
pub(super) async fn check_processors(bench: &Bench<'_>) {
    // The last line of `times` is what the children took: `0m0.200s 0m0.010s`.
    let (_, said) = bench
        .sh("busy='while :; do :; done'; timeout 2 sh -c \"$busy\" & timeout 2 sh -c \"$busy\"; wait; times")
        .await;
    let seconds: f64 = said
        .lines()
        .last()
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|time| time.trim_end_matches('s').split_once('m')?.1.parse::<f64>().ok())
        .sum();
    assert!(seconds > 0.0 && seconds < 1.0, "two loops took {seconds} seconds in two: {said}");
}

async fn large_files(bench: &Bench<'_>) {
    let Some(most) = bench.sandbox.limits().file else { return };
    let world = bench.world();
    let text = format!("head -c {} /dev/zero > large; echo $?; wc -c < large", most + 1);
    let finished = bench.run(world.shell(text)).await;
    let told = said(&finished);
    let told: Vec<&str> = told.split_whitespace().collect();
    assert!(matches!(told[..], [code, size] if code != "0" && size == most.to_string()), "{told:?}");
}

async fn floods(bench: &Bench<'_>) {
    let world = bench.world();
    let job = Job { time: Some(Duration::from_secs(2)), ..world.shell("yes | tee /dev/stderr") };
    let finished = bench.run(job).await;
    assert!(timed_out(&finished), "{:?}", finished.ended);
    let most = bench.sandbox.limits().output * 4;
    assert_eq!((finished.stdout.bytes().len(), finished.stderr.bytes().len()), (most, most));
    assert!(finished.stdout.total() > most as u64);
}

async fn secrets(bench: &Bench<'_>) {
    let world = bench.world();
    let secret = world.elsewhere().join("secret");
    let text = format!(
        "exec 2>/dev/null; cat {secret} /workspace/../elsewhere/secret /proc/1/root{secret} /proc/self/root{secret}; \
         cat /etc/shadow /etc/gshadow /etc/sudoers /etc/ssh/* /root/.* /home/*/.* /var/lib/*/*; \
         ls /root /home /var/lib /run; cat /proc/1/environ /proc/1/mem /proc/kcore | head -c 100; \
         cat /proc/[0-9]*/environ | tr '\\0' '\\n'; cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -v '^cat$'",
        secret = secret.display()
    );
    let finished = bench.run(world.shell(text)).await;
    let said = said(&finished);
    assert!(!said.contains(SECRET), "a file of somebody else could be read");
    assert!(!said.contains("root:"), "the passwords of the machine could be read");
    let usual = ["PATH", "HOME", "LANG", "HUSKY", "PWD", "OLDPWD", "SHLVL", "TERM", "HOSTNAME", "_"];
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        let shown = said.lines().any(|line| line.starts_with(&format!("{name}=")));
        assert!(usual.contains(&&*name) || !shown, "the environment of this program could be read: {name}");
    }
    let own = std::env::current_exe().unwrap();
    assert!(!said.contains(own.to_str().unwrap()), "the arguments of this program could be read");
}

/// Two locks: nothing here could do harm, and nothing here could be used to.
async fn rights(bench: &Bench<'_>) {
    let (_, said) = bench
        .sh("grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status")
        .await;
    let none = "0000000000000000";
    let fields: Vec<(&str, &str)> = said
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name, value.trim()))
        .collect();
    let expected = [
        ("CapInh", none),
        ("CapPrm", none),
        ("CapEff", none),
        ("CapBnd", none),
        ("CapAmb", none),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
    ];
    assert_eq!(fields, expected);
}

async fn mounts_and_devices(bench: &Bench<'_>) {
    let text = "exec 2>/dev/null; mkdir /tmp/m; \
        mount -t tmpfs none /tmp/m && echo mounted; mount -t proc none /tmp/m && echo mounted; \
        mount -o bind /tmp /tmp/m && echo mounted; mount -o remount,rw / && echo remounted; umount /proc && echo unmounted; \
        umount /workspace && echo unmounted; umount /workspace/.wink && echo unmounted; \
        unshare -U true && echo unshared; unshare -m true && echo unshared; chroot / true && echo chrooted; \
        nsenter -t 1 -m true && echo entered; \
        mknod /tmp/n c 1 3 && echo made; mknod /workspace/n b 8 0 && echo made; mknod /workspace/w c 0 0 && echo made; \
        for device in /dev/*; do test -b $device && echo block $device; done; \
        for device in /dev/mem /dev/kmem /dev/kmsg /dev/port /dev/kvm /dev/fuse /dev/vsock /dev/net/tun; do \
        test -e $device && echo there $device; done; \
        hostname other && echo named; \
        echo > s; chmod 4755 s && echo setuid; chmod g+s s && echo setgid; find s -perm -4000; find s -perm -2000; \
        mkfifo /tmp/p && chmod 755 s && echo fine";
    assert_eq!(bench.sh(text).await, (0, "fine\n".to_owned()));
}

/// Calls that look into other processes, or that change what a process is in: each refused, before anything else is wrong with it.
async fn system_calls(bench: &Bench<'_>) {
    let call = Call::new;
    let (newuser, newns) = (i64::from(libc::CLONE_NEWUSER), i64::from(libc::CLONE_NEWNS));
    let child = i64::from(libc::SIGCHLD);
    let seize = i64::from(libc::PTRACE_SEIZE);
    let attach = i64::from(libc::PTRACE_ATTACH);
    let calls = [
        call("ptrace: attach to its parent", libc::SYS_ptrace, &[attach, 0]).at_parent(1),
        call("ptrace: attach to init", libc::SYS_ptrace, &[attach, 1]),
        call("ptrace: seize its parent", libc::SYS_ptrace, &[seize, 0]).at_parent(1),
        call("ptrace: be traced", libc::SYS_ptrace, &[0]),
        call("process_vm_readv", libc::SYS_process_vm_readv, &[0]).at_parent(0),
        call("process_vm_writev", libc::SYS_process_vm_writev, &[0]).at_parent(0),
        call("kcmp", libc::SYS_kcmp, &[0, 1]).at_parent(0),
        call("pidfd_getfd", libc::SYS_pidfd_getfd, &[]),
        call("bpf", libc::SYS_bpf, &[]),
        call("keyctl", libc::SYS_keyctl, &[]),
        call("add_key", libc::SYS_add_key, &[]),
        call("request_key", libc::SYS_request_key, &[]),
        call("perf_event_open", libc::SYS_perf_event_open, &[0, 0, -1, -1]),
        call("unshare: user", libc::SYS_unshare, &[newuser]),
        call("unshare: mounts", libc::SYS_unshare, &[newns]),
        call("clone: user", libc::SYS_clone, &[newuser | child]),
        call("clone3", libc::SYS_clone3, &[]),
        call("setns", libc::SYS_setns, &[]),
        call("mount", libc::SYS_mount, &[]),
        call("umount2", libc::SYS_umount2, &[]),
        call("pivot_root", libc::SYS_pivot_root, &[]),
        call("chroot", libc::SYS_chroot, &[]),
        call("fsopen", libc::SYS_fsopen, &[]),
        call("open_tree", libc::SYS_open_tree, &[]),
        call("move_mount", libc::SYS_move_mount, &[]),
        call("mount_setattr", libc::SYS_mount_setattr, &[]),
        call("name_to_handle_at", libc::SYS_name_to_handle_at, &[]),
        call("open_by_handle_at", libc::SYS_open_by_handle_at, &[]),
        call("kexec_load", libc::SYS_kexec_load, &[]),
        call("init_module", libc::SYS_init_module, &[]),
        call("finit_module", libc::SYS_finit_module, &[]),
        call("io_uring_setup", libc::SYS_io_uring_setup, &[1]),
        call("userfaultfd", libc::SYS_userfaultfd, &[1]),
        call("syslog", libc::SYS_syslog, &[]),
        call("settimeofday", libc::SYS_settimeofday, &[]),
        call("swapon", libc::SYS_swapon, &[]),
    ];
    let world = bench.world();
    let program = world.dirs.lower.join("program");
    let run = async |calls: &[Call]| {
        write_program(&program, calls);
        let finished = bench.run(world.shell("./program; echo $?")).await;
        let told = said(&finished);
        let code: usize = told.trim().parse().unwrap_or_else(|_| panic!("{told:?}: {finished:?}"));
        // What is higher is the shell's: it could not be run, or a signal ended it.
        assert!(code <= calls.len(), "it ended with {code}: {}", complained(&finished));
        code.checked_sub(1).map(|at| calls[at].name)
    };
    assert_eq!(run(&calls).await, None, "this call was not refused");
    // What is let through is told.
    let allowed = [calls[0].clone(), call("getpid", libc::SYS_getpid, &[])];
    assert_eq!(run(&allowed).await, Some("getpid"));
}

async fn state_directory(bench: &Bench<'_>) {
    let world = bench.world();
    let text = "exec 2>/dev/null; ls -A .wink; cat .wink/secret; cat /proc/self/cwd/.wink/secret; ls -A .wink/layers; \
        (echo > .wink/x) && echo wrote; mkdir .wink/d && echo made; mv .wink other && echo moved; rmdir .wink && echo removed; \
        ln -s .wink link && ls -A link/; cd dir && cat ../.wink/secret; find /workspace -name secret";
    let finished = bench.run(world.shell(text)).await;
    assert_eq!(said(&finished), "");
    assert_eq!(std::fs::read_to_string(world.dirs.lower.join(".wink/secret")).unwrap(), SECRET);
    assert_eq!(std::fs::read_dir(world.dirs.lower.join(".wink")).unwrap().count(), 2);
}

async fn other_processes(bench: &Bench<'_>) {
    let mut victim = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let (theirs, ours) = (victim.id(), std::process::id());
    let text = format!(
        "exec 2>/dev/null; trap '' TERM HUP; for pid in {theirs} {ours}; do test -d /proc/$pid && echo seen; kill -9 $pid && echo killed; done; \
         kill -9 1; sleep 0; kill -9 -1; exit 0"
    );
    // Ending everything that it can see ends the command itself as well.
    let world = bench.world();
    let finished = bench.run(world.shell(text)).await;
    let alive = victim.try_wait().unwrap().is_none();
    victim.kill().unwrap();
    victim.wait().unwrap();
    assert!(alive, "a process of the machine was killed");
    assert_eq!(said(&finished), "");
}

async fn links(bench: &Bench<'_>) {
    let world = bench.world();
    let elsewhere = world.elsewhere();
    symlink("/etc/shadow", world.dirs.lower.join("shadow")).unwrap();
    symlink(&elsewhere, world.dirs.lower.join("out")).unwrap();
    symlink("../elsewhere", world.dirs.lower.join("up")).unwrap();
    let text = format!(
        "exec 2>/dev/null; cat shadow out/secret up/secret; (echo > out/x) && echo wrote; (echo > up/x) && echo wrote; \
         ln -s {} mine; cat mine/secret; (echo > mine/x) && echo wrote; ln -s / root; cat root{}/secret; \
         ln {}/secret hard && echo linked; exit 0",
        elsewhere.display(),
        elsewhere.display(),
        elsewhere.display()
    );
    let finished = bench.run(world.shell(text)).await;
    assert_eq!(said(&finished), "");
    let inside = |cwd: &str| Job { cwd: cwd.to_owned(), ..world.shell("cat secret; ls") };
    for cwd in ["out", "up"] {
        if let Ok(finished) = bench.try_run(inside(cwd)).await {
            assert!(!said(&finished).contains("secret"), "cwd {cwd} led out");
        }
    }
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 1);
}
