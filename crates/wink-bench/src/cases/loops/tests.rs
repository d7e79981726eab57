use super::*;

#[test]
fn the_first_and_the_last_turns_are_looked_at() {
    let turns: Vec<f64> = (0..25).map(f64::from).collect();
    let expected = |from: i32, to: i32| (from..to).map(f64::from).collect::<Vec<_>>();
    assert_eq!(Part::Early.of(&turns), expected(0, 10));
    assert_eq!(Part::Late.of(&turns), expected(15, 25));
    assert_eq!(Part::Late.of(turns.split_at(3).0), expected(0, 3));
}

#[test]
fn a_script_has_a_call_in_each_turn_and_a_last_word() {
    let script = script(2);
    let lines: Vec<Value> =
        script.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect();
    let call = |turn: u32| {
        let arguments = json!({
            "path": "src/runtime/session/mod.rs",
            "content": "    let value_0 = compute(\"alpha\", 0);\n    let value_1 = com",
            "start_line": turn,
            "overwrite": true,
            "tags": ["edit", "rust"],
        });
        json!({ "text": "", "tool_calls": [{ "id": format!("call_{turn}"), "name": "write_file", "arguments": arguments }] })
    };
    assert_eq!(lines, [call(0), call(1), json!({ "text": "Done.", "tool_calls": [] })]);
}

/// What a peer says of a run is read whole, and nothing else is taken for it.
#[test]
fn a_peer_tells_its_times_and_what_was_said() {
    let told = peer::Told { ns: vec![12.0, 7.0], answer: "Wrote it.".to_owned(), text: "Done.".to_owned() };
    let line = r#"{"ns": [12, 7], "answer": "Wrote it.", "text": "Done."}"#;
    assert_eq!(serde_json::from_str::<peer::Told>(line).ok(), Some(told));
    assert!(serde_json::from_str::<peer::Told>(r#"{"ns": [12, 7]}"#).is_err());
}

/// Wink's loop, kept and not kept, does what the script says and is timed turn by turn.
#[test]
fn the_loop_makes_its_turns() {
    for keeping in Keeping::ALL {
        let mut run = wink::make(&script(3), 3, keeping);
        for _ in 0..2 {
            assert_eq!(run().len(), 3);
        }
    }
}
