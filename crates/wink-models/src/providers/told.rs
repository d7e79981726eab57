//! What a provider says, told while it comes, without keys.

use std::sync::Mutex;

use crate::lock;
use crate::recording::Scrubber;
use crate::{Piece, Stream};

/// Tells somebody else, without the secrets. One that comes in parts is held back until it is known to be none.
pub(super) struct Told<'a> {
    scrubber: &'a Scrubber,
    stream: &'a dyn Stream,
    held: Mutex<Held>,
}

/// What may be the beginning of a secret.
#[derive(Default)]
struct Held {
    text: String,
    thinking: String,
}

impl<'a> Told<'a> {
    pub(super) fn new(scrubber: &'a Scrubber, stream: &'a dyn Stream) -> Self {
        Self { scrubber, stream, held: Mutex::default() }
    }

    /// Tells what was held back: nothing more comes.
    pub(super) fn end(&self) {
        let Held { text, thinking } = std::mem::take(&mut *lock(&self.held));
        for piece in [Piece::Thinking(&thinking), Piece::Text(&text)] {
            if !matches!(piece, Piece::Text("") | Piece::Thinking("")) {
                self.stream.piece(piece);
            }
        }
    }

    /// What can be told now.
    fn ready(&self, held: &mut String, more: &str) -> String {
        held.push_str(more);
        let mut known = self.scrubber.text(held);
        *held = known.split_off(known.len().saturating_sub(self.scrubber.begun(&known)));
        known
    }
}

impl Stream for Told<'_> {
    fn piece(&self, piece: Piece<'_>) {
        // The lock is not held while somebody else is told.
        let ready = match piece {
            Piece::Text(more) => self.ready(&mut lock(&self.held).text, more),
            Piece::Thinking(more) => self.ready(&mut lock(&self.held).thinking, more),
            Piece::Call { name } => {
                self.end();
                return self.stream.piece(Piece::Call { name: &self.scrubber.text(name) });
            }
        };
        match piece {
            _ if ready.is_empty() => {}
            Piece::Thinking(_) => self.stream.piece(Piece::Thinking(&ready)),
            _ => self.stream.piece(Piece::Text(&ready)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);

    impl Stream for Heard {
        fn piece(&self, piece: Piece<'_>) {
            lock(&self.0).push(format!("{piece:?}"));
        }
    }

    #[test]
    fn a_secret_in_parts_is_masked_and_what_only_begins_like_one_is_told() {
        let scrubber = Scrubber::new().knowing(&Secret::new("hunter22".to_owned())).unwrap_or_default();
        let heard = Heard::default();
        let told = Told::new(&scrubber, &heard);
        for part in ["a hun", "ter", "22 b hunt", "ing ", "hunter2"] {
            told.piece(Piece::Text(part));
        }
        told.piece(Piece::Thinking("hunter22"));
        told.piece(Piece::Call { name: "hunter22" });
        told.piece(Piece::Text("2hun"));
        told.end();
        assert_eq!(
            *lock(&heard.0),
            [
                "Text(\"a \")",
                "Text(\"*** b \")",
                "Text(\"hunting \")",
                "Thinking(\"***\")",
                "Text(\"hunter2\")",
                "Call { name: \"***\" }",
                "Text(\"2\")",
                "Text(\"hun\")",
            ]
        );
    }
}
