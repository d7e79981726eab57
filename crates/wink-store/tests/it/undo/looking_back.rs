//! Looking back without undoing anything: the log by number, and what each call changed.

use std::os::unix::fs::PermissionsExt;

use wink::filesystem::host::{ChangeKind, PastContent, PastEntry};
use wink::session::{CallChanges, InvocationId, LogEvent};

use crate::undo::world::{Op, World, has_shell, note, write};

/// A path that was changed: what happened, where it was, and what was in it before and after.
type Told = (ChangeKind, String, Option<String>, Option<String>, Option<String>);

fn content(world: &World, entry: Option<&PastEntry>) -> Option<String> {
    Some(match world.workspace.files().past_content(entry?, 100).unwrap() {
        PastContent::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
        PastContent::TooLarge => "(too large)".to_owned(),
        PastContent::Lost => "(lost)".to_owned(),
    })
}

async fn changes(world: &World, call: InvocationId) -> CallChanges {
    world.workspace.logbook("s").await.unwrap().changes(call).await.unwrap()
}

async fn told(world: &World, call: InvocationId) -> Vec<Told> {
    let journals = changes(world, call).await.journals;
    let past = world.workspace.files().past_changes(&journals).unwrap();
    assert_eq!(past.forgotten, []);
    let tell = |change: &wink::filesystem::host::PastChange| {
        let from = change.moved_from.as_ref().map(ToString::to_string);
        let (before, after) = (content(world, change.before.as_ref()), content(world, change.after.as_ref()));
        (change.kind(), change.path.to_string(), from, before, after)
    };
    past.changes.iter().map(tell).collect()
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[tokio::test]
async fn calls_and_undos_are_numbered_as_they_ended() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path()).await;
    let first = world.work(&[note("one"), write("a", "1"), Op::Say("a fact".into())]).await;
    let failed = world.try_work(&[write("b", "1"), Op::Fail]).await.event.id;
    let undo = world.undo(first).await.unwrap().id;
    let last = world.work(&[Op::Total(3)]).await;

    let log = world.workspace.logbook("s").await.unwrap().entries().await.unwrap();
    let told: Vec<(u64, InvocationId)> = log.iter().map(|entry| (entry.seq, entry.event.id())).collect();
    assert_eq!(told, [(1, first), (2, failed), (3, undo), (4, last)]);
    assert!(matches!(&log[2].event, LogEvent::Undone(undone) if undone.calls == [first]));

    let of_first = changes(&world, first).await;
    assert_eq!(
        (of_first.journals.len(), of_first.slices, of_first.forgotten),
        (1, vec!["note".to_owned()], false)
    );
    assert_eq!(changes(&world, failed).await, CallChanges::default(), "what failed changed nothing");
    let of_undo = changes(&world, undo).await;
    assert_eq!((of_undo.journals.len(), of_undo.slices), (1, vec!["note".to_owned()]));
    let nothing = world.workspace.logbook("nobody").await.unwrap().entries().await.unwrap();
    assert_eq!(nothing, []);
}

#[tokio::test]
async fn every_kind_of_change_is_told_with_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path()).await;
    for (path, text) in [("a", "old"), ("d/b", "kept"), ("d/c", "old c"), ("gone/x/y", "deep"), ("large", "")]
    {
        world.put(path, text);
    }
    world.put("large", &"x".repeat(101));
    let call = world
        .work(&[
            write("a", "new"),
            write("made/it", "made"),
            write("large", "small"),
            Op::Delete("gone".into()),
            Op::Rename("d".into(), "e".into()),
            write("e/c", "new c"),
        ])
        .await;
    let expected = [
        (ChangeKind::Modified, "a", None, some("old"), some("new")),
        (ChangeKind::Moved, "e", some("d"), some(""), some("")),
        (ChangeKind::Moved, "e/c", some("d/c"), some("old c"), some("new c")),
        (ChangeKind::Deleted, "gone", None, some(""), None),
        (ChangeKind::Deleted, "gone/x", None, some(""), None),
        (ChangeKind::Deleted, "gone/x/y", None, some("deep"), None),
        (ChangeKind::Modified, "large", None, some("(too large)"), some("small")),
        (ChangeKind::Created, "made", None, None, some("")),
        (ChangeKind::Created, "made/it", None, None, some("made")),
    ];
    let expected: Vec<Told> =
        expected.into_iter().map(|(kind, path, from, a, b)| (kind, path.to_owned(), from, a, b)).collect();
    assert_eq!(told(&world, call).await, expected);
}

