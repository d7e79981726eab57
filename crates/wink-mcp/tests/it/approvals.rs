//! Calls that want somebody's word.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use wink::session::Ending;

use crate::support::{Agent, Client, Http, call_params, text_of};

fn asked() -> Value {
    json!({ "elicitation": {} })
}

fn yes() -> Value {
    json!({ "approval": { "action": "accept", "content": { "approve": true } } })
}

fn deploy(extra: Value) -> Value {
    let mut params = call_params("deploy", json!({ "environment": "production" }), asked());
    params.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    params
}

/// The stateless revision: a question is a result, and the answer comes with the call sent again.
async fn question(client: &mut Client) -> (Value, String) {
    let result = client.request("tools/call", deploy(json!({}))).await["result"].clone();
    assert_eq!(result["resultType"], "input_required", "{result}");
    let state = result["requestState"].as_str().unwrap().to_owned();
    (result["inputRequests"].clone(), state)
}

fn effects(agent: &Agent) -> usize {
    agent.shared.effects.load(Ordering::SeqCst)
}

#[tokio::test]
async fn a_result_asks_and_the_call_sent_again_answers() {
    let agent = Agent::new().await;
    let mut client = Client::new(&agent);
    let (requests, state) = question(&mut client).await;
    let request = &requests["approval"];
    assert_eq!(request["method"], "elicitation/create");
    assert_eq!(request["params"]["mode"], "form");
    assert!(request["params"]["message"].as_str().unwrap().contains("production"), "{request}");
    assert_eq!(request["params"]["requestedSchema"]["required"], json!(["approve"]));
    assert_eq!((effects(&agent), agent.events().len()), (0, 0));
    let answer =
        client.request("tools/call", deploy(json!({ "requestState": state, "inputResponses": yes() }))).await;
    assert_eq!(text_of(&answer["result"]), "production 1");
    let events = agent.events();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].approvers, ["the user of tester".into()]);
    client.close().await;
}

#[tokio::test]
async fn a_client_that_does_not_say_its_name_has_none() {
    let agent = Agent::new().await;
    let http = Http::new(&[&agent]).await;
    let mut client = Client::new(&agent);
    let nameless = |extra: Value| {
        let mut params = deploy(extra);
        params["_meta"].as_object_mut().unwrap().remove("io.modelcontextprotocol/clientInfo").unwrap();
        params
    };
    for over_http in [true, false] {
        let mut extra = json!({});
        for _ in 0..2 {
            let params = nameless(extra.clone());
            let answer = match over_http {
                true => http.request("main", "tools/call", params).await.answer(),
                false => client.request("tools/call", params).await,
            };
            extra = json!({ "requestState": answer["result"]["requestState"], "inputResponses": yes() });
        }
        assert_eq!(agent.events().pop().unwrap().approvers, ["the client's user".into()]);
    }
    client.close().await;
    http.close().await;
}

#[tokio::test]
async fn a_no_is_a_denial_that_says_so() {
    let agent = Agent::new().await;
    let mut client = Client::new(&agent);
    for no in [json!({ "action": "decline" }), json!({ "action": "accept", "content": { "approve": false } })]
    {
        let (_, state) = question(&mut client).await;
        let extra = json!({ "requestState": state, "inputResponses": { "approval": no } });
        let result = client.request("tools/call", deploy(extra)).await["result"].clone();
        assert_eq!(result["isError"], json!(true));
        assert!(text_of(&result).starts_with("deploy was not approved by the user of tester"), "{result}");
        assert_eq!(agent.events().pop().unwrap().ending, Ending::Denied);
    }
    assert_eq!(effects(&agent), 0);
    client.close().await;
}

#[tokio::test]
async fn an_answer_counts_once_and_for_its_call_only() {
    let agent = Agent::new().await;
    let mut client = Client::new(&agent);
    let (_, state) = question(&mut client).await;
    let answer = |state: &str| json!({ "requestState": state, "inputResponses": yes() });
    // Other arguments, another tool, a state that was changed.
    let mut other = deploy(answer(&state));
    other["arguments"]["environment"] = json!("staging");
    let mut another = deploy(answer(&state));
    another["name"] = json!("send");
    let (front, back) = state.split_at(state.len() - 1);
    let changed = format!("{front}{}", if back == "0" { "1" } else { "0" });
    for wrong in [other, another, deploy(answer(&changed)), deploy(answer("")), deploy(answer("x.y"))] {
        let error = client.request("tools/call", wrong).await["error"].clone();
        assert_eq!(error["code"], -32602, "{error}");
    }
    assert_eq!((effects(&agent), agent.events().len()), (0, 0));
    // None of that has used it up.
    let result = client.request("tools/call", deploy(answer(&state))).await["result"].clone();
    assert_eq!(text_of(&result), "production 1");
    let again = client.request("tools/call", deploy(answer(&state))).await["error"].clone();
    assert_eq!(again["code"], -32602);
    assert!(again["message"].as_str().unwrap().contains("used already"), "{again}");
    assert_eq!((effects(&agent), agent.events().len()), (1, 1));
    client.close().await;
}

