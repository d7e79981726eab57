//! What the tools that only look have found, and how the model sees it.

use std::fmt::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::change::counted;
use crate::filesystem::quoted;
use crate::tool::{Render, RenderError};

/// Lines of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileWindow {
    /// The file.
    pub path: String,
    /// The lines as they are in the file, line endings included.
    pub text: String,
    /// Lines before them.
    pub offset: u64,
    /// How many they are.
    pub count: u64,
    /// Lines in the file.
    pub total_lines: u64,
}

/// One entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Listed {
    /// Its path; that of a directory ends in `/`.
    pub path: String,
    /// The bytes of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// Files and directories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Listing {
    /// The entries, sorted by path.
    pub entries: Vec<Listed>,
    /// How many more there are.
    pub more: u64,
}

/// A line that matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GrepLine {
    /// The file.
    pub path: String,
    /// The number of the line, from 1.
    pub line: u64,
    /// The line.
    pub text: String,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GrepFound {
    /// The lines, sorted by path and number.
    pub matches: Vec<GrepLine>,
    /// Whether there are more.
    pub truncated: bool,
    /// Files that are too large to be searched, the first few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub too_large: Vec<String>,
}

impl Render for FileWindow {
    fn render(&self) -> Result<String, RenderError> {
        let Self { path, text, offset, count, total_lines } = self;
        let path = quoted(path);
        let total = counted(*total_lines, "line");
        if *count == 0 {
            return Ok(match total_lines {
                0 => format!("{path} is empty."),
                _ => format!("{path}: no lines after the first {offset}; the file has {total}."),
            });
        }
        let (first, last) = (offset + 1, offset + count);
        let mut out = format!("{path}, lines {first}-{last} of {total_lines}");
        if text.contains("\r\n") {
            out.push_str(" (they end in CRLF)");
        }
        if last < *total_lines {
            write!(out, "; go on with offset {last}").map_err(failed)?;
        }
        out.push(':');
        let width = last.to_string().len();
        for (number, line) in (first..).zip(text.lines()) {
            write!(out, "\n{number:>width$} | {line}").map_err(failed)?;
        }
        Ok(out)
    }
}

impl Render for Listing {
    fn render(&self) -> Result<String, RenderError> {
        if self.entries.is_empty() {
            return Ok("Nothing there.".to_owned());
        }
        let mut out = String::new();
        for entry in &self.entries {
            let gap = if out.is_empty() { "" } else { "\n" };
            match entry.bytes {
                Some(bytes) => write!(out, "{gap}{} ({})", quoted(&entry.path), counted(bytes, "byte"))
                    .map_err(failed)?,
                None => write!(out, "{gap}{}", quoted(&entry.path)).map_err(failed)?,
            }
        }
        if self.more > 0 {
            write!(out, "\n+{} more; ask for a narrower part", self.more).map_err(failed)?;
        }
        Ok(out)
    }
}

impl Render for GrepFound {
    fn render(&self) -> Result<String, RenderError> {
        let left_out = match self.too_large.is_empty() {
            true => String::new(),
            false => {
                let names: Vec<_> = self.too_large.iter().map(quoted).collect();
                format!("\nNot searched, too large: {}", names.join(", "))
            }
        };
        if self.matches.is_empty() {
            return Ok("No line matches.".to_owned() + &left_out);
        }
        let lines: Vec<String> = self
            .matches
            .iter()
            .map(|one| format!("{}:{}: {}", quoted(&one.path), one.line, one.text))
            .collect();
        let more =
            if self.truncated { "\nThere are more matches; search for something narrower" } else { "" };
        Ok(lines.join("\n") + more + &left_out)
    }
}

fn failed(error: std::fmt::Error) -> RenderError {
    RenderError(error.to_string())
}
