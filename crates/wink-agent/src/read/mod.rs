//! From text to the types of `file`: everything that does not fit is reported with its place and left out, and what is left
//! is decoded.

mod rules;
mod schema;
mod walk;

use serde::Deserialize;
use toml::de::DeTable;

use crate::file::File;
use crate::problem::Problems;

pub(crate) use schema::schema;
pub(crate) use walk::{did_you_mean, meant};

/// What reading needs of a stack for a text that is nested as deep as TOML can be, which is some thousand levels. Whoever calls
/// may be on a small one. Only what is used of it is taken.
const STACK: usize = 64 * 1024 * 1024;

/// The file that a text is, as far as it is one.
pub(crate) fn read(text: &str, problems: &mut Problems) -> File {
    std::thread::scope(|scope| {
        let reading = std::thread::Builder::new().name("wink-agent-file".to_owned()).stack_size(STACK);
        let read = reading.spawn_scoped(scope, || {
            let mut problems = Problems::default();
            (read_here(text, &mut problems), problems)
        });
        match read.map(|reading| reading.join()) {
            Ok(Ok((file, found))) => {
                problems.extend(found);
                file
            }
            // Where there is no thread, this one has to do.
            Ok(Err(_)) | Err(_) => read_here(text, problems),
        }
    })
}

fn read_here(text: &str, problems: &mut Problems) -> File {
    let (mut table, broken) = DeTable::parse_recoverable(text);
    for error in &broken {
        let hint =
            "a text is in quotes, a list in [ ] and the name of a table too; https://toml.io has the rules";
        let message = format!("this is not TOML: {}", error.message());
        problems.broken(&error.span().unwrap_or(0..0), message, hint);
    }
    // What is missing may just be in the part that could not be read.
    let missing = if broken.is_empty() { walk::Missing::Reported } else { walk::Missing::Ignored };
    match rules::rules() {
        Ok(rules) => walk::walk(rules, &mut table, missing, problems),
        // Never: it is part of the program. But nothing passes that was not looked at.
        Err(error) => problems.broken(
            &(0..0),
            format!("the schema of agent files: {error}"),
            "this is a mistake in Wink",
        ),
    }
    let file = File::deserialize(toml::de::Deserializer::from(table));
    file.unwrap_or_else(|error| {
        // The walk lets nothing pass that cannot be decoded, but if it did, that would not be nothing.
        let hint = "the schema of agent files says what can be there";
        problems.hint(&error.span().unwrap_or(0..0), error.message().to_owned(), hint);
        File::default()
    })
}

#[cfg(test)]
mod tests;