#[tokio::test]
async fn what_was_in_a_directory_that_another_replaced_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path()).await;
    for (path, text) in [("d/both", "old"), ("d/in/gone", "gone"), ("d/kind/x", "x")] {
        world.put(path, text);
    }
    let call = world
        .work(&[
            Op::Delete("d".into()),
            write("d/both", "new"),
            write("d/kind", "a file"),
            write("d/made", "made"),
        ])
        .await;
    let expected = [
        (ChangeKind::Modified, "d", some(""), some("")),
        (ChangeKind::Modified, "d/both", some("old"), some("new")),
        (ChangeKind::Deleted, "d/in", some(""), None),
        (ChangeKind::Deleted, "d/in/gone", some("gone"), None),
        (ChangeKind::Modified, "d/kind", some(""), some("a file")),
        (ChangeKind::Deleted, "d/kind/x", some("x"), None),
        (ChangeKind::Created, "d/made", None, some("made")),
    ];
    let expected = expected.into_iter().map(|(kind, path, a, b)| (kind, path.to_owned(), None, a, b));
    assert_eq!(told(&world, call).await, expected.collect::<Vec<Told>>());
}

#[tokio::test]
async fn what_a_call_left_is_found_where_later_calls_put_it() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path()).await;
    let calls = [
        world.work(&[write("d/a", "one"), write("d/b", "one")]).await,
        world.work(&[write("d/a", "two")]).await,
        world.work(&[Op::Rename("d".into(), "e".into())]).await,
        world.work(&[write("e/b", "three")]).await,
        world.work(&[Op::Delete("e".into())]).await,
    ];
    let created = |path: &str, text: &str| (ChangeKind::Created, path.to_owned(), None, None, some(text));
    let first = [created("d", ""), created("d/a", "one"), created("d/b", "one")];
    let modified =
        |path: &str, a: &str, b: &str| (ChangeKind::Modified, path.to_owned(), None, some(a), some(b));
    assert_eq!(told(&world, calls[0]).await[1..], first[1..]);
    assert_eq!(told(&world, calls[1]).await, [modified("d/a", "one", "two")]);
    assert_eq!(told(&world, calls[3]).await, [modified("e/b", "one", "three")]);

    // What an undo changed is told like what a call did.
    let undo = world.undo(calls[4]).await.unwrap().id;
    let back = told(&world, undo).await;
    assert_eq!(back[1..], [created("e/a", "two"), created("e/b", "three")]);
}

#[tokio::test]
async fn what_somebody_else_replaced_is_said_to_be_lost() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path()).await;
    let call = world.work(&[write("a", "by the call"), write("b", "by the call")]).await;
    world.put("a", "by somebody else");
    let expected = [
        (ChangeKind::Created, "a".to_owned(), None, None, some("(lost)")),
        (ChangeKind::Created, "b".to_owned(), None, None, some("by the call")),
    ];
    assert_eq!(told(&world, call).await, expected);
}

#[tokio::test]
async fn modes_and_links_of_a_command_are_told() {
    if !has_shell() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path()).await;
    std::fs::create_dir(dir.path().join("d")).unwrap();
    std::fs::set_permissions(dir.path().join("d"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let call = world.work(&[Op::Shell("chmod 700 d; ln -s somewhere link".into())]).await;
    let expected = [
        (ChangeKind::Mode, "d".to_owned(), None, some(""), some("")),
        (ChangeKind::Created, "link".to_owned(), None, None, some("somewhere")),
    ];
    assert_eq!(told(&world, call).await, expected);
}
