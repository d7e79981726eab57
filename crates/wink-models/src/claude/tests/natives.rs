use serde_json::json;

use super::*;
use crate::model::ModelErrorKind;

#[tokio::test]
async fn what_the_programs_tools_did_is_kept_or_undone_as_a_whole() {
    let world = World::new();
    let a = world.root().join("a.txt");
    let (ended, _, ()) = world
        .run(Evaluation::new(), async |mut peer| {
            peer.begin().await;
            let edit = json!({ "tool_input": { "file_path": world.path("a.txt"), "old_string": "one", "new_string": SECRET } });
            assert_eq!(decision(&peer.hook("PreToolUse", "1", "Edit", edit).await), ("allow", ""));
            write(&a, "two\n");
            let response = json!({ "tool_response": { "filePath": "a.txt", "originalFile": "one\n", "said": SECRET } });
            assert_eq!(peer.hook("PostToolUse", "1", "Edit", response).await, json!({}));
            assert_eq!(world.read("a.txt").as_deref(), Some("two\n"));

            let command = json!({ "tool_input": { "command": "false" } });
            assert_eq!(decision(&peer.hook("PreToolUse", "2", "Bash", command).await), ("allow", ""));
            write(&a, "three\n");
            write(&world.root().join("new.txt"), "new\n");
            let error = json!({ "error": "Exit code 1" });
            let answer = peer.hook("PostToolUseFailure", "2", "Bash", error).await;
            assert_eq!(
                answer["hookSpecificOutput"]["additionalContext"],
                "What this call changed in the workspace is undone."
            );
            assert_eq!((world.read("a.txt").as_deref(), world.read("new.txt")), (Some("two\n"), None));
            peer.done("Done.").await;
        })
        .await;
    assert!(ended.is_ok());
    assert_eq!(world.log(), [("1".to_owned(), Ending::Succeeded), ("2".to_owned(), Ending::Failed)]);
    let events = world.session.slice::<ToolInvoked>();
    let first = events.iter().next().unwrap();
    assert_eq!(&*first.tool, "claude_edit");
    let logged = format!("{:?}", events.iter().collect::<Vec<_>>());
    assert!(
        logged.contains("a.txt") && !logged.contains(SECRET) && !logged.contains("originalFile"),
        "{logged}"
    );
}

#[tokio::test]
async fn policies_and_the_border_of_the_workspace_hold_for_them() {
    let world = World::new();
    let link = world.root().join("link");
    std::os::unix::fs::symlink("/etc", &link).unwrap();
    let (ended, stats, ()) = world
        .run(Evaluation::new(), async |mut peer| {
            peer.begin().await;
            let new = json!({ "tool_input": { "file_path": world.path("b.txt"), "content": "b" } });
            assert_eq!(
                decision(&peer.hook("PreToolUse", "1", "Write", new).await),
                ("deny", "write nothing new")
            );
            for (id, path) in [("2", "/etc/hosts"), ("3", "link/hosts"), ("4", "../b.txt"), ("5", ".wink/x")]
            {
                let edit = json!({ "tool_input": { "file_path": path } });
                let answer = peer.hook("PreToolUse", id, "Edit", edit).await;
                let (decided, reason) = decision(&answer);
                assert_eq!(decided, "deny");
                assert!(reason.contains("is not in the workspace"), "{reason}");
            }
            peer.done("Done.").await;
        })
        .await;
    assert!(ended.is_ok());
    assert_eq!((stats.calls, world.log().len()), (0, 5));
    assert_eq!(world.log()[0].1, Ending::Denied);
}

#[tokio::test]
async fn they_take_turns_with_each_other_and_with_ours() {
    let world = World::new();
    let (ended, _, ()) = world
        .run(Evaluation::new(), async |mut peer| {
            peer.begin().await;
            let command = || json!({ "tool_input": { "command": "true" } });
            assert_eq!(decision(&peer.hook("PreToolUse", "1", "Bash", command()).await), ("allow", ""));
            // These wait until the first is over.
            let second = peer.ask(hook("PreToolUse", "2", "Bash", command())).await;
            let read = peer
                .ask(hook(
                    "PreToolUse",
                    "3",
                    "Read",
                    json!({ "tool_input": { "file_path": world.path("a.txt") } }),
                ))
                .await;
            write(&world.root().join("a.txt"), "two\n");
            let first = peer.ask(hook("PostToolUse", "1", "Bash", json!({ "tool_response": {} }))).await;
            let mut waiting = vec![first, second, read];
            while !waiting.is_empty() {
                let answer = peer.hear().await.unwrap()["response"].take();
                let id = answer["request_id"].as_str().unwrap();
                let at = waiting.iter().position(|waits| waits == id).unwrap();
                let id = waiting.remove(at);
                // Whichever of them goes first has to end before the other begins.
                if decision(&answer["response"]).0 == "allow" {
                    let call = if id == "p2" { "2" } else { "3" };
                    waiting.push(
                        peer.ask(hook("PostToolUse", call, "any", json!({ "tool_response": {} }))).await,
                    );
                }
            }
            peer.done("Done.").await;
        })
        .await;
    assert!(ended.is_ok());
    let mut log = world.log();
    log.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(log, ["1", "2", "3"].map(|id| (id.to_owned(), Ending::Succeeded)));
    assert_eq!(world.read("a.txt").as_deref(), Some("two\n"));
}

