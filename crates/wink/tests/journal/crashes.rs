//! Wherever a plan stops, and whatever of it the disk remembers, the tree is as before or as planned.

use std::sync::Arc;

use proptest::prelude::*;
use tempfile::TempDir;
use wink::filesystem::host::HostDisk;

use wink::filesystem::host::disk::Disk;
use wink::filesystem::host::journal::{Journal, JournalError, JournalOptions, Recovered};
use wink::filesystem::host::plan::Plan;
use wink::store::JournalId;
use wink::testing::{FaultyDisk, ModelDisk};

use crate::world::{Choices, Planner, STATE, Tree, grow, journal, promised, tree};

/// A tree, a plan for it, and what the plan is to make of it.
struct World {
    disk: ModelDisk,
    plan: Plan,
    before: Tree,
    after: Tree,
}

impl World {
    fn new(choices: &[u8]) -> Self {
        let mut choices = Choices::new(choices);
        let disk = Arc::new(ModelDisk::new());
        grow(&[&*disk], &mut choices);
        let scratch = (*disk).clone();
        journal(disk.clone());
        disk.sync_all();
        let before = tree(&*disk);
        let plan = Planner::new(&*disk, &scratch, choices).plan();
        let after = promised(&tree(&scratch));
        Self { disk: (*disk).clone(), plan, before, after }
    }
}

type Found = Result<(), String>;

fn expect(what: &str, found: &Tree, expected: &Tree) -> Found {
    if found == expected {
        return Ok(());
    }
    let differing: Vec<_> = found
        .keys()
        .chain(expected.keys())
        .filter(|path| found.get(*path) != expected.get(*path))
        .map(|path| format!("{path:?}: {:?} instead of {:?}", found.get(path), expected.get(path)))
        .collect();
    Err(format!("{what}: {differing:#?}"))
}

fn fine<T>(what: &str, result: Result<T, JournalError>) -> Result<T, String> {
    result.map_err(|error| format!("{what}: {error}"))
}

/// Opens the disk as the next process does, and settles what it finds.
fn recover(disk: Arc<dyn Disk>, committed: bool) -> Result<Recovered, JournalError> {
    Journal::new(disk, STATE, JournalOptions::default())?.recover(Some(&|_| Ok(committed)))
}

/// Recovers, dies while doing so, and recovers again; then the tree must be as expected and the journal usable.
fn recovered_is(world: &World, crashed: &ModelDisk, committed: bool, seed: u64, what: &str) -> Found {
    let check = |disk: ModelDisk, what: &str| {
        let disk = Arc::new(disk);
        let recovered = fine(what, recover(disk.clone(), committed))?;
        if !recovered.aside.is_empty() {
            return Err(format!("{what}: nobody else changed {:?}", recovered.aside));
        }
        if committed {
            expect(what, &promised(&tree(&*disk)), &world.after)?;
        } else {
            expect(what, &tree(&*disk), &world.before)?;
        }
        let empty = journal(disk).apply(JournalId::fresh(), &Plan::default(), &[]);
        fine(what, empty).map(drop)
    };
    let whole = Arc::new(FaultyDisk::counting(Arc::new(crashed.clone())));
    fine(what, recover(whole.clone(), committed))?;
    for stop in [seed as usize % (whole.changes() + 1), (seed >> 32) as usize % (whole.changes() + 1)] {
        let disk = Arc::new(crashed.clone());
        let _ = recover(Arc::new(FaultyDisk::stopping_after(disk.clone(), stop)), committed);
        check((*disk).clone(), &format!("{what}, recovery killed after {stop}"))?;
        check(disk.crash(seed ^ 1), &format!("{what}, recovery lost power after {stop}"))?;
    }
    check(crashed.clone(), what)
}

/// The whole property for one world.
fn survives_crashes(world: &World, seed: u64) -> Found {
    let id = JournalId::fresh();
    let counting = Arc::new(FaultyDisk::counting(Arc::new(world.disk.clone())));
    let counted = journal(counting.clone());
    let opening = counting.changes();
    let _ = fine("apply", counted.apply(id, &world.plan, &[]))?;
    let total = counting.changes() - opening;

    for stop in 0..total {
        let disk = Arc::new(world.disk.clone());
        let stopping = Arc::new(FaultyDisk::stopping_after(disk.clone(), opening + stop));
        if journal(stopping).apply(id, &world.plan, &[]).is_ok() {
            return Err(format!("apply succeeded though the disk stopped after {stop} of {total}"));
        }
        let seed = seed.wrapping_mul(31).wrapping_add(stop as u64);
        recovered_is(world, &disk, false, seed, &format!("killed after {stop} of {total}"))?;
        for seed in [seed, seed ^ 0xabcd_ef01_2345] {
            recovered_is(
                world,
                &disk.crash(seed),
                false,
                seed,
                &format!("lost power after {stop} of {total}"),
            )?;
        }
    }

    let disk = Arc::new(world.disk.clone());
    let applied = journal(disk.clone());
    let _ = fine("apply", applied.apply(id, &world.plan, &[]))?;
    expect("applied", &promised(&tree(&*disk)), &world.after)?;
    for committed in [true, false] {
        recovered_is(world, &disk.crash(seed), committed, seed, &format!("applied, committed: {committed}"))?;
    }

    let settling = |keep: bool, stop: Option<usize>| {
        let disk = Arc::new((*disk).clone());
        let faulty = Arc::new(match stop {
            Some(stop) => FaultyDisk::stopping_after(disk.clone(), opening + stop),
            None => FaultyDisk::counting(disk.clone()),
        });
        let journal = journal(faulty.clone());
        let settled = if keep { journal.keep(id) } else { journal.roll_back(id).map(drop) };
        (disk, settled, faulty.changes() - opening)
    };
    for keep in [true, false] {
        let (kept, settled, total) = settling(keep, None);
        fine("settle", settled)?;
        recovered_is(world, &kept.crash(seed), keep, seed, &format!("settled, kept: {keep}"))?;
        for stop in 0..total {
            let (disk, _, _) = settling(keep, Some(stop));
            let seed = seed.wrapping_mul(37).wrapping_add(stop as u64);
            let what = format!("settling (kept: {keep}) lost power after {stop} of {total}");
            recovered_is(world, &disk.crash(seed), keep, seed, &what)?;
        }
    }
    Ok(())
}

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
        let world = World::new(&choices);
        survives_crashes(&world, seed).map_err(|found| {
            TestCaseError::fail(format!("{found}\nplan: {:#?}\nbefore: {:#?}", world.plan, world.before))
        })?;
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

/// The property sees what it is there for: on a disk that only says that it syncs, it does not hold.
#[test]
fn a_disk_that_does_not_sync_is_found_out() {
    let choices: Vec<u8> = (0..100_u32).map(|n| (n * 37 % 251) as u8).collect();
    let mut world = World::new(&choices);
    assert_eq!(survives_crashes(&world, 1), Ok(()));
    world.disk = world.disk.with_syncs_that_do_nothing();
    let found = (0..20).filter(|seed| survives_crashes(&world, *seed).is_err()).count();
    assert_eq!(found, 20);
}
