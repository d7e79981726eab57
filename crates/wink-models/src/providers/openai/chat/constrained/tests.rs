use wink::limits::TokenUsage;

use super::*;

fn cut(text: &str) -> (String, Vec<(String, String)>) {
    let usage = TokenUsage::default();
    let response =
        ModelResponse { text: text.into(), calls: Vec::new(), stop: Stop::Truncated, usage, provider: None };
    let read = read(response, false);
    assert_eq!(read.stop, Stop::Truncated);
    let calls = read.calls.iter().map(|call| (call.name.to_string(), call.arguments.to_string()));
    (read.text.to_string(), calls.collect())
}

fn text(text: &str) -> (String, Vec<(String, String)>) {
    (text.to_owned(), Vec::new())
}

fn call(name: &str, arguments: &str) -> (String, Vec<(String, String)>) {
    (String::new(), vec![(name.to_owned(), arguments.to_owned())])
}

#[test]
fn a_text_that_was_cut_is_read_as_far_as_it_got() {
    for (written, expected) in [
        (r#"{"reply":{"text":"Ha"#, "Ha"),
        (r#" { "reply" : { "text" : "Ha"#, "Ha"),
        (r#"{"reply":{"text":""#, ""),
        (r#"{"reply":{"text":"a\n\"b\"#, "a\n\"b"),
        (r#"{"reply":{"text":"a\u00f"#, "a"),
        (r#"{"reply":{"text":"a\ud83d\ude0"#, "a"),
        (r#"{"reply":{"text":"a\ud83d\ude00"#, "a😀"),
        (r#"{"reply":{"text":"whole"}"#, "whole"),
        (r#"{"reply":{"text":"whole"}}"#, "whole"),
    ] {
        assert_eq!(cut(written), text(expected), "{written}");
    }
}

#[test]
fn a_call_that_was_cut_is_a_call_as_soon_as_its_tool_is_known() {
    for (written, arguments) in [
        (r#"{"reply":{"tool":"read","arguments":{"path":"a"#, r#"{"path":"a"#),
        (r#"{"reply": {"tool": "read", "arguments": {"a": tru"#, r#"{"a": tru"#),
        (r#"{"reply":{"tool":"read","arguments":"#, ""),
        (r#"{"reply":{"tool":"read","arguments":{"a":1}"#, r#"{"a":1}"#),
        (r#"{"reply":{"tool":"read","arguments":{"a":1}}"#, r#"{"a":1}"#),
        (r#"{"reply":{"tool":"read","arguments":{"a":1}}}"#, r#"{"a":1}"#),
    ] {
        assert_eq!(cut(written), call("read", arguments), "{written}");
    }
}

#[test]
fn what_says_nothing_yet_is_the_text_that_it_is() {
    for written in ["", "{", r#"{"reply":{"#, r#"{"reply":{"tool":"re"#, r#"{"reply":{"tool":"read""#, "Half"]
    {
        assert_eq!(cut(written), text(written), "{written}");
    }
}

#[test]
fn what_is_in_no_form_is_no_last_word_unless_a_result_is_looked_at() {
    let stop = |text: &str, is_typed| {
        let usage = TokenUsage::default();
        let response = ModelResponse {
            text: text.into(),
            calls: Vec::new(),
            stop: Stop::Complete,
            usage,
            provider: None,
        };
        read(response, is_typed).stop
    };
    for text in ["garbage", "", "{}", "{\"reply\": 1}", "{\"reply\": {}}"] {
        assert_eq!((stop(text, false), stop(text, true)), (Stop::Formless, Stop::Complete), "{text}");
    }
    assert_eq!(stop("{\"reply\": {\"text\": \"Done.\"}}", false), Stop::Complete);
}
