//! The journal on a disk that loses what was not synced.

use crate::Plant;
use crate::report::Report;

/// Crashes the model disk again and again.
pub(crate) fn run(_kills: u64, _seed: u64, _plant: Option<Plant>, _report: &mut Report) {}
