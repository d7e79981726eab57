//! Standard error. What a server says there is written by a thread of its own: a client that starts a server and does not read
//! its standard error must not hold up its calls.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Bytes that wait to be written; what is said beyond is dropped.
const WAITING: usize = 256 << 10;

/// How long the end of the program waits for what was said to be written.
const LAST: Duration = Duration::from_millis(500);

static DETACHED: OnceLock<Queue> = OnceLock::new();

/// From here on nothing that is said waits for standard error to be read.
pub(crate) fn detach() -> io::Result<()> {
    let queue = DETACHED.get_or_init(|| Queue::new(WAITING));
    let write = move || queue.write_to(&mut anstream::stderr());
    std::thread::Builder::new().name("stderr".to_owned()).spawn(write).map(drop)
}

/// Says a line, which ends with a newline.
pub(crate) fn say(line: String) {
    match DETACHED.get() {
        Some(queue) => queue.push(line),
        // An error here has nowhere else to go.
        None => _ = anstream::stderr().write_all(line.as_bytes()),
    }
}

/// Waits a little for what was said to be written, before the program ends.
pub(crate) fn flush() {
    if let Some(queue) = DETACHED.get() {
        queue.flush(LAST);
    }
}

/// Lines on their way to a reader that may never come.
struct Queue {
    most: usize,
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    lines: VecDeque<String>,
    bytes: usize,
    dropped: u64,
    is_writing: bool,
}

impl Queue {
    fn new(most: usize) -> Self {
        Self { most, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: String) {
        let mut state = self.lock();
        match state.bytes.saturating_add(line.len()) {
            bytes if bytes <= self.most => {
                state.bytes = bytes;
                state.lines.push_back(line);
                self.changed.notify_all();
            }
            _ => state.dropped += 1,
        }
    }

    /// Writes lines for as long as the process lives. An error, such as a pipe whose reader is gone, loses the line alone.
    fn write_to(&self, out: &mut impl Write) {
        loop {
            let _ = out.write_all(self.next().as_bytes()).and_then(|()| out.flush());
            let dropped = self.dropped();
            if dropped > 0 {
                let text = format!("{dropped} messages were dropped: standard error was not read in time");
                let _ = out.write_all(crate::frame::note_line(&text).as_bytes());
            }
            self.lock().is_writing = false;
            self.changed.notify_all();
        }
    }

    fn next(&self) -> String {
        let mut state = self.lock();
        loop {
            if let Some(line) = state.lines.pop_front() {
                state.bytes = state.bytes.saturating_sub(line.len());
                state.is_writing = true;
                return line;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// How many lines were dropped, once all that came before them are written.
    fn dropped(&self) -> u64 {
        let mut state = self.lock();
        match state.lines.is_empty() {
            true => std::mem::take(&mut state.dropped),
            false => 0,
        }
    }

    fn flush(&self, most: Duration) {
        let is_busy = |state: &mut QueueState| state.is_writing || !state.lines.is_empty();
        let _ = self.changed.wait_timeout_while(self.lock(), most, is_busy);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, pipe};

    use super::*;

    #[test]
    fn what_does_not_fit_is_dropped_and_told() {
        let queue: &'static Queue = Box::leak(Box::new(Queue::new(8)));
        for line in ["one\n", "two\n", "three\n", "four\n"] {
            queue.push(line.to_owned());
        }
        let (mut reader, mut writer) = pipe().unwrap();
        std::thread::spawn(move || queue.write_to(&mut writer));
        queue.flush(Duration::from_secs(60));
        queue.push("five\n".to_owned());
        queue.flush(Duration::from_secs(60));
        let expected = "one\ntwo\n\u{1b}[33mnote:\u{1b}[0m 2 messages were dropped: standard error was not read in time\nfive\n";
        let mut found = vec![0; expected.len()];
        reader.read_exact(&mut found).unwrap();
        assert_eq!(String::from_utf8(found).unwrap(), expected);
    }
}
