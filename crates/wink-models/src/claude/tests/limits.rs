use std::time::Duration;

use serde_json::json;
use wink::limits::{Budget, BudgetTracker, CancelToken, Deadline};
use wink::testing::FakeClock;

use super::*;
use crate::model::ModelErrorKind;

// cases 201, 203
#[tokio::test]
async fn tokens_of_every_response_and_of_sub_agents_count() {
    for (limit, is_over) in [(40, false), (39, true)] {
        let world = World::new();
        let budget = Arc::new(BudgetTracker::new(Budget::total(limit).unwrap()));
        let (ended, _, ()) = world
            .run(Evaluation::new().budget(Arc::clone(&budget)), async |mut peer| {
                peer.begin().await;
                peer.says("m1", "Done.", &[]).await;
                // Twelve were said, the rest was for others.
                let usage = json!({ "m": { "inputTokens": 30, "outputTokens": 10 } });
                peer.say(&json!({ "type": "result", "subtype": "success", "result": "Done.", "modelUsage": usage })).await;
                while peer.hear().await.is_some() {}
            })
            .await;
        assert_eq!(ended.as_ref().err().map(StopReason::name), is_over.then_some("budget"));
        assert_eq!(budget.used().total(), 40);
    }
}

#[tokio::test]
async fn a_budget_that_is_used_up_stops_the_program() {
    let world = World::new();
    let budget = Arc::new(BudgetTracker::new(Budget::total(20).unwrap()));
    let (ended, stats, ()) = world
        .run(Evaluation::new().budget(budget), async |mut peer| {
            peer.begin().await;
            peer.says("m1", "", &[("1", "mcp__wink__note")]).await;
            peer.call("1", "note", json!({ "text": "x" })).await;
            peer.told("1", "noted", false).await;
            // Its call is not made any more.
            peer.says("m2", "", &[("2", "mcp__wink__note")]).await;
            let interrupt = peer.hear().await.unwrap();
            assert_eq!(interrupt["request"]["subtype"], "interrupt");
            peer.done("").await;
            assert_eq!(peer.hear().await, None);
        })
        .await;
    assert_eq!(ended.unwrap_err().name(), "budget");
    assert_eq!((stats.turns, stats.calls, stats.usage.total()), (2, 1, 24));
    assert_eq!(world.notes(), ["x"]);
}

// case 210
#[tokio::test]
async fn turns_are_counted_here_too() {
    let world = World { terms: Terms { max_turns: 1, ..Terms::default() }, ..World::new() };
    let (ended, _, ()) = world
        .run(Evaluation::new(), async |mut peer| {
            peer.begin().await;
            peer.says("m1", "", &[("1", "mcp__wink__note")]).await;
            peer.call("1", "note", json!({ "text": "x" })).await;
            peer.told("1", "noted", false).await;
            while peer.hear().await.is_some() {}
        })
        .await;
    assert_eq!(ended.unwrap_err(), StopReason::TurnCap { max_turns: 1 });
}

#[tokio::test]
async fn a_cancelled_run_undoes_what_works_and_interrupts_what_thinks() {
    for is_working in [true, false] {
        let world = World::new();
        let cancel = CancelToken::new();
        let (ended, _, ()) = world
            .run(Evaluation::new().cancel(cancel.clone()), async |mut peer| {
                peer.begin().await;
                if is_working {
                    peer.hook("PreToolUse", "1", "Bash", json!({ "tool_input": {} })).await;
                    write(&world.root().join("a.txt"), "half\n");
                }
                cancel.cancel();
                if !is_working {
                    assert_eq!(peer.hear().await.unwrap()["request"]["subtype"], "interrupt");
                    // What it begins now is refused.
                    let refused = peer.hook("PreToolUse", "1", "Bash", json!({})).await;
                    assert_eq!(decision(&refused), ("deny", "the run is being stopped"));
                    peer.done("").await;
                }
                while peer.hear().await.is_some() {}
            })
            .await;
        assert_eq!(ended.unwrap_err(), StopReason::Cancelled);
        assert_eq!(world.read("a.txt").as_deref(), Some("one\n"));
        assert_eq!(world.log().len(), usize::from(is_working));
    }
}

#[tokio::test]
async fn a_deadline_stops_a_program_that_says_nothing() {
    let clock = Arc::new(FakeClock::new("2026-03-01T12:00:00Z".parse().unwrap()));
    let world = World { session: Session::builder().clock(clock.clone()).build(), ..World::new() };
    let deadline = Deadline::after(Duration::from_secs(60), &*clock).unwrap();
    let (ended, _, ()) = world
        .run(Evaluation::new().deadline(deadline), async |mut peer| {
            peer.begin().await;
            clock.advance(Duration::from_secs(61));
            assert_eq!(peer.hear().await.unwrap()["request"]["subtype"], "interrupt");
            clock.advance(Duration::from_secs(3));
            while peer.hear().await.is_some() {}
        })
        .await;
    assert_eq!(ended.unwrap_err().name(), "deadline");
}

#[tokio::test]
async fn a_program_that_speaks_another_language_is_ended() {
    for line in ["{\"type\":", "{{}", "{\"a\":1}{"] {
        let world = World::new();
        let (ended, _, ()) = world
            .run(Evaluation::new(), async |mut peer| {
                peer.begin().await;
                peer.line("something for people").await;
                peer.line("[1, 2]").await;
                peer.line("{\"type\": 7, \"more\": null}").await;
                peer.line(line).await;
                while peer.hear().await.is_some() {}
            })
            .await;
        let Err(StopReason::Request(error)) = ended else { panic!("{ended:?}") };
        assert_eq!(error.kind, ModelErrorKind::Malformed);
    }
}