#[tokio::test]
async fn an_answer_to_another_session_is_none() {
    let (one, other) =
        (Agent::named("one", |options| options).await, Agent::named("other", |options| options).await);
    let http = Http::new(&[&one, &other]).await;
    let asked = http.request("one", "tools/call", deploy(json!({}))).await.answer();
    let state = asked["result"]["requestState"].as_str().unwrap();
    let extra = json!({ "requestState": state, "inputResponses": yes() });
    let refused = http.request("other", "tools/call", deploy(extra.clone())).await.answer();
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let done = http.request("one", "tools/call", deploy(extra)).await.answer();
    assert_eq!(text_of(&done["result"]), "production 1");
    assert_eq!((effects(&one), effects(&other)), (1, 0));
    http.close().await;
}

#[tokio::test]
async fn a_question_that_is_not_answered_is_asked_again() {
    let agent = Agent::new().await;
    let mut client = Client::new(&agent);
    let (requests, state) = question(&mut client).await;
    for answers in [json!({}), json!({ "other": 1 }), json!({ "approval": 7 })] {
        let extra = json!({ "requestState": state, "inputResponses": answers });
        let result = client.request("tools/call", deploy(extra)).await["result"].clone();
        assert_eq!((&result["inputRequests"], &result["requestState"]), (&requests, &json!(state)));
    }
    let answer =
        client.request("tools/call", deploy(json!({ "requestState": state, "inputResponses": yes() }))).await;
    assert_eq!(text_of(&answer["result"]), "production 1");
    client.close().await;
}

#[tokio::test]
async fn an_answer_that_comes_too_late_is_none() {
    let agent = Agent::new().await;
    let mut client = Client::new(&agent);
    let (_, state) = question(&mut client).await;
    agent.clock.advance(Duration::from_secs(10 * 60 + 1));
    let extra = json!({ "requestState": state, "inputResponses": yes() });
    let late = client.request("tools/call", deploy(extra)).await["error"].clone();
    assert!(late["message"].as_str().unwrap().contains("too old"), "{late}");
    while agent.events().is_empty() {
        tokio::task::yield_now().await;
    }
    let event = agent.events().pop().unwrap();
    assert_eq!(event.ending, Ending::Denied);
    assert!(event.rendered.contains("there was no answer within 600 seconds"), "{}", event.rendered);
    assert_eq!(effects(&agent), 0);
    client.close().await;
}

#[tokio::test]
async fn what_was_approved_in_another_state_is_asked_again() {
    let agent = Agent::new().await;
    let mut client = Client::new(&agent);
    let (_, state) = question(&mut client).await;
    // The state moves on while somebody thinks: others may use the session.
    let saved = call_params("save", json!({ "file": "a.txt", "text": "new" }), asked());
    assert_eq!(client.request("tools/call", saved).await["result"]["isError"], json!(false));
    let extra = json!({ "requestState": state, "inputResponses": yes() });
    let result = client.request("tools/call", deploy(extra)).await["result"].clone();
    assert_eq!(result["resultType"], "input_required", "{result}");
    assert_ne!(result["requestState"], json!(state));
    assert_eq!(effects(&agent), 0);
    let extra = json!({ "requestState": result["requestState"], "inputResponses": yes() });
    let result = client.request("tools/call", deploy(extra)).await["result"].clone();
    assert_eq!(text_of(&result), "production 1");
    client.close().await;
}

