use serde_json::json;

use super::*;
use crate::message::ToolAnswer;
use wink::limits::TokenUsage;
use wink::prompt::Output;
use wink::session::PromptExecuted;

// cases 207, 209, 211
#[tokio::test]
async fn calls_of_our_tools_go_through_the_executor() {
    let world = World::new();
    let (ended, stats, ()) = world
        .run(Evaluation::new().task("Go."), async |mut peer| {
            assert_eq!(peer.begin().await, "Go.");
            let hello = peer.mcp("initialize", json!({ "protocolVersion": "2025-06-18" })).await;
            assert_eq!(hello["result"]["protocolVersion"], "2025-06-18");
            let listed = peer.mcp("tools/list", json!({})).await["result"]["tools"].take();
            let names: Vec<_> =
                listed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
            assert_eq!(names, ["note", "fail", "hang", "shout", "open_sections", "read_section"]);
            assert!(listed[0]["description"].as_str().unwrap().contains("Example: A note."));
            assert_eq!(listed[0]["inputSchema"]["required"], json!(["text"]));
            peer.says(
                "m1",
                "So:",
                &[("1", "mcp__wink__note"), ("2", "mcp__wink__shout"), ("3", "mcp__wink__fail")],
            )
            .await;
            let allowed = peer.hook("PreToolUse", "1", "mcp__wink__note", json!({})).await;
            assert_eq!(decision(&allowed), ("allow", ""));
            let (text, is_error) = peer.call("1", "note", json!({ "text": "x" })).await;
            assert_eq!((text.as_str(), is_error), ("noted\n\n{\"text\":\"x\"}", false));
            assert_eq!(peer.call("2", "shout", json!({ "text": "x" })).await, ("not so loud".into(), true));
            assert_eq!(peer.call("3", "fail", json!({ "text": "x" })).await, ("no".into(), true));
            for (id, text, is_error) in [("1", "noted", false), ("2", "not so loud", true), ("3", "no", true)]
            {
                peer.told(id, text, is_error).await;
            }
            peer.says("m2", "Done.", &[]).await;
            peer.done("Done.").await;
            assert_eq!(peer.hear().await, None);
        })
        .await;
    assert_eq!(&*ended.unwrap().text, "Done.");
    let usage = TokenUsage { input_tokens: 20, output_tokens: 4, cached_tokens: 6 };
    assert_eq!(stats, RunStats { turns: 2, calls: 3, rolled_back: 1, denied: 1, usage });
    assert_eq!(
        world.log(),
        [("1", Ending::Succeeded), ("2", Ending::Denied), ("3", Ending::Failed)]
            .map(|(id, ending)| (id.to_owned(), ending))
    );
    assert_eq!(world.notes(), ["x"]);
    // The session has the conversation, as that of any other adapter has.
    let steps: Vec<Said> =
        world.session.slice::<ConversationStep>().iter().map(|step| step.said.clone()).collect();
    let [
        Said::Began { .. },
        Said::Responded(first),
        Said::Answered { answers, expanded: false, .. },
        Said::Responded(last),
        Said::Finished { .. },
    ] = &steps[..]
    else {
        panic!("{steps:?}")
    };
    assert_eq!((&*first.text, &*last.text), ("So:", "Done."));
    assert_eq!(first.calls.iter().map(|call| &*call.name).collect::<Vec<_>>(), ["note", "shout", "fail"]);
    let answer = |id: &str, name: &str, text: &str, success| ToolAnswer {
        id: id.into(),
        name: name.into(),
        text: text.into(),
        success,
    };
    assert_eq!(
        *answers,
        [
            answer("1", "note", "noted\n\n{\"text\":\"x\"}", true),
            answer("2", "shout", "not so loud", false),
            answer("3", "fail", "no", false)
        ]
    );
    assert_eq!(
        world.session.slice::<PromptExecuted>().iter().map(|event| event.usage).collect::<Vec<_>>(),
        [Some(usage)]
    );
}

