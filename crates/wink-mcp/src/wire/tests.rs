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

/// Arguments of this many bytes, in as many values as fit.
fn dense(piece: &str, bytes: usize) -> String {
    format!("{{\"d\":[{}0]}}", piece.repeat(bytes / piece.len()))
}

#[test]
fn large_and_dense_arguments_are_not_decoded() {
    for arguments in [
        format!("{{\"t\":\"{}\"}}", "x".repeat(LARGE)),
        dense("0,", 2 * MOST_VALUES),
        dense("{},", 3 * MOST_VALUES),
    ] {
        let frame = look(call(&arguments).as_bytes()).unwrap();
        assert_eq!(frame.arguments, Some(RawArguments(arguments.as_str().into())));
        assert_eq!(frame.rewritten.as_deref(), Some(call("{}").as_bytes()));
    }
    // What is small is, for a handler that looks at it.
    let arguments = dense("0,", MOST_VALUES);
    assert_eq!(look(call(&arguments).as_bytes()).unwrap().rewritten, None);
}

#[test]
fn what_is_beside_the_arguments_is_bounded() {
    let with = |meta: &str, arguments: &str| {
        format!(
            r#"{{"id":7,"method":"tools/call","params":{{"_meta":{meta},"name":"t","arguments":{arguments}}}}}"#
        )
    };
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let large = dense("0,", 3 * LARGE);
    for arguments in ["{}", &large] {
        for meta in [dense("0,", MOST_VALUES), deep(DEEPEST - 2)] {
            look(with(&meta, arguments).as_bytes()).unwrap();
        }
        for meta in [dense("0,", 2 * MOST_VALUES), dense("\"\",", 3 * MOST_VALUES), deep(DEEPEST)] {
            let refused = look(with(&meta, arguments).as_bytes()).unwrap_err();
            let Unreadable::Shape(id, why) = refused else { panic!("{refused:?}") };
            assert_eq!(id, Some(NumberOrString::Number(7)));
            assert_eq!(
                why,
                "beside the arguments of a call, a message has at most 4096 values and is at most 100 levels deep"
            );
        }
    }
    // Long is not dense.
    look(with(&format!("\"{}\"", "[,:{".repeat(LARGE)), "{}").as_bytes()).unwrap();
    // Whatever is said, asked or answered.
    for frame in [
        format!(r#"{{"method":"x","params":{}}}"#, dense("0,", 2 * MOST_VALUES)),
        format!(r#"{{"id":7,"result":{}}}"#, deep(DEEPEST)),
        format!(r#"{{"id":7,"method":"tools/list","x":{}}}"#, deep(DEEPEST)),
    ] {
        assert!(matches!(look(frame.as_bytes()), Err(Unreadable::Shape(..))), "{frame:.40}");
    }
}

#[test]
fn an_id_is_short() {
    let with = |id: &str| look(format!(r#"{{"id":{id},"method":"ping"}}"#).as_bytes());
    let longest = "x".repeat(LONGEST_ID);
    assert_eq!(
        with(&format!("\"{longest}\"")).unwrap().request,
        Some(NumberOrString::String(longest.as_str().into()))
    );
    for id in [&format!("\"{longest}x\""), "1.5", "1e3", "[]", "true", "9223372036854775808"] {
        let why = "an id is an integer, or a string of at most 256 bytes".to_owned();
        assert_eq!(with(id), Err(Unreadable::Shape(None, why)), "{id}");
    }
}

#[test]
fn values_are_counted_and_strings_are_not_looked_into() {
    for (json, values, depth) in [
        ("0", 1, 0),
        ("[]", 2, 1),
        ("[0,0]", 3, 1),
        (r#"{"a":{"b":[1,2,3]}}"#, 8, 3),
        (r#""[{,:\"[{,:\\""#, 1, 0),
        (r#"["\\",["\""]]"#, 4, 2),
    ] {
        assert_eq!(Measure::of(json), Measure { values, depth }, "{json}");
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
