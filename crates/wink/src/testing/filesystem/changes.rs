//! Forks, merges and snapshots.

use serde_json::{Value, json};

use super::*;

pub(super) async fn check(make: Make<'_>) {
    forks_are_private(make).await;
    merges_take_over(make).await;
    merges_onto_a_moved_base(make).await;
    conflicts_apply_nothing(make).await;
    directories_in_conflict(make).await;
    merges_can_be_taken_back(make).await;
    forks_nest(make).await;
    foreign_forks_are_refused(make).await;
    snapshots_restore_everything(make).await;
    forks_restore_too(make).await;
    snapshots_serialise(make).await;
    bad_snapshots_are_told_apart(make).await;
}

const SEED: &[(&str, &str)] = &[("a", "1"), ("d/b", "2"), ("d/c", "3"), ("e/f/g", "4")];

async fn forks_are_private(make: Make<'_>) {
    let fs = seeded(make, SEED);
    fs.mkdir_all("empty").await.unwrap();
    let before = filesystem_tree(&*fs).await;
    let fork = fs.fork().unwrap();
    assert_eq!(filesystem_tree(&*fork).await, before);
    assert_eq!(fork.stat_at("a").await.unwrap(), fs.stat_at("a").await.unwrap());
    fork.write_text("a", "x").await.unwrap();
    fork.write_text("n/e/w", "x").await.unwrap();
    fork.delete_all("d").await.unwrap();
    fork.delete_all("empty").await.unwrap();
    fork.rename_to("e/f", "f").await.unwrap();
    assert_eq!(filesystem_tree(&*fs).await, before, "nothing reaches the base");
    assert_eq!(
        changes(&*fork),
        ["a", "d", "d/b", "d/c", "e/f", "e/f/g", "empty", "f", "f/g", "n", "n/e", "n/e/w"]
    );
    assert_eq!(changes(&*fs), [""; 0]);
}

async fn merges_take_over(make: Make<'_>) {
    let fs = seeded(make, SEED);
    let fork = fs.fork().unwrap();
    fork.write_text("a", "x").await.unwrap();
    fork.delete_all("d").await.unwrap();
    fork.mkdir_all("empty/dir").await.unwrap();
    fork.rename_to("e", "moved").await.unwrap();
    let version = fork.write_text("new", "x").await.unwrap().version;
    let mut receipt = fs.merge(&*fork).unwrap();
    // On a disk a file gets another version when it comes to its place, and the receipt says which.
    let versions = receipt.take_ground().map(|ground| ground.versions).unwrap_or_default();
    fs.keep(receipt);
    assert_eq!(filesystem_tree(&*fs).await, filesystem_tree(&*fork).await);
    let became = versions.iter().find(|(before, _)| *before == version).map_or(version, |(_, after)| *after);
    assert_eq!(fs.stat_at("new").await.unwrap().version, became, "versions come along");
    let merged = filesystem_tree(&*fs).await;
    fork.write_text("a", "after").await.unwrap();
    assert_eq!(filesystem_tree(&*fs).await, merged, "what the fork does later stays there");
}

async fn merges_onto_a_moved_base(make: Make<'_>) {
    let fs = seeded(make, SEED);
    let (one, two) = (fs.fork().unwrap(), fs.fork().unwrap());
    one.write_text("d/b", "one").await.unwrap();
    one.write_text("out/one", "1").await.unwrap();
    one.delete_all("a").await.unwrap();
    two.write_text("d/c", "two").await.unwrap();
    two.write_text("out/two", "2").await.unwrap();
    two.rename_to("e/f", "f").await.unwrap();
    two.write_text("gone", "x").await.unwrap();
    two.delete_all("gone").await.unwrap();
    fs.keep(fs.merge(&*one).unwrap());
    fs.write_text("outside", "x").await.unwrap();
    fs.write_text("gone", "kept").await.unwrap();
    fs.keep(fs.merge(&*two).expect("disjoint changes and common new directories are no conflict"));
    let expected = seeded(
        make,
        &[
            ("d/b", "one"),
            ("d/c", "two"),
            ("f/g", "4"),
            ("gone", "kept"),
            ("out/one", "1"),
            ("out/two", "2"),
            ("outside", "x"),
        ],
    );
    expected.mkdir_all("e").await.unwrap();
    assert_eq!(filesystem_tree(&*fs).await, filesystem_tree(&*expected).await);
}

