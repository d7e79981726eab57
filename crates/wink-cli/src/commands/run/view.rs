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
use crate::term::{BAD, DIM, GOOD, NAME, ODD, cut, end_of};

/// How much of a call's arguments, and of what came of it, a line has.
const MOST_ARGUMENTS: usize = 60;
const MOST_SAID: usize = 120;
/// How much of what the model is saying the last line can have, on the widest terminal.
const MOST_STREAMED: usize = 400;
/// Bytes of what is being said that are kept.
const MOST_KEPT: usize = 16 * MOST_STREAMED;

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
    /// What the model has said since it was asked: how that begins, and how it ends so far.
    first: String,
    newest: String,
    arriving: Arriving,
    calling: Vec<Arc<str>>,
}

/// What of a response arrives right now.
#[derive(Default)]
enum Arriving {
    #[default]
    Nothing,
    Thinking,
    Text,
    /// A call of this tool.
    Call(String),
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
            let (told, now) = self.with(|state| (so_far(state.stats), state.now()));
            self.reporter.say_now(told, now);
        }
    }

    /// What the run came to.
    pub(in crate::commands) fn ended(&self, how: &str, stats: RunStats, took: Duration) {
        self.line(&format!("{DIM}{how}: {}, in {}{DIM:#}", told(stats), short(took)));
    }
}

impl State {
    /// The model goes on. No more is kept than what can be shown: that is looked through with every piece.
    fn hear(&mut self, text: &str) {
        if self.first.len() < MOST_KEPT {
            self.first.push_str(text.get(..text.floor_char_boundary(MOST_KEPT)).unwrap_or_default());
        }
        self.newest.push_str(text);
        if self.newest.len() > 2 * MOST_KEPT {
            let from = self.newest.ceil_char_boundary(self.newest.len() - MOST_KEPT);
            self.newest.drain(..from);
        }
    }

    /// Nothing is being said any more. Gives how it began.
    fn falls_silent(&mut self) -> String {
        self.arriving = Arriving::Nothing;
        self.newest.clear();
        std::mem::take(&mut self.first)
    }

    /// What is being done or said.
    fn now(&self) -> String {
        match (self.calling.as_slice(), &self.arriving) {
            ([one], _) => format!("calling {one}"),
            ([first, more @ ..], _) => format!("calling {first} and {} more", more.len()),
            ([], Arriving::Nothing) => "asking the model".to_owned(),
            ([], Arriving::Thinking) => "thinking".to_owned(),
            ([], Arriving::Call(tool)) => format!("writing a call of {}", one_line(tool)),
            ([], Arriving::Text) => {
                let newest =
                    self.newest.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
                one_line(&end_of(newest, MOST_STREAMED))
            }
        }
    }
}

/// What a run came to, in words.
fn told(stats: RunStats) -> String {
    counted(stats, |tokens| tokens.to_string())
}

/// The same while it goes on, where there is little room, and nobody needs the last of some hundred thousand tokens.
fn so_far(stats: RunStats) -> String {
    counted(stats, |tokens| match tokens {
        0..10_000 => tokens.to_string(),
        10_000..1_000_000 => format!("{}k", tokens / 1000),
        _ => format!("{}.{}M", tokens / 1_000_000, tokens / 100_000 % 10),
    })
}

fn counted(stats: RunStats, tokens: impl Fn(u64) -> String) -> String {
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
        1 => format!("{text}, 1 token"),
        count => format!("{text}, {} tokens", tokens(count)),
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

/// A text on one line, without commands for the terminal.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    visible(&words.join(" ")).into_owned()
}

impl Stream for View {
    fn piece(&self, piece: Piece<'_>) {
        self.with(|state| {
            state.arriving = match piece {
                Piece::Thinking(_) => Arriving::Thinking,
                Piece::Call { name } => Arriving::Call(name.to_owned()),
                Piece::Text(text) => {
                    state.hear(text);
                    // Where nothing but space has come, nothing is to be seen of it.
                    if state.newest.trim().is_empty() { Arriving::Nothing } else { Arriving::Text }
                }
            };
        });
        self.status();
    }
}

impl Watch for View {
    fn stats(&self, stats: RunStats) {
        self.with(|state| {
            if stats.turns != state.stats.turns {
                state.arriving = Arriving::Nothing;
            }
            state.stats = stats;
        });
        self.status();
    }

    fn calls(&self, calls: &[ToolCall]) {
        let (turn, text) = self.with(|state| {
            state.calling = calls.iter().map(|call| Arc::clone(&call.tool)).collect();
            (state.stats.turns, state.falls_silent())
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
        self.with(State::falls_silent);
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
    use super::super::super::progress::Waiting;
    use super::*;

    fn said(pieces: &[Piece<'_>]) -> String {
        let view = View::new(Told::Nothing, Waiting::silent().reporter());
        pieces.iter().for_each(|piece| view.piece(*piece));
        view.with(|state| state.now())
    }

    #[test]
    fn what_is_being_said_is_its_last_line_without_commands_for_the_terminal() {
        assert_eq!(said(&[]), "asking the model");
        assert_eq!(said(&[Piece::Text(" \n")]), "asking the model");
        let text = [Piece::Text("First.\nThen "), Piece::Text("\u{1b}[1m\n \n")];
        assert_eq!(said(&text), one_line("Then \u{1b}[1m"));
        let long = format!("{}end", "x".repeat(1000));
        assert_eq!(said(&[Piece::Text(&long)]), format!("…{}end", "x".repeat(396)));
        let view = View::new(Told::Nothing, Waiting::silent().reporter());
        (0..20_000).for_each(|_| view.piece(Piece::Text("längs")));
        assert!(view.with(|state| state.newest.len() + state.first.len()) <= 3 * MOST_KEPT + 8);
        assert!(view.with(|state| state.now()).ends_with("längslängs"));
    }

    #[test]
    fn what_is_thought_or_written_is_named() {
        let (thinking, call) = (Piece::Thinking("hm"), Piece::Call { name: "gr\u{1b}ep" });
        assert_eq!(said(&[thinking]), "thinking");
        assert_eq!(said(&[thinking, Piece::Text("Now.")]), "Now.");
        assert_eq!(
            said(&[thinking, Piece::Text("Now."), call]),
            format!("writing a call of {}", one_line("gr\u{1b}ep"))
        );
        let mut state = State { calling: vec!["one".into(), "two".into()], ..State::default() };
        assert_eq!(state.now(), "calling one and 1 more");
        state.calling.truncate(1);
        assert_eq!(state.now(), "calling one");
    }

    #[test]
    fn many_tokens_are_told_in_short_while_it_goes_on() {
        let with = |tokens| RunStats { usage: TokenUsage::new(tokens, 0), ..RunStats::default() };
        let tokens = [0, 1, 9999, 124_690, 12_345_678].map(|tokens| so_far(with(tokens)));
        let wanted = ["", ", 1 token", ", 9999 tokens", ", 124k tokens", ", 12.3M tokens"];
        assert_eq!(tokens, wanted.map(|end| format!("0 turns, 0 calls{end}")));
        assert_eq!(told(with(124_690)), "0 turns, 0 calls, 124690 tokens");
    }
}
