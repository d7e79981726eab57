//! Server-sent events: any chunking gives the same events.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use proptest::prelude::*;
use wink_models::sse::{Event, Limits, Parser, SseError};

fn event(name: &str, data: &str) -> Event {
    Event { name: name.to_owned(), data: data.to_owned() }
}

fn whole(text: &[u8]) -> Result<Vec<Event>, SseError> {
    Parser::new(Limits::default()).feed(text)
}

#[test]
fn events_are_read_as_the_standard_says() {
    let text = "\u{feff}: a comment\nevent: one\ndata: first\ndata:second\nid: 7\nretry: 5\n\n\
                event: nothing\n\ndata\n\ndata:  two spaces\r\n\r\nunknown: x\rdata: by returns\r\rdata: never ended";
    assert_eq!(
        whole(text.as_bytes()),
        Ok(vec![
            event("one", "first\nsecond"),
            event("", ""),
            event("", " two spaces"),
            event("", "by returns")
        ])
    );
}

#[test]
fn what_is_too_long_or_no_text_is_refused() {
    let limits = Limits { line: 10, event: 8 };
    assert_eq!(Parser::new(limits).feed(b"data: 12345"), Err(SseError::LongLine(10)));
    assert_eq!(Parser::new(limits).feed(b"data: 1234\ndata: 1234\n"), Err(SseError::LongEvent(8)));
    assert_eq!(Parser::new(limits).feed(b"data: \xff\n"), Err(SseError::NotText));
}

/// The standard, over the whole text at once.
fn model(text: &str) -> Vec<Event> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n");
    let Some((ended, _)) = text.rsplit_once('\n') else { return Vec::new() };
    let (mut events, mut name, mut data) = (Vec::new(), "", Vec::new());
    for line in ended.split('\n') {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => data.push(value),
            "event" => name = value,
            "" if line.is_empty() => {
                if !data.is_empty() {
                    events.push(event(name, &data.join("\n")));
                }
                (name, data) = ("", Vec::new());
            }
            _ => {}
        }
    }
    events
}

fn stream() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("data:"),
        Just("data"),
        Just("event: "),
        Just(":"),
        Just(" "),
        Just("\n"),
        Just("\r"),
        Just("\r\n"),
        Just("\n\n"),
        Just("x"),
        Just("ü"),
        Just("\u{feff}"),
        Just("id: 1"),
        Just("{\"a\":1}"),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_chunking_gives_the_events_of_the_standard(text in stream(), cuts in prop::collection::vec(1_usize..9, 1..9)) {
        let mut parser = Parser::new(Limits::default());
        let mut rest = text.as_bytes();
        let mut events = Vec::new();
        for cut in cuts.iter().cycle() {
            let (chunk, after) = rest.split_at((*cut).min(rest.len()));
            events.extend(parser.feed(chunk).unwrap());
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(&events, &model(&text));
        prop_assert_eq!(&events, &whole(text.as_bytes()).unwrap());
    }
}
