//! Calls whose tools a harness runs itself.

use wink::prelude::*;
use wink::resource::ResourceError;
use wink::session::{CommitError, Ending, ToolInvoked};
use wink::transaction::{AccessError, PendingToolTracker, ToolEnd, TrackerError, TransactionError};

use super::world::{Counter, Note, Seen, Stubborn, World, change_all, note};

async fn tracker() -> (World, PendingToolTracker) {
    let world = World::new().await;
    let tracker = PendingToolTracker::new(world.session.clone(), world.resources.clone());
    (world, tracker)
}

// case 83
#[tokio::test]
async fn a_failure_restores_an_unknown_id_is_false_and_abort_always_restores() {
    let (world, tracker) = tracker().await;
    let before = world.seen().await;

    tracker.begin("1", "write").await.unwrap();
    change_all(&tracker.call("1").unwrap(), "failed").await;
    assert!(tracker.end("1", ToolEnd::Failed).await.unwrap());
    assert_eq!(world.seen().await, Seen { said: vec!["failed".to_owned()], ..before.clone() });

    assert!(!tracker.end("1", ToolEnd::Failed).await.unwrap());
    assert!(!tracker.end("never", ToolEnd::Succeeded).await.unwrap());
    assert!(!tracker.abort("never").await.unwrap());
    assert!(tracker.call("never").is_none());

    tracker.begin("2", "write").await.unwrap();
    let call = tracker.call("2").unwrap();
    change_all(&call, "aborted").await;
    assert_eq!(tracker.pending(), ["2"]);
    assert!(tracker.abort("2").await.unwrap());
    assert!(matches!(call.session().dispatch(note("late")), Err(AccessError::Over)));
    assert!(matches!(call.filesystem().await.map(|_| ()), Err(AccessError::Over)));
    assert_eq!(world.seen().await, Seen { said: vec!["failed".to_owned(), "aborted".to_owned()], ..before });
    assert_eq!(world.session.calls("write"), None);

    tracker.begin("3", "write").await.unwrap();
    change_all(&tracker.call("3").unwrap(), "kept").await;
    assert!(tracker.end("3", ToolEnd::Succeeded).await.unwrap());
    assert_eq!(world.seen().await.notes, ["there", "kept"]);
    assert_eq!(world.session.calls("write").map(|stat| stat.count), Some(1));
}

// case 85
#[tokio::test]
async fn beginning_twice_is_an_error_and_the_first_goes_on() {
    let (world, tracker) = tracker().await;
    tracker.begin("1", "write").await.unwrap();
    change_all(&tracker.call("1").unwrap(), "a").await;
    let error = tracker.begin("1", "other").await.unwrap_err();
    assert_eq!(error, TrackerError::Pending { id: "1".into() });
    assert!(tracker.end("1", ToolEnd::Succeeded).await.unwrap());
    assert_eq!(world.seen().await.notes, ["there", "a"]);
    tracker.begin("1", "again").await.unwrap();
}

#[tokio::test]
async fn overlapping_calls_undo_only_their_own_changes() {
    let (world, tracker) = tracker().await;
    for id in ["1", "2", "3"] {
        tracker.begin(id, "write").await.unwrap();
    }
    for id in ["1", "2", "3"] {
        let call = tracker.call(id).unwrap();
        let _ = call.session().dispatch(note(id)).unwrap();
        call.filesystem().await.unwrap().write_text(&format!("{id}.txt"), id).await.unwrap();
    }
    assert!(tracker.end("3", ToolEnd::Succeeded).await.unwrap());
    assert!(tracker.end("1", ToolEnd::Failed).await.unwrap());
    assert!(tracker.end("2", ToolEnd::Succeeded).await.unwrap());
    let after = world.seen().await;
    assert_eq!(after.notes, ["there", "3", "2"]);
    assert_eq!(after.files.keys().collect::<Vec<_>>(), ["2.txt", "3.txt", "there.txt"]);
}

#[tokio::test]
async fn calls_that_contradict_each_other_conflict_and_the_later_one_leaves_nothing() {
    let (world, tracker) = tracker().await;
    for id in ["1", "2", "3"] {
        tracker.begin(id, "write").await.unwrap();
    }
    let (first, second, third) =
        (tracker.call("1").unwrap(), tracker.call("2").unwrap(), tracker.call("3").unwrap());
    let _ = second.session().slice::<Note>().unwrap();
    change_all(&first, "first").await;
    change_all(&second, "second").await;
    third.resource::<Counter>().await.unwrap().update(|n| *n += 5);
    let _ = third.session().dispatch(note("third")).unwrap();
    assert!(tracker.end("1", ToolEnd::Succeeded).await.unwrap());
    let after_first = world.seen().await;
    let error = tracker.end("3", ToolEnd::Succeeded).await.unwrap_err();
    assert!(matches!(error, TransactionError::Resource(ResourceError::Conflict { .. })), "{error:?}");
    let error = tracker.end("2", ToolEnd::Succeeded).await.unwrap_err();
    assert!(
        matches!(error, TransactionError::Resource(_) | TransactionError::Commit(CommitError::Conflict(_))),
        "{error:?}"
    );
    let said = vec!["first".to_owned(), "second".to_owned()];
    assert_eq!(world.seen().await, Seen { said, ..after_first });
    assert!(tracker.pending().is_empty());
}

#[tokio::test]
async fn dropping_the_tracker_rolls_everything_back() {
    let (world, tracker) = tracker().await;
    let before = world.seen().await;
    for id in ["1", "2"] {
        tracker.begin(id, "write").await.unwrap();
        change_all(&tracker.call(id).unwrap(), "a").await;
    }
    let call = tracker.call("1").unwrap();
    drop(tracker);
    assert!(matches!(call.session().dispatch(note("late")), Err(AccessError::Over)));
    assert_eq!(world.seen().await, Seen { said: vec!["a".to_owned(), "a".to_owned()], ..before });
}

