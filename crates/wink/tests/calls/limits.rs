//! Limits: deadlines, budgets, heartbeats, and the clock that tests move by hand.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests panic when they fail"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use wink::limits::{
    Budget, BudgetDimension, BudgetExceededError, BudgetLimits, BudgetTracker, Clock, Deadline,
    DeadlineExceededError, Heartbeat, InvalidBudget, InvalidDeadline, SystemClock, TokenUsage,
};
use wink::testing::FakeClock;

const NOON: &str = "2026-03-01T12:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn clock() -> FakeClock {
    FakeClock::new(at(NOON))
}

// case 198
#[test]
fn a_deadline_lies_at_least_a_second_ahead() {
    let clock = clock();
    let refused = |text: &str| Deadline::at(at(text), &clock).unwrap_err().to_string();
    assert_eq!(
        refused("2026-03-01T11:59:59Z"),
        "a deadline must lie ahead, but 2026-03-01T11:59:59Z is past (it is 2026-03-01T12:00:00Z)"
    );
    assert_eq!(
        refused(NOON),
        "a deadline must lie ahead, but 2026-03-01T12:00:00Z is past (it is 2026-03-01T12:00:00Z)"
    );
    assert_eq!(
        refused("2026-03-01T12:00:00.999Z"),
        "a deadline must lie at least 1 s ahead, but 2026-03-01T12:00:00.999Z does not (it is 2026-03-01T12:00:00Z)"
    );
    let deadline = Deadline::at(at("2026-03-01T12:00:01Z"), &clock).unwrap();
    assert_eq!(deadline.remaining(&clock), Duration::from_secs(1));
    assert!(matches!(
        Deadline::after(Duration::from_millis(999), &clock),
        Err(InvalidDeadline::TooSoon { .. })
    ));
    assert!(matches!(Deadline::after(Duration::MAX, &clock), Err(InvalidDeadline::TooFar { .. })));
    assert_eq!(Deadline::after(Duration::from_secs(1), &clock).unwrap(), deadline);
    // Also by a clock that does not stand still.
    assert!(Deadline::after(Deadline::SHORTEST, &SystemClock).is_ok());
}

// case 198
#[test]
fn a_deadline_without_a_time_zone_is_refused() {
    let clock = clock();
    assert_eq!(
        Deadline::parse("2026-03-01T13:00:00", &clock).unwrap_err().to_string(),
        "the deadline `2026-03-01T13:00:00` says no time zone; write it with `Z` or an offset, such as \
         `2026-03-01T13:00:00Z`"
    );
    assert!(matches!(Deadline::parse("2026-03-01", &clock), Err(InvalidDeadline::Naive { .. })));
    assert!(matches!(Deadline::parse("tomorrow", &clock), Err(InvalidDeadline::NoTimestamp { .. })));
    let deadline = Deadline::parse("2026-03-01T15:00:00+02:00", &clock).unwrap();
    assert_eq!(deadline.timestamp(), at("2026-03-01T13:00:00Z"));
    assert!(matches!(
        Deadline::parse("2026-03-01T13:00:00+02:00", &clock),
        Err(InvalidDeadline::Past { .. })
    ));
}

// This room's part of cases that the executor turns into evaluation errors.
#[test]
fn a_deadline_passes_when_its_moment_comes() {
    let clock = clock();
    let deadline = Deadline::at(at("2026-03-01T12:00:10Z"), &clock).unwrap();
    clock.advance(Duration::from_millis(9_999));
    assert_eq!((deadline.is_past(&clock), deadline.remaining(&clock)), (false, Duration::from_millis(1)));
    assert_eq!(deadline.check(&clock), Ok(()));
    clock.advance(Duration::from_millis(1));
    assert_eq!((deadline.is_past(&clock), deadline.remaining(&clock)), (true, Duration::ZERO));
    let error = deadline.check(&clock).unwrap_err();
    assert_eq!(error, DeadlineExceededError { deadline: at("2026-03-01T12:00:10Z") });
    assert_eq!(error.to_string(), "the deadline (2026-03-01T12:00:10Z) has passed");
    clock.advance(Duration::from_secs(3600));
    assert_eq!(deadline.remaining(&clock), Duration::ZERO);
}

