//! What `shell_execute` takes and gives.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wink::tool::{Render, RenderError, ToolError};

use crate::launch::{Ended, Finished};
use crate::limits::Limits;

const COMMAND: usize = 4096;
const STDIN: usize = 65_536;
const VARIABLES: usize = 64;
const NAME: usize = 80;
const VALUE: usize = 512;

/// Runs a program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShellExecute {
    /// The program and its arguments, at most 4096 characters altogether.
    #[schemars(length(min = 1))]
    pub command: Vec<String>,
    /// The directory to run it in, relative to the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Variables of its environment, at most 64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// What it reads on its standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// After how many seconds it is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout: Option<u32>,
    /// Undo what it changed in the workspace if it exits with anything but 0.
    #[serde(default)]
    pub undo_on_failure: bool,
}

impl ShellExecute {
    pub(super) fn time(&self) -> Option<Duration> {
        self.timeout.map(|seconds| Duration::from_secs(u64::from(seconds)))
    }

    /// The directory without anything that only stands for itself.
    pub(super) fn plain_cwd(&self) -> String {
        let cwd = self.cwd.as_deref().unwrap_or_default();
        cwd.split('/').filter(|part| !matches!(*part, "" | ".")).collect::<Vec<_>>().join("/")
    }

    /// What a schema cannot say.
    pub(super) fn check(&self, limits: &Limits) -> Result<(), ToolError> {
        let refuse = |text: String| Err(ToolError::new(text));
        if self.command.is_empty() {
            return refuse("command is empty; give the program and its arguments".to_owned());
        }
        if let Some(blank) = self.command.iter().position(|word| word.trim().is_empty()) {
            return refuse(format!("command[{blank}] is blank; leave it out"));
        }
        let length = |text: &String| text.chars().count();
        let whole: usize = self.command.iter().map(length).sum();
        if whole > COMMAND {
            return refuse(format!(
                "command has {whole} characters, {COMMAND} are allowed; put long text in a file, or in stdin"
            ));
        }
        if let Some(cwd) = &self.cwd {
            check_cwd(cwd)?;
        }
        if self.env.len() > VARIABLES {
            return refuse(format!("env has {} entries, {VARIABLES} are allowed", self.env.len()));
        }
        for (name, value) in &self.env {
            check_variable(name, value)?;
        }
        if let Some(stdin) = &self.stdin
            && length(stdin) > STDIN
        {
            return refuse(format!(
                "stdin has {} characters, {STDIN} are allowed; write a file",
                length(stdin)
            ));
        }
        let texts = self.command.iter().chain(&self.cwd).chain(self.env.values());
        if texts.into_iter().any(|text| text.contains('\0')) {
            return refuse(
                "there is a zero byte in the command, cwd or env; programs cannot be given one".to_owned(),
            );
        }
        match self.time() {
            Some(time) if time.is_zero() || time > limits.time => refuse(format!(
                "timeout is {} seconds; it can be 1 to {}",
                time.as_secs(),
                limits.time.as_secs()
            )),
            _ => Ok(()),
        }
    }
}

fn check_cwd(cwd: &str) -> Result<(), ToolError> {
    let inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if Path::new(cwd).components().all(inside) {
        return Ok(());
    }
    Err(ToolError::new(format!(
        "cwd is {cwd:?}; it has to be relative to the workspace and must not have '..' in it"
    )))
}

fn check_variable(name: &str, value: &str) -> Result<(), ToolError> {
    let mut letters = name.chars();
    let begins = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    if !begins || !letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_') || name.len() > NAME
    {
        return Err(ToolError::new(format!(
            "env has the name {name:?}; names are letters, digits and '_', at most {NAME} of them, and begin with no digit"
        )));
    }
    let length = value.chars().count();
    if length > VALUE {
        return Err(ToolError::new(format!(
            "the value of {name} in env has {length} characters, {VALUE} are allowed"
        )));
    }
    Ok(())
}

/// A command that ran.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Executed {
    /// Its exit code; 128 and the signal if one ended it, 124 after a timeout.
    pub exit_code: i32,
    /// What it wrote to its standard output.
    pub stdout: String,
    /// What it wrote to its standard error.
    pub stderr: String,
    /// Whether it was stopped because its time was up.
    pub timed_out: bool,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// Whether something of its outputs is missing.
    pub truncated: bool,
    /// Whether something of it was killed for want of memory, as far as that is known.
    pub memory_exhausted: bool,
}

impl Executed {
    pub(super) fn of(finished: &Finished, limits: &Limits) -> Self {
        let (stdout, out_cut) = finished.stdout.text(limits.output);
        let (stderr, err_cut) = finished.stderr.text(limits.output);
        Self {
            exit_code: finished.ended.code(),
            stdout,
            stderr,
            timed_out: finished.ended == Ended::TimedOut,
            duration_ms: u64::try_from(finished.duration.as_millis()).unwrap_or(u64::MAX),
            truncated: out_cut || err_cut,
            memory_exhausted: finished.memory_exhausted,
        }
    }
}

impl Render for Executed {
    fn render(&self) -> Result<String, RenderError> {
        let mut text = format!("exit code {}", self.exit_code);
        if self.timed_out {
            text.push_str(", stopped because its time was up");
        }
        if self.memory_exhausted {
            text.push_str(", something of it was killed for want of memory");
        }
        for (name, said) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !said.is_empty() {
                text.push_str(&format!("\n--- {name}\n{}", said.strip_suffix('\n').unwrap_or(said)));
            }
        }
        Ok(text)
    }
}
