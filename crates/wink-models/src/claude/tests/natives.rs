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
