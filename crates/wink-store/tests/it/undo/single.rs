//! One call, several, and undos themselves.

use std::fs;
use std::sync::{Arc, Mutex};

use serde_json::json;
use wink::filesystem::{LeftAlone, UndoForce};
use wink::session::{Ending, InvocationId, ToolInvoked};
use wink::transaction::{KeptEffect, UndoError, UndoReach, Undone};

use crate::undo::world::{Op, Slices, World, has_shell, note, write};

#[tokio::test]
async fn what_a_call_changed_is_as_before() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path()).await;
    world.put("a", "old");
    world.put("d/b", "kept");
    world.put("gone/x/y", "deep");
    fs::set_permissions(dir.path().join("a"), std::os::unix::fs::PermissionsExt::from_mode(0o750)).unwrap();
    let first = world.work(&[note("one"), Op::Total(1), Op::Step(1)]).await;
    let (tree, slices) = (world.tree(), world.slices());
    let modified = fs::metadata(dir.path().join("a")).unwrap().modified().unwrap();
    let call = world
        .work(&[
            write("a", "new"),
            write("made/by/it", "x"),
            Op::Delete("gone".into()),
            Op::Rename("d".into(), "e".into()),
            write("e/b", "changed after the move"),
            note("two"),
            Op::Total(2),
            Op::Step(1),
            Op::Step(2),
            Op::Say("a fact".into()),
        ])
        .await;
    assert_eq!(world.text("e/b").as_deref(), Some("changed after the move"));
    assert_eq!(world.slices().calls, Some(2));
    assert_eq!(world.remembered().await, Some(json!(2)));

    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);
    let _listening = world.session.dispatcher().subscribe::<Undone>(move |undone, source| {
        hears.lock().unwrap().push((undone.id, source.invocation));
        Ok(())
    });
    let undone = world.undo(call).await.unwrap();
    assert_eq!(world.tree(), tree);
    assert_eq!(world.slices(), slices);
    assert_eq!(fs::metadata(dir.path().join("a")).unwrap().modified().unwrap(), modified);
    assert_eq!(world.remembered().await, Some(json!(1)));
    let named = |paths: &[wink::filesystem::FsPath]| -> Vec<String> {
        paths.iter().map(|path| path.to_string()).collect()
    };
    assert_eq!(named(&undone.files), ["a", "d", "d/b", "e", "e/b", "gone", "made", "made/by", "made/by/it"]);
    let expected = Undone {
        id: undone.id,
        call,
        reach: UndoReach::Call,
        force: UndoForce::Refuse,
        calls: vec![call],
        files: undone.files.clone(),
        slices: vec!["note".into(), "step".into(), "total".into()],
        overwritten_files: vec![],
        overwritten_slices: vec![],
        left: vec![],
        effects: vec![],
        time: undone.time,
    };
    assert_eq!(undone, expected);
    assert_eq!(world.undos(), std::slice::from_ref(&undone), "it is in the log");
    assert_eq!(*heard.lock().unwrap(), [(undone.id, Some(undone.id))], "and was heard of");
    let said: Vec<String> =
        world.session.slice::<crate::undo::world::Said>().iter().map(|said| said.0.clone()).collect();
    assert_eq!(said, ["a fact"], "LOG stays");
    let calls: Vec<InvocationId> = world
        .session
        .slice::<ToolInvoked>()
        .iter()
        .filter(|event| event.success)
        .map(|event| event.id)
        .collect();
    assert_eq!(calls, [first, call], "and so do the events of calls");

    drop(world);
    let world = World::open(dir.path()).await;
    assert_eq!((world.tree(), world.slices()), (tree, slices), "after a restart too");
    assert_eq!(world.undos(), [undone]);
}

#[tokio::test]
async fn one_after_the_other_goes_all_the_way_back_and_forth() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path()).await;
    let mut states = vec![(world.tree(), world.slices())];
    let mut calls = Vec::new();
    let all = [
        vec![write("a", "1"), write("d/x", "1"), note("one"), Op::Total(1)],
        vec![write("a", "2"), Op::Rename("d".into(), "e".into()), Op::Total(2), Op::Step(7)],
        vec![Op::Delete("e".into()), write("a", "3"), note("three"), Op::Step(7)],
    ];
    for ops in &all {
        calls.push(world.work(ops).await);
        states.push((world.tree(), world.slices()));
    }
    let mut undos = Vec::new();
    for (call, state) in calls.iter().zip(&states).rev() {
        undos.push(world.undo(*call).await.unwrap().id);
        assert_eq!((&world.tree(), &world.slices()), (&state.0, &state.1));
    }
    // An undo is undone like a call.
    for (undo, state) in undos.iter().rev().zip(&states[1..]) {
        world.undo(*undo).await.unwrap();
        assert_eq!((&world.tree(), &world.slices()), (&state.0, &state.1));
    }
    assert_eq!(world.undos().len(), 6);
}

