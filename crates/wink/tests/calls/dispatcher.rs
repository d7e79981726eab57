//! The dispatcher: who hears an event, in which order, and what their failures come to.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test says what is broken by panicking"
)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use wink::session::{Delivery, DeliveryError, Dispatcher, EventSource, Session, SliceType};
use wink::testing::FakeClock;

struct Ping(u32);
struct Pong;

fn source() -> EventSource {
    EventSource { session: "s".into(), tool: None, invocation: None, time: Timestamp::UNIX_EPOCH }
}

fn delivered(handled_count: usize) -> Delivery {
    Delivery { handled_count, failures: Vec::new() }
}

// case 118
#[test]
fn handlers_run_in_subscription_order_on_the_callers_thread() {
    let dispatcher = Dispatcher::default();
    let heard = Arc::new(Mutex::new(Vec::new()));
    for number in 0..5 {
        let heard = Arc::clone(&heard);
        dispatcher.subscribe::<Ping>(move |ping, source| {
            heard.lock().unwrap().push((number, ping.0, source.clone(), std::thread::current().id()));
            Ok(())
        });
    }
    dispatcher.subscribe::<Pong>(|_, _| Err("another type".to_owned()));
    let here = std::thread::current().id();
    assert_eq!(dispatcher.deliver(&Ping(7), &source()), delivered(5));
    let expected: Vec<_> = (0..5).map(|number| (number, 7, source(), here)).collect();
    assert_eq!(*heard.lock().unwrap(), expected);
}

// case 119
#[test]
fn a_failing_handler_stops_no_other_and_all_failures_are_listed() {
    let dispatcher = Dispatcher::default();
    let count = Arc::new(AtomicUsize::new(0));
    dispatcher.subscribe::<Ping>(|_, _| Err("first".to_owned()));
    dispatcher.subscribe::<Ping>(|_, _| panic!("second"));
    let counted = Arc::clone(&count);
    dispatcher.subscribe::<Ping>(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let delivery = dispatcher.deliver(&Ping(1), &source());
    let failures = vec!["first".to_owned(), "a subscriber panicked: second".to_owned()];
    assert_eq!(delivery, Delivery { handled_count: 3, failures: failures.clone() });
    assert_eq!(count.load(Ordering::Relaxed), 1);
    let error = delivery.raise_if_errors().unwrap_err();
    assert_eq!(error, DeliveryError { failures });
    assert_eq!(error.to_string(), "2 event subscriber(s) failed: first; a subscriber panicked: second");
    assert_eq!(delivered(3).raise_if_errors(), Ok(()));
}

// case 120
#[test]
fn unsubscribing_works_once() {
    let (dispatcher, other) = (Dispatcher::default(), Dispatcher::default());
    let first = dispatcher.subscribe::<Ping>(|_, _| Err("gone".to_owned()));
    other.subscribe::<Ping>(|_, _| Ok(()));
    assert!(!other.unsubscribe(first), "another dispatcher's subscription is unknown");
    assert_eq!(other.deliver(&Ping(1), &source()), delivered(1));
    let unknown = other.subscribe::<Pong>(|_, _| Ok(()));
    assert!(!dispatcher.unsubscribe(unknown), "nobody listens to this type here");
    assert!(dispatcher.has_subscribers::<Ping>());
    assert!(dispatcher.unsubscribe(first));
    assert!(!dispatcher.unsubscribe(first));
    assert!(!dispatcher.has_subscribers::<Ping>());
    assert_eq!(dispatcher.deliver(&Ping(1), &source()), delivered(0));
}

// case 121
#[test]
fn a_delivery_uses_the_handlers_as_of_its_start() {
    let dispatcher = Arc::new(Dispatcher::default());
    let late = Arc::new(AtomicUsize::new(0));
    let later = Arc::new(Mutex::new(None));
    {
        let (dispatcher, late, later) = (Arc::clone(&dispatcher), Arc::clone(&late), Arc::clone(&later));
        let inside = Arc::clone(&dispatcher);
        dispatcher.subscribe::<Ping>(move |_, _| {
            // One that comes, and one that goes, while this event is delivered.
            let late = Arc::clone(&late);
            inside.subscribe::<Ping>(move |_, _| {
                late.fetch_add(1, Ordering::Relaxed);
                Ok(())
            });
            if let Some(gone) = later.lock().unwrap().take() {
                assert!(inside.unsubscribe(gone));
            }
            Ok(())
        });
    }
    let heard = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&heard);
    let subscription = dispatcher.subscribe::<Ping>(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    *later.lock().unwrap() = Some(subscription);
    assert_eq!(dispatcher.deliver(&Ping(1), &source()), delivered(2));
    assert_eq!((heard.load(Ordering::Relaxed), late.load(Ordering::Relaxed)), (1, 0));
    assert_eq!(dispatcher.deliver(&Ping(2), &source()), delivered(2));
    assert_eq!((heard.load(Ordering::Relaxed), late.load(Ordering::Relaxed)), (1, 1));
}

// case 121
#[test]
fn subscribing_and_unsubscribing_meanwhile_is_no_error() {
    let dispatcher = Dispatcher::default();
    let stop = AtomicBool::new(false);
    let always = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&always);
    dispatcher.subscribe::<Ping>(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let mine = dispatcher.subscribe::<Ping>(|_, _| Ok(()));
                    assert!(dispatcher.unsubscribe(mine));
                }
            });
        }
        for _ in 0..2_000 {
            let delivery = dispatcher.deliver(&Ping(1), &source());
            assert!((1..=4).contains(&delivery.handled_count));
            assert_eq!(delivery.failures, Vec::<String>::new());
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(always.load(Ordering::Relaxed), 2_000);
    assert_eq!(dispatcher.deliver(&Ping(1), &source()), delivered(1));
}

// case 122
#[test]
fn nobody_listens() {
    let dispatcher = Dispatcher::default();
    assert_eq!(dispatcher.deliver(&Ping(1), &source()), delivered(0));
    assert_eq!(dispatcher.deliver(&Ping(1), &source()).raise_if_errors(), Ok(()));
}

#[derive(Debug, Serialize, Deserialize)]
struct Fact(u32);
impl SliceType for Fact {
    const NAME: &'static str = "fact";
}

// cases 118, 119
#[test]
fn a_session_delivers_after_its_reducers_and_reports_failures() {
    let start = Timestamp::from_second(1_000).unwrap();
    let session = Session::builder().id("s").clock(Arc::new(FakeClock::new(start))).build();
    let inside = session.clone();
    session.dispatcher().subscribe::<Fact>(move |fact, from| {
        let latest = inside.slice::<Fact>().latest().map(|fact| fact.0);
        Err(format!("heard {} from {} at {}, latest {latest:?}", fact.0, from.session, from.time.as_second()))
    });
    let result = session.dispatch(Fact(3));
    let failures = vec!["heard 3 from s at 1000, latest Some(3)".to_owned()];
    assert_eq!(result.delivery, Delivery { handled_count: 1, failures });
    assert_eq!((result.is_ok(), result.failures), (false, Vec::new()));
    assert_eq!(session.slice::<Fact>().len(), 1, "a subscriber's failure undoes no dispatch from outside");
}
