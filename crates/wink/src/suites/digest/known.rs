//! What names of files and directories tell: languages, key files, and what is too heavy to walk.

use super::super::plain::plain;
use crate::filesystem::{DirEntry, STATE};

/// Directories that hold what tools made or fetched, not what people wrote.
const HEAVY: &[&str] = &[
    ".git",
    ".hg",
    ".jj",
    ".svn",
    STATE,
    ".venv",
    ".tox",
    ".mypy_cache",
    ".pytest_cache",
    ".gradle",
    ".next",
    ".terraform",
    "__pycache__",
    "node_modules",
    "target",
    "venv",
];

/// Files whose first lines say what a project is, in the order in which they are worth reading.
const KEY_FILES: &[&str] = &[
    "readme.md",
    "readme.rst",
    "readme.txt",
    "readme",
    "architecture.md",
    "contributing.md",
    "agents.md",
    "claude.md",
    "cargo.toml",
    "package.json",
    "pyproject.toml",
    "setup.py",
    "requirements.txt",
    "go.mod",
    "gemfile",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "composer.json",
    "mix.exs",
    "deno.json",
    "cmakelists.txt",
    "makefile",
    "justfile",
    "dockerfile",
    "docker-compose.yml",
    "compose.yaml",
    "flake.nix",
    ".gitlab-ci.yml",
    ".travis.yml",
    "azure-pipelines.yml",
    "jenkinsfile",
];

/// Where a forge keeps its pipelines: every file in there is one.
const PIPELINES: &[&str] = &[".github/workflows", ".circleci", ".buildkite", ".forgejo/workflows"];

/// Whether a directory of this name is named but not walked.
pub(super) fn is_heavy(name: &str) -> bool {
    HEAVY.contains(&name)
}

/// How worth reading a file is, if it is a key file: the shallower the better, then in the order of the list.
pub(super) fn rank(file: &DirEntry) -> Option<(usize, usize)> {
    let depth = file.path.depth();
    let listed = KEY_FILES.iter().position(|name| file.name().eq_ignore_ascii_case(name));
    // A README or manifest further down belongs to something that was vendored or nested.
    if let Some(at) = listed.filter(|_| depth <= 3) {
        return Some((depth, at));
    }
    let parent = file.path.parent()?;
    PIPELINES.contains(&parent.as_str()).then_some((1, KEY_FILES.len()))
}

/// The language that a file's name tells.
pub(super) fn language(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    match lower.as_str() {
        "makefile" | "gnumakefile" => return Some("Make"),
        "dockerfile" => return Some("Docker"),
        "cmakelists.txt" => return Some("CMake"),
        _ => {}
    }
    let (stem, extension) = lower.rsplit_once('.')?;
    if stem.is_empty() {
        return None;
    }
    Some(match extension {
        "rs" => "Rust",
        "py" | "pyi" => "Python",
        "js" | "mjs" | "cjs" | "jsx" => "JavaScript",
        "ts" | "tsx" | "mts" | "cts" => "TypeScript",
        "go" => "Go",
        "java" => "Java",
        "kt" | "kts" => "Kotlin",
        "c" | "h" => "C",
        "cc" | "cpp" | "cxx" | "hpp" | "hh" | "hxx" => "C++",
        "cs" => "C#",
        "rb" => "Ruby",
        "php" => "PHP",
        "swift" => "Swift",
        "scala" => "Scala",
        "ex" | "exs" => "Elixir",
        "erl" | "hrl" => "Erlang",
        "hs" => "Haskell",
        "ml" | "mli" => "OCaml",
        "zig" => "Zig",
        "lua" => "Lua",
        "r" => "R",
        "jl" => "Julia",
        "sh" | "bash" | "zsh" => "Shell",
        "sql" => "SQL",
        "html" | "htm" => "HTML",
        "css" | "scss" | "less" => "CSS",
        "vue" => "Vue",
        "svelte" => "Svelte",
        "md" | "markdown" => "Markdown",
        "rst" => "reStructuredText",
        "json" | "jsonl" => "JSON",
        "yml" | "yaml" => "YAML",
        "toml" => "TOML",
        "xml" => "XML",
        "csv" | "tsv" => "CSV",
        "proto" => "Protobuf",
        "tf" => "Terraform",
        "nix" => "Nix",
        "txt" => "Text",
        _ => return None,
    })
}

/// What a key file says about itself in one line: a manifest its name and version, anything else its first line.
pub(super) fn says(name: &str, text: &str) -> Option<String> {
    let told = match name.to_ascii_lowercase().as_str() {
        "cargo.toml" => titled(text, &["package"]),
        "pyproject.toml" => titled(text, &["project", "tool.poetry"]),
        "package.json" | "composer.json" | "deno.json" => described(text),
        _ => first_line(text),
    };
    told.map(|line| plain(&line, 120)).filter(|line| !line.is_empty())
}

fn first_line(text: &str) -> Option<String> {
    let mut lines = text.lines().map(|line| line.trim_start_matches(['#', ' ', '\t', '\u{feff}']).trim());
    lines.find(|line| line.chars().any(char::is_alphanumeric)).map(str::to_owned)
}

/// Name and version from a table of a TOML file. Read line by line: a manifest that is written otherwise says nothing.
fn titled(text: &str, tables: &[&str]) -> Option<String> {
    let mut inside = false;
    let (mut name, mut version) = (None, None);
    for line in text.lines().map(str::trim) {
        if let Some(table) = line.strip_prefix('[') {
            inside = table.split(']').next().is_some_and(|table| tables.contains(&table.trim()));
        } else if inside && let Some((key, value)) = line.split_once('=') {
            let value = value.trim().strip_prefix('"').and_then(|value| value.split('"').next());
            match key.trim() {
                "name" => name = name.or(value),
                "version" => version = version.or(value),
                _ => {}
            }
        }
    }
    joined(name, version)
}

fn described(text: &str) -> Option<String> {
    let value: serde_json::Value = crate::support::json::read(text).ok()?;
    joined(value.get("name")?.as_str(), value.get("version").and_then(|version| version.as_str()))
}

fn joined(name: Option<&str>, version: Option<&str>) -> Option<String> {
    Some(match version {
        Some(version) => format!("{} {version}", name?),
        None => name?.to_owned(),
    })
}
