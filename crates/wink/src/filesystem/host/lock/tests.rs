use std::sync::mpsc;
use std::thread;

use tempfile::TempDir;

use super::*;

#[test]
fn one_has_it_and_the_next_sees_what_was_noted() {
    let root = TempDir::new().unwrap();
    let disk = HostDisk::open(root.path()).unwrap();
    let path = Path::new("lock");
    let mut first = WorkspaceLock::acquire(&disk, path).unwrap();
    assert_eq!(first.noted().unwrap(), None);
    let id = JournalId::fresh();
    first.note(Some(JournalId::fresh())).unwrap();
    first.note(Some(id)).unwrap();
    assert_eq!(first.noted().unwrap(), Some(id));
    assert!(WorkspaceLock::try_acquire(&disk, path).unwrap().is_none());

    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut second = WorkspaceLock::acquire(&disk, path).unwrap();
            tell.send(second.noted().unwrap()).unwrap();
            second.note(None).unwrap();
        });
        assert_eq!(told.try_recv(), Err(mpsc::TryRecvError::Empty));
        drop(first);
        assert_eq!(told.recv().unwrap(), Some(id));
    });
    let mut third = WorkspaceLock::try_acquire(&disk, path).unwrap().unwrap();
    assert_eq!(third.noted().unwrap(), None);
}
