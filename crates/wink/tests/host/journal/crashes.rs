//! Wherever a plan stops, and whatever of it the disk remembers, the tree is as before or as planned.

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use tempfile::TempDir;
use wink::filesystem::host::HostDisk;
use wink::filesystem::host::disk::Disk;
use wink::filesystem::host::plan::{Plan, Source};

use wink::filesystem::host::journal::JournalError;
use wink::store::JournalId;
use wink::testing::{FaultyDisk, ModelDisk};

use wink::testing::journal::world::{Choices, Planner, grow, journal, promised, tree};
use wink::testing::journal::{Found, SyncOf, Syncs, World, crashes, expect, fine, recover, survives_crashes};

use super::behaviour::{put, take};

/// On the machine's own disk, where a process dies but the power does not fail.
fn survives_on_a_real_disk(choices: &[u8], open: fn(&std::path::Path) -> std::io::Result<HostDisk>) -> Found {
    for stop in 0.. {
        let root = TempDir::new().unwrap();
        let real = Arc::new(open(root.path()).unwrap());
        let disk = Arc::new(FaultyDisk::counting(real).without_syncs());
        let model = ModelDisk::new();
        let mut choices = Choices::new(choices);
        grow(&[&model, &*disk], &mut choices);
        journal(disk.clone());
        let before = tree(&*disk);
        let plan = Planner::new(&*disk, &model, choices).plan();
        let after = promised(&tree(&model));

        let id = JournalId::fresh();
        let counting = Arc::new(FaultyDisk::counting(disk.clone()));
        journal(counting.clone());
        let stopping = Arc::new(FaultyDisk::stopping_after(disk.clone(), counting.changes() + stop));
        let applied = journal(stopping).apply(id, &plan, &[]);
        if let Err(error) = applied {
            if !matches!(error, JournalError::NotUndone { .. }) && !matches!(error, JournalError::Io { .. }) {
                return Err(format!("stopped after {stop}: {error}"));
            }
            // Dying once more while recovering.
            let _ = recover(
                Arc::new(FaultyDisk::stopping_after(disk.clone(), counting.changes() + stop % 7)),
                false,
            );
            let recovered = fine("recover", recover(disk.clone(), false))?;
            if !recovered.aside.is_empty() {
                return Err(format!(
                    "{stop}: nobody else changed {:?}\n{plan:#?}\n{before:#?}",
                    recovered.aside
                ));
            }
            expect(&format!("killed after {stop}"), &tree(&*disk), &before)?;
            continue;
        }
        expect("applied", &promised(&tree(&*disk)), &after)?;
        let journal = journal(disk.clone());
        fine("roll back", journal.roll_back(id))?;
        expect("rolled back", &tree(&*disk), &before)?;
        let _ = fine("apply again", journal.apply(id, &plan, &[]))?;
        fine("keep", journal.keep(id))?;
        return expect("applied again", &promised(&tree(&*disk)), &after);
    }
    Ok(())
}

/// With a disk that is full at each point in turn.
fn survives_full_disk(world: &World) -> Found {
    let counting = Arc::new(FaultyDisk::counting(Arc::new(world.disk.clone())));
    journal(counting.clone());
    let opening = counting.changes();
    for stop in 0.. {
        let disk = Arc::new(world.disk.clone());
        let faulty = Arc::new(FaultyDisk::full_after(disk.clone(), opening + stop));
        let full = journal(faulty.clone());
        match full.apply(JournalId::fresh(), &world.plan, &[]) {
            Err(JournalError::NotApplied { aside, .. }) if aside.is_empty() => {
                expect(&format!("full after {stop}"), &tree(&*disk), &world.before)?;
                let again = full.apply(JournalId::fresh(), &world.plan, &[]);
                fine(&format!("again after {stop}"), again).map(drop)?;
            }
            // A link that cannot be made becomes a copy.
            Ok(_) => {}
            Err(error) => return Err(format!("full after {stop}: {error}")),
        }
        expect(&format!("not full after {stop}"), &promised(&tree(&*disk)), &world.after)?;
        if faulty.changes() <= opening + stop {
            return Ok(());
        }
    }
    Ok(())
}

/// Each case is some hundred crashes. `PROPTEST_CASES` asks for another number.
fn cases(usual: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => config,
        None => ProptestConfig { cases: usual, ..config },
    }
}

fn choices() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..120)
}

proptest! {
    #![proptest_config(cases(32))]

    // case 92
    #[test]
    fn a_crash_leaves_all_or_nothing(choices in choices(), seed in any::<u64>()) {
        crashes(&choices, seed, Syncs::Work).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn a_full_disk_leaves_all_or_nothing(choices in choices()) {
        let world = World::new(&choices);
        survives_full_disk(&world).map_err(|found| {
            TestCaseError::fail(format!("{found}\nplan: {:#?}\nbefore: {:#?}", world.plan, world.before))
        })?;
    }
}

proptest! {
    #![proptest_config(cases(8))]

    #[test]
    fn a_killed_process_leaves_all_or_nothing_on_a_real_disk(choices in choices()) {
        for open in [HostDisk::open, HostDisk::open_walking] {
            survives_on_a_real_disk(&choices, open).map_err(TestCaseError::fail)?;
        }
    }
}

#[test]
fn a_directory_goes_into_what_was_in_it() {
    let disk = Arc::new(ModelDisk::new());
    disk.make_dir(Path::new("e"), 0o755).unwrap();
    disk.make_dir(Path::new("e/a"), 0o755).unwrap();
    journal(disk.clone());
    disk.sync_all();
    let before = tree(&*disk);
    let plan = Plan {
        steps: vec![take("e/a", 0), take("e", 1), put("c", Source::Taken(0)), put("c/a", Source::Taken(1))],
        ..Plan::default()
    };
    let scratch = Arc::new((*disk).clone());
    let _ = journal(scratch.clone()).apply(JournalId::fresh(), &plan, &[]).unwrap();
    let world = World { disk: (*disk).clone(), plan, before, after: promised(&tree(&*scratch)) };
    for seed in 0..10 {
        survives_crashes(&world, seed * 0x9e37_79b9_7f4a).unwrap();
    }
}

/// The property sees what it is there for: on a disk that only says that it syncs, it does not hold.
#[test]
fn a_disk_that_does_not_sync_is_found_out() {
    let choices: Vec<u8> = (0..100_u32).map(|n| (n * 37 % 251) as u8).collect();
    assert!(crashes(&choices, 1, Syncs::Work).is_ok());
    let found = (0..20).filter(|seed| crashes(&choices, *seed, Syncs::DoNothing).is_err()).count();
    assert_eq!(found, 20);
}

/// … and neither does it on one that leaves out a single kind of sync, whichever that is.
#[test]
fn a_disk_that_leaves_out_one_kind_of_sync_is_found_out() {
    for left_out in SyncOf::ALL {
        let found = (0..12_u32)
            .filter(|seed| {
                let choices: Vec<u8> = (0..100).map(|n| ((n + seed) * (37 + seed) % 251) as u8).collect();
                crashes(&choices, u64::from(*seed), Syncs::LeaveOut(left_out)).is_err()
            })
            .count();
        assert!(found > 0, "{left_out:?}: nothing of it was found");
    }
}
