//! What was said between us and the program `claude`, which has the loop itself: written down line by line, and said again without it.
//!
//! A replay hears each line when it was heard: after what the program was told before it, and when calls are as far as they were.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use serde_json::{Value, json};

use super::clock::ReplayingClock;
use super::requests::{excerpt, fits};
use super::write::Shared;
use super::{Line, Spoken};
use crate::lock;

/// What is said, written down or said again.
#[derive(Clone)]
pub(crate) enum Talk {
    Recorded(Arc<Shared>),
    Replayed(Arc<ReplayedTalk>),
}

impl Talk {
    /// The program is told something.
    pub(crate) fn told(&self, frame: &Value) {
        match self {
            Self::Recorded(shared) => shared.line(spoken(Spoken::Told(comparable(frame.clone())))),
            Self::Replayed(talk) => talk.told(&comparable(frame.clone())),
        }
    }

    /// The program said something that matters.
    pub(crate) fn heard(&self, line: &[u8]) {
        if let Self::Recorded(shared) = self {
            let text = String::from_utf8_lossy(line);
            let said = serde_json::from_str(&text).unwrap_or_else(|_| Value::from(&*text));
            let said = lock(&shared.scrubber).spoken(said);
            shared.line(spoken(Spoken::Heard(said)));
        }
    }

    /// Nothing more comes from the program.
    pub(crate) fn gone(&self) {
        if let Self::Recorded(shared) = self {
            shared.line(spoken(Spoken::Gone));
        }
    }
}

fn spoken(spoken: Spoken) -> Line {
    Line { claude: Some(spoken), ..Line::default() }
}

/// Without what is of this version of ours.
fn comparable(mut frame: Value) -> Value {
    if let Some(server) = frame.pointer_mut("/response/response/mcp_response/result/serverInfo") {
        *server = json!({});
    }
    frame
}

/// What was said then.
pub(crate) struct ReplayedTalk {
    clock: Arc<ReplayingClock>,
    /// The first thing that was not as it was then.
    difference: Arc<Mutex<Option<String>>>,
    lines: Mutex<VecDeque<Spoken>>,
}

impl ReplayedTalk {
    pub(super) fn new(
        clock: &Arc<ReplayingClock>,
        difference: &Arc<Mutex<Option<String>>>,
        lines: VecDeque<Spoken>,
    ) -> Self {
        let (clock, difference) = (Arc::clone(clock), Arc::clone(difference));
        Self { clock, difference, lines: Mutex::new(lines) }
    }

    /// Whether the run ended before it was over then.
    pub(super) fn left(&self) -> Option<String> {
        let left = lock(&self.lines).len();
        let message = "the run ended before it was over in the recording";
        (left > 0).then(|| format!("{message}: {left} lines of Claude Code and to it were not said"))
    }

    fn differs(&self, message: String) {
        lock(&self.difference).get_or_insert(message);
        // Nothing more can be as it was.
        lock(&self.lines).clear();
    }

    fn told(&self, frame: &Value) {
        let then = lock(&self.lines).pop_front_if(|next| matches!(next, Spoken::Told(_)));
        let Some(Spoken::Told(then)) = then else {
            let message = "Claude Code is told something that it was not told when this was recorded";
            return self.differs(format!("{message}: {}", excerpt(frame, &Value::Null)));
        };
        self.clock.next_line();
        if !fits(&then, frame) {
            let (then, now) = (excerpt(&then, frame), excerpt(frame, &then));
            let message = "Claude Code is told something else than when this was recorded";
            self.differs(format!("{message}: it was {then}, and is {now}"));
        }
    }

    /// The next line that was heard, when it was; nothing if there was none. `is_busy`: calls go on, which may have something to say.
    pub(crate) async fn next(&self, is_busy: bool) -> Option<Vec<u8>> {
        poll_fn(|_| {
            let mut lines = lock(&self.lines);
            let is_heard = matches!(lines.front(), Some(Spoken::Heard(_) | Spoken::Gone));
            let waits = match is_heard {
                true => self.clock.cancels_next() || is_busy && !self.clock.is_at_line(),
                false => is_busy || self.clock.gives_up(),
            };
            if waits {
                // Whoever goes on meanwhile has us looked at again.
                return Poll::Pending;
            }
            let next = if is_heard { lines.pop_front() } else { None };
            drop(lines);
            match next {
                Some(Spoken::Heard(line)) => {
                    self.clock.next_line();
                    let text = line.as_str().map_or_else(|| line.to_string(), str::to_owned);
                    Poll::Ready(Some(text.into_bytes()))
                }
                Some(_) => {
                    self.clock.next_line();
                    Poll::Ready(None)
                }
                None => {
                    let message = "Claude Code is not told what it was told when this was recorded";
                    self.differs(message.to_owned());
                    Poll::Ready(None)
                }
            }
        })
        .await
    }

    /// A call goes on when everything was heard that was heard before.
    pub(super) async fn until_heard(&self) {
        poll_fn(|_| {
            let is_heard = matches!(lock(&self.lines).front(), Some(Spoken::Heard(_) | Spoken::Gone));
            match is_heard && self.clock.is_at_line() {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }
        })
        .await;
    }

    /// Nobody listens any more.
    pub(crate) fn close(&self) {
        if let Some(left) = self.left() {
            self.differs(left);
        }
    }
}
