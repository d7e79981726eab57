//! Tells the program which commit it is made of, where that is known: `WINK_COMMIT` if it is set, else what cargo wrote into
//! a package, else what git says of the clone. Elsewhere there is none, and nothing fails.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=WINK_COMMIT");
    let commit =
        std::env::var("WINK_COMMIT").ok().filter(|commit| !commit.is_empty()).or_else(packaged).or_else(
            || {
                let commit = git(&["log", "-1", "--format=%h %cs", "--abbrev=12"])?;
                // Each commit adds a line to the first; what is checked out without a log is in the second.
                for name in ["logs/HEAD", "HEAD"] {
                    if let Some(path) = git(&["rev-parse", "--git-path", name])
                        && Path::new(&path).exists()
                    {
                        println!("cargo::rerun-if-changed={path}");
                    }
                }
                Some(commit)
            },
        );
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    match commit {
        Some(commit) => println!("cargo::rustc-env=WINK_VERSION={version} ({commit})"),
        None => println!("cargo::rustc-env=WINK_VERSION={version}"),
    }
}

/// The commit that cargo packaged these sources from; none if they are no package.
fn packaged() -> Option<String> {
    const FILE: &str = ".cargo_vcs_info.json";
    let text = std::fs::read_to_string(FILE).ok()?;
    println!("cargo::rerun-if-changed={FILE}");
    let commit = text.split_once("\"sha1\"")?.1.split('"').nth(1)?;
    commit.get(..12).map(str::to_owned)
}

/// What git says about the repository that this file is part of; none if it is part of none.
fn git(arguments: &[&str]) -> Option<String> {
    // A copy of the sources inside somebody else's repository is not of their commit.
    let is_ours = Command::new("git").args(["ls-files", "--error-unmatch", "build.rs"]).output().ok()?;
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (is_ours.status.success() && output.status.success()).then(|| text.trim().to_owned())
}
