//! The published traces: for each task its calls, what each must answer, and the hash of the database afterwards.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::database::LoadError;

/// One recorded task.
#[derive(Debug, Deserialize)]
pub(crate) struct Task {
    pub(crate) split: String,
    pub(crate) task: u32,
    pub(crate) steps: Vec<Step>,
    pub(crate) final_db_sha256: String,
}

/// One call of a task.
#[derive(Debug, Deserialize)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) args: Value,
    pub(crate) result: String,
}

impl Step {
    /// Whether `text` says the same as the recorded result: equal as JSON values, or the same plain text.
    pub(crate) fn agrees(&self, text: &str) -> bool {
        let value = |text| serde_json::from_str::<Value>(text).ok();
        self.result == text || value(&self.result).is_some_and(|expected| value(text) == Some(expected))
    }
}

/// Reads `golden.jsonl` of the data folder, one task a line.
pub(crate) fn load(data: &Path) -> Result<Vec<Task>, LoadError> {
    let path = data.join("golden.jsonl");
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(cause) => return Err(LoadError::Read { path, cause }),
    };
    text.lines()
        .enumerate()
        .map(|(index, line)| {
            serde_json::from_str(line).map_err(|cause| LoadError::Parse {
                path: path.clone(),
                line: index + 1,
                cause,
            })
        })
        .collect()
}
