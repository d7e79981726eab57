//! The frame of every command: how it ends, and how that is told. Results go to standard output, everything else to
//! standard error.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::{Value, json};
use wink::filesystem::turns_text;

use crate::stderr;

/// How the program ends. The numbers are part of its interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Success = 0,
    /// The tool's result is a failure, or what was asked for was refused.
    Failure = 1,
    /// The command line, the agent file or the workspace.
    Usage = 2,
    /// Deadline, budget, cancelled.
    Evaluation = 3,
    /// The store failed, or something could not be put back.
    Internal = 4,
}

impl Exit {
    /// What kind of error ends the program so.
    fn kind(self) -> &'static str {
        match self {
            Self::Success => "none",
            Self::Failure => "failure",
            Self::Usage => "usage",
            Self::Evaluation => "evaluation",
            Self::Internal => "internal",
        }
    }
}

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) struct CliError {
    exit: Exit,
    message: String,
    hint: Option<String>,
    problems: Vec<Located>,
}

/// Something wrong at a place in a file.
#[derive(Debug, Serialize)]
pub(crate) struct Located {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// For whom errors and notes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// For people.
    Text,
    /// For programs: each an object on a line of its own.
    Json,
}

static FORM: OnceLock<Form> = OnceLock::new();

/// Says once for whom errors and notes are.
pub(crate) fn speak(form: Form) {
    // Whoever said so first is right: the command line is read once.
    let _ = FORM.set(form);
}

fn form() -> Form {
    FORM.get().copied().unwrap_or(Form::Text)
}

/// How a command ended.
pub(crate) type Done = Result<Exit, CliError>;

impl CliError {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None, problems: Vec::new() }
    }

    /// The runtime's own ground failed.
    pub(crate) fn internal(error: impl fmt::Display) -> Self {
        Self::new(Exit::Internal, error.to_string())
    }

    /// The message and the hint.
    #[cfg(unix)]
    pub(crate) fn into_parts(self) -> (String, Option<String>) {
        (self.message, self.hint)
    }

    /// Each of the things that the message tells, with its place.
    #[cfg(unix)]
    #[must_use]
    pub(crate) fn problems(mut self, problems: Vec<Located>) -> Self {
        self.problems = problems;
        self
    }

    /// What the person can do about it.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<io::Error> for CliError {
    /// Writing the output failed.
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // Whoever read it has seen enough, as `head` does.
            io::ErrorKind::BrokenPipe => Self::new(Exit::Success, ""),
            _ => Self::internal(format!("the output cannot be written: {error}")),
        }
    }
}

impl From<wink::store::StoreError> for CliError {
    fn from(error: wink::store::StoreError) -> Self {
        Self::internal(error)
    }
}

/// Tells how a command ended.
pub(crate) fn ended(done: Done) -> ExitCode {
    let code = tell_end(done);
    stderr::flush();
    code
}

fn tell_end(done: Done) -> ExitCode {
    let (exit, error) = match done {
        Ok(exit) => (exit, None),
        Err(error) => (error.exit, Some(error)),
    };
    if let Some(CliError { message, hint, problems, exit }) = error.filter(|error| !error.message.is_empty())
    {
        if form() == Form::Json {
            let (kind, exit_code) = (exit.kind(), exit as u8);
            let error = json!({ "kind": kind, "exit_code": exit_code, "message": message, "hint": hint, "problems": problems });
            tell_json(&json!({ "error": error }));
            return ExitCode::from(exit_code);
        }
        let bad = AnsiColor::Red.on_default().bold();
        tell("error", bad, &message);
        if let Some(hint) = hint {
            tell("hint", AnsiColor::Green.on_default(), &hint);
        }
    }
    ExitCode::from(exit as u8)
}

/// A remark beside the result.
pub(crate) fn note(text: &str) {
    stderr::say(note_line(text));
}

/// The line of a remark.
pub(crate) fn note_line(text: &str) -> String {
    match form() {
        Form::Json => format!("{}\n", json!({ "note": text })),
        Form::Text => line("note", AnsiColor::Yellow.on_default(), text),
    }
}

/// What a part of the program says of how it goes, beside the results.
pub(crate) fn diagnostic(level: &'static str, message: &str, time: &str, fields: &[(String, String)]) {
    if form() == Form::Json {
        let fields: serde_json::Map<String, Value> =
            fields.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        let log = json!({ "level": level, "time": time, "message": message, "fields": fields });
        return tell_json(&json!({ "log": log }));
    }
    let (label, style) = match level {
        "error" => (level, AnsiColor::Red.on_default().bold()),
        "warn" => ("warning", AnsiColor::Yellow.on_default()),
        _ => (level, AnsiColor::Cyan.on_default()),
    };
    let fields: String =
        fields.iter().map(|(name, value)| format!("\n  {name}: {}", indented(value))).collect();
    tell(label, style, &format!("{message} ({time}){fields}"));
}

/// Further lines of a text below its first: none of them can be taken for a line of the program's own.
fn indented(text: &str) -> String {
    text.trim_end().replace('\n', "\n    ")
}

fn tell(label: &str, style: Style, text: &str) {
    stderr::say(line(label, style, text));
}

fn line(label: &str, style: Style, text: &str) -> String {
    format!("{style}{label}:{style:#} {}\n", visible(text))
}

fn tell_json(value: &Value) {
    stderr::say(format!("{value}\n"));
}

/// A text with its control characters, and those that turn text around, made visible: what a model or a file says must not
/// command a terminal, nor be read as something else.
pub(crate) fn visible(text: &str) -> std::borrow::Cow<'_, str> {
    let commands =
        |letter: char| (letter.is_control() && !matches!(letter, '\n' | '\t')) || turns_text(letter);
    if !text.contains(commands) {
        return text.into();
    }
    let shown = text.chars().map(|letter| match u32::from(letter) {
        _ if !commands(letter) => letter,
        0x7f => '\u{2421}',
        code => char::from_u32(0x2400 + code).filter(|_| code < 0x20).unwrap_or('\u{fffd}'),
    });
    shown.collect::<String>().into()
}

/// Whether a person reads the output.
pub(crate) fn is_terminal() -> bool {
    io::IsTerminal::is_terminal(&io::stdout())
}

/// Prints a text: as it is in a pipe, and without commands on a terminal.
pub(crate) fn print(text: &str) -> Done {
    let newline = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    let text = if is_terminal() { visible(text) } else { text.into() };
    print_bytes(format!("{text}{newline}").as_bytes())
}

/// Prints one JSON object on a line of its own.
pub(crate) fn print_json(value: &impl Serialize) -> Done {
    let mut line = serde_json::to_vec(value).map_err(CliError::internal)?;
    line.push(b'\n');
    print_bytes(&line)
}

pub(crate) fn print_bytes(bytes: &[u8]) -> Done {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(Exit::Success)
}
