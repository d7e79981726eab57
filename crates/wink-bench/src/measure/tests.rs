use super::*;
use crate::cases::Kind;

#[test]
fn the_median_forgets_outliers() {
    assert_eq!(timed(vec![9_000.0, 1.0, 3.0, 2.0, 0.1]).median, 2.0);
    let many = (1..=20).map(f64::from).collect();
    assert_eq!(timed(many), Timed { median: 11.0, low: 3.0, high: 18.0, most: 20.0 });
    assert_eq!(timed((1..=1000).map(f64::from).collect()).most, 990.0);
    assert!(timed(vec![]).median.is_nan());
}

#[test]
fn the_total_of_a_callgrind_file_is_read() {
    let counts = "events: Ir\nsummary: 3469000\n\nfn=(1)\n12 500\n\ntotals: 3469000\n";
    assert_eq!(total(counts), Some(3_469_000));
}

#[test]
fn a_file_that_counted_nothing_has_no_total() {
    assert_eq!(total("events: Ir\ntotals: 0\n"), None);
    assert_eq!(total("events: Ir\n"), None);
}

#[test]
fn every_case_is_timed() {
    let mut cases: Vec<Case> = vec![Box::new(|| ()), Box::new(|| ())];
    let ns = time(&mut cases);
    assert_eq!(ns.len(), 2);
    assert!(ns.iter().all(|ns| ns.median.is_finite()));
}

#[test]
fn every_contender_makes_the_empty_call() {
    let makers: Vec<&str> = Contender::ALL
        .into_iter()
        .filter(|contender| contender.make(Row::CallEmpty).is_some())
        .map(Contender::name)
        .collect();
    assert_eq!(makers, ["wink", "floor", "rmcp", "rig"]);
}

#[test]
fn every_row_has_a_floor() {
    let here = |row: &Row| matches!(row.kind(), Kind::InMemory | Kind::OnDisk);
    for row in Row::ALL.into_iter().filter(here).filter(|row| !matches!(row, Row::Host(..))) {
        let mut case = Contender::Floor.make(row).expect("a floor");
        case();
    }
}
