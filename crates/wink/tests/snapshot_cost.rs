//! Flat cost, snapshots: taking one copies a few pointers, however much there is.
//!
//! The bytes of the whole process are counted, so this file has one test and nothing runs beside it.

#![allow(clippy::unwrap_used, reason = "the lints exempt tests, not their helpers")]

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use wink::prelude::*;

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const FEW: u32 = 10;
const MANY: u32 = 100_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Line(u32);

impl SliceType for Line {
    const NAME: &'static str = "line";
}

fn session(lines: u32) -> Session {
    let session = Session::builder().id("s").build();
    session.seed((0..lines).map(Line)).unwrap();
    // The first snapshot and the first change after it may fill tables.
    drop(session.snapshot());
    assert!(session.dispatch(Line(lines)).is_ok());
    session
}

/// The bytes that are asked for while `work` runs.
fn bytes_of<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = COUNTING.stats().bytes_allocated;
    let done = work();
    (COUNTING.stats().bytes_allocated - before, done)
}

#[test]
fn a_snapshot_takes_the_same_room_however_much_there_is() {
    let (few, many) = (session(FEW), session(MANY));
    let (bytes_of_few, _kept) = bytes_of(|| few.snapshot());
    let (bytes_of_many, kept) = bytes_of(|| many.snapshot());
    assert_eq!(bytes_of_many, bytes_of_few, "taking it");

    // What is changed beside a snapshot is copied, and not all that there is.
    let (bytes_of_change, changed) = bytes_of(|| many.dispatch(Line(0)));
    assert!(changed.is_ok());
    assert!(bytes_of_change < 64 * 1024, "the first change after it took {bytes_of_change} bytes");

    let (bytes_of_restoring, restored) = bytes_of(|| many.restore(&kept));
    restored.unwrap();
    assert!(bytes_of_restoring < 64 * 1024, "restoring took {bytes_of_restoring} bytes");
    assert_eq!(many.slice::<Line>().len(), MANY as usize + 1);
}
