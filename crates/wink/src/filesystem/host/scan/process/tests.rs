use std::process::{Child, Command, Stdio};

use super::*;
use crate::filesystem::host::disk::Disk;

fn sleeper() -> Child {
    Command::new("sleep").arg("1000").spawn().unwrap()
}

fn reaper() -> ProcessTree {
    ProcessTree::Reaper(CommandMark::fresh())
}

fn lines(noted: &[&CommandProcesses]) -> Vec<u8> {
    noted.iter().flat_map(|noted| [serde_json::to_vec(noted).unwrap(), b"\n".to_vec()].concat()).collect()
}

/// Ends one that must have been left alone.
fn spared(mut child: Child) {
    assert_eq!(child.try_wait().unwrap(), None);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_is_noted_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(HostDisk::open(dir.path()).unwrap());
    let record = CommandRecord::new(&disk, PathBuf::from("begun"));
    let (mut first, mut second) = (sleeper(), sleeper());
    let processes = CommandProcesses::new(first.id(), ProcessTree::Namespace).unwrap();
    assert_eq!(record.note(&processes).unwrap_err().kind(), io::ErrorKind::NotFound);
    disk.create(&record.path, b"", 0o600).unwrap();
    record.note(&processes).unwrap();
    record.note(&CommandProcesses::new(second.id(), reaper()).unwrap()).unwrap();
    let noted = [disk.read(&record.path).unwrap(), b"{\"process\":".to_vec()].concat();
    end_all(&noted).unwrap();
    // Nobody else waits for children, so that they are gone already.
    assert!(first.try_wait().unwrap().is_some_and(|status| !status.success()));
    assert!(second.try_wait().unwrap().is_some_and(|status| !status.success()));
    end_all(&noted).unwrap();
}

#[test]
fn what_is_withdrawn_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(HostDisk::open(dir.path()).unwrap());
    let record = CommandRecord::new(&disk, PathBuf::from("begun"));
    record.withdraw().unwrap();
    disk.create(&record.path, b"trash\n", 0o600).unwrap();
    let child = sleeper();
    record.note(&CommandProcesses::new(child.id(), reaper()).unwrap()).unwrap();
    record.withdraw().unwrap();
    assert_eq!(disk.read(&record.path).unwrap(), b"trash\n");
    end_all(&disk.read(&record.path).unwrap()).unwrap();
    spared(child);
}

#[test]
fn others_in_the_session_of_this_process_are_left_alone() {
    let mark = CommandMark::fresh();
    let mut marked =
        Command::new("sleep").arg("1000").env(CommandMark::VARIABLE, mark.to_string()).spawn().unwrap();
    let mut child =
        Command::new("sleep").arg("1000").env(CommandMark::VARIABLE, mark.to_string()).spawn().unwrap();
    let bystander = sleeper();
    let processes = CommandProcesses::new(marked.id(), ProcessTree::Reaper(mark)).unwrap();
    marked.kill().unwrap();
    marked.wait().unwrap();
    processes.end_others().unwrap();
    assert!(child.wait().is_ok_and(|status| !status.success()));
    spared(bystander);
}

#[test]
fn whoever_was_given_the_number_is_left_alone() {
    let child = sleeper();
    let noted = CommandProcesses::new(child.id(), ProcessTree::Namespace).unwrap();
    let CommandProcesses { process, tree, start, namespace, ref boot } = noted;
    let others = [
        CommandProcesses { process, tree, start: start - 1, namespace, boot: boot.clone() },
        CommandProcesses { process, tree, start, namespace: namespace + 1, boot: boot.clone() },
        CommandProcesses { process, tree, start, namespace, boot: format!("not {boot}") },
    ];
    end_all(&lines(&others.iter().collect::<Vec<_>>())).unwrap();
    spared(child);
}

/// A process that leads a session of its own, as the first of a command does. When it is told to, it leaves another one in
/// the session, and ends.
fn leader(leaves: &str) -> Child {
    let script = format!("read line; {leaves} >&- 2>&- & echo $!");
    Command::new("setsid")
        .args(["sh", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The process that it left. The first is dead then, and nobody was told yet.
fn left(leader: &mut Child) -> u32 {
    leader.stdin.take().unwrap().write_all(b"\n").unwrap();
    let said = io::read_to_string(leader.stdout.take().unwrap()).unwrap();
    while kin::Seen::look(leader.id()).unwrap().unwrap().is_alive {
        std::thread::yield_now();
    }
    said.trim().parse().unwrap()
}

fn is_alive(process: u32) -> bool {
    kin::Seen::look(process).unwrap().is_some_and(|seen| seen.is_alive)
}

#[test]
fn what_is_left_of_the_session_is_ended() {
    let mut first = leader("sleep 1000");
    let processes = CommandProcesses::new(first.id(), reaper()).unwrap();
    let left = left(&mut first);
    assert!(is_alive(left));
    processes.end_others().unwrap();
    assert!(!is_alive(left));
    first.wait().unwrap();
}

#[test]
fn what_may_be_of_somebody_else_with_its_number_is_neither_ended_nor_called_gone() {
    let mut first = leader("sleep 1000");
    let processes = CommandProcesses::new(first.id(), reaper()).unwrap();
    let left = left(&mut first);
    // From here on the number may be given away.
    first.wait().unwrap();
    let error = processes.end_others().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    assert_eq!(
        error.to_string(),
        format!(
            "what kept the command that worked in the workspace together is gone, and it cannot be known whether process \
             {left} is of it; find out, end what is, and try again"
        )
    );
    assert!(is_alive(left));
    assert!(Command::new("kill").args(["-9", &left.to_string()]).status().unwrap().success());
    while is_alive(left) {
        std::thread::yield_now();
    }
    processes.end_others().unwrap();
}

#[test]
fn what_has_the_mark_is_ended_with_its_session_and_children() {
    let mark = CommandMark::fresh();
    let variable = format!("{}={mark}", CommandMark::VARIABLE);
    let mut first = leader(&format!(
        "setsid env {variable} sh -c '(env -i sleep 1000 &); setsid env -i sleep 1000 & exec sleep 1000'"
    ));
    let processes = CommandProcesses::new(first.id(), ProcessTree::Reaper(mark)).unwrap();
    let left = left(&mut first);
    first.wait().unwrap();
    let of_session = || {
        let (seen, _) = kin::all().unwrap();
        seen.iter().filter(|seen| seen.is_alive && (seen.session == left || seen.parent == left)).count()
    };
    // The one that was left, and its two children; of them one has another parent, and one another session.
    while of_session() < 3 {
        std::thread::yield_now();
    }
    processes.end_others().unwrap();
    assert_eq!(of_session(), 0);
}

#[test]
fn others_have_other_marks() {
    let other = CommandMark::fresh();
    let mut first = sleeper();
    let processes = CommandProcesses::new(first.id(), reaper()).unwrap();
    let child =
        Command::new("sleep").arg("1000").env(CommandMark::VARIABLE, other.to_string()).spawn().unwrap();
    processes.end_others().unwrap();
    spared(child);
    assert_eq!(first.try_wait().unwrap(), None, "the first is not among the others");
    first.kill().unwrap();
    first.wait().unwrap();
}
