//! Names of files that look like something else: in patches, in lists, and in answers.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{Place, has_commands, one_command};

/// One that would be a change of another file if it were printed as it is.
const FORGED: &str = "a\n--- /dev/null\n+++ b/evil\n@@ -0,0 +1 @@\n+owned";

/// All files below a directory, with their contents.
fn files(root: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            match entry.is_dir() {
                true if name == b".wink" => {}
                true => waiting.push(entry),
                false => drop(found.insert(name, fs::read(entry).unwrap())),
            }
        }
    }
    found
}

/// Has a program apply a patch in a directory.
pub(crate) fn apply(program: &[&str], patch: &str, dir: &Path) {
    let mut command = Command::new(program[0]);
    let mut child = command.args(&program[1..]).current_dir(dir).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(patch.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{program:?}\n{patch}");
}

#[test]
fn a_patch_is_applied_to_the_files_that_it_is_of() {
    for program in [&["git", "apply", "-"][..], &["patch", "-p1", "--quiet"]] {
        let place = Place::new();
        let copy = tempfile::tempdir().unwrap();
        let names = [
            "plain",
            "two words",
            "two\nlines",
            "ta\tb",
            "quo\"te",
            "back\\slash",
            "größe",
            "\u{1b}[2J",
            FORGED,
        ];
        for name in names {
            place.write(name, "one\n");
            let patch = place.wink(&["diff", "last"]).ok();
            apply(program, &patch, copy.path());
            assert_eq!(files(copy.path()), files(&place.root()), "{program:?} {name:?}\n{patch}");
        }
        for name in names {
            let edit = serde_json::json!({ "path": name, "old_string": "one", "new_string": "two" });
            place.call("edit_file", &edit.to_string());
            apply(program, &place.wink(&["diff", "last"]).ok(), copy.path());
        }
        assert_eq!(files(copy.path()), files(&place.root()), "{program:?}");
        assert!(!copy.path().join("evil").exists());
    }
}

#[test]
fn what_commands_do_to_them_is_a_patch_too() {
    if !has_commands() {
        return;
    }
    let place = Place::with_agent(&one_command("run"));
    // A name that is not UTF-8, one that moves, one that is removed, an empty one, and a directory.
    place.put_script(
        "run",
        "printf x > \"$(printf 'caf\\351')\"\nmv 'old name' \"$(printf 'new\\nname')\"\nrm 'go\"ne'\n: > empty\nmkdir -p d/e\necho y > d/e/f\nchmod +x mode",
    );
    for name in ["old name", "go\"ne", "mode"] {
        place.put(name, "some\nlines\n");
    }
    let copy = tempfile::tempdir().unwrap();
    for (name, text) in files(&place.root()) {
        fs::write(copy.path().join(std::ffi::OsStr::from_bytes(&name)), text).unwrap();
    }
    place.call("run", "{}");
    let patch = place.wink(&["diff", "last"]).ok();
    apply(&["git", "apply", "-"], &patch, copy.path());
    assert_eq!(files(copy.path()), files(&place.root()), "{patch}");
    insta::assert_snapshot!("odd_names", patch);
}

#[test]
fn everywhere_else_a_name_is_on_one_line() {
    let place = Place::new();
    let arguments = serde_json::json!({ "path": FORGED, "content": "one\n" }).to_string();
    let quoted = r#""a\n--- /dev/null\n+++ b/evil\n@@ -0,0 +1 @@\n+owned""#;
    assert_eq!(place.call("write_file", &arguments), format!("Created {quoted} (4 bytes).\n"));
    assert_eq!(place.call("glob", r#"{"pattern": "**/*owned"}"#), format!("{quoted} (4 bytes)\n"));
    assert_eq!(place.call("grep", r#"{"pattern": "one"}"#), format!("{quoted}:1: one\n"));
    let read = serde_json::json!({ "path": FORGED }).to_string();
    assert_eq!(place.call("read_file", &read), format!("{quoted}, lines 1-1 of 1:\n1 | one\n"));
    assert!(place.wink(&["show", "1"]).ok().contains(&format!("  created  {quoted}\n")));
    fs::write(place.root().join(FORGED), "by hand, and longer\n").unwrap();
    let refused = place.wink(&["undo", "1"]);
    assert!(refused.err.contains(&format!("by something else: file {quoted}; nothing")), "{refused:?}");
    let undone = place.wink(&["undo", "1", "--force"]).ok();
    assert!(undone.contains(&format!("\n  {quoted} (overwritten)\n")), "{undone}");
    // Programs get it as it is.
    assert!(place.json(&["show", "1"])["changes"]["files"].to_string().contains("owned"));
    let gone = place.wink(&["call", "read_file", &read]);
    assert_eq!(gone.out, format!("{quoted} does not exist; list_directory and glob show what there is\n"));
}

#[test]
fn a_name_that_is_not_utf_8_is_as_git_has_it_wherever_people_see_it() {
    if !has_commands() {
        return;
    }
    let place = Place::with_agent(&one_command("run"));
    place.put_script(
        "run",
        "echo x > \"$(printf 'bad\\377\\376')\"; echo y > 'bad\\xFF'; mkdir \"$(printf 'd\\351')\"",
    );
    place.call("run", "{}");
    let shown = place.wink(&["show", "1"]).ok();
    for name in [r#""bad\377\376""#, r#""bad\\xFF""#, r#""d\351/""#] {
        assert!(shown.contains(&format!("  created  {name}\n")), "{name}: {shown}");
    }
    fs::write(place.root().join("bad\\xFF"), "by hand, and longer\n").unwrap();
    let refused = place.wink(&["undo", "1"]);
    assert!(refused.err.contains(r#"by something else: file "bad\\xFF"; nothing"#), "{refused:?}");
    let undone = place.wink(&["undo", "1", "--force"]).ok();
    for name in [r#""bad\377\376""#, r#""bad\\xFF" (overwritten)"#, r#""d\351""#] {
        assert!(undone.contains(&format!("\n  {name}\n")), "{name}: {undone}");
    }
    let diff = place.wink(&["diff", "1"]);
    assert!(diff.out.contains(r#"new directory: "d\351""#), "{diff:?}");
    assert_eq!(diff.err, "note: no patch has what changed in \"bad\\\\xFF\"\n");
}

#[test]
fn what_turns_text_around_is_visible() {
    let place = Place::new();
    let message = "no \u{202e}gnp.exe\u{2066} \u{200f}there";
    let said = place.wink(&["call", "read_file", &serde_json::json!({ "path": message }).to_string()]);
    assert_eq!(said.code, Some(1), "{said:?}");
    // A name is quoted; anything else has a letter in its place.
    let unknown = place.wink(&["call", message]);
    assert_ne!(unknown.code, Some(0));
    for arguments in [&["log"][..], &["show", "1"], &["show", "2"]] {
        let said = place.wink(arguments);
        assert!(!said.out.contains(['\u{202e}', '\u{2066}', '\u{200f}']), "{arguments:?}: {said:?}");
    }
    assert!(place.wink(&["log"]).out.contains("no \u{fffd}gnp.exe"));
}
