use std::process::{Child, Command};

use super::*;
use crate::filesystem::host::disk::Disk;

fn sleeper() -> Child {
    Command::new("sleep").arg("1000").spawn().unwrap()
}

fn lines(noted: &[&Noted]) -> Vec<u8> {
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
    assert_eq!(record.note(first.id(), ProcessTree::Namespace).unwrap_err().kind(), io::ErrorKind::NotFound);
    disk.create(&record.path, b"", 0o600).unwrap();
    record.note(first.id(), ProcessTree::Namespace).unwrap();
    record.note(second.id(), ProcessTree::Reaper).unwrap();
    let noted = [disk.read(&record.path).unwrap(), b"{\"process\":".to_vec()].concat();
    end_all(&noted).unwrap();
    // Nobody else waits for children, so that they are gone already.
    assert!(first.try_wait().unwrap().is_some_and(|status| !status.success()));
    assert!(second.try_wait().unwrap().is_some_and(|status| !status.success()));
    end_all(&noted).unwrap();
}

#[test]
fn whoever_was_given_the_number_is_left_alone() {
    let child = sleeper();
    let noted = Noted::of(child.id(), ProcessTree::Namespace).unwrap();
    let Noted { process, tree, start, namespace, ref boot } = noted;
    let others = [
        Noted { process, tree, start: start - 1, namespace, boot: boot.clone() },
        Noted { process, tree, start, namespace: namespace + 1, boot: boot.clone() },
        Noted { process, tree, start, namespace, boot: format!("not {boot}") },
    ];
    end_all(&lines(&others.iter().collect::<Vec<_>>())).unwrap();
    spared(child);
}
