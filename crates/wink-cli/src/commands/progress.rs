//! The wait that a person sees: after a second, on a terminal, a line on standard error that says what is going on. It is
//! gone when the wait is over.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use wink::limits::{Clock, SystemClock};
use wink::session::InvocationId;
use wink::tool::Progress;

use crate::frame::visible;
use crate::term;

/// How long nothing is said.
const PATIENCE: Duration = Duration::from_secs(1);
/// In fewer columns nobody would know what is being said.
const LEAST_NOW: usize = 8;
const TICK: Duration = Duration::from_millis(100);
const FRAMES: [&str; 8] = ["⣷", "⣯", "⣟", "⡿", "⢿", "⣻", "⣽", "⣾"];

/// Something is being waited for, as long as this lives.
pub(super) struct Waiting {
    shared: Option<Arc<Shared>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Says how far the work is.
#[derive(Clone)]
pub(super) struct Reporter(Option<Arc<Shared>>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    text: String,
    /// What is being done or said right now: as much of its end as there is room for, after all else.
    now: Option<String>,
    /// When there is no more time, on the machine's clock that never goes back.
    until: Option<Duration>,
    over: bool,
    /// Somebody else uses the terminal.
    paused: bool,
    /// Whether there is a line to be removed.
    shown: bool,
}

impl Waiting {
    pub(super) fn begin(text: impl Into<String>) -> Self {
        if !io::stderr().is_terminal() {
            return Self { shared: None, thread: None };
        }
        let state =
            State { text: text.into(), now: None, until: None, over: false, paused: false, shown: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let its = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("wink-waiting".into()).spawn(move || its.show());
        Self { shared: Some(shared), thread: thread.ok() }
    }

    /// Waits without saying anything.
    pub(super) fn silent() -> Self {
        Self { shared: None, thread: None }
    }

    pub(super) fn reporter(&self) -> Reporter {
        Reporter(self.shared.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(shared) = &self.shared {
            shared.change(|state| state.over = true);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// Until it is over. However often something is said, it is drawn once a tick.
    fn show(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let began = SystemClock.monotonic();
        let waited = || SystemClock.monotonic().saturating_sub(began);
        let mut next = PATIENCE;
        loop {
            let wait = next.saturating_sub(waited());
            let (held, _) = self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner);
            state = held;
            if state.over || state.paused {
                state.wipe();
            }
            if state.over {
                return;
            }
            if waited() < next {
                continue;
            }
            next = waited().saturating_add(TICK);
            if !state.paused {
                state.draw(waited());
            }
        }
    }
}

impl State {
    fn draw(&mut self, waited: Duration) {
        let ticks = waited.as_millis() / TICK.as_millis();
        let frame = usize::try_from(ticks).unwrap_or(0) % FRAMES.len();
        let frame = FRAMES.get(frame).copied().unwrap_or_default();
        let left = self.until.map(|until| until.saturating_sub(SystemClock.monotonic()));
        let line =
            format!("{frame} {}", self.line(waited, left, term::width_of(&io::stderr()).saturating_sub(3)));
        let _ = write!(io::stderr(), "\r\x1b[2K{line}");
        self.shown = true;
    }

    /// The line, in so many columns: what must be seen is first.
    fn line(&self, waited: Duration, left: Option<Duration>, width: usize) -> String {
        let text = visible(&self.text);
        let Some(now) = &self.now else {
            let left = left.map(|left| format!(", {} left", short(left))).unwrap_or_default();
            return term::cut(&format!("{text} {}s{left}", waited.as_secs()), width);
        };
        // There is no room for both.
        let time =
            left.map_or_else(|| format!("{}s", waited.as_secs()), |left| format!("{} left", short(left)));
        let first = format!("{text}, {time}");
        match width.checked_sub(first.chars().count() + 2) {
            Some(room) if room >= LEAST_NOW => format!("{first}; {}", term::end_of(&visible(now), room)),
            Some(_) | None => term::cut(&first, width),
        }
    }

    fn wipe(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}

impl Reporter {
    /// Says what is going on.
    pub(super) fn say(&self, text: impl Into<String>) {
        if let Some(shared) = &self.0 {
            shared.change(|state| (state.text, state.now) = (text.into(), None));
        }
    }

    /// Says how far it is, and what is being done or said right now.
    pub(super) fn say_now(&self, text: String, now: String) {
        if let Some(shared) = &self.0 {
            shared.change(|state| (state.text, state.now) = (text, Some(now)));
        }
    }

    /// Says when there is no more time.
    pub(super) fn ends_in(&self, left: Duration) {
        if let Some(shared) = &self.0 {
            shared.change(|state| state.until = SystemClock.monotonic().checked_add(left));
        }
    }

    /// Whether anybody sees what is said.
    pub(super) fn is_shown(&self) -> bool {
        self.0.is_some()
    }

    /// The terminal is needed for something else.
    pub(super) fn pause(&self) {
        if let Some(shared) = &self.0 {
            shared.change(|state| {
                state.paused = true;
                state.wipe();
            });
        }
    }

    /// It is not needed any more.
    pub(super) fn resume(&self) {
        if let Some(shared) = &self.0 {
            shared.change(|state| state.paused = false);
        }
    }
}

/// A stretch of time, for people.
pub(super) fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{}ms", time.as_millis()),
        1..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// What a tool says while it works.
impl Progress for Reporter {
    fn progress(&self, _: InvocationId, done: f64, total: Option<f64>, message: &str) {
        match (total, message) {
            (None, "") => {}
            (None, message) => self.say(message),
            (Some(total), "") => self.say(format!("{done} of {total}")),
            (Some(total), message) => self.say(format!("{message} ({done} of {total})")),
        }
    }

    fn partial(&self, _: InvocationId, text: &str) {
        if let Some(line) = text.lines().rev().find(|line| !line.trim().is_empty()) {
            self.say(line);
        }
    }

    fn still_running(&self, _: InvocationId, _: u32) {
        // How long it takes is shown anyway.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_be_seen_is_first_and_the_newest_words_get_the_rest() {
        let mut state = State {
            text: "12 turns, 34 calls (2 rolled back), 124k tokens".to_owned(),
            now: Some("the first words and the last".to_owned()),
            until: None,
            over: false,
            paused: false,
            shown: false,
        };
        let (waited, left) = (Duration::from_secs(75), Some(Duration::from_secs(3599)));
        let line = |state: &State, width| state.line(waited, left, width);
        let first = "12 turns, 34 calls (2 rolled back), 124k tokens, 59m 59s left";
        assert_eq!(line(&state, 77), format!("{first}; …and the last"));
        assert_eq!(line(&state, 120), format!("{first}; the first words and the last"));
        assert_eq!(line(&state, 70), first);
        assert_eq!(
            state.line(waited, None, 63),
            "12 turns, 34 calls (2 rolled back), 124k tokens, 75s; …the last"
        );
        state.now = None;
        assert_eq!(line(&state, 120), "12 turns, 34 calls (2 rolled back), 124k tokens 75s, 59m 59s left");
        assert_eq!(line(&state, 12), "12 turns, 3…");
    }
}
