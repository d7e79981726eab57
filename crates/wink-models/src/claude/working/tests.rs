use serde_json::json;

use super::*;

#[test]
fn paths_are_told_from_the_root_of_the_workspace() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("src")).unwrap();
    std::os::unix::fs::symlink("src", root.join("link")).unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all", root.join("dangling")).unwrap();
    let absolute = |name: &str| root.join(name).to_str().unwrap().to_owned();
    let outside = |text: &str| json!({ "file_path": text });
    let inside = |text: &str| json!({ "path": text });
    for (native, input, expected, is_refused) in [
        (Native::Edit, json!({ "file_path": absolute("src/a.rs") }), inside("src/a.rs"), false),
        (Native::Edit, json!({ "file_path": "src/../src/./a.rs" }), inside("src/a.rs"), false),
        (Native::Edit, json!({ "file_path": absolute("link/a.rs") }), inside("src/a.rs"), false),
        (Native::NotebookEdit, json!({ "notebook_path": "n.ipynb" }), inside("n.ipynb"), false),
        (Native::Edit, json!({ "file_path": "dangling" }), outside("dangling"), true),
        (Native::Edit, json!({ "file_path": "link/../../x" }), outside("link/../../x"), true),
        (Native::Write, json!({ "file_path": ".wink/wink.db" }), outside(".wink/wink.db"), true),
        (Native::Read, json!({ "file_path": "/etc/hosts" }), outside("/etc/hosts"), false),
        (Native::Grep, json!({ "pattern": "x" }), json!({ "pattern": "x", "path": "." }), false),
        (Native::Glob, json!({ "path": absolute("src") }), inside("src"), false),
        (
            Native::Read,
            json!({ "file_path": absolute(".wink/lock") }),
            outside(&absolute(".wink/lock")),
            true,
        ),
        (Native::Grep, json!({ "path": ".wink" }), outside(".wink"), true),
        (Native::Edit, json!({ "filePath": "a" }), json!({ "filePath": "a" }), true),
        (Native::Glob, json!({ "pattern": "src/*" }), json!({ "pattern": "src/*", "path": "." }), false),
        (Native::Glob, json!({ "pattern": "/etc/*" }), json!({ "pattern": "/etc/*", "path": "." }), true),
        (Native::Glob, json!({ "pattern": "../*" }), json!({ "pattern": "../*", "path": "." }), true),
        (Native::Bash, json!({ "command": "ls" }), json!({ "command": "ls" }), false),
        (Native::Bash, json!([1]), json!([1]), false),
    ] {
        let (arguments, refusal) = arguments(native, &input, Some(&root));
        let found: Value = serde_json::from_str(&arguments).unwrap();
        assert_eq!((found, refusal.is_some()), (expected, is_refused), "{input}");
    }
}
