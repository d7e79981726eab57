//! The tools that only look.

#![expect(
    refining_impl_trait,
    reason = "the handlers are private; nobody can rely on what their futures are"
)]

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::told;
use super::found::{FileWindow, GrepFound, GrepLine, Listed, Listing};
use super::{VfsConfig, looking};
use crate::filesystem::{DirEntry, EntryKind, GrepQuery, ReadWindow, TextRead};
use crate::tool::{Footprint, Handler, ReadContext, Tool, ToolError, ToolResult};

/// Reads lines of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadFile {
    /// The file.
    pub path: String,
    /// Lines to skip at the start.
    #[serde(default)]
    pub offset: u32,
    /// Lines to read at most; 2000 unless you say otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub limit: Option<u32>,
}

/// Lists a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListDirectory {
    /// The directory; the root unless you say otherwise.
    #[serde(default)]
    pub path: String,
}

/// Finds files by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Glob {
    /// What paths below the directory must look like, such as `**/*.py`.
    #[schemars(length(min = 1))]
    pub pattern: String,
    /// The directory to search in; the root unless you say otherwise.
    #[serde(default)]
    pub path: String,
}

/// Finds lines by contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Grep {
    /// The regular expression that lines must match.
    #[schemars(length(min = 1))]
    pub pattern: String,
    /// The directory or file to search in; the root unless you say otherwise.
    #[serde(default)]
    pub path: String,
    /// Only files whose path below the directory looks like this, such as `**/*.py`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub glob: Option<String>,
}

pub(super) fn read_file(config: &Arc<VfsConfig>) -> Tool<ReadFile, FileWindow> {
    Tool::new(
        "read_file",
        "Read a text file, or some of its lines, with line numbers.",
        Reader(Arc::clone(config)),
    )
    .annotations(looking())
    .footprint(|params: &ReadFile| Footprint::nothing().read_path(&params.path))
    .rendered()
    .vouched()
}

pub(super) fn list_directory(config: &Arc<VfsConfig>) -> Tool<ListDirectory, Listing> {
    Tool::new("list_directory", "List what is in a directory.", Lister(Arc::clone(config)))
        .annotations(looking())
        .footprint(|params: &ListDirectory| Footprint::nothing().read_path(&params.path))
        .rendered()
        .vouched()
}

pub(super) fn glob(config: &Arc<VfsConfig>) -> Tool<Glob, Listing> {
    Tool::new("glob", "Find files and directories whose path matches a pattern.", Globber(Arc::clone(config)))
        .annotations(looking())
        .footprint(|params: &Glob| Footprint::nothing().read_path(&params.path))
        .rendered()
        .vouched()
}

pub(super) fn grep(config: &Arc<VfsConfig>) -> Tool<Grep, GrepFound> {
    Tool::new(
        "grep",
        "Find lines of text files that match a regular expression.",
        Searcher(Arc::clone(config)),
    )
    .annotations(looking())
    .footprint(|params: &Grep| Footprint::nothing().read_path(&params.path))
    .rendered()
    .vouched()
}

struct Reader(Arc<VfsConfig>);
struct Lister(Arc<VfsConfig>);
struct Globber(Arc<VfsConfig>);
struct Searcher(Arc<VfsConfig>);

type Looked<R> = Result<ToolResult<R>, ToolError>;

impl Handler<ReadContext, ReadFile, FileWindow> for Reader {
    async fn call<'a>(&'a self, params: ReadFile, cx: &'a mut ReadContext) -> Looked<FileWindow> {
        let files = cx.filesystem().await?;
        let path = files.resolve(&params.path)?.to_string();
        let limit = params.limit.map_or(files.default_window(), lines);
        let window = ReadWindow::Lines { offset: lines(params.offset), limit };
        let read = files.read(&params.path, window).await.map_err(told)?;
        Ok(ToolResult::value(fitting(path, read, self.0.max_read_bytes)))
    }
}

impl Handler<ReadContext, ListDirectory, Listing> for Lister {
    async fn call<'a>(&'a self, params: ListDirectory, cx: &'a mut ReadContext) -> Looked<Listing> {
        let files = cx.filesystem().await?;
        let entries = files.list(&params.path).await.map_err(told)?;
        Ok(ToolResult::value(listing(entries, self.0.max_entries)))
    }
}

impl Handler<ReadContext, Glob, Listing> for Globber {
    async fn call<'a>(&'a self, params: Glob, cx: &'a mut ReadContext) -> Looked<Listing> {
        let files = cx.filesystem().await?;
        let entries = files.glob(&params.path, &params.pattern).await.map_err(told)?;
        Ok(ToolResult::value(listing(entries, self.0.max_entries)))
    }
}

impl Handler<ReadContext, Grep, GrepFound> for Searcher {
    async fn call<'a>(&'a self, params: Grep, cx: &'a mut ReadContext) -> Looked<GrepFound> {
        let files = cx.filesystem().await?;
        let query = GrepQuery { pattern: params.pattern, glob: params.glob, max: None };
        let outcome = files.grep(&params.path, &query).await.map_err(told)?;
        let line = |one: crate::filesystem::GrepMatch| GrepLine {
            path: one.path.to_string(),
            line: one.line as u64,
            text: cut(one.text, self.0.max_match_chars),
        };
        let matches = outcome.matches.into_iter().map(line).collect();
        let too_large = outcome.too_large.iter().map(ToString::to_string).collect();
        Ok(ToolResult::value(GrepFound { matches, truncated: outcome.truncated, too_large }))
    }
}

/// A count of lines; more than fit in memory are as good as all.
fn lines(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// The first lines that fit into `max` bytes, and at least one: what is left out can be asked for.
fn fitting(path: String, read: TextRead, max: usize) -> FileWindow {
    let mut text = read.text;
    let mut count = read.count;
    if text.len() > max {
        let mut end = 0;
        count = 0;
        for line in text.split_inclusive('\n') {
            if count > 0 && end + line.len() > max {
                break;
            }
            end += line.len();
            count += 1;
        }
        text.truncate(end);
    }
    FileWindow {
        path,
        text,
        offset: read.offset as u64,
        count: count as u64,
        total_lines: read.total_lines as u64,
    }
}

fn listing(entries: Vec<DirEntry>, max: usize) -> Listing {
    let more = entries.len().saturating_sub(max) as u64;
    let listed = |entry: DirEntry| match entry.kind {
        EntryKind::Directory => Listed { path: format!("{}/", entry.path), bytes: None },
        EntryKind::File => Listed { path: entry.path.to_string(), bytes: Some(entry.len) },
        EntryKind::Symlink | EntryKind::Other => Listed { path: entry.path.to_string(), bytes: None },
    };
    Listing { entries: entries.into_iter().take(max).map(listed).collect(), more }
}

fn cut(mut text: String, max: usize) -> String {
    if let Some((end, _)) = text.char_indices().nth(max) {
        text.truncate(end);
        text.push('…');
    }
    text
}
