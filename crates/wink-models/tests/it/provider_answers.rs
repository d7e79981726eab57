//! Every provider, streaming and not, in front of a server that speaks its wire format: the same responses from all.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use wink::limits::{Budget, BudgetTracker, CancelToken, Clock, SystemClock, TokenUsage};
use wink::prelude::*;
use wink::testing::FakeClock;
use wink_fake::{Fake, Script};
use wink_models::providers::Streaming;
use wink_models::{
    Adapter, Evaluation, Message, Model, ModelAdapter, ModelErrorKind as Kind, ModelResponse, Stop,
};

use crate::provider_support::{Told, WAYS, Way, answer, ask, called, output, request, said, user};

fn usage() -> TokenUsage {
    TokenUsage { input_tokens: 100, output_tokens: 20, cached_tokens: 0 }
}

fn response(text: &str) -> ModelResponse {
    ModelResponse {
        text: text.into(),
        calls: Vec::new(),
        stop: Stop::Complete,
        usage: usage(),
        provider: None,
    }
}

/// Without ids, which are made up where models have no calls of their own.
fn without_ids(way: Way, mut response: ModelResponse) -> ModelResponse {
    if way == Way::Constrained {
        for call in &mut response.calls {
            assert!(call.id.starts_with("call_"));
            call.id = "1".into();
        }
    }
    response
}

#[tokio::test]
async fn text_comes_with_what_it_cost() {
    let line = r#"{"text": "Hello, ünï", "usage": {"input_tokens": 50, "output_tokens": 7, "cached_tokens": 30}, "chunk": 5}"#;
    for (way, streaming) in WAYS {
        let (fake, provider) = way.saying(streaming, line).await;
        let told = Told::default();
        let asked = request([user("Hi")]);
        let answered = provider.respond(&asked, &told, &CancelToken::new()).await.unwrap();
        let usage = TokenUsage { input_tokens: 50, output_tokens: 7, cached_tokens: 30 };
        assert_eq!(answered, ModelResponse { usage, ..response("Hello, ünï") }, "{way:?} {streaming:?}");
        assert_eq!(told.all("text"), "Hello, ünï", "{way:?} {streaming:?}");
        assert_eq!(provider.name(), "a-model");
        assert_eq!((fake.left(), fake.seen().len()), (0, 1));
    }
}

/// A token for every four bytes, of what was sent and of what came.
#[tokio::test]
async fn what_a_server_does_not_say_that_it_cost_is_estimated() {
    let line = r#"{"text": "Hello, you.", "usage": null}"#;
    for (way, streaming) in WAYS {
        let (fake, provider) = way.saying(streaming, line).await;
        let answered = ask(&provider, &request([user("Hi")])).await.unwrap();
        let sent = fake.seen()[0].body.to_string().len() as u64;
        let usage = TokenUsage { input_tokens: sent.div_ceil(4), output_tokens: 3, cached_tokens: 0 };
        assert_eq!(answered, ModelResponse { usage, ..response("Hello, you.") }, "{way:?} {streaming:?}");
    }
}

#[tokio::test]
async fn a_budget_holds_for_a_server_that_does_not_say_what_it_cost() {
    let call = r#"{"tool_calls": [{"id": "1", "name": "nothing", "arguments": {}}], "usage": null}"#;
    let lines = format!("{}\n", [call; 50].join("\n"));
    let prompt = PromptTemplate::builder("tests", "budget").build().unwrap().prompt();
    for (way, streaming) in WAYS {
        let (fake, provider) = way.saying(streaming, &lines).await;
        let tracker = Arc::new(BudgetTracker::new(Budget::total(1_000).unwrap()));
        let evaluation = Evaluation::new().task("Go on.").budget(Arc::clone(&tracker));
        let came = ModelAdapter::new(Arc::new(provider)).evaluate(&prompt, &Session::new(), evaluation).await;
        let stopped = came.unwrap_err();
        assert_eq!(stopped.reason.name(), "budget", "{way:?} {streaming:?}");
        assert_eq!(stopped.stats.usage, tracker.used(), "{way:?} {streaming:?}");
        // It is not stopped before there is a reason to.
        let before: u64 =
            fake.seen().iter().rev().skip(1).map(|seen| seen.body.to_string().len() as u64).sum();
        assert!(before / 4 < 1_000 && stopped.stats.turns > 1, "{way:?} {streaming:?}: {stopped:?}");
    }
}

