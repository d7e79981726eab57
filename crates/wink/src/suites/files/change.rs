//! The tools that change files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::annotations;
use super::error::told;
use crate::filesystem::{DeleteMode, Edit, EntryKind, FsError, quoted};
use crate::tool::{Footprint, Render, RenderError, Tool, ToolContext, ToolError, ToolResult};

/// Writes a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WriteFile {
    /// The file. Directories that are missing on the way are made.
    pub path: String,
    /// All of its new text.
    pub content: String,
}

/// Replaces an exact text in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EditFile {
    /// The file.
    pub path: String,
    /// The text to replace, exactly as it is in the file, whitespace included.
    #[schemars(length(min = 1))]
    pub old_string: String,
    /// What to put there.
    pub new_string: String,
    /// Replace every occurrence, not the only one.
    #[serde(default)]
    pub replace_all: bool,
}

/// Deletes a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeleteFile {
    /// The file.
    pub path: String,
}

/// A file was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileWritten {
    /// The file.
    pub path: String,
    /// Its bytes.
    pub bytes: u64,
    /// Whether it is new.
    pub created: bool,
}

/// A file was edited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileEdited {
    /// The file.
    pub path: String,
    /// Occurrences replaced.
    pub replacements: u64,
}

/// A file was deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileDeleted {
    /// The file.
    pub path: String,
}

impl Render for FileWritten {
    fn render(&self) -> Result<String, RenderError> {
        let verb = if self.created { "Created" } else { "Replaced" };
        Ok(format!("{verb} {} ({}).", quoted(&self.path), counted(self.bytes, "byte")))
    }
}

impl Render for FileEdited {
    fn render(&self) -> Result<String, RenderError> {
        Ok(format!("Edited {} ({}).", quoted(&self.path), counted(self.replacements, "replacement")))
    }
}

impl Render for FileDeleted {
    fn render(&self) -> Result<String, RenderError> {
        Ok(format!("Deleted {}.", quoted(&self.path)))
    }
}

/// `1 byte`, `2 bytes`.
pub(super) fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

pub(super) fn write_file() -> Tool<WriteFile, FileWritten> {
    Tool::new("write_file", "Write a text file: a new one, or in place of all that an old one has.", write)
        .annotations(annotations(true, true))
        .footprint(|params| Footprint::nothing().write_path(&params.path))
        .rendered()
        .vouched()
}

pub(super) fn edit_file() -> Tool<EditFile, FileEdited> {
    let example = EditFile {
        path: "src/main.py".to_owned(),
        old_string: "retries = 3".to_owned(),
        new_string: "retries = 5".to_owned(),
        replace_all: false,
    };
    let edited = FileEdited { path: "src/main.py".to_owned(), replacements: 1 };
    Tool::new("edit_file", "Replace an exact text in a file. Everything else in it stays as it is.", edit)
        .annotations(annotations(true, false))
        .footprint(|params| Footprint::nothing().write_path(&params.path))
        .rendered()
        .vouched()
        .example("Change one line", example, edited)
}

pub(super) fn delete_file() -> Tool<DeleteFile, FileDeleted> {
    Tool::new("delete_file", "Delete a file.", delete)
        .annotations(annotations(true, false))
        .footprint(|params| Footprint::nothing().write_path(&params.path))
        .rendered()
        .vouched()
}

async fn write(params: WriteFile, cx: &mut ToolContext) -> Result<ToolResult<FileWritten>, ToolError> {
    let files = cx.filesystem().await?;
    let path = files.resolve(&params.path)?.to_string();
    let receipt = files.write_text(&params.path, &params.content).await.map_err(told)?;
    let bytes = receipt.bytes_written as u64;
    Ok(ToolResult::value(FileWritten { path, bytes, created: receipt.created }))
}

async fn edit(params: EditFile, cx: &mut ToolContext) -> Result<ToolResult<FileEdited>, ToolError> {
    let files = cx.filesystem().await?;
    let path = files.resolve(&params.path)?.to_string();
    let edit = Edit { old: params.old_string, new: params.new_string, replace_all: params.replace_all };
    let receipt = files.edit(&params.path, &edit).await.map_err(told)?;
    Ok(ToolResult::value(FileEdited { path, replacements: receipt.replacements as u64 }))
}

async fn delete(params: DeleteFile, cx: &mut ToolContext) -> Result<ToolResult<FileDeleted>, ToolError> {
    let files = cx.filesystem().await?;
    let path = files.resolve(&params.path)?;
    // An empty directory would go as well, and the tool's name promises otherwise.
    if files.stat(&params.path).await.map_err(told)?.kind == EntryKind::Directory {
        return Err(told(FsError::IsDirectory { path }.into()));
    }
    files.delete(&params.path, DeleteMode::Single).await.map_err(told)?;
    Ok(ToolResult::value(FileDeleted { path: path.to_string() }))
}
