use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;

use super::config::{ConfigEntry, parse};
use super::keys::is_harmless;
use super::rules::{Named, by_name, folded, is_git, reported};

/// What git makes of a configuration; none if it refuses it.
fn by_git(text: &[u8]) -> Option<Vec<ConfigEntry>> {
    let file = tempfile::NamedTempFile::new().expect("a file can be made");
    std::fs::write(file.path(), text).expect("it can be written");
    let output = Command::new("git")
        .args(["config", "--no-includes", "--list", "-z", "--file"])
        .arg(file.path())
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .expect("git can be run");
    output.status.success().then(|| {
        let parts = output.stdout.split(|byte| *byte == 0).filter(|part| !part.is_empty());
        let entry = |part: &[u8]| {
            let end = part.iter().position(|byte| *byte == b'\n');
            let key = part.get(..end.unwrap_or(part.len())).unwrap_or_default().to_vec();
            let value = end.and_then(|end| part.get(end + 1..)).map(<[u8]>::to_vec);
            ConfigEntry { key, value }
        };
        parts.map(entry).collect()
    })
}

/// Versions of git differ in whether space inside a value stays a tab.
fn plain(entries: Option<Vec<ConfigEntry>>) -> Option<Vec<ConfigEntry>> {
    let spaced = |value: Vec<u8>| {
        value.into_iter().map(|byte| if matches!(byte, b'\t' | b'\r') { b' ' } else { byte }).collect()
    };
    let mut entries = entries?;
    for entry in &mut entries {
        entry.value = entry.value.take().map(spaced);
    }
    Some(entries)
}

#[test]
fn configurations_are_read_as_git_reads_them() {
    for text in [
        &b""[..],
        b"[core]\n\tbare = true\n",
        b"[core] bare = true ; no\n",
        b"[CoRe]BaRe\n[remote \"A b.C\"]\nurl=x#y\n",
        b"[a.B.c]\nd = 1\n",
        b"[a \"b\\\"c\\\\d\\e\"]\nf = \"x ; y\" z # no\n",
        b"[a]\nb = one \\\n two\\n\\t\\\"\n",
        b"[a]\nb = \"one\\\n two\"\n",
        b"[a]\nb = \"open\n",
        b"[a]\nb = \\x\n",
        b"[a]\n1b = c\n",
        b"[a\nb = c\n",
        b"[a \"b]\nc = d\n",
        b"[a \"b\" ]\nc = d\n",
        b"b = c\n",
        b"\xEF\xBB\xBF[a]\r\nb = c\r\n",
        b"[a]\nb c = d\n",
        b"[a]\nb = c   \n\td = \" e \"  \n",
        b"[a]\nb = c \\\n\n",
        b"[a]\nb-c = \"\" x \"\"\n[]\nd = e",
        b"[a]b=\\\n[core]\nfsmonitor=x\n",
        b"[a]\n;x\\\n[core]\nfsmonitor = y\n",
    ] {
        assert_eq!(plain(parse(text)), plain(by_git(text)), "{}", String::from_utf8_lossy(text));
    }
    assert_eq!(parse(b"[a]\nb = c\0d\n"), None, "git reads less of it than there is");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
    #[test]
    fn whatever_is_in_them(parts in proptest::collection::vec(prop_oneof![
        Just("["), Just("]"), Just("\""), Just("\\"), Just("\n"), Just("\r\n"), Just("\r"), Just(" "), Just("\t"), Just("="),
        Just(" = "), Just("#"), Just(";"), Just("."), Just("-"), Just("core"), Just("[core]\n"), Just("[remote \"a\"]\n"),
        Just("fsmonitor = x\n"), Just("\tbare\n"), Just("a"), Just("B"), Just("1"), Just("n"), Just("é"), Just("\u{b}"), Just("\u{c}"),
        Just("[include]\npath = x\n"), Just("\\\n"), Just("_"),
    ], 0..24)) {
        let text = parts.concat();
        prop_assert_eq!(plain(parse(text.as_bytes())), plain(by_git(text.as_bytes())), "{:?}", text);
    }
}

