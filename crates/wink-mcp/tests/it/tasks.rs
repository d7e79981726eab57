//! Calls that take long become tasks, for clients that know what that is.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use wink::session::Ending;
use wink::testing::ByteStore;

use crate::support::{Agent, Client, call_params, stateless, text_of};

fn knowing() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/tasks": {} }, "elicitation": {} })
}

fn about(task: &Value) -> Value {
    json!({ "taskId": task["taskId"], "_meta": stateless(knowing()) })
}

/// A call that has become a task.
async fn task(agent: &Agent, client: &mut Client) -> Value {
    let id = client.begin("tools/call", call_params("wait", json!({}), knowing())).await;
    agent.shared.waiting.notified().await;
    agent.clock.advance(Duration::from_secs(11));
    let task = client.answer(id).await["result"].clone();
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{task}");
    let state = look(client, &task).await;
    for told in [&task, &state] {
        assert_eq!(told["ttlMs"], 24 * 60 * 60 * 1000, "{told}");
    }
    task
}

async fn look(client: &mut Client, task: &Value) -> Value {
    client.request("tasks/get", about(task)).await["result"].clone()
}

/// Looks until it is no longer working.
async fn ended(client: &mut Client, task: &Value) -> Value {
    loop {
        let state = look(client, task).await;
        if state["status"] != "working" {
            return state;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_long_call_becomes_a_task_that_ends_with_its_result() {
    let agent = Agent::new().await;
    let mut client = Client::new(&agent);
    let task = task(&agent, &mut client).await;
    assert_eq!(look(&mut client, &task).await["status"], "working");
    agent.shared.go.notify_one();
    let state = ended(&mut client, &task).await;
    assert_eq!(state["status"], "completed", "{state}");
    assert_eq!(text_of(&state["result"]), "waited");
    // How far it was is of no interest any more, and another server says the same.
    assert_eq!(state["statusMessage"], "it has ended", "{state}");
    let beside = agent.beside();
    let mut other = Client::new(&beside);
    assert_eq!(look(&mut other, &task).await["statusMessage"], state["statusMessage"]);
    other.close().await;
    assert_eq!(agent.file("waited.txt").await.as_deref(), Some("it did"));
    assert_eq!(agent.events().len(), 1);
    client.close().await;
}

#[tokio::test]
async fn a_task_is_cancelled_and_rolled_back() {
    let agent = Agent::new().await;
    let mut client = Client::new(&agent);
    let task = task(&agent, &mut client).await;
    let said = client.request("tasks/cancel", about(&task)).await["result"].clone();
    assert_eq!(said["resultType"], "complete", "{said}");
    let state = ended(&mut client, &task).await;
    let event = agent.events().pop().unwrap();
    assert_eq!(
        (&state["status"], &state["statusMessage"]),
        (&json!("cancelled"), &json!("wait was cancelled; nothing was changed")),
        "{state}"
    );
    assert_eq!(*event.rendered, *state["statusMessage"].as_str().unwrap());
    assert_eq!(agent.file("waited.txt").await, None);
    assert_eq!(event.ending, Ending::Cancelled);
    // Another server says the same.
    let beside = agent.beside();
    let mut other = Client::new(&beside);
    let there = look(&mut other, &task).await;
    let both = |state: &Value| (state["status"].clone(), state["statusMessage"].clone());
    assert_eq!(both(&there), both(&state), "{there}");
    other.close().await;
    // Again is nothing.
    assert!(client.request("tasks/cancel", about(&task)).await.get("result").is_some());
    client.close().await;
}

#[tokio::test]
async fn whoever_does_not_know_tasks_waits() {
    let agent = Agent::new().await;
    let mut client = Client::new(&agent);
    let id = client.begin("tools/call", call_params("wait", json!({}), json!({}))).await;
    agent.shared.waiting.notified().await;
    agent.clock.advance(Duration::from_secs(100));
    agent.shared.go.notify_one();
    assert_eq!(text_of(&client.answer(id).await["result"]), "waited");
    let task = json!({ "taskId": "x", "_meta": stateless(json!({})) });
    assert_eq!(client.request("tasks/get", task).await["error"]["code"], -32021);
    client.close().await;
}

#[tokio::test]
async fn a_task_of_another_session_is_unknown() {
    let (one, other) =
        (Agent::named("one", |options| options).await, Agent::named("other", |options| options).await);
    let (mut mine, mut theirs) = (Client::new(&one), Client::new(&other));
    let task = task(&one, &mut mine).await;
    for method in ["tasks/get", "tasks/cancel"] {
        assert_eq!(theirs.request(method, about(&task)).await["error"]["code"], -32602);
    }
    assert_eq!(look(&mut mine, &task).await["status"], "working");
    one.shared.go.notify_one();
    ended(&mut mine, &task).await;
    mine.close().await;
    theirs.close().await;
}

#[tokio::test]
async fn a_task_outlives_its_connection() {
    let agent = Agent::new().await;
    let mut client = Client::new(&agent);
    let task = task(&agent, &mut client).await;
    client.close().await;
    let mut client = Client::new(&agent);
    assert_eq!(look(&mut client, &task).await["status"], "working");
    agent.shared.go.notify_one();
    assert_eq!(ended(&mut client, &task).await["status"], "completed");
    client.close().await;
}

#[tokio::test]
async fn a_task_asks_and_is_told() {
    let agent = Agent::new().await;
    let mut client = Client::new(&agent);
    // One call has the session's turn; the other waits for it so long that it is a task before anybody is asked.
    let first = client.begin("tools/call", call_params("wait", json!({}), json!({}))).await;
    agent.shared.waiting.notified().await;
    let arguments = json!({ "environment": "production" });
    let second = client.begin("tools/call", call_params("deploy", arguments, knowing())).await;
    while agent.clock.sleepers() == 0 {
        tokio::task::yield_now().await;
    }
    agent.clock.advance(Duration::from_secs(11));
    let task = client.answer(second).await["result"].clone();
    assert_eq!(task["resultType"], "task", "{task}");
    agent.shared.go.notify_one();
    client.answer(first).await;
    let state = ended(&mut client, &task).await;
    assert_eq!(state["status"], "input_required", "{state}");
    let (key, request) = state["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(request["method"], "elicitation/create");
    let mut answer = about(&task);
    answer["inputResponses"] = json!({ key: { "action": "accept", "content": { "approve": true } } });
    client.request("tasks/update", answer).await;
    let state = ended(&mut client, &task).await;
    assert_eq!(text_of(&state["result"]), "production 1", "{state}");
    client.close().await;
}

#[tokio::test]
async fn tasks_whose_server_was_killed_were_interrupted_also_those_that_waited() {
    let store = Arc::new(ByteStore::new());
    let agent = Agent::stored(&store).await;
    let mut client = Client::new(&agent);
    let first = task(&agent, &mut client).await;
    // It waits for the other to end.
    let arguments = json!({ "file": "a.txt", "text": "milk" });
    let sleepers = agent.clock.sleepers();
    let second = client.begin("tools/call", call_params("save", arguments, knowing())).await;
    while agent.clock.sleepers() == sleepers {
        tokio::task::yield_now().await;
    }
    agent.clock.advance(Duration::from_secs(11));
    let second = client.answer(second).await["result"].clone();
    assert_eq!(second["resultType"], "task", "{second}");

    let later = Agent::stored(&Arc::new(store.reopen().unwrap())).await;
    let mut other = Client::new(&later);
    for task in [&first, &second] {
        let state = look(&mut other, task).await;
        let told = (&state["status"], &state["result"]["isError"]);
        assert_eq!(told, (&json!("completed"), &json!(true)), "{state}");
        assert!(text_of(&state["result"]).contains("was interrupted: its process ended before"), "{state}");
        let time = |name: &str| state[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        assert!(time("createdAt") <= time("lastUpdatedAt"), "{state}");
    }
    let tools: Vec<String> = later.events().iter().map(|event| event.tool.to_string()).collect();
    assert_eq!(tools, ["wait", "save"]);
    other.close().await;
    agent.shared.go.notify_one();
    client.close().await;
}

#[tokio::test]
async fn a_task_is_cancelled_only_by_the_server_that_has_it() {
    let agent = Agent::new().await;
    let beside = agent.beside();
    let (mut client, mut other) = (Client::new(&agent), Client::new(&beside));
    let task = task(&agent, &mut client).await;
    let state = look(&mut other, &task).await;
    assert_eq!(
        (&state["status"], &state["statusMessage"]),
        (&json!("working"), &json!("another server of this session has it")),
        "{state}"
    );
    let mut answer = about(&task);
    answer["inputResponses"] = json!({});
    for (method, params) in [("tasks/cancel", about(&task)), ("tasks/update", answer)] {
        let refused = other.request(method, params).await["error"].clone();
        assert_eq!(refused["code"], -32602, "{refused}");
        assert!(refused["message"].as_str().unwrap().contains("another server"), "{refused}");
    }
    assert_eq!(look(&mut client, &task).await["status"], "working");
    agent.shared.go.notify_one();
    let state = ended(&mut client, &task).await;
    let there = look(&mut other, &task).await;
    assert_eq!((&there["status"], &there["result"]), (&state["status"], &state["result"]), "{there}");
    // Cancelling what is over is nothing.
    assert!(other.request("tasks/cancel", about(&task)).await.get("result").is_some());
    client.close().await;
    other.close().await;
}