#[tokio::test]
async fn everything_goes_back_to_before_a_call() {
    if !has_shell() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path()).await;
    world.put("src/lib", "lib");
    world.put("src/old/deep", "deep");
    world.put("run.sh", "echo");
    world.put("unrelated", "u");
    world.work(&[note("before"), Op::Step(1)]).await;
    let (tree, slices, remembered) = (world.tree(), world.slices(), world.remembered().await);
    let shell = |script: &str| Op::Shell(script.to_owned());
    let call = world
        .work(&[shell("mv src lib; chmod 755 run.sh; ln -s run.sh link; echo more >> lib/lib"), note("a")])
        .await;
    let second = world
        .work(&[shell("rm -r lib/old; mkdir -m 700 lib/old; echo n > lib/old/n; rm run.sh; mkdir run.sh")])
        .await;
    let failed = world.try_work(&[write("a", "never"), Op::Fail]).await;
    assert_eq!(failed.event.ending, Ending::Failed);
    let third =
        world.work(&[shell("rm link; ln -s lib link; chmod 711 lib"), Op::Step(1), Op::Total(3)]).await;
    assert!(world.session.dispatch(crate::undo::world::Note("from outside".into())).is_ok());
    world.put("unrelated", "changed by hand");
    world.put("by-hand", "too");

    let undone = world.undo_to(call).await.unwrap();
    assert_eq!(undone.calls, [call, second, third]);
    assert_eq!(undone.slices, ["note", "step", "total"]);
    let mut expected = tree.clone();
    expected.insert("unrelated".into(), (tree["unrelated"].0, b"changed by hand".to_vec()));
    expected.insert("by-hand".into(), (tree["unrelated"].0, b"too".to_vec()));
    assert_eq!(world.tree(), expected, "what nobody's journal has is left alone");
    assert_eq!((world.slices(), world.remembered().await), (slices, remembered));

    world.undo(undone.id).await.unwrap();
    assert_eq!(world.text("lib/lib").as_deref(), Some("lib\nmore\n").map(|_| "libmore\n"));
    assert_eq!(fs::read_link(dir.path().join("link")).unwrap().to_str(), Some("lib"));
    assert_eq!(world.slices().notes, ["before", "a", "from outside"]);
    // To before a call that failed is to where it began.
    world.undo_to(failed.event.id).await.unwrap();
    assert_eq!(fs::read_link(dir.path().join("link")).unwrap().to_str(), Some("run.sh"));
    assert_eq!(world.slices().notes, ["before", "a"]);
}

#[tokio::test]
async fn what_happened_outside_is_not_undone_and_said_to_stay() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("w");
    fs::create_dir(&root).unwrap();
    let world = World::open(&root).await;
    let paid = world.pay(7).await;
    assert!(paid.is_success(), "{}", paid.text());
    let undone = world.undo(paid.event.id).await.unwrap();
    assert_eq!(world.text("receipt"), None);
    let rows = world.session.store().rows(wink::store::Rows::All).await.unwrap();
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    let wink::store::LedgerState::Recorded { effect, .. } = &row.state else { panic!("{row:?}") };
    let effect_id = effect["effect_id"].as_str().unwrap().to_owned();
    let kept = KeptEffect { tool: "pay".into(), key: row.key.clone(), effect_id };
    assert_eq!(undone.effects, [kept]);
    assert!(undone.to_string().contains("not undone: what pay did outside"), "{undone}");
    let again = world.pay(7).await;
    assert!(again.is_success() && again.event.replayed, "{}", again.text());
    assert_eq!(world.payments(), "7\n");
    let nothing = world.undo(again.event.id).await.unwrap();
    assert_eq!(
        (nothing.effects, nothing.files),
        (vec![], vec![]),
        "what was replayed had no effect of its own"
    );
}

