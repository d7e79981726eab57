//! What something later changed: refused and named, or overwritten when that is asked for.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use wink::filesystem::host::HostOptions;
use wink::filesystem::host::journal::Retention;
use wink::filesystem::{Filesystem, FilesystemExt, LeftAlone};
use wink::session::{Compaction, InvocationId};
use wink::transaction::{Transaction, UndoError};
use wink_store::{StoreOptions, WorkspaceOptions};

use crate::undo::world::{Note, Op, Total, World, note, write};

/// Undoing is refused because of exactly these, and changes nothing.
async fn refused(world: &World, call: InvocationId, files: &[&str], slices: &[&str]) {
    let (tree, before) = (world.tree(), world.slices());
    let error = world.undo(call).await.unwrap_err();
    let UndoError::Changed { files: found, slices: in_slices } = &error else { panic!("{error:?}") };
    assert_eq!(found.iter().map(|path| path.to_string()).collect::<Vec<_>>(), files, "{error}");
    assert_eq!(*in_slices, slices, "{error}");
    for name in files.iter().chain(slices) {
        assert!(error.to_string().contains(name), "{error}");
    }
    assert_eq!((world.tree(), world.slices()), (tree, before));
    assert_eq!(world.undos(), []);
}

#[tokio::test]
async fn a_file_that_a_later_call_changed_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path()).await;
    world.put("a", "0");
    let call = world.work(&[write("a", "1"), write("b", "1")]).await;
    world.work(&[write("a", "2")]).await;
    refused(&world, call, &["a"], &[]).await;
    let undone = world.force(call).await.unwrap();
    assert_eq!((world.text("a").as_deref(), world.text("b")), (Some("0"), None));
    assert_eq!(undone.overwritten_files.iter().map(|path| path.to_string()).collect::<Vec<_>>(), ["a"]);
    // What was overwritten is what undoing that brings back.
    world.undo(undone.id).await.unwrap();
    assert_eq!((world.text("a").as_deref(), world.text("b").as_deref()), (Some("2"), Some("1")));
}

#[tokio::test]
async fn whatever_somebody_does_by_hand_is_named() {
    type Hand = fn(&World);
    let ways: [(&[&str], Hand); 8] = [
        (&["a"], |world| world.put("a", "by hand")),
        (&["a"], |world| fs::remove_file(world.root.join("a")).unwrap()),
        (&["a"], |world| {
            fs::set_permissions(world.root.join("a"), PermissionsExt::from_mode(0o600)).unwrap();
        }),
        (&["a"], |world| {
            fs::remove_file(world.root.join("a")).unwrap();
            symlink("b", world.root.join("a")).unwrap();
        }),
        (&["gone"], |world| world.put("gone", "again")),
        (&["made/theirs"], |world| world.put("made/theirs", "x")),
        (&["made", "made/x"], |world| fs::rename(world.root.join("made"), world.root.join("n")).unwrap()),
        (&["moved"], |world| {
            fs::set_permissions(world.root.join("moved"), PermissionsExt::from_mode(0o700)).unwrap();
        }),
    ];
    for (files, by_hand) in ways {
        let dir = tempfile::tempdir().unwrap();
        let world = World::open(dir.path()).await;
        world.put("a", "0");
        world.put("gone", "0");
        world.put("dir/x", "0");
        let before = world.tree();
        let call = world
            .work(&[
                write("a", "1"),
                Op::Delete("gone".into()),
                write("made/x", "1"),
                Op::Rename("dir".into(), "moved".into()),
            ])
            .await;
        by_hand(&world);
        refused(&world, call, files, &[]).await;
        world.force(call).await.unwrap();
        let mut after = world.tree();
        // What is somebody else's, and in nobody's way, is kept.
        for theirs in ["made/theirs", "made", "n", "n/x"] {
            after.remove(theirs);
        }
        if files == ["moved"] {
            assert_eq!(after["dir"].0 & 0o777, 0o700, "a directory that was moved comes back as it is");
            after.insert("dir".into(), before["dir"].clone());
        }
        assert_eq!(after, before, "{files:?}");
    }
}

