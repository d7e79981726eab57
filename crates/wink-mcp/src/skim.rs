//! The id of a message that is too long to be kept, found while it passes by: whoever waits for an answer is told.

use rmcp::model::RequestId;

use crate::wire::read_id;

/// How much of a name or an id is kept.
const LONGEST: usize = 256;

/// Looks at the bytes of one message, in any pieces. Keeps a few hundred of them.
#[derive(Debug, Default)]
pub(crate) struct Skim {
    depth: usize,
    /// Inside a string, and whether the next byte is escaped.
    string: Option<bool>,
    /// What is written in the message itself now: a name, or the value of one.
    at: At,
    text: Vec<u8>,
    id: Option<Vec<u8>>,
    has_method: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Name,
    Id,
    Other,
}

impl Skim {
    /// The next bytes of the message.
    pub(crate) fn pass(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.next(*byte);
        }
    }

    /// The id, if it was a request.
    pub(crate) fn request(self) -> Option<RequestId> {
        let id = self.id.filter(|_| self.has_method)?;
        read_id(std::str::from_utf8(&id).ok()?.trim())
    }

    fn next(&mut self, byte: u8) {
        if let Some(escaped) = self.string {
            self.string = match byte {
                b'"' if !escaped => None,
                b'\\' => Some(!escaped),
                _ => Some(false),
            };
            return self.keep(byte);
        }
        match byte {
            b'"' => {
                self.string = Some(false);
                self.keep(byte);
            }
            b'{' | b'[' => {
                self.keep(byte);
                self.depth = self.depth.saturating_add(1);
            }
            b':' if self.depth == 1 && self.at == At::Name => {
                let name = std::mem::take(&mut self.text);
                let name = name.trim_ascii();
                self.has_method |= name == b"\"method\"";
                self.at = if name == b"\"id\"" { At::Id } else { At::Other };
            }
            b',' | b'}' if self.depth == 1 => {
                let text = std::mem::take(&mut self.text);
                if self.at == At::Id {
                    self.id = Some(text);
                }
                self.at = At::Name;
                self.depth = self.depth.saturating_sub(usize::from(byte == b'}'));
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.keep(byte);
            }
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        // Above the message there is nothing, and what is deep inside it is of no interest.
        if self.depth == 1 && self.at != At::Other && self.text.len() < LONGEST {
            self.text.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;

    use super::*;

    fn skimmed(text: &str, piece: usize) -> Option<RequestId> {
        let mut skim = Skim::default();
        text.as_bytes().chunks(piece).for_each(|piece| skim.pass(piece));
        skim.request()
    }

    #[test]
    fn the_id_of_a_request_is_found_wherever_it_is() {
        let long = "x\\\"id\\\":1,}".repeat(1000);
        for (text, id) in [
            (r#"{"jsonrpc":"2.0","id":5,"method":"LONG"}"#, Some(NumberOrString::Number(5))),
            (r#" { "method" : "LONG" , "id" : "a\"b" } "#, Some(NumberOrString::String("a\"b".into()))),
            (
                r#"{"params":{"id":1,"a":[{"id":2}],"t":"LONG"},"method":"m","id":-3}"#,
                Some(NumberOrString::Number(-3)),
            ),
            // An answer's id is one of ours.
            (r#"{"id":5,"result":{"method":"LONG"}}"#, None),
            (r#"{"method":"LONG","params":{"id":5}}"#, None),
            (r#"{"method":"LONG","id":{}}"#, None),
            (r#"{"method":"m","id":"LONG"}"#, None),
            (r#"{"method":"LONG","id":5"#, None),
            (r#"[{"method":"LONG","id":5}]"#, None),
            ("LONG", None),
        ] {
            let text = text.replace("LONG", &long);
            for piece in [1, 7, 4096, usize::MAX] {
                assert_eq!(skimmed(&text, piece), id, "{piece}: {:.60}", text);
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_passed_over(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let mut skim = Skim::default();
            skim.pass(&bytes);
            proptest::prop_assert!(skim.text.len() <= LONGEST);
            let _ = skim.request();
        }
    }
}
