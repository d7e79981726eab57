//! The tool `evaluate_python`: what it takes, what it gives back, and what it does to the workspace.

#![expect(refining_impl_trait, reason = "the handler is private; nobody can rely on what its future is")]

use std::fmt::Write;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wink::filesystem::WriteOptions;
use wink::tool::{
    Annotations, Footprint, Handler, Render, RenderError, Tool, ToolContext, ToolError, ToolResult,
};

use crate::interpreter::{Captured, Failure, Finished, Interpreter, Limits, Program, Success};

/// Runs a Python program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct EvaluatePython {
    /// The program. The value of its last line, if that is an expression, is shown.
    #[schemars(length(min = 1, max = 2000))]
    pub code: String,
    /// Text files that the program is given as variables.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub reads: Vec<ReadFile>,
    /// Files that are written when the program has ended well, in this order.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub writes: Vec<WriteFile>,
}

/// A file that a program is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadFile {
    /// The file.
    pub path: String,
    /// The variable that has its text, as a str.
    #[schemars(regex(pattern = "^[A-Za-z_][A-Za-z0-9_]{0,63}$"))]
    pub name: String,
}

/// A file that is written for a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WriteFile {
    /// The file. Directories that are missing on the way are made.
    pub path: String,
    /// The variable, a str at the end of the program, whose text is written.
    #[schemars(regex(pattern = "^[A-Za-z_][A-Za-z0-9_]{0,63}$"))]
    pub name: String,
    /// What to do about a file that is there: `create` (it must not be), `overwrite` or `append`.
    #[serde(default)]
    pub mode: WriteMode,
}

/// What a write does about a file that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// It must not be there.
    #[default]
    Create,
    /// Its text is replaced.
    Overwrite,
    /// The text is added at its end.
    Append,
}

impl From<WriteMode> for wink::filesystem::WriteMode {
    fn from(mode: WriteMode) -> Self {
        match mode {
            WriteMode::Create => Self::Create,
            WriteMode::Overwrite => Self::Overwrite,
            WriteMode::Append => Self::Append,
        }
    }
}

/// What came of a program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Evaluated {
    /// The value of its last expression, as `repr` shows it; nothing for `None`.
    pub value: Option<String>,
    /// What it printed.
    pub stdout: String,
    /// Where it failed.
    pub stderr: String,
    /// What was written.
    pub writes: Vec<Written>,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Written {
    /// The file.
    pub path: String,
    /// The bytes of this write.
    pub bytes: u64,
    /// Whether the file is new.
    pub created: bool,
}

impl Render for Evaluated {
    fn render(&self) -> Result<String, RenderError> {
        let mut parts = Vec::new();
        if let Some(value) = &self.value {
            parts.push(format!("Value: {value}"));
        }
        if !self.stdout.is_empty() {
            parts.push(format!("Output:\n{}", self.stdout.trim_end_matches('\n')));
        }
        if !self.writes.is_empty() {
            parts.push(Vec::from_iter(self.writes.iter().map(written)).join("\n"));
        }
        if parts.is_empty() {
            parts.push("The program ended well, without a value and without output.".to_owned());
        }
        Ok(parts.join("\n\n"))
    }
}

fn written(one: &Written) -> String {
    let verb = if one.created { "Created" } else { "Wrote to" };
    let unit = if one.bytes == 1 { "byte" } else { "bytes" };
    format!("{verb} {} ({} {unit}).", one.path, one.bytes)
}

pub(crate) fn evaluate_python(
    interpreter: Arc<dyn Interpreter>,
    limits: Limits,
) -> Tool<EvaluatePython, Evaluated> {
    let example = EvaluatePython {
        code: "rows = [line.split(',') for line in table.splitlines()]\ntotal = str(sum(int(row[1]) for row in rows))\ntotal".to_owned(),
        reads: vec![ReadFile { path: "sales.csv".to_owned(), name: "table".to_owned() }],
        writes: vec![WriteFile { path: "total.txt".to_owned(), name: "total".to_owned(), mode: WriteMode::Overwrite }],
    };
    let shown = Evaluated {
        value: Some("'420'".to_owned()),
        writes: vec![Written { path: "total.txt".to_owned(), bytes: 3, created: true }],
        ..Evaluated::default()
    };
    Tool::new(
        "evaluate_python",
        "Run a short Python program on given values and files, without any access of its own.",
        Evaluator { interpreter, limits },
    )
    .annotations(Annotations { read_only: false, destructive: true, idempotent: false, open_world: false })
    .footprint(|params: &EvaluatePython| {
        let reads = params.reads.iter().fold(Footprint::nothing(), |all, read| all.read_path(&read.path));
        params.writes.iter().fold(reads, |all, write| all.write_path(&write.path))
    })
    .rendered()
    .example("Sum a column", example, shown)
}

