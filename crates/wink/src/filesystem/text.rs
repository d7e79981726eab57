//! Rules about file contents that all implementations share: what is text, line windows, exact edits.

use super::{Edit, FileVersion, FsError, FsLimits, FsPath, FsResult, ReadWindow, TextRead};

/// The contents as text; none for a binary file. A NUL makes a file binary even though it is valid UTF-8.
pub(crate) fn as_text(bytes: &[u8]) -> Option<&str> {
    if bytes.contains(&0) { None } else { std::str::from_utf8(bytes).ok() }
}

/// The lines of `bytes` that `window` asks for.
pub(crate) fn read_window(
    path: &FsPath,
    bytes: &[u8],
    version: FileVersion,
    window: ReadWindow,
    limits: &FsLimits,
) -> FsResult<TextRead> {
    let text = as_text(bytes).ok_or_else(|| FsError::Binary { path: path.clone() })?;
    let open_end = usize::from(!text.is_empty() && !text.ends_with('\n'));
    let total_lines = bytes.iter().filter(|byte| **byte == b'\n').count() + open_end;
    let (offset, limit) = match window {
        ReadWindow::Default => (0, limits.default_window),
        ReadWindow::Entire => (0, usize::MAX),
        ReadWindow::Lines { offset, limit } => (offset.min(total_lines), limit),
    };
    let count = limit.min(total_lines - offset);
    let rest = after_lines(text, offset);
    let taken = rest.len() - after_lines(rest, count).len();
    Ok(TextRead {
        text: rest.get(..taken).unwrap_or_default().to_owned(),
        offset,
        count,
        total_lines,
        truncated: offset + count < total_lines,
        version,
    })
}

/// What follows the first `count` lines.
fn after_lines(text: &str, count: usize) -> &str {
    if count == 0 {
        return text;
    }
    match text.match_indices('\n').nth(count - 1) {
        Some((at, _)) => text.get(at + 1..).unwrap_or_default(),
        None => "",
    }
}

/// The contents after `edit`, and how many occurrences were replaced.
pub(crate) fn apply_edit(
    path: &FsPath,
    bytes: &[u8],
    edit: &Edit,
    limits: &FsLimits,
) -> FsResult<(String, usize)> {
    let path = || path.clone();
    let text = as_text(bytes).ok_or_else(|| FsError::Binary { path: path() })?;
    let Some(old_first) = edit.old.chars().next() else {
        return Err(FsError::EmptyOld { path: path() });
    };
    let Some(first) = text.find(&edit.old) else {
        return Err(FsError::NoMatch { path: path(), hint: no_match_hint(text, &edit.old) });
    };
    // Overlapping occurrences make the place as ambiguous as separate ones do.
    let after_first = text.get(first + old_first.len_utf8()..).unwrap_or_default();
    let unique = !after_first.contains(&edit.old);
    let count = if unique { 1 } else { text.matches(&edit.old).count() };
    if !unique && !edit.replace_all {
        return Err(FsError::AmbiguousMatch { path: path(), count: count.max(2) });
    }
    // Known before it is built: many long replacements could otherwise exhaust memory.
    let kept = text.len() - count * edit.old.len();
    let bytes = count.saturating_mul(edit.new.len()).saturating_add(kept);
    if bytes > limits.max_write_bytes.max(text.len()) {
        return Err(FsError::TooLarge { path: path(), bytes, max: limits.max_write_bytes });
    }
    Ok((text.replace(&edit.old, &edit.new), count))
}

fn no_match_hint(text: &str, old: &str) -> &'static str {
    if text.contains("\r\n") && old.contains('\n') && !old.contains("\r\n") {
        r"its lines end in CRLF (\r\n), so the text to replace must as well"
    } else {
        "read it and copy the text exactly, whitespace included"
    }
}