// case 199
#[test]
fn a_budget_has_a_limit_and_limits_are_positive() {
    assert_eq!(Budget::new(BudgetLimits::default()), Err(InvalidBudget::NoLimit));
    assert_eq!(
        InvalidBudget::NoLimit.to_string(),
        "a budget needs at least one limit: total, input or output tokens"
    );
    for limit in [0, -1, i64::MIN] {
        let error = Budget::total(limit).unwrap_err();
        assert_eq!(error, InvalidBudget::NotPositive { dimension: BudgetDimension::TotalTokens, limit });
    }
    let limits =
        BudgetLimits { max_total_tokens: Some(10), max_output_tokens: Some(0), ..Default::default() };
    assert_eq!(
        Budget::new(limits).unwrap_err().to_string(),
        "the limit of output tokens must be positive, but is 0"
    );
    let limits = BudgetLimits { max_input_tokens: Some(-3), ..Default::default() };
    assert_eq!(
        Budget::new(limits).unwrap_err().to_string(),
        "the limit of input tokens must be positive, but is -3"
    );
    // The same when it is read from a file.
    assert!(serde_json::from_str::<Budget>("{}").is_err());
    assert!(serde_json::from_str::<Budget>(r#"{"max_total_tokens": 0}"#).is_err());
    assert!(serde_json::from_str::<Budget>(r#"{"max_tokens": 5}"#).is_err());
    let budget = serde_json::from_str::<Budget>(r#"{"max_total_tokens": 5}"#).unwrap();
    assert_eq!(budget, Budget::total(5).unwrap());
    assert_eq!(serde_json::to_string(&budget).unwrap(), r#"{"max_total_tokens":5}"#);
}

// case 201
#[test]
fn at_the_limit_is_within_and_one_more_is_not() {
    let limits =
        BudgetLimits { max_total_tokens: Some(100), max_input_tokens: Some(80), max_output_tokens: Some(50) };
    let budget = Budget::new(limits).unwrap();
    let check = |input, output| {
        let tracker = BudgetTracker::new(budget);
        tracker.record("one", TokenUsage::new(input, output));
        tracker.check()
    };
    assert_eq!(check(50, 50), Ok(()));
    assert_eq!(check(80, 20), Ok(()));
    let exceeded = |dimension, limit, used| Err(BudgetExceededError { dimension, limit, used });
    assert_eq!(check(51, 50), exceeded(BudgetDimension::TotalTokens, 100, 101));
    assert_eq!(check(81, 19), exceeded(BudgetDimension::InputTokens, 80, 81));
    assert_eq!(check(49, 51), exceeded(BudgetDimension::OutputTokens, 50, 51));
    assert_eq!(check(81, 19).unwrap_err().to_string(), "the budget of 80 input tokens is exceeded: 81 used");
    assert!(check(u64::MAX, u64::MAX).is_err());
}

// case 203
#[test]
fn evaluations_that_share_a_tracker_share_the_budget() {
    let tracker = BudgetTracker::new(Budget::total(100).unwrap());
    std::thread::scope(|threads| {
        for evaluation in ["first", "second"] {
            let tracker = tracker.clone();
            threads.spawn(move || {
                for _ in 0..5 {
                    tracker.record(evaluation, TokenUsage::new(6, 4));
                }
            });
        }
    });
    assert_eq!(tracker.used(), TokenUsage::new(60, 40));
    assert_eq!(tracker.used_by("first"), TokenUsage::new(30, 20));
    assert_eq!(tracker.used_by("second"), TokenUsage::new(30, 20));
    assert_eq!(tracker.used_by("third"), TokenUsage::default());
    assert_eq!(tracker.check(), Ok(()));
    tracker.record("second", TokenUsage::new(0, 1));
    assert_eq!(
        tracker.check(),
        Err(BudgetExceededError { dimension: BudgetDimension::TotalTokens, limit: 100, used: 101 })
    );
}

#[test]
fn a_heartbeat_tells_when_it_was_last_beaten() {
    let clock = clock();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let heartbeat = {
        let heard = Arc::clone(&heard);
        Heartbeat::new(Arc::new(clock.clone()))
            .listener(|_| panic!("a broken watchdog"))
            .listener(move |time| heard.lock().unwrap().push(time))
    };
    assert_eq!((heartbeat.last_beat(), heartbeat.beats()), (None, 0));
    heartbeat.beat();
    clock.advance(Duration::from_secs(5));
    heartbeat.clone().beat();
    let (first, second) = (at(NOON), at("2026-03-01T12:00:05Z"));
    assert_eq!((heartbeat.last_beat(), heartbeat.beats()), (Some(second), 2));
    assert_eq!(*heard.lock().unwrap(), [first, second]);
}

#[tokio::test]
async fn the_fake_clock_wakes_sleepers_in_order() {
    let clock = clock();
    let woken = Arc::new(Mutex::new(Vec::new()));
    let tasks: Vec<_> = [30, 10, 20, 10]
        .into_iter()
        .enumerate()
        .map(|(number, seconds)| {
            let (clock, woken) = (clock.clone(), Arc::clone(&woken));
            tokio::spawn(async move {
                clock.sleep_until(Duration::from_secs(seconds)).await;
                woken.lock().unwrap().push((seconds, number));
            })
        })
        .collect();
    clock.until_sleeping(4).await;
    clock.advance(Duration::from_secs(9));
    assert_eq!(clock.sleepers(), 4);
    clock.advance(Duration::from_secs(11));
    assert_eq!(clock.sleepers(), 1);
    clock.advance(Duration::from_secs(100));
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*woken.lock().unwrap(), [(10, 1), (10, 3), (20, 2), (30, 0)]);
    assert_eq!(clock.monotonic(), Duration::from_secs(120));
    assert_eq!(clock.now(), at("2026-03-01T12:02:00Z"));
    // What is past needs no sleep.
    clock.sleep_until(Duration::from_secs(120)).await;
}

#[tokio::test]
async fn a_sleep_that_is_given_up_is_no_sleeper() {
    let clock = clock();
    let sleep = tokio::spawn(clock.sleep_until(Duration::from_secs(1)));
    clock.until_sleeping(1).await;
    sleep.abort();
    assert!(sleep.await.unwrap_err().is_cancelled());
    assert_eq!(clock.sleepers(), 0);
}

#[test]
fn the_machines_clock_serves_deadlines_too() {
    let deadline = Deadline::after(Duration::from_secs(3600), &SystemClock).unwrap();
    assert!(!deadline.is_past(&SystemClock));
    assert!(deadline.remaining(&SystemClock) > Duration::from_secs(3500));
}