#[test]
fn keys_that_can_run_a_program_are_not_harmless() {
    let is_harmless = |text: &str| {
        let entries = parse(text.as_bytes()).expect("it is one");
        entries.iter().all(|entry| is_harmless(entry, |_| false))
    };
    for text in [
        "[core]\nfsmonitor = x",
        "[core]\nfsmonitor",
        "[core]\nhooksPath = x",
        "[core]\nsshCommand = x",
        "[core]\npager = x",
        "[core]\neditor = x",
        "[core]\naskPass = x",
        "[core]\ngitProxy = x",
        "[core]\nworktree = x",
        "[core]\nattributesFile = x",
        "[core]\nalternateRefsCommand = x",
        "[core \"x\"]\nbare = true",
        "[alias]\nst = !x",
        "[include]\npath = x",
        "[includeIf \"gitdir:/\"]\npath = x",
        "[filter \"x\"]\nclean = x",
        "[diff]\nexternal = x",
        "[diff \"x\"]\ncommand = x",
        "[diff \"x\"]\ntextconv = x",
        "[merge \"x\"]\ndriver = x",
        "[mergetool \"x\"]\ncmd = x",
        "[difftool \"x\"]\npath = x",
        "[credential]\nhelper = x",
        "[credential \"https://x\"]\nhelper = x",
        "[remote \"x\"]\nvcs = x",
        "[remote \"x\"]\nuploadpack = x",
        "[remote \"x\"]\nreceivepack = x",
        "[remote \"x\"]\nproxy = x",
        "[remote \"x\"]\nurl = ext::sh -c x",
        "[remote \"x\"]\nurl = odd://x",
        "[remote \"x\"]\nurl = --upload-pack=x",
        "[branch \"x\"]\nremote = ext::sh",
        "[branch \"x\"]\nmergeOptions = -s x",
        "[url \"ext::sh -c x %S\"]\ninsteadOf = https://",
        "[url \"zap:\"]\ninsteadOf = x",
        "[url \"zap\"]\npushInsteadOf = x",
        "[url \"https:\"]\ninsteadOf = x",
        "[url \"git@x:\"]\ninsteadOf = x",
        "[url \"\"]\ninsteadOf = x",
        "[submodule \"x\"]\nupdate = !x",
        "[submodule \"x\"]\nurl = ext::x",
        "[gpg]\nprogram = x",
        "[gpg \"ssh\"]\nprogram = x",
        "[extensions]\nworktreeConfig = true",
        "[sequence]\neditor = x",
        "[pager]\nstatus = x",
        "[protocol \"ext\"]\nallow = always",
        "[uploadpack]\npackObjectsHook = x",
        "[http]\nproxy = x",
        "[browser \"x\"]\ncmd = x",
        "[gc]\nrecentObjectsHook = x",
        "[receive]\nprocReceiveRefs = x",
        "[trailer \"x\"]\ncommand = x",
        "[init]\ntemplateDir = x",
        "[interactive]\ndiffFilter = x",
        "[nothing]\nknown = x",
    ] {
        assert!(!is_harmless(text), "{text}");
    }
    for text in [
        "[core]\nrepositoryformatversion = 0\nfilemode\nbare = false\nlogallrefupdates = true",
        "[remote \"ext::x\"]\nurl = git@host:x.git\nfetch = +refs/heads/*:refs/remotes/x/*",
        "[remote \"o\"]\nurl = HTTPS://x/y\npushurl = ../other\npushurl = /abs\nurl = [::1]:x",
        "[branch \"a.b\"]\nremote = origin\nmerge = refs/heads/a",
        "[submodule \"x\"]\nurl = ../x\nactive = true\nupdate = none",
        "[user]\nname = x\nemail = y",
        "[url \"https://x/\"]\ninsteadOf = git@x:",
        "[color \"branch\"]\ncurrent = red",
        "[color]\nui = auto",
    ] {
        assert!(is_harmless(text), "{text}");
    }
}

#[test]
fn names_are_compared_as_the_most_lenient_filesystem_does() {
    for name in [".git", ".GIT", ".Git", ".g\u{200c}it", "git~1", "GIT~1", ".git.", ".git ", "\u{feff}.git"] {
        assert!(is_git(OsStr::new(name)), "{name:?}");
    }
    for name in ["git", ".gitignore", ".github", ".git2", "a.git", ".gi\u{131}t"] {
        assert!(!is_git(OsStr::new(name)), "{name:?}");
    }
    assert_eq!(&*folded(OsStr::new("HOO\u{212a}\u{17f}")), b"hooks");
    assert_eq!(&*folded(OsStr::from_bytes(b".G\xffT")), b".g\xfft");
}

#[test]
fn paths_fall_under_their_rules() {
    let guarded = |path: &str| match by_name(Path::new(path)) {
        Some(Named::Guarded(rule)) => Some(rule.name),
        Some(Named::NoLink(_)) | None => None,
    };
    for (path, rule) in [
        ("wink.toml", "agent file"),
        ("a/Wink.TOML", "agent file"),
        ("a/.wink/x", "runtime state"),
        (".mcp.json", "client configuration"),
        ("a/.claude/settings.json", "client configuration"),
        (".CLAUDE", "client configuration"),
        ("opencode.jsonc", "client configuration"),
        (".vscode/mcp.json", "client configuration"),
        ("a/b/.envrc", "shell environment"),
        (".vscode/Tasks.json", "editor configuration"),
        (".idea/x/y", "editor configuration"),
        ("a/.cargo/config.toml", "cargo configuration"),
        (".cargo/config", "cargo configuration"),
    ] {
        assert_eq!(guarded(path), Some(rule), "{path}");
    }
    for path in
        ["a/wink.tomlx", ".vscode/extensions.json", ".vscode", ".cargo/x", "x.envrc", ".claudex", "a/b"]
    {
        assert_eq!(guarded(path), None, "{path}");
    }
    assert!(matches!(by_name(Path::new("a/.vscode")), Some(Named::NoLink(_))));
    for (path, place) in [
        (".github/workflows/ci.yml", ".github/workflows"),
        ("a/.husky/pre-commit", "a/.husky"),
        ("a/node_modules/.bin/x", "a/node_modules/.bin"),
    ] {
        assert_eq!(reported(Path::new(path)).as_deref(), Some(Path::new(place)));
    }
    assert_eq!(reported(Path::new("node_modules/x/index.js")), None);
}
