//! What is said about a workspace.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::super::plain::{counted, grouped, plain};
use super::known;
use super::walk::{MAX_DEPTH, MAX_ENTRIES, MAX_KEY_FILES, Walk};
use crate::filesystem::{DirEntry, EntryKind, Filesystem};

/// How large a key file may be to be read.
const MAX_KEY_BYTES: u64 = 64 * 1024;
/// Lines in one list of the text.
const MAX_LISTED: usize = 20;
/// Languages in the summary.
const MAX_SUMMARY: usize = 4;

#[derive(Default)]
struct Count {
    files: u64,
    bytes: u64,
}

impl Count {
    fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// What was found.
#[derive(Default)]
pub(super) struct Survey {
    total: Count,
    directories: u64,
    links: u64,
    specials: u64,
    closed: u64,
    languages: BTreeMap<&'static str, Count>,
    other: Count,
    /// By directory of the root; those at the root itself under the empty name.
    layout: BTreeMap<String, Count>,
    heavy: Vec<String>,
    key_files: Vec<(String, Option<String>)>,
    more_key_files: usize,
    complete: bool,
}

impl Survey {
    /// Counts what was found, and reads the key files.
    pub(super) async fn of(files: &dyn Filesystem, walk: &Walk) -> Self {
        let mut survey = Self { complete: walk.is_complete, closed: walk.closed, ..Self::default() };
        for entry in &walk.entries {
            survey.count(entry);
        }
        survey.read_keys(files, &walk.keys()).await;
        survey
    }

    fn count(&mut self, entry: &DirEntry) {
        let top = match entry.path.depth() {
            1 => String::new(),
            _ => entry.path.segments().next().unwrap_or_default().to_owned(),
        };
        match entry.kind {
            EntryKind::File => {
                self.total.add(entry.len);
                self.layout.entry(top).or_default().add(entry.len);
                let language = known::language(entry.name());
                language
                    .map_or(&mut self.other, |name| self.languages.entry(name).or_default())
                    .add(entry.len);
            }
            EntryKind::Directory if known::is_heavy(entry.name()) => {
                self.heavy.push(format!("{}/", plain(entry.path.as_str(), 100)));
            }
            EntryKind::Directory => {
                self.directories += 1;
                if entry.path.depth() == 1 {
                    self.layout.entry(entry.name().to_owned()).or_default();
                }
            }
            EntryKind::Symlink => self.links += 1,
            EntryKind::Other => self.specials += 1,
        }
    }

    async fn read_keys(&mut self, files: &dyn Filesystem, keys: &[&DirEntry]) {
        self.more_key_files = keys.len().saturating_sub(MAX_KEY_FILES);
        for entry in keys.iter().take(MAX_KEY_FILES) {
            let mut said = None;
            if entry.len <= MAX_KEY_BYTES
                && let Ok(read) = files.read_bytes(&entry.path).await
                && let Ok(text) = std::str::from_utf8(&read.bytes)
            {
                said = known::says(entry.name(), text);
            }
            self.key_files.push((plain(entry.path.as_str(), 100), said));
        }
    }

    /// Languages, the one with most files first; what is no known one comes last.
    fn languages(&self) -> Vec<(&str, &Count)> {
        let mut all = Vec::from_iter(self.languages.iter().map(|(name, count)| (*name, count)));
        all.sort_by_key(|(name, count)| (std::cmp::Reverse(count.files), *name));
        if self.other.files > 0 {
            all.push(("other", &self.other));
        }
        all
    }

    fn size(&self) -> String {
        let more = if self.complete { "" } else { "at least " };
        format!("{more}{}, {}", counted(self.total.files, "file"), counted(self.total.bytes, "byte"))
    }

    /// One line.
    pub(super) fn summary(&self) -> String {
        if self.total.files == 0 && self.complete {
            return "The workspace has no files.".to_owned();
        }
        let all = self.languages();
        let mut named = Vec::new();
        for (name, count) in all.iter().take(MAX_SUMMARY) {
            named.push(format!("{name} {}", grouped(count.files)));
        }
        if all.len() > MAX_SUMMARY {
            named.push(format!("and {} more kinds", all.len() - MAX_SUMMARY));
        }
        let mut out = format!("{}: {}.", self.size(), named.join(", "));
        // One further down speaks for a part.
        if let Some((path, Some(said))) = self.key_files.first().filter(|(path, _)| !path.contains('/')) {
            let _ = write!(out, " {path} says: {said}");
        }
        out
    }

    /// All of it.
    pub(super) fn body(&self) -> String {
        let mut out = format!("{}, {}.", self.size(), directories(self.directories));
        let languages = self.languages().into_iter().map(|(name, count)| {
            format!("{name}: {}, {}", counted(count.files, "file"), counted(count.bytes, "byte"))
        });
        list(&mut out, "Languages", languages.collect());
        let layout = self.layout.iter().map(|(name, count)| {
            let sizes = format!("{}, {}", counted(count.files, "file"), counted(count.bytes, "byte"));
            match name.as_str() {
                "" => format!("at the root: {sizes}"),
                name => format!("{}/: {sizes}", plain(name, 100)),
            }
        });
        list(&mut out, "Layout", layout.collect());
        let keys = self.key_files.iter().map(|(path, said)| match said {
            Some(said) => format!("{path}: {said}"),
            None => path.clone(),
        });
        let mut keys = Vec::from_iter(keys);
        // They are listed no further than the others, and counted.
        keys.extend(std::iter::repeat_n(String::new(), self.more_key_files));
        list(&mut out, "Key files", keys);
        list(&mut out, "Not looked into", self.heavy.clone());
        for (count, one, many) in [
            (self.links, "symbolic link was not followed", "symbolic links were not followed"),
            (
                self.specials,
                "entry is no file, directory or link",
                "entries are no files, directories or links",
            ),
            (self.closed, "directory could not be listed", "directories could not be listed"),
        ] {
            if count > 0 {
                let _ = write!(out, "\n\n{} {}.", grouped(count), if count == 1 { one } else { many });
            }
        }
        if !self.complete {
            let max = grouped(MAX_ENTRIES as u64);
            let _ = write!(
                out,
                "\n\nThe workspace is larger: {max} entries, {MAX_DEPTH} levels deep, were looked at."
            );
        }
        out
    }
}

fn list(out: &mut String, title: &str, lines: Vec<String>) {
    if lines.is_empty() {
        return;
    }
    let _ = write!(out, "\n\n{title}:");
    for line in lines.iter().take(MAX_LISTED) {
        let _ = write!(out, "\n- {line}");
    }
    if lines.len() > MAX_LISTED {
        let _ = write!(out, "\n- +{} more", lines.len() - MAX_LISTED);
    }
}

fn directories(count: u64) -> String {
    match count {
        0 => "no directories".to_owned(),
        1 => "1 directory".to_owned(),
        _ => format!("{} directories", grouped(count)),
    }
}