#[tokio::test]
async fn questions_that_nobody_answers_are_bounded() {
    let agent = Agent::with(|mut options| {
        options.max_questions = 2;
        options
    })
    .await;
    let mut client = Client::new(&agent);
    question(&mut client).await;
    let (_, state) = question(&mut client).await;
    let refused = client.request("tools/call", deploy(json!({}))).await;
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
    // Time makes room.
    let answer =
        client.request("tools/call", deploy(json!({ "requestState": state, "inputResponses": yes() }))).await;
    assert_eq!(text_of(&answer["result"]), "production 1");
    question(&mut client).await;
    client.close().await;
    agent.session.close().await;
    let endings: Vec<Ending> = agent.events().iter().map(|event| event.ending).collect();
    assert_eq!(endings.iter().filter(|ending| **ending == Ending::Succeeded).count(), 1);
    assert_eq!(endings.len(), 4);
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_told_why_it_is_denied() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", json!({})).await;
    let result = client.call("deploy", json!({ "environment": "production" })).await;
    assert_eq!(result["isError"], json!(true));
    assert!(text_of(&result).starts_with("deploy needs approval, and nobody can be asked:"), "{result}");
    client.close().await;
    let mut client = Client::new(&agent);
    let params = call_params("deploy", json!({ "environment": "production" }), json!({}));
    let result = client.request("tools/call", params).await["result"].clone();
    assert!(text_of(&result).starts_with("deploy needs approval, and nobody can be asked:"), "{result}");
    client.close().await;
    assert_eq!(effects(&agent), 0);
}

#[tokio::test]
async fn clients_that_have_shaken_hands_are_asked_by_a_request() {
    let agent = Agent::new().await;
    for (version, answer, text) in [
        ("2025-06-18", json!({ "action": "accept", "content": { "approve": true } }), "production 1"),
        ("2025-11-25", json!({ "action": "accept", "content": { "approve": true } }), "production 2"),
        (
            "2025-11-25",
            json!({ "action": "decline" }),
            "deploy was not approved by the user of tester: they declined",
        ),
    ] {
        let mut client = Client::shaken(&agent, version, asked()).await;
        let params = json!({ "name": "deploy", "arguments": { "environment": "production" } });
        let id = client.begin("tools/call", params).await;
        let request = client.receive().await;
        assert_eq!(request["method"], "elicitation/create", "{request}");
        assert_eq!(request["params"]["requestedSchema"]["required"], json!(["approve"]));
        client.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": answer })).await;
        assert_eq!(text_of(&client.answer(id).await["result"]), text);
        client.close().await;
    }
}

#[tokio::test]
async fn a_client_that_fails_to_ask_has_refused() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", asked()).await;
    let params = json!({ "name": "deploy", "arguments": { "environment": "production" } });
    let id = client.begin("tools/call", params).await;
    let request = client.receive().await;
    let error = json!({ "code": -32603, "message": "no" });
    client.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).await;
    assert!(text_of(&client.answer(id).await["result"]).contains("the client could not be asked"));
    client.close().await;
    assert_eq!(effects(&agent), 0);
}

#[tokio::test]
async fn a_client_that_never_answers_is_not_waited_for_for_ever() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", asked()).await;
    let params = json!({ "name": "deploy", "arguments": { "environment": "production" } });
    let id = client.begin("tools/call", params).await;
    let request = client.receive().await;
    agent.clock.advance(Duration::from_secs(10 * 60 + 1));
    let result = client.answer(id).await["result"].clone();
    assert!(text_of(&result).contains("there was no answer within 600 seconds"), "{result}");
    assert_eq!(client.aside[0]["params"]["requestId"], request["id"]);
    client.close().await;
    assert_eq!(effects(&agent), 0);
}

#[tokio::test]
async fn a_call_that_is_cancelled_while_somebody_thinks_is_over() {
    let agent = Agent::new().await;
    let mut client = Client::shaken(&agent, "2025-11-25", asked()).await;
    let params = json!({ "name": "deploy", "arguments": { "environment": "production" } });
    let id = client.begin("tools/call", params).await;
    let request = client.receive().await;
    client
        .send(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }),
        )
        .await;
    let sum = client.call("add", json!({ "a": 1, "b": 2 })).await;
    assert_eq!(sum["structuredContent"], json!({ "result": 3 }));
    // They need not think any longer.
    assert_eq!(client.aside.len(), 1, "{:?}", client.aside);
    assert_eq!(client.aside[0]["params"]["requestId"], request["id"]);
    // What they say now concerns nobody.
    let answer = json!({ "action": "accept", "content": { "approve": true } });
    client.send(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": answer })).await;
    client.close().await;
    agent.session.close().await;
    assert_eq!(effects(&agent), 0);
    assert!(agent.events().iter().any(|event| event.ending == Ending::Cancelled));
}
