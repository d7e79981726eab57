//! Overrides in a directory: one file for each prompt and tag, to be kept under version control.
//!
//! A file is replaced in one step, after its new contents are on the disk: whoever reads it, whenever, sees all of the
//! old or all of the new. No link is followed: not below the directory, and not in its place.

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::super::bind::Prompt;
use super::descriptor::PromptDescriptor;
use super::error::OverrideError;
use super::{Override, Overrides, PartState, VERSION, checked_tag};
use crate::filesystem::EntryKind;
use crate::filesystem::host::HostDisk;
use crate::filesystem::host::disk::{Disk, Replace};
use crate::session::fresh_uuid;
use crate::support::json;

/// No file of overrides is larger.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// A directory with overrides: `NS/KEY/TAG.json`.
///
/// ```
/// use wink::prelude::*;
/// use wink::prompt::LocalOverrides;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let template = PromptTemplate::builder("examples", "greeting")
///     .section(Section::markdown("task", "Task").body("Greet the user."))
///     .build()?;
/// let prompt = template.prompt();
/// let store = LocalOverrides::new(dir.path());
///
/// // Somebody edits what was seeded, and commits it.
/// let seeded = store.seed(&prompt, "latest")?;
/// let text = std::fs::read_to_string(&seeded.file)?;
/// std::fs::write(&seeded.file, text.replace("Greet the user.\"", "Greet the user by name.\""))?;
///
/// let prompt = store.applied(&prompt, "latest")?;
/// assert_eq!(prompt.render(&Session::new())?.text(), "## 1. Task\n\nGreet the user by name.");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct LocalOverrides {
    root: PathBuf,
}

/// What came of seeding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeded {
    /// The file.
    pub file: PathBuf,
    /// The parts that were added to it, or brought up to date since nobody had changed them.
    pub written: Vec<String>,
}

impl LocalOverrides {
    /// Those in a directory. It need not be there yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where those for a prompt and tag are kept.
    ///
    /// # Errors
    /// When the tag is no key.
    pub fn file(&self, prompt: &Prompt, tag: &str) -> Result<PathBuf, OverrideError> {
        Ok(self.root.join(place(prompt, tag)?))
    }

    /// Those for a prompt and tag, whatever their state; none if there is no file.
    ///
    /// # Errors
    /// When the file cannot be read, or is not what it should be.
    pub fn read(&self, prompt: &Prompt, tag: &str) -> Result<Option<Overrides>, OverrideError> {
        let place = place(prompt, tag)?;
        let file = self.root.join(&place);
        let (above, name) = self.above();
        let disk = match HostDisk::open(above) {
            Ok(disk) => disk,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(OverrideError::Io { file, source }),
        };
        let bytes = match read(&disk, &name.join(place)) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(None),
            Err(source) => return Err(OverrideError::Io { file, source }),
        };
        let parsed = String::from_utf8(bytes)
            .map_err(|_| "it is not UTF-8".to_owned())
            .and_then(|text| json::read::<Overrides>(&text));
        let malformed = |reason| OverrideError::Malformed { file: file.clone(), reason };
        let overrides = parsed.map_err(malformed)?;
        if overrides.version != VERSION {
            let reason =
                format!("it has version {}, and this program reads version {VERSION}", overrides.version);
            return Err(OverrideError::Malformed { file, reason });
        }
        if !overrides.is_for(prompt.ns(), prompt.key()) || overrides.tag != tag {
            let wanted = format!("{}, tag {tag}", prompt.name());
            return Err(OverrideError::OtherPrompt { found: label(&overrides), wanted });
        }
        Ok(Some(overrides))
    }

    /// The prompt with those for a tag in place; the prompt as it is if there is no file.
    ///
    /// # Errors
    /// As for [`LocalOverrides::read`] and [`Prompt::with_overrides`].
    pub fn applied(&self, prompt: &Prompt, tag: &str) -> Result<Prompt, OverrideError> {
        match self.read(prompt, tag)? {
            None => Ok(prompt.clone()),
            Some(overrides) => Ok(prompt.with_overrides(overrides)?),
        }
    }

    /// Writes overrides, in place of those that are there.
    ///
    /// # Errors
    /// When one is stale, of an unknown part or wrong, when they are another prompt's, or the file cannot be written. What
    /// was there is there still.
    pub fn write(&self, prompt: &Prompt, overrides: &Overrides) -> Result<PathBuf, OverrideError> {
        check(prompt, &prompt.descriptor(), overrides)?;
        self.put(prompt, overrides)
    }

    fn put(&self, prompt: &Prompt, overrides: &Overrides) -> Result<PathBuf, OverrideError> {
        let place = place(prompt, &overrides.tag)?;
        let file = self.root.join(&place);
        let io = |source| OverrideError::Io { file: file.clone(), source };
        let mut text = serde_json::to_string_pretty(overrides).map_err(|error| io(error.into()))?;
        text.push('\n');
        let (above, name) = self.above();
        std::fs::create_dir_all(above).map_err(io)?;
        let disk = HostDisk::open(above).map_err(io)?;
        write(&disk, &name.join(place), text.as_bytes()).map_err(io)?;
        Ok(file)
    }

    /// Writes a file with every part that can be replaced, as it is, for somebody to edit. In a file that is there, what was
    /// changed stays, what is missing is added, and what nobody changed is brought up to date.
    ///
    /// # Errors
    /// As for [`LocalOverrides::read`] and [`LocalOverrides::write`].
    pub fn seed(&self, prompt: &Prompt, tag: &str) -> Result<Seeded, OverrideError> {
        let of = prompt.descriptor();
        let old = self.read(prompt, tag)?;
        let mut overrides = match &old {
            None => Overrides::new(&of, tag)?,
            Some(old) => old.clone(),
        };
        overrides.parts.retain(|_, part| !part.is_unchanged());
        for part in &of.parts {
            let copy = || Override { hash: part.hash.clone(), value: part.value.clone() };
            overrides.parts.entry(part.path.clone()).or_insert_with(copy);
        }
        check(prompt, &of, &overrides)?;
        let is_new = |path: &str, part: &Override| old.as_ref().and_then(|old| old.get(path)) != Some(part);
        let written = overrides.parts().filter(|(path, part)| is_new(path, part));
        let written: Vec<String> = written.map(|(path, _)| path.to_owned()).collect();
        let file = match old == Some(overrides.clone()) {
            true => self.file(prompt, tag)?,
            false => self.put(prompt, &overrides)?,
        };
        Ok(Seeded { file, written })
    }

    /// The directory that is held open, and where the files are in it: so that the directory itself is not followed if it is
    /// a link.
    fn above(&self) -> (&Path, &Path) {
        match (self.root.parent(), self.root.file_name()) {
            (Some(above), Some(name)) if above.as_os_str().is_empty() => (Path::new("."), Path::new(name)),
            (Some(above), Some(name)) => (above, Path::new(name)),
            _ => (&self.root, Path::new("")),
        }
    }
}