#[tokio::test]
async fn what_cannot_be_called_is_answered() {
    let world = World::new();
    let (ended, _, ()) = world
        .run(Evaluation::new(), async |mut peer| {
            assert_eq!(peer.begin().await, "Begin.");
            let (text, is_error) = peer.call("1", "nothing", json!({})).await;
            assert!(is_error && text.contains("nothing"), "{text}");
            // Tools of the program's own are its own to run.
            let (text, is_error) = peer.call("2", "claude_bash", json!({ "command": "true" })).await;
            assert!(is_error && text.contains("run by Claude Code itself"), "{text}");
            let refused = peer.hook("PreToolUse", "3", "KillShell", json!({})).await;
            assert_eq!(decision(&refused), ("deny", "KillShell cannot be called here"));
            let unknown = peer.mcp("resources/list", json!({})).await;
            assert_eq!(unknown["error"]["code"], -32601);
            assert_eq!(peer.mcp("ping", json!({})).await["result"], json!({}));
            peer.ask(json!({ "subtype": "can_use_tool", "tool_name": "Bash", "input": {} })).await;
            assert_eq!(peer.hear().await.unwrap()["response"]["subtype"], "error");
            peer.done("Done.").await;
        })
        .await;
    assert_eq!(&*ended.unwrap().text, "Done.");
}

#[tokio::test]
async fn a_call_is_made_once_however_often_it_is_sent() {
    let world = World::new();
    let (ended, stats, ()) = world
        .run(Evaluation::new(), async |mut peer| {
            peer.begin().await;
            peer.says("m1", "", &[("1", "mcp__wink__note")]).await;
            assert!(!peer.call("1", "note", json!({ "text": "x" })).await.1);
            let params = json!({ "name": "note", "arguments": { "text": "x" }, "_meta": { "claudecode/toolUseId": "1" } });
            let message = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params });
            peer.ask(json!({ "subtype": "mcp_message", "server_name": "wink", "message": message })).await;
            let refused = peer.hear().await.unwrap();
            assert_eq!(refused["response"]["error"], "this call was made already", "{refused}");
            peer.told("1", "noted", false).await;
            // The next response may have one with the same id.
            peer.says("m2", "", &[("1", "mcp__wink__note")]).await;
            assert!(!peer.call("1", "note", json!({ "text": "y" })).await.1);
            peer.told("1", "noted", false).await;
            peer.says("m3", "Done.", &[]).await;
            peer.done("Done.").await;
        })
        .await;
    assert_eq!((&*ended.unwrap().text, stats.calls), ("Done.", 2));
    assert_eq!(world.notes(), ["x", "y"]);
}

// case 240b
#[tokio::test]
async fn sections_that_are_opened_change_what_can_be_called() {
    let world = World::new();
    let (ended, _, ()) = world
        .run(Evaluation::new(), async |mut peer| {
            peer.begin().await;
            let open = json!({ "section_keys": ["closed"], "reason": "why not" });
            let params = json!({ "name": "open_sections", "arguments": open, "_meta": { "claudecode/toolUseId": "1" } });
            let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
            peer.ask(json!({ "subtype": "mcp_message", "server_name": "wink", "message": message })).await;
            let changed = peer.hear().await.unwrap();
            assert_eq!(changed["request"]["message"]["method"], "notifications/tools/list_changed");
            let answer = peer.hear().await.unwrap()["response"]["response"]["mcp_response"]["result"].take();
            assert_eq!(answer["isError"], false);
            assert!(answer["content"][0]["text"].as_str().unwrap().contains("There is more."), "{answer}");
            assert!(!peer.call("2", "more", json!({ "text": "y" })).await.1);
            peer.done("Done.").await;
        })
        .await;
    assert!(ended.is_ok());
    assert_eq!(world.notes(), ["y"]);
}

