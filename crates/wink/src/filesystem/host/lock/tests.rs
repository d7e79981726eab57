use std::sync::mpsc;
use std::thread;

use tempfile::TempDir;

use super::*;
use crate::limits::SystemClock;

const LONG_ENOUGH: Duration = Duration::from_secs(60);

#[test]
fn one_has_it_and_the_next_sees_who() {
    let root = TempDir::new().unwrap();
    let disk = HostDisk::open(root.path()).unwrap();
    let path = Path::new("lock");
    let acquire = |timeout| WorkspaceLock::acquire(&disk, path, timeout, &SystemClock);
    let work = || WorkspaceLock::holder(&disk, path).unwrap().and_then(|holder| holder.work);
    assert_eq!(WorkspaceLock::holder(&disk, path).unwrap(), None);
    let mut first = acquire(LONG_ENOUGH).unwrap();
    assert_eq!(work(), None);
    let id = JournalId::fresh();
    first.note(Some(LockedWork::Command));
    assert_eq!(work(), Some(LockedWork::Command));
    first.note(Some(LockedWork::Journal(id)));
    let work_of_it = Some(LockedWork::Journal(id));
    let holder = LockHolder { process: std::process::id(), since: first.since, work: work_of_it };
    assert_eq!(WorkspaceLock::holder(&disk, path).unwrap(), Some(holder.clone()));
    assert!(WorkspaceLock::try_acquire(&disk, path, &SystemClock).unwrap().is_none());

    let error = acquire(Duration::from_millis(1)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    let said = format!("the workspace is held by {holder}; gave up after ");
    assert!(error.to_string().starts_with(&said), "{error}");

    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let second = acquire(LONG_ENOUGH).unwrap();
            tell.send(()).unwrap();
            drop(second);
        });
        assert_eq!(told.try_recv(), Err(mpsc::TryRecvError::Empty));
        drop(first);
        told.recv().unwrap();
    });
    // Until somebody has settled it.
    assert_eq!(work(), Some(LockedWork::Journal(id)));
    let mut third = acquire(LONG_ENOUGH).unwrap();
    third.note(None);
    third.note(Some(LockedWork::Turn));
    drop(third);
    // A turn leaves nothing half-done.
    assert_eq!(work(), Some(LockedWork::Turn));
    drop(acquire(LONG_ENOUGH).unwrap());
    assert_eq!(work(), None);
    assert!(WorkspaceLock::try_acquire(&disk, path, &SystemClock).unwrap().is_some());
}
