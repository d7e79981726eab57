//! `wink override`: the files that replace texts of the agent's prompt and tools.

use serde::Serialize;
use similar::TextDiff;
use wink::prompt::{
    LocalOverrides, OverrideError, Overrides, PartState, PartValue, Prompt, PromptDescriptor,
};

use super::open;
use crate::args::Common;
use crate::frame::{self, CliError, Done, Exit, note, visible};
use crate::term::{BAD, DIM, GOOD, NAME, ODD, PLAIN, Screen, Span, span};

/// How many columns the name of a part is worth having beside its state.
const PART: usize = 40;

/// What `override list --json` prints, one for each line.
#[derive(Serialize)]
struct Listed<'a> {
    path: &'a str,
    state: Standing,
    /// Whether it says something else than what it was written for.
    changed: bool,
    /// The hash of what the agent has there.
    hash: Option<&'a str>,
    /// The hash of what it was written for.
    written_for: Option<&'a str>,
}

/// What is known of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Standing {
    /// There is no override.
    None,
    Fresh,
    Stale,
    Unknown,
}

impl From<PartState> for Standing {
    fn from(state: PartState) -> Self {
        match state {
            PartState::Fresh => Self::Fresh,
            PartState::Stale => Self::Stale,
            PartState::Unknown => Self::Unknown,
        }
    }
}

/// What `override diff --json` has for each part.
#[derive(Serialize)]
struct Difference<'a> {
    path: &'a str,
    state: Standing,
    diff: String,
}

pub(super) fn seed(common: &Common) -> Done {
    let (prompt, local, tag) = written(common)?;
    let tag = tag.as_str();
    let seeded = local.seed(&prompt, tag).map_err(not_used)?;
    let file = seeded.file.display().to_string();
    if common.json {
        return frame::print_json(
            &serde_json::json!({ "file": file, "tag": tag, "written": seeded.written }),
        );
    }
    match seeded.written.as_slice() {
        [] => note("every text that can be replaced is in the file already"),
        [_] => note("1 text was written; edit it to replace it"),
        several => note(&format!("{} texts were written; edit those that are to be replaced", several.len())),
    }
    frame::print(&file)
}

pub(super) fn list(common: &Common) -> Done {
    let (prompt, local, tag) = written(common)?;
    let (of, overrides) = (prompt.descriptor(), read(&local, &prompt, &tag)?);
    let listed = listed(&of, overrides.as_ref());
    if common.json {
        return listed.iter().try_fold(Exit::Success, |_, one| frame::print_json(one));
    }
    Screen::fitted().rows(&["STATE", "TEXT", "PART"], listed.iter().map(row).collect(), PART)?;
    Ok(Exit::Success)
}

pub(super) fn diff(common: &Common) -> Done {
    let (prompt, local, tag) = written(common)?;
    let (of, overrides) = (prompt.descriptor(), read(&local, &prompt, &tag)?);
    let differences: Vec<Difference<'_>> = overrides
        .iter()
        .flat_map(Overrides::parts)
        .filter(|(_, part)| !part.is_unchanged())
        .map(|(path, part)| {
            let ours = of.part(path).map(|own| text(&own.value)).unwrap_or_default();
            let state = part.state(path, &of).into();
            Difference { path, state, diff: unified(path, state, &ours, &text(&part.value)) }
        })
        .collect();
    if common.json {
        let file = local.file(&prompt, &tag).map_err(not_used)?.display().to_string();
        return frame::print_json(&serde_json::json!({ "file": file, "tag": tag, "parts": differences }));
    }
    if differences.is_empty() {
        note("no text is replaced");
    }
    differences.iter().try_fold(Exit::Success, |_, one| frame::print(&one.diff))
}

/// The agent's prompt as it is without overrides, where these are, and which of them are meant.
fn written(common: &Common) -> Result<(Prompt, LocalOverrides, String), CliError> {
    let agent = open::agent_as_written(common)?;
    let local =
        agent.overrides().ok_or_else(|| CliError::internal("the agent has no place for overrides"))?;
    let tag = common.tag.as_deref().unwrap_or(agent.overrides_tag());
    Ok((agent.prompt().clone(), local, tag.to_owned()))
}

fn read(local: &LocalOverrides, prompt: &Prompt, tag: &str) -> Result<Option<Overrides>, CliError> {
    let overrides = local.read(prompt, tag).map_err(not_used)?;
    if overrides.is_none() {
        note("there is no file of overrides; `wink override seed` writes one");
    }
    Ok(overrides)
}

fn not_used(error: OverrideError) -> CliError {
    let said = CliError::new(Exit::Usage, error.to_string());
    match error {
        OverrideError::Stale { .. } => said.hint("`wink override diff` shows both texts"),
        _ => said,
    }
}

/// Every part of the prompt in its order, then what the file has beside these.
fn listed<'a>(of: &'a PromptDescriptor, overrides: Option<&'a Overrides>) -> Vec<Listed<'a>> {
    let own = of.parts.iter().map(|part| {
        let there = overrides.and_then(|overrides| overrides.get(&part.path));
        Listed {
            path: &part.path,
            state: there.map_or(Standing::None, |there| there.state(&part.path, of).into()),
            changed: there.is_some_and(|there| !there.is_unchanged()),
            hash: Some(&part.hash),
            written_for: there.map(|there| there.hash.as_str()),
        }
    });
    let others = overrides.into_iter().flat_map(Overrides::parts).filter(|(path, _)| of.part(path).is_none());
    let others = others.map(|(path, part)| Listed {
        path,
        state: Standing::Unknown,
        changed: !part.is_unchanged(),
        hash: None,
        written_for: Some(&part.hash),
    });
    own.chain(others).collect()
}

fn row(listed: &Listed<'_>) -> Vec<Span> {
    let state = match listed.state {
        Standing::None => span("-", DIM),
        Standing::Fresh => span("fresh", GOOD),
        Standing::Stale => span("stale", BAD),
        Standing::Unknown => span("unknown", ODD),
    };
    let text = match (listed.state, listed.changed) {
        (Standing::None, _) => span("own", DIM),
        (_, false) => span("unchanged", DIM),
        (Standing::Fresh, true) => span("replaced", NAME),
        (Standing::Stale | Standing::Unknown, true) => span("left out", PLAIN),
    };
    vec![state, text, span(visible(listed.path), PLAIN).whole()]
}

/// A value as lines of text.
fn text(value: &PartValue) -> String {
    let text = match value {
        PartValue::Text(text) => text.clone(),
        PartValue::Examples(examples) => serde_json::to_string_pretty(examples).unwrap_or_default(),
    };
    if text.is_empty() || text.ends_with('\n') { text } else { text + "\n" }
}

fn unified(path: &str, state: Standing, ours: &str, theirs: &str) -> String {
    // What a file calls a part must not look like another line of the difference.
    let path = path.escape_debug().to_string();
    let why = match state {
        Standing::Stale => " (stale: left out)",
        Standing::Unknown => " (unknown: left out)",
        Standing::None | Standing::Fresh => "",
    };
    let names = (format!("agent/{path}"), format!("override/{path}{why}"));
    TextDiff::from_lines(ours, theirs).unified_diff().header(&names.0, &names.1).to_string()
}