async fn conflicts_apply_nothing(make: Make<'_>) {
    type Step = (&'static str, &'static str);
    let cases: [(&[Step], &[Step], &[&str]); 8] = [
        (&[("write", "a")], &[("write", "a")], &["a"]),
        (&[("write", "a")], &[("delete", "a")], &["a"]),
        (&[("delete", "a")], &[("write", "a")], &["a"]),
        (&[("delete", "a")], &[("delete", "a")], &["a"]),
        (&[("write", "new")], &[("write", "new")], &["new"]),
        (&[("write", "new")], &[("mkdir", "new")], &["new"]),
        (&[("mkdir", "new")], &[("write", "new"), ("write", "x")], &["new"]),
        (
            &[("write", "a"), ("write", "d/b"), ("write", "x")],
            &[("write", "d/b"), ("write", "a")],
            &["a", "d/b"],
        ),
    ];
    for (in_base, in_fork, conflicts) in cases {
        let fs = seeded(make, SEED);
        let fork = fs.fork().unwrap();
        for (side, steps) in [(&fork, in_fork), (&fs, in_base)] {
            for (step, path) in steps {
                match *step {
                    "write" => _ = side.write_text(path, "x").await.unwrap(),
                    "mkdir" => side.mkdir_all(path).await.unwrap(),
                    _ => side.delete_all(path).await.unwrap(),
                }
            }
        }
        conflict(&fs, &*fork, conflicts).await;
    }
}

async fn directories_in_conflict(make: Make<'_>) {
    // Something new in a directory that the fork removed.
    let fs = seeded(make, SEED);
    let fork = fs.fork().unwrap();
    fork.delete_all("d").await.unwrap();
    fs.write_text("d/new", "x").await.unwrap();
    conflict(&fs, &*fork, &["d"]).await;
    // Something new in a directory that is gone.
    let fs = seeded(make, SEED);
    let fork = fs.fork().unwrap();
    fork.write_text("d/new", "x").await.unwrap();
    fs.delete_all("d").await.unwrap();
    conflict(&fs, &*fork, &["d/new"]).await;
    // A change inside a directory that the fork moved away is a conflict, or it moves along; it is never lost.
    let fs = seeded(make, SEED);
    let fork = fs.fork().unwrap();
    fork.rename_to("d", "moved").await.unwrap();
    fs.write_text("d/b", "x").await.unwrap();
    match fs.merge(&*fork) {
        Ok(receipt) => {
            fs.keep(receipt);
            assert_eq!(fs.names("").await.unwrap(), ["a", "e/", "moved/"]);
            assert_eq!(fs.read_text("moved/b").await.unwrap(), "x");
        }
        Err(_) => conflict(&fs, &*fork, &["d/b"]).await,
    }
}

async fn conflict(fs: &Arc<dyn Filesystem>, fork: &dyn Filesystem, paths: &[&str]) {
    let before = filesystem_tree(&**fs).await;
    let paths = paths.iter().map(|path| at(fork, path)).collect();
    assert_eq!(
        fs.merge(fork).expect_err("this is a conflict"),
        crate::filesystem::FsError::Conflict { paths }
    );
    assert_eq!(filesystem_tree(&**fs).await, before, "a conflict applies nothing");
}

async fn merges_can_be_taken_back(make: Make<'_>) {
    let fs = seeded(make, SEED);
    let before = filesystem_tree(&*fs).await;
    let stat = fs.stat_at("a").await.unwrap();
    let fork = fs.fork().unwrap();
    fork.write_text("a", "x").await.unwrap();
    fork.delete_all("d").await.unwrap();
    fork.mkdir_all("n/e/w").await.unwrap();
    let receipt = fs.merge(&*fork).unwrap();
    fs.unmerge(receipt).unwrap();
    assert_eq!(filesystem_tree(&*fs).await, before);
    let found = fs.stat_at("a").await.unwrap();
    assert_eq!((found.mode, found.modified), (stat.mode, stat.modified), "mode and time as well");
    fs.keep(fs.merge(&*fork).expect("the fork can be merged again"));
    assert_eq!(fs.read_text("a").await.unwrap(), "x");
    assert_eq!(fs.names("").await.unwrap(), ["a", "e/", "n/"]);
    let other = seeded(make, SEED);
    let receipt = other.merge(&*other.fork().unwrap()).unwrap();
    refused(fs.unmerge(receipt), FsErrorKind::Foreign);
}

async fn forks_nest(make: Make<'_>) {
    let fs = seeded(make, SEED);
    let outer = fs.fork().unwrap();
    outer.write_text("a", "outer").await.unwrap();
    let dropped = outer.fork().unwrap();
    dropped.write_text("a", "dropped").await.unwrap();
    let inner = outer.fork().unwrap();
    inner.write_text("d/b", "inner").await.unwrap();
    assert_eq!(changes(&*inner), ["d/b"]);
    outer.keep(outer.merge(&*inner).unwrap());
    assert_eq!(changes(&*outer), ["a", "d/b"], "a fork owns what was merged into it");
    fs.write_text("e/f/g", "base").await.unwrap();
    fs.keep(fs.merge(&*outer).unwrap());
    let expected = seeded(make, &[("a", "outer"), ("d/b", "inner"), ("d/c", "3"), ("e/f/g", "base")]);
    assert_eq!(filesystem_tree(&*fs).await, filesystem_tree(&*expected).await);
}

