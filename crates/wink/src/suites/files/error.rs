//! What the model is told when a file operation is refused: in terms of the tools that it has.

use crate::filesystem::{FsError, named};
use crate::tool::ToolError;
use crate::tool::files::FilesError;

/// The error with a text that says what to do next, where the filesystem's own does not.
pub(super) fn told(error: FilesError) -> ToolError {
    let text = match &error {
        FilesError::Fs(error) => advice(error),
        FilesError::Access(_) => None,
    };
    match text {
        Some(text) => ToolError::from(error).tell(text),
        None => ToolError::from(error),
    }
}

fn advice(error: &FsError) -> Option<String> {
    Some(match error {
        FsError::NotFound { .. } => format!("{error}; list_directory and glob show what there is"),
        FsError::IsDirectory { path } => {
            format!("{} is a directory; a file was expected. list_directory shows what is in it", named(path))
        }
        FsError::Binary { path } => {
            format!("{} is a binary file; only UTF-8 text can be read and edited", named(path))
        }
        FsError::EmptyOld { .. } => "old_string is empty; give the exact text to be replaced".to_owned(),
        FsError::NoMatch { path, hint } => format!("old_string does not occur in {}; {hint}", named(path)),
        FsError::AmbiguousMatch { path, count } => format!(
            "old_string occurs {count} times in {}; give more of the lines around it, or set replace_all",
            named(path)
        ),
        // The model sees the first line of an error only, and of a regular expression's it is the last that tells.
        FsError::InvalidPattern { pattern, reason } => {
            let reason = reason.lines().last().unwrap_or_default();
            format!("invalid pattern '{pattern}': {}", reason.trim_start_matches("error: "))
        }
        _ => return None,
    })
}
