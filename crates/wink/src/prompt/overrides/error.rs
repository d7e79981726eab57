//! What can be wrong with overrides and the files that they are kept in.

use std::io;
use std::path::PathBuf;

use super::super::error::PromptValidationError;

/// Overrides cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverrideError {
    /// The tag is no key.
    #[error("{reason}")]
    Tag {
        /// What it must be.
        reason: String,
    },
    /// The code has something else by now where these parts are.
    #[error(
        "stale overrides of {}: the code has another text there by now. Compare the two, remove the override from the file, \
         and write it anew for what is there", paths.join(", ")
    )]
    Stale {
        /// The parts.
        paths: Vec<String>,
    },
    /// The prompt has no such parts.
    #[error("overrides of {}, which the prompt does not have or does not let be replaced; remove them from the file", paths.join(", "))]
    Unknown {
        /// The parts.
        paths: Vec<String>,
    },
    /// Overrides for another prompt or tag.
    #[error("{found} is not for {wanted}")]
    OtherPrompt {
        /// What it is for: namespace, key and tag.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// A prompt with them could not be built.
    #[error(transparent)]
    Invalid(#[from] PromptValidationError),
    /// The file is not what it should be.
    #[error("{}: {reason}", file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file could not be read or written.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
}
