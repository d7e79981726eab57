use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Something that the program says or does.
#[derive(Debug, Clone)]
enum Act {
    /// A tool of its own is about to run. If it may, it writes its file.
    Before(u8),
    /// It has run.
    After(u8),
    /// It has failed.
    Failed(u8),
    /// The model is told about it.
    Told(u8),
    /// The model says something, with calls or without.
    Says(u8, Vec<u8>),
    /// One of our tools is called.
    Calls(u8),
    /// It does not want to know any more.
    NeverMind(u8),
    /// The turn is over.
    Done,
    /// Anything.
    Line(&'static str),
}

fn act() -> impl Strategy<Value = Act> {
    let id = || 0..4u8;
    let lines = prop::sample::select(vec![
        "",
        "noise",
        "{}",
        "[]",
        "{\"type\":\"control_request\"}",
        "{\"type\":\"control_request\",\"request_id\":\"z\",\"request\":[]}",
        "{\"type\":\"control_response\",\"response\":{\"request_id\":\"1\"}}",
        "{\"type\":\"assistant\",\"message\":7}",
        "{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\"}]}}",
        "{\"type\":\"stream_event\",\"event\":{}}",
        "{\"type\":\"control_request\",\"request_id\":\"z\",\"request\":{\"subtype\":\"hook_callback\",\"input\":{\"hook_event_name\":\"PreToolUse\"}}}",
        "{\"type\":\"control_request\",\"request_id\":\"z\",\"request\":{\"subtype\":\"mcp_message\",\"server_name\":\"wink\",\"message\":{\"method\":\"tools/call\"}}}",
        "{not json",
    ]);
    prop_oneof![
        6 => id().prop_map(Act::Before),
        4 => id().prop_map(Act::After),
        2 => id().prop_map(Act::Failed),
        2 => id().prop_map(Act::Told),
        2 => (id(), prop::collection::vec(id(), 0..3)).prop_map(|(message, calls)| Act::Says(message, calls)),
        2 => id().prop_map(Act::Calls),
        1 => id().prop_map(Act::NeverMind),
        1 => Just(Act::Done),
        2 => lines.prop_map(Act::Line),
    ]
}

/// Does it all, in this order, and ends. What it asks has one answer at most.
async fn play(mut peer: Peer, world: &World, acts: Vec<Act>) {
    peer.begin().await;
    let mut working: Option<u8> = None;
    let mut answered: HashMap<String, usize> = HashMap::new();
    for act in acts {
        match act {
            Act::Before(id) => {
                let asked =
                    peer.ask(hook("PreToolUse", &id.to_string(), "Bash", json!({ "tool_input": {} }))).await;
                if working.is_some() {
                    // It waits for the other, or is refused.
                    continue;
                }
                while let Some(frame) = peer.hear().await {
                    let id_of = frame["response"]["request_id"].as_str().unwrap_or_default().to_owned();
                    let is_allowed = decision(&frame["response"]["response"]).0 == "allow";
                    *answered.entry(id_of.clone()).or_default() += 1;
                    if id_of == asked {
                        if is_allowed {
                            working = Some(id);
                            write(&world.root().join(format!("{id}.txt")), "x");
                        }
                        break;
                    }
                    if is_allowed {
                        // One that had waited: nobody says how it ends.
                        working = Some(u8::MAX);
                        break;
                    }
                }
            }
            Act::After(id) | Act::Failed(id) => {
                let is_after = matches!(act, Act::After(_));
                let event = if is_after { "PostToolUse" } else { "PostToolUseFailure" };
                peer.ask(hook(event, &id.to_string(), "Bash", json!({ "tool_response": {}, "error": "no" })))
                    .await;
                working = working.filter(|working| *working != id);
            }
            Act::Told(id) => {
                peer.told(&id.to_string(), "told", true).await;
                working = working.filter(|working| *working != id);
            }
            Act::Says(message, calls) => {
                let calls: Vec<String> = calls.iter().map(u8::to_string).collect();
                let calls: Vec<(&str, &str)> = calls.iter().map(|id| (id.as_str(), "Bash")).collect();
                peer.says(&message.to_string(), "text", &calls).await;
            }
            Act::Calls(id) => {
                let params = json!({ "name": "note", "arguments": { "text": "x" }, "_meta": { "claudecode/toolUseId": format!("n{id}") } });
                let message = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
                peer.ask(json!({ "subtype": "mcp_message", "server_name": "wink", "message": message }))
                    .await;
            }
            Act::NeverMind(id) => {
                peer.say(&json!({ "type": "control_cancel_request", "request_id": format!("p{id}") })).await
            }
            Act::Done => peer.done("Done.").await,
            Act::Line(line) => peer.line(line).await,
        }
    }
    // Others than these have no number of their own.
    answered.retain(|id, _| id.starts_with('p'));
    assert!(answered.values().all(|times| *times == 1), "{answered:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() })]

    /// Whatever the program says, in whatever order: when it is over, the workspace has what calls did that the log says succeeded, and
    /// nothing else; and nothing is pending.
    #[test]
    fn nothing_is_left_half_done(acts in prop::collection::vec(act(), 0..16)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let world = World::new();
            let (_, stats, ()) = world.run(Evaluation::new(), async |peer| play(peer, &world, acts).await).await;
            let log = world.log();
            prop_assert!(log.iter().all(|(_, ending)| *ending != Ending::Panicked), "{log:?}");
            for id in 0..4u8 {
                let succeeded = log.iter().any(|(call, ending)| *call == id.to_string() && *ending == Ending::Succeeded);
                if world.read(&format!("{id}.txt")).is_some() {
                    prop_assert!(succeeded, "{id} is there: {log:?}");
                }
            }
            prop_assert_eq!(world.read("a.txt"), Some("one\n".to_owned()));
            let notes = log.iter().filter(|(id, ending)| id.starts_with('n') && *ending == Ending::Succeeded).count();
            prop_assert_eq!(world.notes().len(), notes);
            prop_assert!(stats.calls >= stats.rolled_back + stats.denied);
            // Whoever comes next can work there.
            let files = HostFilesystem::open(world.dir.path(), HostOptions::default()).unwrap();
            prop_assert!(files.recovered().is_none_or(|found| found.trash.is_empty()));
            Ok(())
        })?;
    }
}