#[tokio::test]
async fn what_others_put_into_a_new_directory_is_kept_even_when_forced() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path()).await;
    let call = world.work(&[write("made/sub/x", "1"), write("made/y", "1")]).await;
    world.put("made/sub/theirs", "t");
    refused(&world, call, &["made/sub/theirs"], &[]).await;
    let undone = world.force(call).await.unwrap();
    assert_eq!(world.tree().into_keys().collect::<Vec<_>>(), ["made", "made/sub", "made/sub/theirs"]);
    let left = |what: &str, why: &str| LeftAlone { what: what.into(), why: why.into() };
    assert_eq!(
        undone.left,
        [
            left("made", "what others put into it is kept"),
            left("made/sub", "others put 'made/sub/theirs' into it, which is kept"),
        ]
    );
}

#[tokio::test]
async fn what_was_moved_and_is_gone_is_left_alone_and_said_to_be() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path()).await;
    world.put("a", "0");
    world.put("d/f", "0");
    let call = world.work(&[Op::Rename("a".into(), "b".into()), write("d/f", "1")]).await;
    fs::remove_file(dir.path().join("b")).unwrap();
    fs::remove_dir_all(dir.path().join("d")).unwrap();
    refused(&world, call, &["b", "d/f"], &[]).await;
    let undone = world.force(call).await.unwrap();
    assert_eq!(world.text("d/f").as_deref(), Some("0"), "the directory is made again");
    assert_eq!(world.text("a"), None);
    let why = "it was moved to 'b', and is not there any more".to_owned();
    assert_eq!(undone.left, [LeftAlone { what: "a".into(), why }]);
}

#[tokio::test]
async fn transactions_by_hand_other_sessions_and_the_workspace_itself_count_as_later() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path()).await;
    let other = World::open_with(dir.path(), "other", Default::default(), |store| store).await;
    for path in ["a", "b", "c", "d"] {
        world.put(path, "0");
    }
    let call = world.work(&["a", "b", "c", "d"].map(|path| write(path, "1"))).await;
    let tx = Transaction::begin(&world.session, world.executor.resources(), "by hand").await;
    tx.filesystem().await.unwrap().write_text("a", "2").await.unwrap();
    tx.commit().await.unwrap();
    world.workspace.files().write_text("b", "2").await.unwrap();
    other.work(&[write("c", "2")]).await;
    refused(&world, call, &["a", "b", "c"], &[]).await;
    // All that the session did goes back; what others did is theirs.
    let error = world.undo_to(call).await.unwrap_err();
    let UndoError::Changed { files, .. } = &error else { panic!("{error:?}") };
    assert_eq!(files.iter().map(|path| path.to_string()).collect::<Vec<_>>(), ["b", "c"]);
    world.delete_by_hand("b").await;
    other.undo_to(other.session.slice::<wink::session::ToolInvoked>().latest().unwrap().id).await.unwrap();
    world.workspace.files().write_text("b", "1").await.unwrap();
    let error = world.undo_to(call).await.unwrap_err();
    let UndoError::Changed { files, .. } = &error else { panic!("{error:?}") };
    assert_eq!(
        files.iter().map(|path| path.to_string()).collect::<Vec<_>>(),
        ["b"],
        "equal, and not the same"
    );
    world
        .undo_with(call, wink::transaction::UndoReach::ToBefore, wink::transaction::UndoForce::Anyway)
        .await
        .unwrap();
    let texts = ["a", "b", "c", "d"].map(|path| world.text(path).unwrap());
    assert_eq!(texts, ["0", "0", "0", "0"]);
}

