use super::*;
use crate::launch::{Command, Control, supervise};

/// Runs a script without a view of its own: everything is where it is, and nothing but Landlock is in the way.
fn run_with_landlock_alone(script: &str, workspace: &Path, landlock: Option<Landlock>) -> String {
    let environment = BTreeMap::from([("PATH".into(), PATH.into())]);
    let command = Command::Shell(script.to_owned());
    let prepared = Prepared::new(&command, &environment, "", workspace).unwrap();
    let confine = Confine { become_user: None, landlock, seccomp: Vec::new(), rlimits: Vec::new() };
    let prepared = Prepared { rights: Rights::Confined(confine), ..prepared };
    let streams = Streams { stdin: None, keep: 10_000 };
    let watched = supervise(prepared, streams, &Control::new().unwrap()).unwrap();
    watched.stdout.text(10_000).0
}

#[test]
fn landlock_alone_stops_writing_outside() {
    let Some(version) = Capabilities::detect().usable_landlock() else {
        return wink::testing::leave_out("Landlock alone", &Capabilities::detect().report().to_string());
    };
    // Not in /tmp, which is the command's own in a sandbox, and therefore allowed.
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let (inside, outside) = (dir.path().join("inside"), dir.path().join("outside"));
    for dir in [&inside, &outside] {
        fs::create_dir(dir).unwrap();
        fs::write(dir.join("file"), "old\n").unwrap();
    }
    let script = format!(
        "exec 2>/dev/null; for at in . {outside}; do echo $at; cat $at/file; (echo new > $at/new) && echo made; \
         (echo new > $at/file) && echo wrote; rm $at/file && echo removed; mkdir $at/d && echo directory; \
         ln -s x $at/l && echo link; mkfifo $at/p && echo pipe; done; mv new {outside}/moved && echo moved",
        outside = outside.display()
    );
    let all = "old\nmade\nwrote\nremoved\ndirectory\nlink\npipe\n";
    for abi in 2..=version {
        let landlock = landlock(Some(abi), inside.to_str().unwrap()).unwrap();
        let said = run_with_landlock_alone(&script, &inside, landlock);
        assert_eq!(said, format!(".\n{all}{}\nold\n", outside.display()), "version {abi}");
        fs::remove_dir_all(&inside).unwrap();
        fs::create_dir(&inside).unwrap();
        fs::write(inside.join("file"), "old\n").unwrap();
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    // Without it, all of this works.
    let said = run_with_landlock_alone(&script, &inside, None);
    assert_eq!(said, format!(".\n{all}{}\n{all}moved\n", outside.display()));
}

#[test]
fn a_landlock_that_cannot_be_used_is_not_and_can_be_refused() {
    assert!(landlock(None, "/workspace").unwrap().is_none());
    let refused = |version| missing_landlock(version).to_string();
    assert!(refused(None).starts_with("there is no Landlock: the kernel has none; use a kernel"));
    assert!(refused(Some(1)).contains("the kernel's is version 1"));
}

#[test]
fn user_namespaces_are_spoken_of_only_where_they_are_what_is_missing() {
    assert!(advice(true).contains("user namespaces"));
    assert!(!advice(false).contains("user namespaces") && !advice(false).contains("sysctl"));
    // What fails on the way is told as it is: here, the root directory is not there.
    let limits = Limits { memory: None, cpu: None, processes: None, ..Limits::default() };
    let refused = NamespaceSandbox::with_root("/nonexistent", limits).unwrap_err().to_string();
    assert!(refused.contains("looking at its root directory failed: No such file"), "{refused}");
    assert!(!refused.contains("sysctl"), "{refused}");
}