#[tokio::test]
async fn a_call_that_the_program_gives_up_is_cancelled() {
    let world = World::new();
    let (ended, stats, ()) = world
        .run(Evaluation::new(), async |mut peer| {
            peer.begin().await;
            let params = json!({ "name": "hang", "arguments": { "text": "x" }, "_meta": { "claudecode/toolUseId": "1" } });
            let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
            let id = peer.ask(json!({ "subtype": "mcp_message", "server_name": "wink", "message": message })).await;
            peer.say(&json!({ "type": "control_cancel_request", "request_id": id })).await;
            assert_eq!(peer.hear().await.unwrap()["response"]["response"]["mcp_response"]["result"]["isError"], true);
            assert!(!peer.call("2", "note", json!({ "text": "y" })).await.1);
            peer.says("m1", "", &[("1", "mcp__wink__hang"), ("2", "mcp__wink__note")]).await;
            peer.done("Done.").await;
        })
        .await;
    assert!(ended.is_ok());
    assert_eq!((stats.calls, stats.rolled_back), (2, 1));
    assert_eq!(world.log(), [("1".to_owned(), Ending::Cancelled), ("2".to_owned(), Ending::Succeeded)]);
}

#[tokio::test]
async fn secrets_that_the_model_has_seen_are_not_kept() {
    let world = World::new();
    let (ended, _, ()) = world
        .run(Evaluation::new().task("/clear"), async |mut peer| {
            // Nothing that is said is a command of the program's.
            assert_eq!(peer.begin().await, "\n/clear");
            peer.says("m1", SECRET, &[("1", "mcp__wink__note")]).await;
            assert!(!peer.call("1", "note", json!({ "text": SECRET })).await.1);
            peer.told("1", SECRET, false).await;
            peer.says("m2", SECRET, &[]).await;
            peer.done(SECRET).await;
        })
        .await;
    let text = ended.unwrap().text;
    let kept: Vec<String> =
        world.session.slice::<ConversationStep>().iter().map(|step| format!("{step:?}")).collect();
    let events: Vec<String> =
        world.session.slice::<ToolInvoked>().iter().map(|event| format!("{event:?}")).collect();
    let all = [kept, events, world.notes(), vec![text.to_string()]].concat().join("\n");
    assert!(!all.contains(SECRET), "{all}");
}

// case 207
#[tokio::test]
async fn a_typed_result_is_handed_over_and_the_model_is_told_what_is_wrong_with_it() {
    let world = World::with(|template| {
        template.output(Output::object::<Note>().publishes()).build().unwrap().prompt()
    });
    let (ended, stats, ()) = world
        .run(Evaluation::new(), async |mut peer| {
            peer.begin().await;
            let block = json!({ "type": "tool_use", "id": "s", "name": "StructuredOutput", "input": { "wrong": 1 } });
            peer.say(&json!({ "type": "assistant", "message": { "id": "m1", "content": [block] } })).await;
            // It is not taken, and the model is told in our words.
            let denied = peer.hook("PreToolUse", "s", "StructuredOutput", json!({})).await;
            let (decided, why) = decision(&denied);
            assert!(decided == "deny" && why.contains("`wrong`: unknown field"), "{decided} {why}");
            peer.told("s", why, true).await;
            peer.says("m2", "I do not know.", &[]).await;
            peer.done("I do not know.").await;
            let reminder = peer.hear().await.unwrap();
            assert!(reminder["message"]["content"].as_str().unwrap().contains("JSON"), "{reminder}");
            let block = json!({ "type": "tool_use", "id": "s2", "name": "StructuredOutput", "input": { "text": "yes" } });
            peer.say(&json!({ "type": "assistant", "message": { "id": "m3", "content": [block] } })).await;
            let allowed = peer.hook("PreToolUse", "s2", "StructuredOutput", json!({})).await;
            assert_eq!(decision(&allowed), ("allow", ""));
            let output = json!({ "text": "yes" });
            peer.say(&json!({ "type": "result", "subtype": "success", "structured_output": output })).await;
            assert_eq!(peer.hear().await, None);
        })
        .await;
    assert_eq!(ended.unwrap().output.as_deref(), Some(&json!({ "text": "yes" })));
    assert_eq!((stats.turns, stats.calls), (3, 0));
    assert_eq!(world.notes(), ["yes"]);
}