#[tokio::test]
async fn an_end_that_nobody_waits_for_any_more_is_finished() {
    let store = Stubborn::new();
    let world = World::on(store.clone()).await;
    let tracker = PendingToolTracker::new(world.session.clone(), world.resources.clone());
    tracker.begin("1", "write").await.unwrap();
    change_all(&tracker.call("1").unwrap(), "a").await;
    store.shut();
    {
        let mut end = Box::pin(tracker.end("1", ToolEnd::Succeeded));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(Future::poll(end.as_mut(), &mut cx).is_pending());
    }
    store.open();
    world.session.flush().await.unwrap();
    assert_eq!(world.seen().await.notes, ["there", "a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_threads_lose_nothing() {
    let (world, tracker) = tracker().await;
    let tracker = std::sync::Arc::new(tracker);
    let running: Vec<_> = (0..32)
        .map(|number: u32| {
            let tracker = tracker.clone();
            tokio::spawn(async move {
                let id = number.to_string();
                tracker.begin(&*id, "write").await.unwrap();
                let call = tracker.call(&id).unwrap();
                let _ = call.session().dispatch(note(&id)).unwrap();
                call.filesystem().await.unwrap().write_text(&format!("{id}.txt"), &id).await.unwrap();
                let end = if number.is_multiple_of(2) { ToolEnd::Succeeded } else { ToolEnd::Failed };
                assert!(tracker.end(&id, end).await.unwrap());
            })
        })
        .collect();
    for one in running {
        one.await.unwrap();
    }
    let after = world.seen().await;
    assert_eq!((after.notes.len(), after.files.len()), (17, 17));
    assert_eq!(world.session.calls("write").map(|stat| stat.count), Some(16));
}

/// A tool whose work is done by a harness, which the adapter knows.
struct Harness(PendingToolTracker, tokio::sync::Notify);

async fn native(
    _: serde_json::Value,
    cx: &mut ToolContext,
) -> Result<ToolResult<serde_json::Value>, ToolError> {
    let harness = cx.adapter().get::<Harness>().ok_or_else(|| ToolError::new("no harness"))?;
    let standing = harness.0.stand(cx)?;
    assert_eq!(harness.0.stand(cx).err(), Some(TrackerError::Pending { id: "1".into() }));
    harness.1.notify_one();
    match standing.ended().await {
        Some((ToolEnd::Succeeded, said)) => Ok(ToolResult::value(said)),
        Some((ToolEnd::Failed, said)) => Ok(ToolResult::error(said.to_string())),
        None => Err(ToolError::new("nobody knows")),
    }
}

/// With what is said of the end: a report, or an abort.
async fn executed(end: Option<ToolEnd>) -> (World, Outcome) {
    let (world, tracker) = tracker().await;
    let harness = std::sync::Arc::new(Harness(tracker, tokio::sync::Notify::new()));
    let schema = serde_json::json!({ "type": "object", "additionalProperties": true });
    let tool = Tool::dynamic::<ToolContext, _>("native", "Is run by somebody else.", schema, native);
    let deny = wink::policy::policy_fn("rules", |call, _| match call.params.json().get("deny") {
        Some(_) => wink::policy::Decision::deny("no"),
        None => wink::policy::Decision::Allow,
    });
    let section = Section::tools("tools", "Tools").tool(tool).policy(deny);
    let prompt = PromptTemplate::builder("tests", "tracked").section(section).build().unwrap().prompt();
    let adapter = wink::tool::AdapterInfo::new("harness").utility(harness.clone());
    let executor = Executor::builder(&prompt, &world.session)
        .opened(world.resources.clone())
        .adapter(adapter)
        .open()
        .await
        .unwrap();
    // Who is denied never gets as far.
    let denied = executor.call(ToolCall::new("denied", "native", r#"{"deny":1}"#)).await;
    assert_eq!((denied.text(), harness.0.pending()), ("no", vec![]));
    let ends = async {
        harness.1.notified().await;
        assert_eq!(harness.0.pending(), ["1"]);
        change_all(&harness.0.call("1").unwrap(), "done").await;
        match end {
            Some(end) => assert!(harness.0.report("1", end, "said".into())),
            None => assert!(harness.0.abort("1").await.unwrap()),
        }
        assert!(!harness.0.report("1", ToolEnd::Succeeded, "twice".into()));
    };
    let (outcome, ()) = tokio::join!(executor.call(ToolCall::new("1", "native", "{}")), ends);
    assert!(harness.0.pending().is_empty());
    (world, outcome)
}

#[tokio::test]
async fn a_call_of_an_executor_is_kept_or_taken_back_as_the_harness_says() {
    for (end, ending) in [
        (Some(ToolEnd::Succeeded), Ending::Succeeded),
        (Some(ToolEnd::Failed), Ending::Failed),
        (None, Ending::Errored),
    ] {
        let before = World::new().await.seen().await;
        let (world, outcome) = executed(end).await;
        assert_eq!(outcome.event.ending, ending, "{end:?}");
        let seen = world.seen().await;
        match end {
            Some(ToolEnd::Succeeded) => assert_eq!(seen.notes, ["there", "done"]),
            _ => assert_eq!(seen, Seen { said: vec!["done".to_owned()], ..before }, "{end:?}"),
        }
        let events = world.session.slice::<ToolInvoked>();
        let endings: Vec<Ending> = events.iter().map(|event| event.ending).collect();
        assert_eq!(endings, [Ending::Denied, ending]);
    }
}