#[tokio::test]
async fn sub_agents_begin_and_their_calls_are_their_own() {
    let world = World::new();
    let (ended, _, ()) = world
        .run(Evaluation::new(), async |mut peer| {
            peer.begin().await;
            let agent = json!({ "tool_input": { "prompt": "x" } });
            assert_eq!(decision(&peer.hook("PreToolUse", "1", "Agent", agent).await), ("allow", ""));
            let command = json!({ "tool_input": { "command": "true" }, "agent_id": "sub" });
            assert_eq!(decision(&peer.hook("PreToolUse", "2", "Bash", command).await), ("allow", ""));
            assert_eq!(
                peer.hook("PostToolUse", "2", "Bash", json!({ "tool_response": "" })).await,
                json!({})
            );
            assert_eq!(
                peer.hook("PostToolUse", "1", "Agent", json!({ "tool_response": "" })).await,
                json!({})
            );
            peer.done("Done.").await;
        })
        .await;
    assert!(ended.is_ok());
    assert_eq!(world.log(), ["1", "2"].map(|id| (id.to_owned(), Ending::Succeeded)));
}

#[tokio::test]
async fn a_program_that_dies_while_a_tool_works_has_changed_nothing() {
    let world = World::new();
    let (ended, stats, ()) = world
        .run(Evaluation::new(), async |mut peer| {
            peer.begin().await;
            let command = || json!({ "tool_input": { "command": "true" } });
            assert_eq!(decision(&peer.hook("PreToolUse", "1", "Bash", command()).await), ("allow", ""));
            peer.ask(hook("PreToolUse", "2", "Bash", command())).await;
            write(&world.root().join("a.txt"), "half\n");
            write(&world.root().join("half.txt"), "half\n");
        })
        .await;
    let Err(StopReason::Request(error)) = ended else { panic!("{ended:?}") };
    assert_eq!((error.kind, error.retry_safe), (ModelErrorKind::Unavailable, false));
    assert_eq!((world.read("a.txt").as_deref(), world.read("half.txt")), (Some("one\n"), None));
    assert_eq!(world.log(), ["1", "2"].map(|id| (id.to_owned(), Ending::Errored)));
    assert_eq!((stats.calls, stats.rolled_back), (2, 2));
}

#[tokio::test]
async fn a_tool_that_is_stopped_without_a_word_is_undone() {
    let world = World::new();
    let (ended, _, ()) = world
        .run(Evaluation::new(), async |mut peer| {
            peer.begin().await;
            let command = json!({ "tool_input": { "command": "true" } });
            peer.hook("PreToolUse", "1", "Bash", command).await;
            write(&world.root().join("a.txt"), "half\n");
            peer.told("1", "The user doesn't want to proceed", true).await;
            // The next one waits for that.
            let read = json!({ "tool_input": { "file_path": "a.txt" } });
            peer.hook("PreToolUse", "2", "Read", read).await;
            assert_eq!(world.read("a.txt").as_deref(), Some("one\n"));
            peer.hook("PostToolUse", "2", "Read", json!({ "tool_response": "" })).await;
            peer.done("Done.").await;
        })
        .await;
    assert!(ended.is_ok());
    assert_eq!(world.log(), [("1".to_owned(), Ending::Failed), ("2".to_owned(), Ending::Succeeded)]);
}

