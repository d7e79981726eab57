//! A run, as it is seen while it goes on: a line for each call on standard error, and on a terminal one below them that says how
//! far it is.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anstyle::Style;
use wink::executor::{Outcome, ToolCall};
use wink::limits::TokenUsage;
use wink::session::{Ending, LoggedParams, ToolInvoked};
use wink_models::{ModelError, Piece, RunStats, Stream, Watch};

use super::super::progress::{Reporter, short};
use super::super::row;
use crate::frame::visible;
use crate::term::{BAD, DIM, GOOD, NAME, ODD, cut};

/// How much of a call's arguments, and of what came of it, a line has.
const MOST_ARGUMENTS: usize = 60;
const MOST_SAID: usize = 120;
/// How much of what the model is saying the last line has.
const MOST_STREAMED: usize = 60;

/// Who is told how a run goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::commands) enum Told {
    /// Somebody: lines, with colours and a last line where there is a terminal.
    Lines,
    /// Nobody: it is run for a program.
    Nothing,
}

/// Shows a run.
pub(in crate::commands) struct View {
    told: Told,
    reporter: Reporter,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stats: RunStats,
    /// What the model has said since it was asked.
    text: String,
    calling: Vec<Arc<str>>,
}

impl View {
    pub(in crate::commands) fn new(told: Told, reporter: Reporter) -> Arc<Self> {
        Arc::new(Self { told, reporter, state: Mutex::default() })
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A line that stays.
    fn line(&self, line: &str) {
        if self.told == Told::Nothing {
            return;
        }
        self.reporter.pause();
        // Nobody can be told that nobody can be told.
        let _ = writeln!(anstream::stderr(), "{line}");
        self.reporter.resume();
    }

    /// The last line, where there is one.
    fn status(&self) {
        if self.reporter.is_shown() {
            self.reporter.say(self.with(|state| state.status()));
        }
    }

    /// What the run came to.
    pub(in crate::commands) fn ended(&self, how: &str, stats: RunStats, took: Duration) {
        self.line(&format!("{DIM}{how}: {}, in {}{DIM:#}", told(stats), short(took)));
    }
}

impl State {
    fn status(&self) -> String {
        let doing = match self.calling.first() {
            Some(first) if self.calling.len() == 1 => format!("calling {first}"),
            Some(first) => format!("calling {first} and {} more", self.calling.len() - 1),
            None => match one_line(
                self.text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default(),
            ) {
                none if none.is_empty() => "asking the model".to_owned(),
                text => end_of(&text, MOST_STREAMED),
            },
        };
        format!("{}; {doing}", told(self.stats))
    }
}

/// What a run came to, in words.
fn told(stats: RunStats) -> String {
    let RunStats { turns, calls, rolled_back, denied, usage } = stats;
    let many = |count: u64, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
    let mut text = format!("{}, {}", many(turns.into(), "turn"), many(calls, "call"));
    let parts = [(rolled_back, "rolled back"), (denied, "denied")];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if !parts.is_empty() {
        text.push_str(&format!(" ({})", parts.join(", ")));
    }
    let TokenUsage { input_tokens, output_tokens, .. } = usage;
    match input_tokens.saturating_add(output_tokens) {
        0 => text,
        tokens => format!("{text}, {}", many(tokens, "token")),
    }
}

/// A line of a call: what it was, and what came of it. Arguments as the log has them.
fn call(turn: u32, event: &ToolInvoked) -> String {
    let arguments: &str = match &event.params {
        LoggedParams::Accepted(text) | LoggedParams::Rejected { raw: text, .. } => text,
    };
    let arguments = match cut(&one_line(arguments), MOST_ARGUMENTS) {
        none if none.is_empty() => none,
        some => format!("{some} "),
    };
    let (style, how): (Style, String) = match event.ending {
        Ending::Succeeded | Ending::Expanded => (GOOD, row::ended(event).to_owned()),
        Ending::Denied | Ending::Unavailable | Ending::Rejected | Ending::NotRun | Ending::InDoubt => {
            (ODD, row::ended(event).to_owned())
        }
        _ if row::was_rolled_back(event.ending) => (BAD, format!("{}, rolled back", row::ended(event))),
        _ => (BAD, row::ended(event).to_owned()),
    };
    let said = match event.success {
        true => String::new(),
        false => format!(": {}", cut(&one_line(&event.message), MOST_SAID)),
    };
    let tool = visible(&event.tool);
    format!("{DIM}{turn:>3}{DIM:#} {NAME}{tool}{NAME:#} {DIM}{arguments}{DIM:#}{style}{how}{style:#}{said}")
}

/// The last characters of a text.
fn end_of(text: &str, most: usize) -> String {
    match text.chars().count().checked_sub(most) {
        None | Some(0) => text.to_owned(),
        Some(more) => format!("…{}", text.chars().skip(more + 1).collect::<String>()),
    }
}

/// A text on one line, without commands for the terminal.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    visible(&words.join(" ")).into_owned()
}

impl Stream for View {
    fn piece(&self, piece: Piece<'_>) {
        if let Piece::Text(text) = piece {
            self.with(|state| state.text.push_str(text));
            self.status();
        }
    }
}

impl Watch for View {
    fn stats(&self, stats: RunStats) {
        self.with(|state| state.stats = stats);
        self.status();
    }

    fn calls(&self, calls: &[ToolCall]) {
        let (turn, text) = self.with(|state| {
            state.calling = calls.iter().map(|call| Arc::clone(&call.tool)).collect();
            (state.stats.turns, std::mem::take(&mut state.text))
        });
        let text = cut(&one_line(&text), MOST_SAID);
        if !text.is_empty() {
            self.line(&format!("{DIM}{turn:>3}{DIM:#} {text}"));
        }
        self.status();
    }

    fn outcomes(&self, outcomes: &[Outcome]) {
        let turn = self.with(|state| {
            for outcome in outcomes {
                if let Some(at) = state.calling.iter().position(|tool| *tool == outcome.event.tool) {
                    state.calling.remove(at);
                }
            }
            state.stats.turns
        });
        for outcome in outcomes {
            self.line(&call(turn, &outcome.event));
        }
        self.status();
    }

    fn failed(&self, error: &ModelError) {
        self.with(|state| state.text.clear());
        self.line(&format!(
            "    {BAD}the request failed{BAD:#}: {}",
            cut(&one_line(&error.to_string()), MOST_SAID)
        ));
    }

    fn waiting(&self, wait: Duration) {
        self.line(&format!("    {DIM}asking again in {}{DIM:#}", short(wait)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_says_what_is_done_or_the_end_of_what_is_said() {
        let mut state = State::default();
        assert_eq!(state.status(), "0 turns, 0 calls; asking the model");
        state.text = "First.\nThen \u{1b}[1m\n \n".to_owned();
        assert_eq!(state.status(), format!("0 turns, 0 calls; {}", one_line("Then \u{1b}[1m")));
        state.text = format!("{}end", "x".repeat(100));
        assert_eq!(state.status(), format!("0 turns, 0 calls; …{}end", "x".repeat(56)));
        state.calling = vec!["one".into(), "two".into()];
        assert_eq!(state.status(), "0 turns, 0 calls; calling one and 1 more");
    }
}