/// Refuses overrides that do not count, or could not be used.
fn check(prompt: &Prompt, of: &PromptDescriptor, overrides: &Overrides) -> Result<(), OverrideError> {
    if !overrides.is_for(prompt.ns(), prompt.key()) {
        return Err(OverrideError::OtherPrompt {
            found: label(overrides),
            wanted: prompt.name().to_string(),
        });
    }
    let in_state = |state| {
        let paths = overrides.parts().filter(|(path, part)| part.state(path, of) == state);
        paths.map(|(path, _)| path.to_owned()).collect::<Vec<_>>()
    };
    let (stale, unknown) = (in_state(PartState::Stale), in_state(PartState::Unknown));
    if !stale.is_empty() {
        return Err(OverrideError::Stale { paths: stale });
    }
    if !unknown.is_empty() {
        return Err(OverrideError::Unknown { paths: unknown });
    }
    prompt.with_overrides(overrides.clone())?;
    Ok(())
}

fn label(overrides: &Overrides) -> String {
    format!("{}/{}, tag {}", overrides.ns, overrides.key, overrides.tag)
}

/// The file's place below the root. Namespaces, keys and tags are keys, so none of them leads anywhere else.
fn place(prompt: &Prompt, tag: &str) -> Result<PathBuf, OverrideError> {
    let tag = checked_tag(tag.to_owned())?;
    Ok(prompt.ns().split('/').collect::<PathBuf>().join(prompt.key()).join(format!("{tag}.json")))
}

fn read(disk: &dyn Disk, place: &Path) -> io::Result<Option<Vec<u8>>> {
    let refused = |text: &str| Err(io::Error::new(io::ErrorKind::InvalidData, text));
    match disk.look(place)? {
        None => Ok(None),
        Some(entry) if entry.kind != EntryKind::File => refused("it is no file; links are not followed"),
        Some(entry) if entry.len > MAX_BYTES => refused("it is larger than 4 MiB"),
        Some(_) => disk.read(place).map(Some),
    }
}

/// Replaces a file in one step.
fn write(disk: &dyn Disk, place: &Path, content: &[u8]) -> io::Result<()> {
    let dir = place.parent().unwrap_or(Path::new(""));
    let above: Vec<&Path> = dir.ancestors().collect();
    for dir in above.into_iter().rev().filter(|dir| !dir.as_os_str().is_empty()) {
        match disk.make_dir(dir, 0o755) {
            Ok(()) => disk.sync_dir(dir.parent().unwrap_or(Path::new("")))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    // Not a name that anybody else would make up, so two writers do not meet before one of them is the last.
    let new = dir.join(format!(".{}.new", fresh_uuid(Timestamp::UNIX_EPOCH).simple()));
    let replaced = disk
        .create(&new, content, 0o644)
        .and_then(|()| disk.sync_file(&new))
        .and_then(|()| disk.rename(&new, place, Replace::Allowed));
    if replaced.is_err() {
        // What cannot be removed either is nobody's file and read by nobody.
        let _ = disk.unlink(&new);
    }
    replaced.and_then(|()| disk.sync_dir(dir))
}

#[cfg(test)]
mod tests;