#[tokio::test]
async fn what_cannot_be_undone_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path()).await;
    let nobody = InvocationId::fresh(world.session.clock().now());
    for reach in [UndoReach::Call, UndoReach::ToBefore] {
        let refused = world.undo_with(nobody, reach, UndoForce::Anyway).await;
        assert!(matches!(refused, Err(UndoError::Unknown { call }) if call == nobody), "{refused:?}");
    }
    let failed = world.try_work(&[Op::Say("x".into()), Op::Fail]).await.event.id;
    let refused = world.undo(failed).await;
    assert!(
        matches!(refused, Err(UndoError::NotSucceeded { call, ending: Ending::Failed }) if call == failed),
        "{refused:?}"
    );
    let other = World::open_with(dir.path(), "other", Default::default(), |store| store).await;
    let theirs = other.work(&[note("theirs")]).await;
    assert!(matches!(world.undo(theirs).await, Err(UndoError::Unknown { .. })));
    assert_eq!(world.undos(), []);

    // A session that lives in memory, and a program that has not named a slice.
    let plain = wink::session::Session::new();
    let resources = world.executor.resources();
    let request =
        wink::transaction::UndoRequest { call: nobody, reach: UndoReach::Call, force: UndoForce::Refuse };
    let refused = wink::transaction::undo(&plain, resources, request).await;
    assert!(matches!(refused, Err(UndoError::NoHistory)), "{refused:?}");
    let call = world.work(&[note("one"), Op::Total(1)]).await;
    drop((world, other));
    let workspace = wink_store::Workspace::open(dir.path()).unwrap();
    let session = workspace.session("s").open().await.unwrap();
    session.know::<crate::undo::world::Note>().unwrap();
    let resources = workspace.resources().open().await.unwrap();
    let request = wink::transaction::UndoRequest { call, ..request };
    let refused = wink::transaction::undo(&session, &resources, request).await;
    let Err(UndoError::Slices { slices }) = refused else { panic!("{refused:?}") };
    assert_eq!(slices.into_keys().collect::<Vec<_>>(), ["total"]);
    assert_eq!(session.slice::<crate::undo::world::Note>().len(), 1, "nothing was undone");
}

#[tokio::test]
async fn a_workspace_that_remembers_nothing_is_said_to() {
    let dir = tempfile::tempdir().unwrap();
    let store = wink_store::SqliteStore::open(dir.path(), Default::default()).unwrap();
    let session = wink::session::Session::builder().store(Arc::new(store)).id("s").open().await.unwrap();
    session.know::<crate::undo::world::Note>().unwrap();
    let files = Arc::new(wink::filesystem::MemoryFilesystem::new());
    let binding = wink::resource::Binding::filesystem(files);
    let resources = wink::resource::ResourceRegistry::of([binding]).unwrap().open().await.unwrap();
    let call = InvocationId::fresh(session.clock().now());
    let event = json!({ "version": 1, "kind": "state", "change": { "append": "one" } });
    let record =
        wink::store::Record { call: Some(call), ..wink::store::Record::new("note", event.to_string()) };
    let batch = |records| wink::store::Batch { records, ..Default::default() };
    session.store().commit(session.id(), batch(vec![record])).await.unwrap();
    let request =
        wink::transaction::UndoRequest { call, reach: UndoReach::ToBefore, force: UndoForce::Refuse };
    let undone = wink::transaction::undo(&session, &resources, request).await.unwrap();
    let why = "this workspace does not remember what calls changed in it".to_owned();
    assert_eq!(undone.left, [LeftAlone { what: "files".into(), why }]);
    assert_eq!(
        (undone.slices, session.slice::<crate::undo::world::Note>().len()),
        (vec!["note".to_owned()], 0)
    );
    // Were it to have journals, they could not be undone here.
    let journals = vec![wink::store::JournalId::fresh()];
    let batch = wink::store::Batch { journals, ..batch(vec![]) };
    session.store().commit(session.id(), batch).await.unwrap();
    let refused = wink::transaction::undo(&session, &resources, request).await;
    assert!(
        matches!(refused, Err(UndoError::Files(wink::filesystem::FsError::Unsupported { .. }))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn from_inside_a_call_it_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path()).await;
    let call = world.work(&[note("one")]).await;
    let request = wink::transaction::UndoRequest { call, reach: UndoReach::Call, force: UndoForce::Refuse };
    let resources = world.executor.resources();
    let inside: Result<(), wink::transaction::TransactionError> =
        wink::transaction::transaction(&world.session, resources, "t", async |_| {
            let refused = wink::transaction::undo(&world.session, resources, request).await;
            assert!(matches!(refused, Err(UndoError::Transaction(_))), "{refused:?}");
            Ok(())
        })
        .await;
    inside.unwrap();
    assert_eq!(
        world.slices(),
        Slices { notes: vec!["one".into()], totals: vec![], steps: vec![], calls: Some(1) }
    );
    let _: Vec<LeftAlone> = world.undo(call).await.unwrap().left;
}