#[tokio::test]
async fn a_slice_that_was_changed_since_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path()).await;
    world.work(&[note("zero"), Op::Total(0)]).await;
    let call = world.work(&[note("one"), Op::Total(1), Op::Step(1)]).await;
    let later = world.work(&[Op::Total(2)]).await;
    refused(&world, call, &[], &["total"]).await;
    // From outside, and not in the store yet.
    assert!(world.session.dispatch(Note("outside".into())).is_ok());
    refused(&world, call, &[], &["note", "total"]).await;
    // Changed, and changed back.
    world.session.clear_where::<Note>(|note| note.0 == "outside").unwrap();
    world.session.seed([Total(1)]).unwrap();
    let undone = world.undo(call).await.unwrap();
    assert_eq!(undone.overwritten_slices, [] as [&str; 0]);
    assert_eq!((world.slices().notes, world.slices().totals), (vec!["zero".to_owned()], vec![0]));

    let call = world.work(&[note("three")]).await;
    world.work(&[note("four")]).await;
    let undone = world.force(call).await.unwrap();
    assert_eq!(undone.overwritten_slices, ["note"]);
    assert_eq!(world.slices().notes, ["zero"]);
    assert!(matches!(world.undo(later).await, Err(UndoError::Changed { .. })));
}

#[tokio::test]
async fn what_is_not_kept_any_more_cannot_be_undone() {
    let dir = tempfile::tempdir().unwrap();
    let files = HostOptions { retention: Retention::Last(2), ..HostOptions::default() };
    let clock = wink::testing::FakeClock::new("2026-01-01T00:00:00Z".parse().unwrap());
    let store = StoreOptions::default().clock(std::sync::Arc::new(clock.clone()));
    let options = WorkspaceOptions { files, store };
    let world = World::open_with(dir.path(), "s", options, |store| store).await;
    let calls = [
        world.work(&[write("a", "1"), note("1")]).await,
        world.work(&[write("b", "1"), note("2")]).await,
        world.work(&[write("c", "1"), note("3")]).await,
    ];
    let gone = |error: &UndoError, of: InvocationId| {
        assert!(matches!(error, UndoError::Forgotten { call, .. } if *call == of), "{error:?}");
    };
    // The journal was pruned.
    gone(&world.force(calls[0]).await.unwrap_err(), calls[0]);
    gone(&world.undo_to(calls[0]).await.unwrap_err(), calls[0]);
    assert_eq!(world.text("a").as_deref(), Some("1"));
    // The history was compacted, up to the middle of a call: that one is not divided.
    let known = world.workspace.store().clone();
    let query = wink::store::HistoryQuery { call: Some(calls[2]), ..Default::default() };
    let history = wink::store::Store::history(&*known, world.session.id(), query).await.unwrap();
    let middle = history.records[1].sequence;
    let _ = world.session.compact(Compaction { upto: Some(middle), ..Compaction::default() }).await.unwrap();
    gone(&world.force(calls[1]).await.unwrap_err(), calls[1]);
    let undone = world.undo(calls[2]).await.unwrap();
    assert_eq!((world.text("c"), world.slices().notes), (None, vec!["1".to_owned(), "2".to_owned()]));
    let _ = world.session.compact(Compaction::default()).await.unwrap();
    gone(&world.undo(undone.id).await.unwrap_err(), undone.id);
    // The store forgot which journals there were, but for the last.
    let call = world.work(&[write("d", "1")]).await;
    let last = world.work(&[write("e", "1")]).await;
    clock.advance(std::time::Duration::from_hours(24 * 365));
    assert!(world.workspace.prune().await.unwrap().journals > 0);
    gone(&world.undo(call).await.unwrap_err(), call);
    world.undo(last).await.unwrap();
    assert_eq!(world.text("e"), None);
    assert_eq!(world.text("d").as_deref(), Some("1"));
    assert!(world.workspace.files().exists(&"d".parse_path()).await.unwrap());
}

trait ParsePath {
    fn parse_path(&self) -> wink::filesystem::FsPath;
}
impl ParsePath for str {
    fn parse_path(&self) -> wink::filesystem::FsPath {
        wink::filesystem::FsPath::parse(self, &wink::filesystem::FsLimits::default()).unwrap()
    }
}
