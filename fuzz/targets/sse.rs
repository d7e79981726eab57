//! Event streams as a server may send them: however they are cut, the same events, or the same refusal; and nothing is longer
//! than it may be.

use wink_models::sse::{Event, Limits, Parser, SseError};

const LIMITS: Limits = Limits { line: 64, event: 128 };

fn read<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<Event>, Option<SseError>) {
    let mut parser = Parser::new(LIMITS);
    let mut events = Vec::new();
    for chunk in chunks {
        match parser.feed(chunk) {
            Ok(more) => events.extend(more),
            Err(error) => return (events, Some(error)),
        }
    }
    (events, None)
}

/// One input of the fuzzer, or of its corpus: how long the chunks are, and the stream.
pub fn run(input: &[u8]) {
    let Some((&size, stream)) = input.split_first() else { return };
    let bytewise = read(stream.chunks(1));
    let chunked = read(stream.chunks(usize::from(size).max(1)));
    // A chunk in which a line is refused gives none of its events: what was refused is not told by halves.
    assert_eq!(chunked.1, bytewise.1);
    assert!(bytewise.0.starts_with(&chunked.0));
    assert!(chunked.1.is_some() || chunked.0 == bytewise.0);
    for event in &bytewise.0 {
        assert!(event.data.len() < LIMITS.event && event.name.len() <= LIMITS.line);
    }
}