#[tokio::test]
async fn a_call_keeps_its_arguments_byte_for_byte() {
    // The order, the spaces and the numbers of the model; of what is optional, null means that it was left out.
    let line = r#"{"tool_calls": [{"id": "1", "name": "read", "arguments": "{\"limit\": 1.50e1,  \"path\":\"a\\u0062\"}"}]}"#;
    let (text, nulls) = (
        r#"{"limit": 1.50e1,  "path":"a\u0062"}"#,
        r#"{"tool_calls": [{"id": "1", "name": "read", "arguments": "{\"path\": \"b\", \"limit\": null}"}]}"#,
    );
    for (way, streaming) in WAYS {
        let (_fake, provider) = way.saying(streaming, &format!("{line}\n{nulls}")).await;
        let answered = without_ids(way, ask(&provider, &request([user("Hi")])).await.unwrap());
        // Anthropic's whole answers have arguments as JSON, and the fake is not a model that writes spaces.
        let exact = way != Way::Anthropic || streaming == Streaming::On;
        let expected = if exact { text.to_owned() } else { answered.calls[0].arguments.to_string() };
        assert_eq!(
            answered,
            ModelResponse { calls: vec![called("1", "read", &expected)], ..response("") },
            "{way:?} {streaming:?}"
        );
        let answered = ask(&provider, &request([user("Hi")])).await.unwrap();
        let restored = if way == Way::Anthropic { &*answered.calls[0].arguments } else { r#"{"path": "b"}"# };
        assert_eq!(&*answered.calls[0].arguments, restored, "{way:?} {streaming:?}");
    }
}

#[tokio::test]
async fn parallel_calls_are_answered_together_and_the_conversation_goes_on() {
    let lines = r#"
{"text": "I look.", "thinking": "Hm.", "tool_calls": [{"id": "1", "name": "read", "arguments": {"path": "a"}}, {"id": "2", "name": "tag", "arguments": {}}]}
{"text": "Done."}"#;
    for (way, streaming) in WAYS.into_iter().filter(|(way, _)| *way != Way::Constrained) {
        let (fake, provider) = way.saying(streaming, lines).await;
        let told = Told::default();
        let asked = request([user("Hi")]);
        let first = provider.respond(&asked, &told, &CancelToken::new()).await.unwrap();
        assert_eq!(
            first.calls,
            [called("1", "read", r#"{"path":"a"}"#), called("2", "tag", "{}")],
            "{way:?}"
        );
        assert_eq!((told.all("text"), told.all("call")), ("I look.".to_owned(), "readtag".to_owned()));
        let tools = Message::Tools {
            answers: vec![answer("1", "read", "text", true), answer("2", "tag", "no", false)],
        };
        let next = request([user("Hi"), said(first), tools, user("Go on.")]);
        assert_eq!(ask(&provider, &next).await.unwrap(), response("Done."), "{way:?} {streaming:?}");
        assert!(fake.seen().iter().all(|seen| seen.refused.is_none()));
    }
}

#[tokio::test]
async fn one_call_at_a_time_is_what_a_constrained_model_makes() {
    let lines = r#"
{"tool_calls": [{"id": "1", "name": "read", "arguments": {"path": "a", "limit": 3}}]}
{"text": "Done."}"#;
    for streaming in [Streaming::On, Streaming::Off] {
        let (_fake, provider) = Way::Constrained.saying(streaming, lines).await;
        let first = ask(&provider, &request([user("Hi")])).await.unwrap();
        let id = Arc::clone(&first.calls[0].id);
        assert_eq!(first.calls, [called(&id, "read", r#"{"path":"a","limit":3}"#)]);
        let tools = Message::Tools { answers: vec![answer(&id, "read", "text", true)] };
        assert_eq!(
            ask(&provider, &request([user("Hi"), said(first), tools])).await.unwrap(),
            response("Done.")
        );
    }
}

#[tokio::test]
async fn an_output_has_the_form_that_was_asked_for() {
    let line = r#"{"text": "{\"answer\": 42, \"note\": null}"}"#;
    for (way, streaming) in WAYS {
        let (_fake, provider) = way.saying(streaming, line).await;
        let mut asked = request([user("Hi")]);
        asked.output = Some(output());
        let answered = ask(&provider, &asked).await.unwrap();
        let expected = match way {
            Way::Anthropic => r#"{"answer": 42, "note": null}"#,
            Way::Chat | Way::Constrained | Way::Responses => r#"{"answer": 42}"#,
        };
        assert_eq!(answered, response(expected), "{way:?} {streaming:?}");
    }
}

#[tokio::test]
async fn what_was_thought_goes_back_as_it_was() {
    let lines = r#"
{"thinking": "Hm.", "text": "I look.", "tool_calls": [{"id": "1", "name": "read", "arguments": {"path": "a"}}]}
{"text": "Done."}"#;
    let thought = json!({ "type": "thinking", "thinking": "Hm.", "signature": "sig_fake" });
    let reasoned = json!({
        "id": "rs_0", "type": "reasoning", "summary": [{ "type": "summary_text", "text": "Hm." }], "encrypted_content": "enc_fake",
    });
    for (way, place, kept) in
        [(Way::Anthropic, "/messages/1/content/0", thought), (Way::Responses, "/input/1", reasoned)]
    {
        for streaming in [Streaming::On, Streaming::Off] {
            let (fake, provider) = way.saying(streaming, lines).await;
            let first = ask(&provider, &request([user("Hi")])).await.unwrap();
            let tools = Message::Tools { answers: vec![answer("1", "read", "text", true)] };
            ask(&provider, &request([user("Hi"), said(first), tools])).await.unwrap();
            assert_eq!(fake.seen()[1].body.pointer(place), Some(&kept), "{way:?} {streaming:?}");
        }
    }
}

/// With what was thought, calls are kept in their places: by their order, and not by ids that a server may give twice.
#[tokio::test]
async fn calls_with_one_id_are_sent_back_as_two() {
    let lines = r#"
{"thinking": "Hm.", "tool_calls": [{"id": "1", "name": "read", "arguments": {"path": "a"}}, {"id": "1", "name": "tag", "arguments": {}}]}
{"text": "Done."}"#;
    for (way, list, places) in [
        (Way::Anthropic, "/messages/1/content", ["/1/name", "/2/name"]),
        (Way::Responses, "/input", ["/2/name", "/3/name"]),
    ] {
        for streaming in [Streaming::On, Streaming::Off] {
            let (fake, provider) = way.saying(streaming, lines).await;
            let first = ask(&provider, &request([user("Hi")])).await.unwrap();
            let tools = Message::Tools {
                answers: vec![answer("1", "read", "text", true), answer("1", "tag", "no", false)],
            };
            // Whether the provider takes it is its business.
            let _ = ask(&provider, &request([user("Hi"), said(first), tools])).await;
            let sent = fake.seen()[1].body.pointer(list).cloned().unwrap();
            let names = places.map(|place| sent.pointer(place).cloned().unwrap_or_default());
            assert_eq!(names, [json!("read"), json!("tag")], "{way:?} {streaming:?}: {sent:#}");
        }
    }
}

#[tokio::test]
async fn truncation_and_refusal_are_told() {
    let lines = r#"{"text": "Half", "stop": "truncated"}
{"text": "No.", "stop": "refused"}"#;
    for (way, streaming) in WAYS {
        let (_fake, provider) = way.saying(streaming, lines).await;
        let truncated = ask(&provider, &request([user("Hi")])).await.unwrap();
        assert_eq!(
            truncated,
            ModelResponse { stop: Stop::Truncated, ..response("Half") },
            "{way:?} {streaming:?}"
        );
        let refused = ask(&provider, &request([user("Hi")])).await.unwrap();
        assert_eq!(
            refused,
            ModelResponse { stop: Stop::Refused, ..response("No.") },
            "{way:?} {streaming:?}"
        );
    }
}

#[tokio::test]
async fn a_pause_is_gone_on_from() {
    let lines = "{\"text\": \"I go on\", \"stop\": \"paused\"}\n{\"text\": \"and end.\"}";
    for streaming in [Streaming::On, Streaming::Off] {
        let (_fake, provider) = Way::Anthropic.saying(streaming, lines).await;
        let paused = ask(&provider, &request([user("Hi")])).await.unwrap();
        assert_eq!(paused, ModelResponse { stop: Stop::Paused, ..response("I go on") });
        assert_eq!(ask(&provider, &request([user("Hi"), said(paused)])).await.unwrap(), response("and end."));
    }
}

#[tokio::test]
async fn faults_have_kinds_and_say_when_to_come_back() {
    let lines = r#"
{"fault": "throttled", "retry_after": "7"}
{"fault": "throttled", "retry_after_ms": 250, "should_retry": false}
{"fault": "quota"}
{"fault": "overloaded"}
{"fault": "broken"}
{"fault": "too_long"}
{"fault": "nonsense"}
{"fault": "gone"}
{"text": "long enough to be cut in two", "cut": 3}
{"text": "It works again."}"#;
    let seconds = |seconds| Some(Duration::from_secs_f64(seconds));
    for (way, streaming) in WAYS {
        let (_fake, provider) = way.saying(streaming, lines).await;
        let mut failed = Vec::new();
        for _ in 0..9 {
            let error = ask(&provider, &request([user("Hi")])).await.unwrap_err();
            failed.push((error.kind, error.retry_safe, error.retry_after));
        }
        let expected = [
            (Kind::Throttled, true, seconds(7.0)),
            (Kind::Throttled, false, seconds(0.25)),
            (Kind::Throttled, false, None),
            (Kind::Unavailable, true, None),
            (Kind::Unavailable, true, None),
            (Kind::TooLong, false, None),
            (Kind::Malformed, true, None),
            (Kind::Connection, true, None),
            (Kind::Connection, true, None),
        ];
        assert_eq!(failed, expected, "{way:?} {streaming:?}");
        assert_eq!(ask(&provider, &request([user("Hi")])).await.unwrap(), response("It works again."));
    }
}

#[tokio::test]
async fn a_stream_may_fail_or_end_in_the_middle() {
    for (way, _) in WAYS.into_iter().filter(|(_, streaming)| *streaming == Streaming::On) {
        let (_fake, provider) = way.saying(Streaming::On, r#"{"text": "a long text", "fail": 3}"#).await;
        let error = ask(&provider, &request([user("Hi")])).await.unwrap_err();
        assert_eq!((error.kind, error.retry_safe), (Kind::Unavailable, true), "{way:?}: {error}");
    }
}

#[tokio::test]
async fn cancelling_gives_the_request_up_wherever_it_is() {
    for (way, streaming) in WAYS {
        for line in [r#"{"fault": "silent"}"#, r#"{"text": "a long text", "stall": 3}"#] {
            let (fake, provider) = way.saying(streaming, line).await;
            let (asked, cancel) = (request([user("Hi")]), CancelToken::new());
            let canceller = async {
                while fake.left() > 0 {
                    tokio::task::yield_now().await;
                }
                cancel.cancel();
            };
            let (answered, ()) = tokio::join!(provider.respond(&asked, &(), &cancel), canceller);
            assert_eq!(answered.unwrap_err().kind, Kind::Cancelled, "{way:?} {streaming:?} {line}");
        }
    }
    let (fake, provider) = Way::Chat.saying(Streaming::On, r#"{"text": "never"}"#).await;
    let cancel = CancelToken::new();
    cancel.cancel();
    assert_eq!(provider.respond(&request([]), &(), &cancel).await.unwrap_err().kind, Kind::Cancelled);
    assert_eq!(fake.left(), 1);
}

/// Nobody waits for the end to show what there is.
#[tokio::test]
async fn text_is_told_while_it_comes() {
    let streamed =
        |(way, streaming): &(Way, Streaming)| *streaming == Streaming::On && *way != Way::Constrained;
    // So many events that some of them have text, however an API begins.
    let line = r#"{"text": "a long text that never gets to its end", "stall": 7}"#;
    for (way, _) in WAYS.into_iter().filter(streamed) {
        let (_fake, provider) = way.saying(Streaming::On, line).await;
        let (asked, cancel) = (request([user("Hi")]), CancelToken::new());
        let told = Told::default();
        let canceller = async {
            let too_long = SystemClock.sleep_until(SystemClock.monotonic() + Duration::from_secs(20));
            let two_pieces = async {
                while told.pieces("text") < 2 {
                    tokio::task::yield_now().await;
                }
            };
            let came = tokio::select! {
                () = two_pieces => true,
                () = too_long => false,
            };
            cancel.cancel();
            came
        };
        let (answered, came) = tokio::join!(provider.respond(&asked, &told, &cancel), canceller);
        assert!(came, "{way:?}: nothing was told of what had come");
        assert_eq!(answered.unwrap_err().kind, Kind::Cancelled, "{way:?}");
        assert!("a long text that never".starts_with(&told.all("text")), "{way:?}: {}", told.all("text"));
    }
}

#[tokio::test]
async fn silence_times_out_by_the_injected_clock() {
    for (way, streaming) in WAYS {
        for line in [r#"{"fault": "silent"}"#, r#"{"text": "a long text", "stall": 3}"#] {
            let clock = FakeClock::new("2026-11-16T00:00:00Z".parse().unwrap());
            let fake = Fake::start(Script::parse(line).unwrap()).await.unwrap();
            let endpoint = way.endpoint(&fake).streaming(streaming).timeout(Duration::from_secs(9));
            let provider = way.at(endpoint.clock(Arc::new(clock.clone())));
            let (asked, cancel) = (request([user("Hi")]), CancelToken::new());
            let waiter = async {
                while fake.left() > 0 {
                    tokio::task::yield_now().await;
                }
                loop {
                    clock.until_sleeping(1).await;
                    clock.advance(Duration::from_secs(10));
                    tokio::task::yield_now().await;
                }
            };
            let answered = tokio::select! {
                answered = provider.respond(&asked, &(), &cancel) => answered,
                _ = waiter => unreachable!(),
            };
            let error = answered.unwrap_err();
            assert_eq!(
                (error.kind, &*error.message),
                (Kind::TimedOut, "nothing arrived for 9s"),
                "{way:?} {streaming:?}"
            );
        }
    }
}

#[tokio::test]
async fn what_the_provider_would_not_take_is_refused_in_its_words() {
    for (way, streaming) in WAYS.into_iter().filter(|(way, _)| *way != Way::Constrained) {
        let (fake, provider) = way.saying(streaming, r#"{"text": "never"}"#).await;
        let unanswered =
            Message::Assistant { text: "".into(), calls: vec![called("1", "read", "{}")], provider: None };
        let error = ask(&provider, &request([user("Hi"), unanswered])).await.unwrap_err();
        assert_eq!((error.kind, error.retry_safe), (Kind::Rejected, false), "{way:?}: {error}");
        assert_eq!(fake.left(), 1);
    }
}
