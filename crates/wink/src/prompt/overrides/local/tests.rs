#![allow(clippy::unwrap_used, reason = "tests panic when they fail")]

use std::path::Path;
use std::sync::Arc;

use super::{read, write};
use crate::filesystem::host::disk::Disk;
use crate::testing::{FaultyDisk, ModelDisk};

const OLD: &[u8] = b"old";
const NEW: &[u8] = b"a longer text that is new";

fn place() -> &'static Path {
    Path::new("ops/team/deploy/latest.json")
}

/// A disk that holds the old file, or nothing.
fn disk(with_old: bool) -> Arc<ModelDisk> {
    let disk = Arc::new(ModelDisk::new());
    if with_old {
        write(&*disk, place(), OLD).unwrap();
    }
    disk
}

// case 224
#[test]
fn a_file_is_all_old_or_all_new_wherever_the_power_fails() {
    for with_old in [false, true] {
        let before = with_old.then(|| OLD.to_vec());
        let counting = FaultyDisk::counting(disk(with_old));
        write(&counting, place(), NEW).unwrap();
        for steps in 0..=counting.changes() {
            for seed in 0..50 {
                let disk = disk(with_old);
                let done = write(&FaultyDisk::stopping_after(disk.clone(), steps), place(), NEW);
                let left = read(&disk.crash(seed), place()).unwrap();
                match done {
                    Ok(()) => assert_eq!(left, Some(NEW.to_vec()), "after {steps} steps"),
                    Err(_) => {
                        assert!(
                            left == before || left == Some(NEW.to_vec()),
                            "after {steps} steps: {left:?}"
                        );
                    }
                }
            }
        }
    }
}

// case 224
#[test]
fn a_write_that_fails_leaves_what_was_there_and_nothing_else() {
    let counting = FaultyDisk::counting(disk(true));
    write(&counting, place(), NEW).unwrap();
    // The last step makes the new file durable; it is there by then.
    for steps in 0..counting.changes() - 1 {
        let disk = disk(true);
        assert!(write(&FaultyDisk::full_after(disk.clone(), steps), place(), NEW).is_err());
        assert_eq!(read(&*disk, place()).unwrap(), Some(OLD.to_vec()), "after {steps} steps");
        let listed = disk.read_dir(place().parent().unwrap()).unwrap();
        assert_eq!(listed.len(), 1, "after {steps} steps: {listed:?}");
    }
}
