//! The text of recordings and scripts: read, and taken apart.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{Header, Line, Spoken};
use crate::model::{ModelError, ModelResponse};

/// No script or recording is larger.
const MOST_BYTES: u64 = 1 << 30;

/// The text of a script or a recording: of a file that has an end.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 1 GiB");
    // Before it is opened: opening a pipe waits for somebody.
    let about = std::fs::metadata(path)?;
    if !about.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    if about.len() > MOST_BYTES {
        return Err(too_large());
    }
    let mut text = String::new();
    // It may grow meanwhile.
    let read = File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if read as u64 > MOST_BYTES {
        return Err(too_large());
    }
    // Some editors write this before everything.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Whether a line of a recording is the last, and only half of it: a process that was killed leaves that.
pub(super) fn is_cut_off(text: &str, line: &str) -> bool {
    let is_at_end = text.as_bytes().as_ptr_range().end == line.as_bytes().as_ptr_range().end;
    is_at_end && serde_json::from_str::<IgnoredAny>(line).is_err()
}

/// Reads a line, which is an object. By themselves types are read from lists as well.
pub(crate) fn object<'a, T: Deserialize<'a>>(line: &'a str) -> Result<T, String> {
    match line.trim_start().starts_with('{') {
        true => serde_json::from_str(line).map_err(|error| error.to_string()),
        false => Err("it is no object".to_owned()),
    }
}

/// Whether a text is a recording.
pub(crate) fn is_recording(text: &str) -> bool {
    text.lines().next().is_some_and(|line| object::<Header>(line).is_ok())
}

/// What models answered in a recording, in order.
///
/// # Errors
/// The number of a line that cannot be understood, from 1, and why.
pub(crate) fn answers(text: &str) -> Result<Vec<Result<ModelResponse, ModelError>>, (usize, String)> {
    let mut answers = Vec::new();
    let mut spoken = Vec::new();
    for (at, line) in text.lines().enumerate().skip(1).filter(|(_, line)| !line.trim().is_empty()) {
        if is_cut_off(text, line) {
            break;
        }
        let line: Line = object(line).map_err(|reason| (at + 1, reason))?;
        match (line.response, line.error) {
            (Some(response), _) => answers.push(Ok(response)),
            (None, Some(failure)) => answers.push(Err(failure.into())),
            (None, None) => {}
        }
        spoken.extend(line.claude.map(|spoken| (at + 1, spoken)));
    }
    answers.extend(said_by_program(&spoken)?.into_iter().map(Ok));
    Ok(answers)
}

/// What the model said of which the program `claude` told.
#[cfg(all(feature = "claude", unix))]
fn said_by_program(spoken: &[(usize, Spoken)]) -> Result<Vec<ModelResponse>, (usize, String)> {
    let heard = spoken.iter().filter_map(|(_, spoken)| match spoken {
        Spoken::Heard(line) => Some(line),
        Spoken::Told(_) | Spoken::Gone => None,
    });
    Ok(crate::claude::responses(heard))
}

#[cfg(not(all(feature = "claude", unix)))]
fn said_by_program(spoken: &[(usize, Spoken)]) -> Result<Vec<ModelResponse>, (usize, String)> {
    match spoken.first() {
        Some((line, _)) => Err((*line, WITHOUT_CLAUDE.to_owned())),
        None => Ok(Vec::new()),
    }
}

/// What is said of a recording that cannot be used here.
#[cfg(not(all(feature = "claude", unix)))]
pub(super) const WITHOUT_CLAUDE: &str = "it is of a run of Claude Code, which this was built without";
