//! The journal on a disk that loses what was not synced: file data and directory entries alike.

use wink::testing::journal::{SyncOf, Syncs, crashes};

use crate::Plant;
use crate::report::Report;
use wink::testing::Dice;

/// How many findings are enough, and how many crashes at most are given to a planted bug.
const ENOUGH: u64 = 5;
const MOST_CRASHES: u64 = 5000;

/// Has the power fail at least as often as children are killed. With a bug planted, the seed says which kind of sync is left
/// out, and it goes on until that is found.
pub(crate) fn run(kills: u64, seed: u64, plant: Option<Plant>, report: &mut Report) {
    let mut dice = Dice::new(seed);
    let left_out = match plant {
        Some(Plant::MissingSync) => SyncOf::ALL.iter().cycle().nth((seed % 4) as usize).copied(),
        _ => None,
    };
    let syncs = left_out.map_or(Syncs::Work, Syncs::LeaveOut);
    let crashes_wanted = if left_out.is_some() { MOST_CRASHES } else { kills };
    while report.disk_crashes < crashes_wanted && report.findings < ENOUGH {
        let choices: Vec<u8> = (0..dice.below(120)).map(|_| dice.any() as u8).collect();
        match crashes(&choices, dice.any(), syncs) {
            Ok(crashes) => report.disk_crashes += crashes,
            Err(found) => {
                report.disk_crashes += 1;
                let found = found.lines().take(6).collect::<Vec<_>>().join(" ");
                report.find("disk", format!("with {syncs:?}: {found}"));
            }
        }
    }
}
