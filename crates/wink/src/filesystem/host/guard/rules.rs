//! Guarded paths by name: which rule a path falls under.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::GuardRule;

const AGENT_FILE: &str = "agent file";
const RUNTIME_STATE: &str = "runtime state";
const CLIENT: &str = "client configuration";
const SHELL: &str = "shell environment";
const EDITOR: &str = "editor configuration";
const CARGO: &str = "cargo configuration";

/// The rules by name, as they are documented.
pub(super) const BY_NAME: &[GuardRule] = &[
    GuardRule { name: AGENT_FILE, paths: &["wink.toml"], why: "it says what tools may do" },
    GuardRule { name: RUNTIME_STATE, paths: &[".wink"], why: "it holds what the runtime restores from" },
    GuardRule {
        name: CLIENT,
        paths: &[
            ".mcp.json",
            ".claude/",
            ".codex/",
            ".gemini/",
            ".cursor/",
            ".qwen/",
            ".opencode/",
            "opencode.json*",
            ".vscode/mcp.json",
        ],
        why: "clients start the programs that it names",
    },
    GuardRule { name: SHELL, paths: &[".envrc"], why: "shells run it on entering the directory" },
    GuardRule {
        name: EDITOR,
        paths: &[".vscode/tasks.json", ".vscode/settings.json", ".vscode/launch.json", ".idea/"],
        why: "editors run what it names",
    },
    GuardRule { name: CARGO, paths: &[".cargo/config*"], why: "cargo runs the programs that it names" },
];

/// What is reported when it changes, and not refused.
pub(super) const REPORTED: &[&str] = &[".github/workflows/", ".husky/", "node_modules/.bin"];

/// Names in a directory that lead to guarded places if they are links, and the directories among them with the names inside.
pub(super) const LINKABLE: &[(&str, &[&str])] = &[
    (".git", &["hooks", "config", "info"]),
    ("wink.toml", &[]),
    (".mcp.json", &[]),
    (".claude", &[]),
    (".codex", &[]),
    (".gemini", &[]),
    (".cursor", &[]),
    (".qwen", &[]),
    (".opencode", &[]),
    ("opencode.json", &[]),
    ("opencode.jsonc", &[]),
    (".vscode", &["tasks.json", "settings.json", "launch.json", "mcp.json"]),
    (".envrc", &[]),
    (".idea", &[]),
    (".cargo", &["config", "config.toml"]),
];

/// How a path falls under a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Named {
    /// It is guarded, or in something that is.
    Guarded(&'static GuardRule),
    /// Something in it is: it must be no link.
    NoLink(&'static GuardRule),
}

/// The rule that a path falls under by its names, at any depth.
pub(super) fn by_name(path: &Path) -> Option<Named> {
    let mut names = path.iter();
    while let Some(name) = names.next() {
        if !may_matter(name) {
            continue;
        }
        let next = names.clone().next().map(folded);
        let guarded = |name| rule(name).map(Named::Guarded);
        let inside = |name, is_guarded: fn(&[u8]) -> bool| match &next {
            None => rule(name).map(Named::NoLink),
            Some(next) if is_guarded(next) => guarded(name),
            Some(_) => None,
        };
        let found = match &*folded(name) {
            b"wink.toml" => guarded(AGENT_FILE),
            b".wink" => guarded(RUNTIME_STATE),
            b".mcp.json" | b".claude" | b".codex" | b".gemini" | b".cursor" | b".qwen" | b".opencode" => {
                guarded(CLIENT)
            }
            name if name.starts_with(b"opencode.json") => guarded(CLIENT),
            b".envrc" => guarded(SHELL),
            b".idea" => guarded(EDITOR),
            b".vscode" if next.as_deref() == Some(b"mcp.json") => guarded(CLIENT),
            b".vscode" => {
                inside(EDITOR, |name| matches!(name, b"tasks.json" | b"settings.json" | b"launch.json"))
            }
            b".cargo" => inside(CARGO, |name| name.starts_with(b"config")),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// The place that is reported when a path changes.
pub(super) fn reported(path: &Path) -> Option<PathBuf> {
    let mut at = PathBuf::new();
    let mut names = path.iter();
    while let Some(name) = names.next() {
        at.push(name);
        let next = names.clone().next();
        let then = |wanted: &[u8]| next.filter(|next| *folded(next) == *wanted).map(|next| at.join(next));
        let found = match &*folded(name) {
            b".husky" => Some(at.clone()),
            b".github" => then(b"workflows"),
            b"node_modules" => then(b".bin"),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Whether git takes an entry of this name for a repository, on some filesystem.
pub(super) fn is_git(name: &OsStr) -> bool {
    may_matter(name) && matches!(&*folded(name), b".git" | b"git~1")
}

/// Whether a name can be one of those that are guarded: most cannot, by their first byte.
fn may_matter(name: &OsStr) -> bool {
    matches!(name.as_bytes(), [b'.' | b'w' | b'W' | b'o' | b'O' | b'g' | b'G' | 0xE2 | 0xEF, ..])
}

/// A name as the most lenient filesystem compares it: without regard to case, to characters that have no width, and to dots
/// and spaces at its end.
pub(super) fn folded(name: &OsStr) -> Cow<'_, [u8]> {
    let bytes = name.as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii() && !byte.is_ascii_uppercase();
    let end = bytes.iter().rposition(|byte| !matches!(byte, b'.' | b' ')).map_or(0, |last| last + 1);
    let bytes = bytes.get(..end).unwrap_or_default();
    if bytes.iter().all(is_plain) {
        return Cow::Borrowed(bytes);
    }
    let Ok(text) = str::from_utf8(bytes) else { return Cow::Owned(bytes.to_ascii_lowercase()) };
    let is_ignored = |c: &char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let lowered = |c: char| match c {
        '\u{212a}' => 'k',
        '\u{17f}' => 's',
        c => c.to_ascii_lowercase(),
    };
    let kept: String = text.chars().filter(|c| !is_ignored(c)).map(lowered).collect();
    Cow::Owned(kept.into_bytes())
}

fn rule(name: &str) -> Option<&'static GuardRule> {
    BY_NAME.iter().find(|rule| rule.name == name)
}
