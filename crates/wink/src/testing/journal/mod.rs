//! The journal, stopped wherever it can be, on a disk that loses what was not synced.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what is broken is told by panicking, and only tests look in here"
)]

pub mod world;

use std::sync::Arc;

use self::world::{Choices, Planner, STATE, Tree, grow, journal, promised, tree};
pub use super::model_disk::{SyncOf, Syncs};
use super::{FaultyDisk, ModelDisk};
use crate::filesystem::host::disk::Disk;
use crate::filesystem::host::journal::{Journal, JournalError, JournalOptions, Recovered};
use crate::filesystem::host::plan::Plan;
use crate::store::JournalId;

/// Carries out a plan that `choices` make, has the disk lose its power at every point of it and of its end, and looks whether
/// everything is as before or as planned. Says how often the power was lost.
///
/// # Errors
/// What was found to be neither, and where.
pub fn crashes(choices: &[u8], seed: u64, syncs: Syncs) -> Result<u64, String> {
    let mut world = World::new(choices);
    world.disk = world.disk.with_syncs(syncs);
    survives_crashes(&world, seed)
        .map_err(|found| format!("{found}\nplan: {:#?}\nbefore: {:#?}", world.plan, world.before))
}

/// A tree, a plan for it, and what the plan is to make of it.
pub struct World {
    pub disk: ModelDisk,
    pub plan: Plan,
    pub before: Tree,
    pub after: Tree,
}

impl World {
    pub fn new(choices: &[u8]) -> Self {
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

pub type Found = Result<(), String>;

pub fn expect(what: &str, found: &Tree, expected: &Tree) -> Found {
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

pub fn fine<T>(what: &str, result: Result<T, JournalError>) -> Result<T, String> {
    result.map_err(|error| format!("{what}: {error}"))
}

/// Opens the disk as the next process does, and settles what it finds.
pub fn recover(disk: Arc<dyn Disk>, committed: bool) -> Result<Recovered, JournalError> {
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

/// Has the disk lose its power at every point of a plan. Says how often.
///
/// # Errors
/// What was found to be neither as before nor as planned, and where.
pub fn survives_crashes(world: &World, seed: u64) -> Result<u64, String> {
    let mut crashes = 0;
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
        crashes += 1;
        recovered_is(world, &disk, false, seed, &format!("killed after {stop} of {total}"))?;
        for seed in [seed, seed ^ 0xabcd_ef01_2345] {
            crashes += 1;
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
        crashes += 1;
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
        crashes += 1;
        recovered_is(world, &kept.crash(seed), keep, seed, &format!("settled, kept: {keep}"))?;
        for stop in 0..total {
            let (disk, _, _) = settling(keep, Some(stop));
            let seed = seed.wrapping_mul(37).wrapping_add(stop as u64);
            let what = format!("settling (kept: {keep}) lost power after {stop} of {total}");
            crashes += 1;
            recovered_is(world, &disk.crash(seed), keep, seed, &what)?;
        }
    }
    Ok(crashes)
}
