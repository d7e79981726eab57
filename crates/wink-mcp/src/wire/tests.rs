use super::*;

fn call(arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"t","arguments":{arguments}}}}}"#
    )
}

#[test]
fn arguments_are_kept_as_they_were_written() {
    for arguments in [r#"{"a": 1, "a": 2}"#, r#"{"n":3.0}"#, "{ }"] {
        let frame = look(call(arguments).as_bytes()).unwrap();
        assert_eq!(frame.arguments, Some(RawArguments(arguments.into())));
        assert_eq!(frame.request, Some(NumberOrString::Number(7)));
        assert_eq!(frame.rewritten, None);
    }
}

#[test]
fn what_cannot_be_decoded_is_let_through_without_its_arguments() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for arguments in ["[1]", "\"x\"", "{\"n\":1e999}", &format!("{{\"d\":{deep}}}")] {
        let frame = look(call(arguments).as_bytes()).unwrap();
        assert_eq!(frame.arguments, Some(RawArguments(arguments.into())));
        assert_eq!(frame.rewritten.as_deref(), Some(call("{}").as_bytes()));
    }
}

#[test]
fn a_call_without_arguments_has_none() {
    let frame = look(br#"{"id":"x","method":"tools/call","params":{"name":"t"}}"#).unwrap();
    assert_eq!(frame.arguments, Some(RawArguments("".into())));
    assert_eq!(frame.request, Some(NumberOrString::String("x".into())));
}

#[test]
fn what_is_no_message_is_told_apart() {
    assert_eq!(look(b"{"), Err(Unreadable::Syntax));
    assert_eq!(look(b"\xff"), Err(Unreadable::Syntax));
    assert!(matches!(look(b"[]"), Err(Unreadable::Shape(None, _))));
    assert!(matches!(look(b"7"), Err(Unreadable::Shape(None, _))));
    assert!(matches!(look(br#"{"id":1,"id":2,"method":"ping"}"#), Err(Unreadable::Shape(None, _))));
    assert!(matches!(look(br#"{"id":{},"method":"ping"}"#), Err(Unreadable::Shape(None, _))));
}

#[test]
fn a_cancellation_names_its_request() {
    let frame = look(br#"{"method":"notifications/cancelled","params":{"requestId":3}}"#).unwrap();
    assert_eq!((frame.request, frame.cancels), (None, Some(NumberOrString::Number(3))));
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_looked_at(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        let _ = look(&bytes);
    }

    #[test]
    fn whatever_stands_as_arguments_is_kept_and_never_in_the_decoders_way(
        arguments in r#"[ \{\}\[\]",:a0\\.e-]{0,40}"#,
        after in r#"[ \{\}\[\]",:a0\\]{0,10}"#,
    ) {
        let frame = format!(r#"{{"id":1,"method":"tools/call","params":{{"name":"t","arguments":{arguments}{after}}}}}"#);
        if let Ok(looked) = look(frame.as_bytes())
            && let Some(RawArguments(kept)) = looked.arguments
        {
            proptest::prop_assert!(frame.contains(&*kept));
            let decoded = looked.rewritten.unwrap_or(frame.into_bytes());
            proptest::prop_assert!(serde_json::from_slice::<serde_json::Value>(&decoded).is_ok());
        }
    }
}
