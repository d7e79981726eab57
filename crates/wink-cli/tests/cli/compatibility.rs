//! Workspaces that earlier versions wrote are opened, recovered and undone by this one.
//!
//! `compatibility/COMMIT.tar.xz` has workspaces as the program of that commit left them, most of them by being killed;
//! `compatibility/make` is what made it, and says what is in each.
//!
//! Unpacking gives every file another inode, and journals know files by their inodes. A workspace that is opened where it was
//! written has the inodes that its journals tell of, so the test writes the new numbers into them, in the old format.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Place, has_commands};

/// What wrote the workspaces.
const COMMITS: [&str; 1] = ["6c06936"];

/// The state directory.
const STATE: &str = ".wink";

/// The sessions of a workspace that the killed process and another one had.
const KILLED: &str = "crash";
const OTHER: &str = "other";

/// The calls of the main session that changed something and were not undone.
const CHANGES: [&str; 6] = ["11", "10", "6", "3", "2", "1"];

/// One of the workspaces of an archive, where it can be opened.
struct Written {
    place: Place,
    name: &'static str,
}

impl Written {
    fn unpack(commit: &str, name: &'static str) -> Self {
        let place = Place::new();
        let dir = place.outside("");
        let archive = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/cli/compatibility")
            .join(format!("{commit}.tar.xz"));
        let parts = ["", ".opened", ".inodes", ".paid"].map(|part| format!("{name}{part}"));
        let done = Command::new("tar")
            .args(["--no-same-owner", "--preserve-permissions", "-xJf"])
            .arg(archive)
            .arg("-C")
            .arg(&dir)
            .arg("start")
            .args(parts)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        fs::remove_dir(place.root()).unwrap();
        fs::rename(dir.join(name), place.root()).unwrap();
        let written = Self { place, name };
        written.give_inodes();
        written
    }

    /// Writes the inodes that everything has now into what knows them by the earlier ones.
    fn give_inodes(&self) {
        let inodes = Inodes::read(&self.part(".inodes"), self.name, &self.place.root());
        let state = self.place.root().join(STATE);
        for journal in fs::read_dir(state.join("journal")).unwrap() {
            let intent = journal.unwrap().path().join("intent");
            let text = fs::read(&intent).unwrap();
            let line = text.iter().position(|byte| *byte == b'\n').unwrap();
            let first = std::str::from_utf8(&text[..line]).unwrap();
            let (version, hash) = first.rsplit_once(' ').unwrap();
            assert_eq!(hash, blake3::hash(&text[line + 1..]).to_hex().as_str(), "{}", intent.display());
            let body = inodes.given(&text[line + 1..]);
            let hash = blake3::hash(&body).to_hex();
            fs::write(intent, [format!("{version} {hash}\n").as_bytes(), &body].concat()).unwrap();
        }
        let index = state.join("baseline/index");
        if index.exists() {
            let text = fs::read(&index).unwrap();
            let mut given = Vec::new();
            for line in text.split_inclusive(|byte| *byte == b'\n') {
                let (hash, body) = line.strip_suffix(b"\n").unwrap().split_at(16);
                let hashed = |body: &[u8]| blake3::hash(body).to_hex().as_bytes()[..16].to_vec();
                assert_eq!(hash, hashed(&body[1..]));
                let body = inodes.given(&body[1..]);
                given.extend([&hashed(&body), b" ".as_slice(), &body, b"\n"].concat());
            }
            fs::write(index, given).unwrap();
        }
    }

    /// A file or directory of the archive that belongs to the workspace.
    fn part(&self, part: &str) -> PathBuf {
        self.place.outside(&format!("{}{part}", self.name))
    }

    fn is_as(&self, dir: &Path) {
        assert_eq!(tree(&self.place.root()), tree(dir), "{}", self.name);
    }

    /// What the program prints when it succeeds; what it found when it opened the workspace is told beside that.
    fn done(&self, arguments: &[&str]) -> String {
        let said = self.place.wink(arguments);
        assert_eq!(said.code, Some(0), "{}: {said:?}", self.name);
        said.out
    }

    /// A call that must not be made.
    fn refused(&self, tool: &str, arguments: &str) {
        let said = self.place.wink(&["call", tool, arguments]);
        assert_ne!(said.code, Some(0), "{}: {said:?}", self.name);
    }

    /// Tool and result of each call in a log.
    fn log(&self, session: &str) -> Vec<(String, String)> {
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let rows = self.place.rows(&["log", "--session", session]);
        let result = |row: &Value| match (&row["error"]["kind"], row["replayed"].as_bool()) {
            (Value::String(kind), _) => kind.clone(),
            (_, Some(true)) => "replayed".to_owned(),
            _ => "ok".to_owned(),
        };
        rows.iter().map(|row| (text(row, "tool"), result(row))).collect()
    }