#[tokio::test]
async fn a_program_that_does_not_promise_hooks_gets_no_task() {
    let world = World::new();
    let (ended, _, ()) = world
        .run(Evaluation::new().task("Go."), async |mut peer| {
            let first = peer.hear().await.unwrap();
            peer.reply(&first["request_id"], json!({ "hooks_applied": true })).await;
            assert_eq!(peer.hear().await, None);
        })
        .await;
    let Err(StopReason::Request(error)) = ended else { panic!("{ended:?}") };
    assert_eq!(error.kind, ModelErrorKind::Rejected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_may_be_done_while_a_call_is_still_being_kept() {
    for _ in 0..20 {
        let world = World::new();
        let (ended, _, ()) = world
            .run(Evaluation::new(), async |mut peer| {
                peer.begin().await;
                peer.hook("PreToolUse", "1", "Bash", json!({ "tool_input": {} })).await;
                write(&world.root().join("a.txt"), "two\n");
                peer.ask(hook("PostToolUse", "1", "Bash", json!({ "tool_response": {} }))).await;
                peer.says("m1", "Done.", &[]).await;
                peer.done("Done.").await;
                while peer.hear().await.is_some() {}
            })
            .await;
        assert!(ended.is_ok());
        assert_eq!(world.log(), [("1".to_owned(), Ending::Succeeded)]);
        assert_eq!(world.read("a.txt").as_deref(), Some("two\n"));
    }
}

/// The program looks at arguments before it runs a hook: an edit of what is not there, and tools that it does not have, it refuses by itself.
#[tokio::test]
async fn what_the_program_refuses_by_itself_is_in_the_log_and_changes_nothing() {
    let world = World::new();
    let (ended, stats, ()) = world
        .run(Evaluation::new(), async |mut peer| {
            peer.begin().await;
            let calls =
                [("1", "Edit"), ("2", "mcp__wink__nothing"), ("3", "mcp__wink__note"), ("4", "Write")];
            peer.says("m1", "", &calls).await;
            for (id, _) in calls {
                peer.told(id, &format!("<tool_use_error>no, {SECRET}</tool_use_error>"), true).await;
            }
            peer.says("m2", "Done.", &[]).await;
            peer.done("Done.").await;
        })
        .await;
    assert!(ended.is_ok());
    let events: Vec<(String, Ending, String)> = world
        .session
        .slice::<ToolInvoked>()
        .iter()
        .map(|event| (event.tool.to_string(), event.ending, event.rendered.to_string()))
        .collect();
    let mut sorted = events.clone();
    sorted.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(
        sorted.iter().map(|(tool, ending, _)| (tool.as_str(), *ending)).collect::<Vec<_>>(),
        [
            ("claude_edit", Ending::Errored),
            // A policy has the first word.
            ("claude_write", Ending::Denied),
            ("nothing", Ending::Unavailable)
        ]
    );
    let text = &sorted[0].2;
    assert!(text.contains("Claude Code refused this: <tool_use_error>no, "), "{text}");
    assert!(!format!("{events:?}").contains(SECRET));
    assert_eq!((stats.turns, stats.denied), (2, 1));
    assert_eq!((world.read("a.txt").as_deref(), world.notes().len()), (Some("one\n"), 0));
}

/// Whoever takes up the run has to know of all calls that may have been made.
#[tokio::test]
async fn no_call_is_made_before_the_response_is_whole_and_kept() {
    let world = World::new();
    let (ended, _, ()) = world
        .run(Evaluation::new(), async |mut peer| {
            peer.begin().await;
            let start = json!({ "type": "message_start", "message": { "id": "m1", "usage": {} } });
            peer.say(&json!({ "type": "stream_event", "event": start })).await;
            for (id, name) in [("1", "Bash"), ("2", "mcp__wink__note")] {
                let block = json!({ "type": "tool_use", "id": id, "name": name, "input": { "text": "x" } });
                let message = json!({ "id": "m1", "model": "m", "content": [block] });
                peer.say(&json!({ "type": "assistant", "message": message })).await;
            }
            let before =
                peer.ask(hook("PreToolUse", "1", "Bash", json!({ "tool_input": { "command": "x" } }))).await;
            // It is answered before anything that comes after: nothing was decided on it by then.
            assert_eq!(peer.mcp("ping", json!({})).await["result"], json!({}));
            assert!(world.steps().is_empty(), "{:?}", world.steps());
            peer.say(&json!({ "type": "stream_event", "event": { "type": "message_stop" } })).await;
            let allowed = peer.hear().await.unwrap();
            assert_eq!(allowed["response"]["request_id"], json!(before));
            assert_eq!(world.steps(), [["1", "2"]]);
            peer.hook("PostToolUse", "1", "Bash", json!({ "tool_response": {} })).await;
            peer.call("2", "note", json!({ "text": "x" })).await;
            peer.told("1", "ran", false).await;
            peer.told("2", "noted", false).await;
            peer.says("m2", "Done.", &[]).await;
            peer.done("Done.").await;
        })
        .await;
    assert!(ended.is_ok());
    assert_eq!(world.log(), ["1", "2"].map(|id| (id.to_owned(), Ending::Succeeded)));
}

/// A response that breaks off is asked for again, and its calls are not made.
#[tokio::test]
async fn calls_of_a_response_that_breaks_off_are_not_made() {
    let world = World::new();
    let (ended, stats, ()) = world
        .run(Evaluation::new(), async |mut peer| {
            peer.begin().await;
            let start = json!({ "type": "message_start", "message": { "id": "m1", "usage": {} } });
            peer.say(&json!({ "type": "stream_event", "event": start })).await;
            let block = json!({ "type": "tool_use", "id": "1", "name": "Bash", "input": {} });
            let message = json!({ "id": "m1", "model": "m", "content": [block] });
            peer.say(&json!({ "type": "assistant", "message": message })).await;
            peer.ask(hook("PreToolUse", "1", "Bash", json!({ "tool_input": { "command": "x" } }))).await;
            peer.says("m2", "Done.", &[]).await;
            let denied = peer.hear().await.unwrap()["response"]["response"].take();
            assert_eq!(decision(&denied), ("deny", "the response that this call belongs to was given up"));
            peer.done("Done.").await;
        })
        .await;
    assert!(ended.is_ok());
    assert_eq!((stats.turns, world.log()), (1, vec![]));
}
