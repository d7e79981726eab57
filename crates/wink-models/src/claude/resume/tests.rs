use super::*;
use crate::message::ToolAnswer;

fn user(text: &str) -> Arc<Message> {
    Arc::new(Message::User { text: text.into() })
}

fn model(text: &str, calls: &[(&str, &str)]) -> Arc<Message> {
    let call = |(id, name): &(&str, &str)| Called {
        id: (*id).into(),
        name: (*name).into(),
        arguments: r#"{"text":"a"}"#.into(),
    };
    Arc::new(Message::Assistant {
        text: text.into(),
        calls: calls.iter().map(call).collect(),
        provider: None,
    })
}

fn told(id: &str, success: bool) -> Arc<Message> {
    let answer = ToolAnswer { id: id.into(), name: "note".into(), text: "noted".into(), success };
    Arc::new(Message::Tools { answers: vec![answer] })
}

/// What each line says, and what is said then. Each line but the first names the one before.
fn after(messages: &[Arc<Message>]) -> Option<(Vec<Value>, String)> {
    let goes_on = GoesOn::after(&messages.iter().cloned().collect(), "m", Timestamp::UNIX_EPOCH)?;
    let lines: Vec<Value> =
        goes_on.transcript.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut before = Value::Null;
    for line in &lines {
        assert_eq!((&line["parentUuid"], &line["type"]), (&before, &line["message"]["role"]));
        before = line["uuid"].clone();
    }
    let said = |line: &Value| json!([line["type"], line["message"]["content"]]);
    Some((lines.iter().map(said).collect(), goes_on.say.to_string()))
}

#[test]
fn a_run_goes_on_from_what_was_said() {
    assert_eq!(after(&[]), None);
    assert_eq!(after(&[user("Do it.")]), None);
    let call = |id: &str, name: &str| json!({ "type": "tool_use", "id": id, "name": name, "input": { "text": "a" } });
    let result = json!({ "type": "tool_result", "tool_use_id": "1", "content": "noted", "is_error": true });
    let (lines, say) =
        after(&[user("Do it."), model("So:", &[("1", "note"), ("2", "claude_edit")]), told("1", false)])
            .unwrap();
    assert_eq!(
        (lines, say.as_str()),
        (
            vec![
                json!(["user", "Do it."]),
                json!(["assistant", [{ "type": "text", "text": "So:" }, call("1", "mcp__wink__note"), call("2", "Edit")]]),
                json!(["user", [result]]),
            ],
            "Go on."
        )
    );
    // What it was reminded of is what it is told; without a task it was told to begin.
    let (lines, say) = after(&[model("Done.", &[]), user("Something is missing.")]).unwrap();
    assert_eq!(
        (lines, say.as_str()),
        (
            vec![json!(["user", "Begin."]), json!(["assistant", [{ "type": "text", "text": "Done." }]])],
            "Something is missing."
        )
    );
}