    /// How the ledger's entries stand, by tool.
    fn ledger(&self) -> BTreeSet<(String, String)> {
        let rows = self.place.rows(&["ledger", "list"]);
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        rows.iter().map(|row| (text(row, "tool"), text(row, "state"))).collect()
    }

    /// What every workspace must come to: files as they should be, and history, state and ledger as they were.
    fn is_whole(&self) {
        // The first call that may change something recovers the workspace.
        let plan = self.done(&["call", "planning_read_plan"]);
        assert!(plan.contains("begin") && plan.contains("go on"), "{plan}");
        self.is_as(&self.part(".opened"));

        let expected = [
            ("write_file", "ok"),
            ("edit_file", "ok"),
            ("build", "ok"),
            ("pay", "ok"),
            ("break_things", "failed"),
            ("write_file", "ok"),
            ("read_file", "ok"),
            ("delete_file", "ok"),
            ("", "ok"),
            ("planning_setup_plan", "ok"),
            ("planning_add_step", "ok"),
            ("pay_slowly", "timed_out"),
        ];
        let log = self.log("main");
        let told: Vec<_> = log.iter().map(|(tool, result)| (tool.as_str(), result.as_str())).collect();
        assert_eq!(told.get(..expected.len()), Some(expected.as_slice()), "{}: {log:?}", self.name);

        // The effect that was recorded is not had again: its answer has a text that was never printed twice.
        let paid = fs::read_to_string(self.part(".paid")).unwrap();
        assert_eq!(self.place.call("pay", r#"{"order": 1}"#), paid);
        // The one in doubt stays so.
        self.refused("pay_slowly", r#"{"order": 2}"#);
        let ledger = self.ledger();
        for entry in [("pay", "recorded"), ("pay_slowly", "in_doubt")] {
            assert!(ledger.contains(&(entry.0.to_owned(), entry.1.to_owned())), "{ledger:?}");
        }
        self.is_as(&self.part(".opened"));
    }

    /// Undoes everything, the last call of the main session first.
    fn undo_all(&self) {
        if self.log(KILLED) == [("command".to_owned(), "ok".to_owned())] {
            self.done(&["undo", "--to", "1", "--session", KILLED]);
        }
        self.done(&["undo", "--to", "1", "--session", OTHER]);
        for call in CHANGES {
            self.done(&["undo", call]);
        }
        self.is_as(&self.place.outside("start"));
        // There is no plan.
        self.refused("planning_read_plan", "{}");
    }

    /// Undoes everything at once.
    fn go_back(&self) {
        for session in [KILLED, OTHER, "main"] {
            if !self.log(session).is_empty() {
                self.done(&["undo", "--to", "1", "--session", session]);
            }
        }
        self.is_as(&self.place.outside("start"));
    }
}

/// What is known of everything in a workspace that was unpacked, by inode as it was. All of it is on the device of the root, which
/// is none in what knows files by their inodes.
struct Inodes(BTreeMap<u64, Known>);

struct Known {
    /// When the status last changed, in nanoseconds: as it was.
    changed: i128,
    now: fs::Metadata,
}

impl Inodes {
    fn read(list: &Path, name: &str, root: &Path) -> Self {
        let text = fs::read(list).unwrap();
        let mut inodes = BTreeMap::new();
        for line in text.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            let mut parts = line.splitn(4, |byte| *byte == b' ').skip(1);
            let mut text = || std::str::from_utf8(parts.next().unwrap()).unwrap();
            let ino = text().parse().unwrap();
            let (seconds, fraction) = text().split_once('.').unwrap();
            let nanoseconds: i128 = fraction[..9].parse().unwrap();
            let changed = seconds.parse::<i128>().unwrap() * 1_000_000_000 + nanoseconds;
            let path = Path::new(OsStr::from_bytes(parts.next().unwrap())).strip_prefix(name).unwrap();
            let now = fs::symlink_metadata(root.join(path)).unwrap();
            inodes.insert(ino, Known { changed, now });
        }
        Self(inodes)
    }

    /// JSON with the present numbers.
    fn given(&self, body: &[u8]) -> Vec<u8> {
        let mut json = serde_json::from_slice(body).unwrap();
        self.give(&mut json);
        serde_json::to_vec(&json).unwrap()
    }

    fn give(&self, json: &mut Value) {
        match json {
            Value::Array(items) => items.iter_mut().for_each(|item| self.give(item)),
            Value::Object(members) => {
                members.values_mut().for_each(|member| self.give(member));
                let Some(ino) = members.get("ino").and_then(Value::as_u64) else { return };
                // What was gone then has a number that nothing has now.
                let known = self.0.get(&ino);
                assert_eq!(members["dev"], 0, "{members:?}");
                members.insert("ino".to_owned(), known.map_or(0, |known| known.now.ino()).into());
                let Some(Known { changed, now }) = known else { return };
                if members.contains_key("owner") {
                    members.insert(
                        "owner".to_owned(),
                        serde_json::json!({ "user": now.uid(), "group": now.gid() }),
                    );
                }
                if members.get("changed").and_then(Value::as_str) == Some(&changed.to_string()) {
                    let changed = i128::from(now.ctime()) * 1_000_000_000 + i128::from(now.ctime_nsec());
                    members.insert("changed".to_owned(), changed.to_string().into());
                }
            }
            _ => {}
        }
    }
}

/// What there is to compare of a file, directory or link.
#[derive(Debug, PartialEq)]
struct Entry {
    mode: u32,
    /// Contents, or the target of a link.
    content: Vec<u8>,
    /// Seconds and nanoseconds. Those of a directory change with what is in it.
    modified: Option<(i64, i64)>,
    /// All names of the file.
    names: BTreeSet<PathBuf>,
}

/// Everything in a directory but the state.
fn tree(root: &Path) -> BTreeMap<PathBuf, Entry> {
    let mut entries = BTreeMap::new();
    let mut inodes: BTreeMap<u64, BTreeSet<PathBuf>> = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.strip_prefix(root).unwrap().to_owned();
            if name == Path::new(STATE) {
                continue;
            }
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_symlink() {
                fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
            } else if meta.is_file() {
                fs::read(&path).unwrap()
            } else {
                Vec::new()
            };
            let modified = (!meta.is_dir()).then(|| (meta.mtime(), meta.mtime_nsec()));
            inodes.entry(meta.ino()).or_default().insert(name.clone());
            entries.insert(
                name,
                (meta.ino(), Entry { mode: meta.mode(), content, modified, names: BTreeSet::new() }),
            );
            if meta.is_dir() {
                dirs.push(path);
            }
        }
    }
    let named = |(name, (inode, entry)): (PathBuf, (u64, Entry))| {
        (name, Entry { names: inodes.get(&inode).cloned().unwrap_or_default(), ..entry })
    };
    entries.into_iter().map(named).collect()
}