struct Evaluator {
    interpreter: Arc<dyn Interpreter>,
    limits: Limits,
}

impl Handler<ToolContext, EvaluatePython, Evaluated> for Evaluator {
    async fn call<'a>(
        &'a self,
        params: EvaluatePython,
        cx: &'a mut ToolContext,
    ) -> Result<ToolResult<Evaluated>, ToolError> {
        check_characters(&params.code)?;
        let inputs = self.read(&params.reads, cx).await?;
        let outputs = params.writes.iter().map(|write| write.name.clone()).collect();
        let program = Program { code: params.code, inputs, outputs };
        let run = self.interpreter.run(program, &self.limits, cx.clock());
        let Finished { stdout, outcome } = cx.telling(run).await;
        let stdout = shown(stdout);
        match outcome {
            Ok(Success { value, outputs }) => {
                let writes = write(&params.writes, &outputs, cx).await?;
                Ok(ToolResult::value(Evaluated { value, stdout, stderr: String::new(), writes }))
            }
            Err(failure) => Ok(failed(&failure, stdout)),
        }
    }
}

impl Evaluator {
    async fn read(&self, reads: &[ReadFile], cx: &ToolContext) -> Result<Vec<(String, String)>, ToolError> {
        let mut inputs = Vec::new();
        if reads.is_empty() {
            return Ok(inputs);
        }
        let files = cx.filesystem().await?;
        let mut left = self.limits.text;
        for ReadFile { path, name } in reads {
            let told = |error: &dyn std::fmt::Display| ToolError::new(format!("read '{path}': {error}"));
            // Asked first, so that nothing large is read for nothing.
            let len = files.stat(path).await.map_err(|error| told(&error))?.len;
            let fits = usize::try_from(len).ok().and_then(|len| left.checked_sub(len));
            let Some(rest) = fits else {
                let max = self.limits.text;
                return Err(told(&format!(
                    "all that is read has more than {max} bytes; read less in one call"
                )));
            };
            left = rest;
            inputs.push((name.clone(), files.read_text(path).await.map_err(|error| told(&error))?));
        }
        Ok(inputs)
    }
}

/// Writes what was declared. The first refusal fails the call, and with it everything that was written before.
async fn write(writes: &[WriteFile], texts: &[String], cx: &ToolContext) -> Result<Vec<Written>, ToolError> {
    let mut done = Vec::new();
    if writes.is_empty() {
        return Ok(done);
    }
    let files = cx.filesystem().await?;
    for (WriteFile { path, mode, .. }, text) in writes.iter().zip(texts) {
        let options = WriteOptions::new((*mode).into());
        let receipt = files.write(path, text.as_bytes(), options).await.map_err(|error| {
            let instead = match mode {
                WriteMode::Create => "; nothing was written. `overwrite` and `append` are the other modes",
                WriteMode::Overwrite | WriteMode::Append => "; nothing was written",
            };
            ToolError::new(format!("write '{path}': {error}{instead}"))
        })?;
        let path = files.resolve(path)?.to_string();
        done.push(Written { path, bytes: receipt.bytes_written as u64, created: receipt.created });
    }
    Ok(done)
}

/// Code is lines of text. A NUL or an escape sequence in it is a mistake, or an attempt at hiding something.
fn check_characters(code: &str) -> Result<(), ToolError> {
    let mut lines = code.split('\n').enumerate();
    let wrong = lines.find_map(|(line, text)| {
        let wrong = text.chars().find(|c| c.is_control() && !matches!(c, '\t' | '\r'))?;
        Some((line + 1, wrong))
    });
    match wrong {
        Some((line, wrong)) => Err(ToolError::new(format!(
            "code: line {line} has the control character U+{:04X}; only line ends and tabs are allowed, and \"\\x{:02x}\" in a str",
            u32::from(wrong),
            u32::from(wrong)
        ))),
        None => Ok(()),
    }
}

fn shown(stdout: Captured) -> String {
    match stdout.dropped {
        0 => stdout.text,
        dropped => format!("{}\n… ({dropped} bytes more)", stdout.text.trim_end_matches('\n')),
    }
}

fn failed(failure: &Failure, stdout: String) -> ToolResult<Evaluated> {
    let mut message = failure.to_string();
    let stderr = match failure {
        Failure::Raised { traceback, .. } => traceback.clone(),
        _ => String::new(),
    };
    if !stderr.is_empty() {
        let _ = write!(message, "\n\n{}", stderr.trim_end());
    }
    if !stdout.is_empty() {
        let _ = write!(message, "\n\nOutput before that:\n{}", stdout.trim_end_matches('\n'));
    }
    ToolResult::failed(Evaluated { value: None, stdout, stderr, writes: Vec::new() }, message)
}