async fn foreign_forks_are_refused(make: Make<'_>) {
    let (fs, other) = (seeded(make, SEED), seeded(make, SEED));
    let fork = other.fork().unwrap();
    fork.write_text("a", "x").await.unwrap();
    refused(fs.merge(&*fork), FsErrorKind::Foreign);
    refused(fs.merge(&*fs), FsErrorKind::Foreign);
    let nested = fs.fork().unwrap().fork().unwrap();
    refused(fs.merge(&*nested), FsErrorKind::Foreign);
    assert_eq!(fs.read_text("a").await.unwrap(), "1");
}

async fn snapshots_restore_everything(make: Make<'_>) {
    let fs = seeded(make, SEED);
    fs.mkdir_all("empty").await.unwrap();
    let mut states = Vec::new();
    for step in 0..4 {
        let stat = fs.stat_at("a").await.unwrap();
        states.push((fs.snapshot().unwrap(), filesystem_tree(&*fs).await, stat));
        match step {
            0 => _ = fs.write_text("a", "changed\r\n").await.unwrap(),
            1 => fs.delete_all("d").await.unwrap(),
            2 => fs.delete_all("empty").await.unwrap(),
            _ => _ = fs.write_text("n/e/w", "x").await.unwrap(),
        }
    }
    for turn in [3, 0, 2, 1, 0, 3] {
        let (mark, tree, stat) = &states[turn];
        fs.restore(mark).unwrap();
        assert_eq!(filesystem_tree(&*fs).await, *tree, "state {turn}");
        let found = fs.stat_at("a").await.unwrap();
        assert_eq!((found.mode, found.len, found.kind), (stat.mode, stat.len, stat.kind));
        fs.write_text("a", "scribble").await.unwrap();
    }
}

async fn forks_restore_too(make: Make<'_>) {
    let fs = seeded(make, SEED);
    let start = fs.snapshot().unwrap();
    fs.write_text("a", "moved on").await.unwrap();
    let fork = fs.fork().unwrap();
    let mark = fork.snapshot().unwrap();
    fork.write_text("d/b", "x").await.unwrap();
    fork.restore(&mark).unwrap();
    assert_eq!(changes(&*fork), [""; 0], "back where it started");
    fork.restore(&start).unwrap();
    assert_eq!(changes(&*fork), ["a"]);
    fs.write_text("later", "x").await.unwrap();
    fs.keep(fs.merge(&*fork).unwrap());
    assert_eq!(fs.read_text("a").await.unwrap(), "1");
    assert_eq!(fs.read_text("later").await.unwrap(), "x");
}

async fn snapshots_serialise(make: Make<'_>) {
    let fs = seeded(make, SEED);
    fs.mkdir_all("empty/dir").await.unwrap();
    write_bytes(&*fs, "binary", b"\xff\x00\r\n").await;
    fs.write_text("日本", "本\r\n").await.unwrap();
    let tree = filesystem_tree(&*fs).await;
    let stat = fs.stat_at("d/b").await.unwrap();
    let text = fs.snapshot().unwrap().to_json().to_string();
    let json: Value = serde_json::from_str(&text).unwrap();
    for target in [&fs, &empty(make)] {
        target.write_text("d/b", "scribble").await.unwrap();
        let mark = target.decode_snapshot(&json).unwrap();
        assert_eq!(mark.to_json(), json);
        target.restore(&mark).unwrap();
        assert_eq!(filesystem_tree(&**target).await, tree);
        let found = target.stat_at("d/b").await.unwrap();
        assert_eq!((found.mode, found.modified), (stat.mode, stat.modified));
    }
}

async fn bad_snapshots_are_told_apart(make: Make<'_>) {
    let fs = seeded(make, SEED);
    let before = filesystem_tree(&*fs).await;
    for json in [Value::Null, json!([]), json!({}), json!("x")] {
        refused(fs.decode_snapshot(&json), FsErrorKind::SnapshotMalformed);
    }
    let mut json = fs.snapshot().unwrap().to_json();
    json["format"] = json!(999);
    refused(fs.decode_snapshot(&json), FsErrorKind::SnapshotVersion);
    assert_eq!(filesystem_tree(&*fs).await, before, "decoding changes nothing");
}

fn changes(fs: &dyn Filesystem) -> Vec<String> {
    fs.changes().iter().map(FsPath::to_string).collect()
}