fn each(name: &'static str, check: impl Fn(&Written)) {
    if !has_commands() {
        return;
    }
    for commit in COMMITS {
        check(&Written::unpack(commit, name));
    }
}

#[test]
fn what_was_committed_when_an_earlier_version_was_killed_stays_and_is_undone() {
    each("committed", |written| {
        written.is_whole();
        assert_eq!(written.log(KILLED), [("command".to_owned(), "ok".to_owned())]);
        written.undo_all();
    });
}

#[test]
fn what_an_earlier_version_had_half_applied_is_taken_back() {
    each("half-applied", |written| {
        written.is_whole();
        assert_eq!(written.log(KILLED), [("command".to_owned(), "interrupted".to_owned())]);
        written.undo_all();
    });
}

#[test]
fn what_an_earlier_version_had_half_taken_back_is_taken_back() {
    each("half-undone", |written| {
        written.is_whole();
        written.go_back();
    });
}

#[test]
fn a_command_that_an_earlier_version_was_killed_in_is_undone() {
    each("scanned", |written| {
        written.is_whole();
        assert_eq!(written.log(KILLED), [("command".to_owned(), "interrupted".to_owned())]);
        written.go_back();
    });
}

#[test]
fn a_command_that_an_earlier_version_had_half_undone_is_undone() {
    each("half-restored", |written| {
        written.is_whole();
        written.go_back();
    });
}

/// The earlier version left no mark that tells whether the handler had started.
#[test]
fn a_claim_of_an_earlier_version_that_was_killed_is_in_doubt() {
    each("claimed", |written| {
        written.is_whole();
        assert!(
            written.ledger().contains(&("charge".to_owned(), "in_doubt".to_owned())),
            "{:?}",
            written.ledger()
        );
        assert_eq!(written.log(KILLED), [("charge".to_owned(), "interrupted".to_owned())]);
        written.go_back();
    });
    each("paying", |written| {
        fs::create_dir(written.place.outside("outside")).unwrap();
        written.is_whole();
        written.refused("pay", r#"{"order": 3}"#);
        assert!(!written.place.outside("outside/paying").exists(), "it was paid again");
        assert!(
            written.ledger().contains(&("pay".to_owned(), "in_doubt".to_owned())),
            "{:?}",
            written.ledger()
        );
        written.undo_all();
    });
}
