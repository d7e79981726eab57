//! The journal on a disk that loses what was not synced: file data and directory entries alike.

use wink::testing::journal::{Syncs, crashes};

use crate::Plant;
use crate::calls::Dice;
use crate::report::Report;

/// Has the power fail at least as often as children are killed.
pub(crate) fn run(kills: u64, seed: u64, plant: Option<Plant>, report: &mut Report) {
    let syncs = if plant == Some(Plant::MissingSync) { Syncs::DoNothing } else { Syncs::Work };
    let mut dice = Dice::new(seed);
    while report.disk_crashes < kills && report.findings < 100 {
        let choices: Vec<u8> = (0..dice.below(120)).map(|_| dice.any() as u8).collect();
        match crashes(&choices, dice.any(), syncs) {
            Ok(crashes) => report.disk_crashes += crashes,
            Err(found) => {
                report.disk_crashes += 1;
                report.find("disk", found.lines().take(6).collect::<Vec<_>>().join(" "));
            }
        }
    }
}
