//! Server-sent events, as providers stream them: bytes in, events out.
//!
//! Written by hand: the format is five rules, and the parsers that exist neither bound what they keep nor refuse what is not
//! UTF-8. However the bytes are cut into chunks, the events are the same. An event that has not ended when the stream does is no
//! event. Nothing here knows what an event says.

use std::mem;

/// How much of a stream is kept at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one line at most.
    pub line: usize,
    /// Bytes of one event's data at most.
    pub event: usize,
}

impl Default for Limits {
    /// 16 MiB each: the last event of a response may hold all of it, prompt and tools included.
    fn default() -> Self {
        Self { line: 16 << 20, event: 16 << 20 }
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its type; empty when none was named.
    pub name: String,
    /// Its data, lines joined by line feeds.
    pub data: String,
}

/// The stream is none that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// A line is too long.
    #[error("a line of the event stream is longer than {0} bytes")]
    LongLine(usize),
    /// An event has too much data.
    #[error("an event of the stream has more than {0} bytes")]
    LongEvent(usize),
    /// A line is not text.
    #[error("a line of the event stream is not UTF-8")]
    NotText,
}

/// Reads a stream. After an error nothing more is to be expected of it.
#[derive(Debug, Default)]
pub struct Parser {
    limits: Limits,
    /// The line that has begun.
    line: Vec<u8>,
    name: String,
    /// What the event has so far, a line feed after each line.
    data: String,
    place: Place,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Place {
    /// No line has ended yet: a byte order mark may come.
    #[default]
    Start,
    Within,
    /// The last line was ended by a carriage return: a line feed would belong to it.
    AfterReturn,
}

impl Parser {
    /// Reads within these bounds.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Takes the next bytes, and hands out the events that they end.
    ///
    /// # Errors
    /// When a bound is exceeded, or a line is not UTF-8.
    pub fn feed(&mut self, chunk: &[u8]) -> Result<Vec<Event>, SseError> {
        let mut events = Vec::new();
        let mut rest = chunk;
        while let Some((&first, after)) = rest.split_first() {
            if self.place == Place::AfterReturn {
                self.place = Place::Within;
                if first == b'\n' {
                    rest = after;
                    continue;
                }
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (more, after) = rest.split_at(end.unwrap_or(rest.len()));
            if self.line.len() + more.len() > self.limits.line {
                return Err(SseError::LongLine(self.limits.line));
            }
            self.line.extend_from_slice(more);
            let Some((&ended_by, after)) = after.split_first() else { break };
            rest = after;
            let line = mem::take(&mut self.line);
            events.extend(self.take_line(&line)?);
            self.line = line;
            self.line.clear();
            self.place = if ended_by == b'\r' { Place::AfterReturn } else { Place::Within };
        }
        Ok(events)
    }

    fn take_line(&mut self, line: &[u8]) -> Result<Option<Event>, SseError> {
        let line = std::str::from_utf8(line).map_err(|_| SseError::NotText)?;
        let line = match self.place {
            Place::Start => line.strip_prefix('\u{feff}').unwrap_or(line),
            Place::Within | Place::AfterReturn => line,
        };
        if line.is_empty() {
            return Ok(self.end_event());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.data.len() + value.len() >= self.limits.event {
                    return Err(SseError::LongEvent(self.limits.event));
                }
                self.data.push_str(value);
                self.data.push('\n');
            }
            "event" => value.clone_into(&mut self.name),
            // Comments begin with the colon; `id` and `retry` are for those who come back to a stream.
            _ => {}
        }
        Ok(None)
    }

    fn end_event(&mut self) -> Option<Event> {
        let name = mem::take(&mut self.name);
        let mut data = mem::take(&mut self.data);
        // No line of data, no event.
        data.pop().map(|_| Event { name, data })
    }
}
