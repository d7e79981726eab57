//! What the journal does when somebody else has a hand in it, and what it says.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use wink::filesystem::EntryKind;
use wink::filesystem::host::HostDisk;
use wink::filesystem::host::disk::{Disk, Meta, OwnedBy, Replace};
use wink::filesystem::host::journal::{
    Applied, Expected, ExpectedState, Journal, JournalError, JournalOptions, KeptAside, Recovered, Retention,
    SettledBy,
};
use wink::filesystem::host::plan::{Plan, PlanStep, Source};
use wink::store::{JournalId, StoreError};
use wink::testing::{FaultyDisk, ModelDisk, steps};

use wink::testing::journal::world::{STATE, journal, tree};

use crate::listening::on_own_steps;

pub(crate) fn p(text: &str) -> &Path {
    Path::new(text)
}

/// A small tree: files `a` and `d/x`, a directory `d`.
pub(crate) fn small() -> (Arc<ModelDisk>, Arc<Journal>) {
    let disk = Arc::new(ModelDisk::new());
    disk.create(p("a"), b"old a", 0o644).unwrap();
    disk.make_dir(p("d"), 0o755).unwrap();
    disk.create(p("d/x"), b"old x", 0o600).unwrap();
    let journal = Arc::new(journal(disk.clone()));
    disk.make_dir(p(".wink/stage"), 0o755).unwrap();
    disk.sync_all();
    (disk, journal)
}

pub(crate) fn staged(disk: &dyn Disk, name: &str, content: &str) -> Source {
    let path = p(".wink/stage").join(name);
    disk.create(&path, content.as_bytes(), 0o644).unwrap();
    Source::Staged(path)
}

pub(crate) fn put(path: &str, from: Source) -> PlanStep {
    PlanStep::Put { path: path.into(), from, replaces: false }
}

pub(crate) fn replace(path: &str, from: Source) -> PlanStep {
    PlanStep::Put { path: path.into(), from, replaces: true }
}

pub(crate) fn take(path: &str, slot: u32) -> PlanStep {
    PlanStep::Take { path: path.into(), slot }
}

pub(crate) fn apply(journal: &Journal, steps: Vec<PlanStep>) -> Result<Applied, JournalError> {
    journal.apply(JournalId::fresh(), &Plan { steps, ..Plan::default() }, &[])
}

fn kept_aside(path: &str) -> KeptAside {
    KeptAside { path: path.into(), aside: None }
}

/// As an editor saves: a new file takes the place of the old one.
fn save(disk: &dyn Disk, path: &str, content: &str) {
    disk.create(p("saving"), content.as_bytes(), 0o644).unwrap();
    disk.rename(p("saving"), p(path), Replace::Allowed).unwrap();
}

#[test]
fn what_was_put_is_told_with_its_versions() {
    let (disk, journal) = small();
    let from = staged(&*disk, "1", "new");
    let was = disk.look(p(".wink/stage/1")).unwrap().unwrap().version();
    let applied =
        apply(&journal, vec![take("d", 0), put("e", Source::Taken(0)), put("e/new", from)]).unwrap();
    let version = disk.look(p("e/new")).unwrap().unwrap().version();
    assert_ne!(was, version);
    assert_eq!(applied.placed[0].path, p("e"));
    assert_eq!(applied.placed[1].path, p("e/new"));
    assert_eq!((applied.placed[1].was, applied.placed[1].version), (was, version));
    assert_eq!(applied.sequence, 1);
}

#[test]
fn what_is_not_as_expected_is_a_conflict_and_nothing_happens() {
    let (disk, journal) = small();
    let entry = disk.look(p("a")).unwrap().unwrap();
    let version = ExpectedState::Version(EntryKind::File, entry.version());
    let met = [("a", version.clone()), ("d", ExpectedState::Directory), ("b", ExpectedState::Nothing)];
    let not_met = [("d", version), ("a", ExpectedState::Directory), ("a", ExpectedState::Nothing)];
    let from = staged(&*disk, "1", "new");
    let plan = Plan { steps: vec![replace("a", from)], ..Plan::default() };
    let before = tree(&*disk);
    for (path, state) in not_met {
        let mut expected: Vec<Expected> =
            met.iter().map(|(path, state)| Expected { path: path.into(), state: state.clone() }).collect();
        expected.push(Expected { path: path.into(), state });
        let error = journal.apply(JournalId::fresh(), &plan, &expected).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("'{path}' was changed by somebody else meanwhile; look at it again. Nothing was changed")
        );
        assert_eq!(tree(&*disk), before);
    }
    let met: Vec<Expected> =
        met.into_iter().map(|(path, state)| Expected { path: path.into(), state }).collect();
    let applied = journal.apply(JournalId::fresh(), &plan, &met).unwrap();
    assert_eq!(disk.read(p("a")).unwrap(), b"new");
    journal.roll_back(applied.id).unwrap();
    assert_eq!(tree(&*disk), before);
    // The stage has it again, so the same plan can be tried again.
    let applied = apply(&journal, plan.steps).unwrap();
    journal.keep(applied.id).unwrap();
    assert_eq!(disk.read(p("a")).unwrap(), b"new");
}

#[test]
fn a_place_that_is_not_free_or_not_there_is_a_conflict() {
    let (disk, journal) = small();
    let before = tree(&*disk);
    let one = staged(&*disk, "1", "new");
    for (step, path) in [
        (put("a", one.clone()), "a"),
        (put("nowhere/b", one.clone()), "nowhere/b"),
        (put("a/b", one.clone()), "a/b"),
        (replace("b", one.clone()), "b"),
        (replace("d", one.clone()), "d"),
        (take("b", 0), "b"),
        (PlanStep::Meta { path: "b".into(), meta: Meta { mode: 0, modified: 0, owner: None } }, "b"),
    ] {
        match apply(&journal, vec![take("d/x", 9), step]).unwrap_err() {
            JournalError::Conflict { path: found, aside } => {
                assert_eq!((found, aside), (path.into(), vec![]))
            }
            other => panic!("{other}"),
        }
        assert_eq!(tree(&*disk), before);
    }
}

#[test]
fn a_changed_file_is_not_overwritten_when_rolling_back() {
    let (disk, journal) = small();
    let steps = vec![
        take("d", 0),
        replace("a", staged(&*disk, "1", "ours")),
        put("d", staged(&*disk, "2", "a file now")),
        put("new", staged(&*disk, "3", "new")),
    ];
    let applied = apply(&journal, steps).unwrap();
    save(&*disk, "a", "theirs");
    save(&*disk, "d", "their file");
    save(&*disk, "new", "their new file");
    let mut aside = journal.roll_back(applied.id).unwrap();
    aside.sort_by(|one, other| one.path.cmp(&other.path));
    for (path, content) in [("a", "theirs"), ("d", "their file"), ("new", "their new file")] {
        assert_eq!(disk.read(p(path)).unwrap(), content.as_bytes());
    }
    let [a, d, new] = &aside[..] else { panic!("{aside:?}") };
    assert_eq!(*new, kept_aside("new"));
    assert_eq!((&*a.path, &*d.path), (p("a"), p("d")));
    let (a, d) = (a.aside.clone().unwrap(), d.aside.clone().unwrap());
    assert!(a.starts_with(".wink/trash") && d.starts_with(".wink/trash"));
    assert_eq!(disk.read(&a).unwrap(), b"old a");
    assert_eq!(disk.read(&d.join("x")).unwrap(), b"old x");
}

#[test]
fn what_somebody_put_into_a_new_directory_stays() {
    let (disk, journal) = small();
    disk.make_dir(p(".wink/stage/dir"), 0o755).unwrap();
    let steps =
        vec![put("n", Source::Staged(".wink/stage/dir".into())), put("n/ours", staged(&*disk, "1", "ours"))];
    let applied = apply(&journal, steps).unwrap();
    disk.create(p("n/theirs"), b"theirs", 0o644).unwrap();
    assert_eq!(journal.roll_back(applied.id).unwrap(), [kept_aside("n")]);
    let names: Vec<_> = disk.read_dir(p("n")).unwrap();
    assert_eq!(names, [("theirs".into(), EntryKind::File)]);
}

#[test]
fn a_moved_file_that_somebody_changed_goes_back_with_the_change() {
    let (disk, journal) = small();
    let applied = apply(&journal, vec![take("a", 0), put("d/a", Source::Taken(0))]).unwrap();
    disk.set_meta(p("d/a"), Meta { mode: 0o600, modified: 5, owner: None }).unwrap();
    assert_eq!(journal.roll_back(applied.id).unwrap(), []);
    let owner = Some(OwnedBy { user: 0, group: 0 });
    assert_eq!(disk.look(p("a")).unwrap().unwrap().meta, Meta { mode: 0o600, modified: 5, owner });

    let applied = apply(&journal, vec![take("a", 0), put("d/a", Source::Taken(0))]).unwrap();
    disk.unlink(p("d/a")).unwrap();
    assert_eq!(journal.roll_back(applied.id).unwrap(), [kept_aside("a")]);
}

#[test]
fn somebody_who_writes_in_place_while_a_plan_is_carried_out_is_noticed() {
    let (disk, _) = small();
    let plan = vec![replace("a", staged(&*disk, "1", "ours"))];
    let writer = disk.clone();
    let journal = journal(disk.clone());
    let listening = on_own_steps(move |step| {
        // The old file is no longer in the tree, but whoever has it open still writes to it.
        if step == "journal.step-done" {
            let journals = writer.read_dir(p(".wink/journal")).unwrap();
            let image = p(".wink/journal").join(&journals[0].0).join("pre/r0");
            writer.set_meta(&image, Meta { mode: 0o644, modified: 99, owner: None }).unwrap();
        }
    });
    let error = apply(&journal, plan).unwrap_err();
    drop(listening);
    assert!(matches!(error, JournalError::Conflict { path, .. } if path == p("a")));
    assert_eq!(disk.read(p("a")).unwrap(), b"old a");
}

#[test]
fn two_names_of_one_file_stay_so() {
    let (disk, journal) = small();
    disk.link(p("a"), p("b")).unwrap();
    let before = tree(&*disk);
    // One name takes the place of the other: the rename itself would do nothing.
    let applied = apply(&journal, vec![take("a", 0), replace("b", Source::Taken(0))]).unwrap();
    assert_eq!(disk.look(p("a")).unwrap(), None);
    assert_eq!(disk.read(p("b")).unwrap(), b"old a");
    assert_eq!(journal.roll_back(applied.id).unwrap(), []);
    assert_eq!(tree(&*disk), before);
    // The pre-image of one is not a name of the other once it is kept.
    let applied = apply(&journal, vec![replace("a", staged(&*disk, "1", "new"))]).unwrap();
    journal.keep(applied.id).unwrap();
    assert_eq!(disk.look(p("b")).unwrap().unwrap().links, 1);
}

#[test]
fn names_that_are_no_text_are_rolled_back_too() {
    let (disk, journal) = small();
    let name = PathBuf::from(OsStr::from_bytes(b"d/\xff\\x41\n"));
    disk.create(&name, b"odd", 0o644).unwrap();
    let before = tree(&*disk);
    let applied = apply(&journal, vec![PlanStep::Take { path: name, slot: 0 }]).unwrap();
    assert_eq!(disk.read_dir(p("d")).unwrap().len(), 1);
    // By somebody who only knows what is on disk.
    let next = wink::testing::journal::world::journal(disk.clone());
    let expected = Recovered { rolled_back: vec![applied.id], ..Recovered::default() };
    assert_eq!(next.recover(None).unwrap(), expected);
    assert_eq!(tree(&*disk), before);
}

#[test]
fn nothing_is_applied_before_the_last_journal_is_settled() {
    let (disk, journal) = small();
    let first = apply(&journal, vec![take("a", 0)]).unwrap();
    let refused = apply(&journal, vec![take("d", 0)]).unwrap_err();
    assert!(matches!(refused, JournalError::Unsettled { id } if id == first.id));
    let no_answer = |_: &JournalId| Err(StoreError::failed("open", "it is gone"));
    assert_eq!(
        journal.recover(Some(&no_answer)).unwrap_err().to_string().split(':').next().unwrap(),
        format!("cannot ask whether journal {} was committed", first.id)
    );
    journal.keep(first.id).unwrap();
    for settled in [journal.keep(first.id), journal.roll_back(first.id).map(drop)] {
        assert!(matches!(settled, Err(JournalError::Unknown { id }) if id == first.id));
    }
    assert_eq!(disk.look(p("a")).unwrap(), None);
}

#[test]
fn what_a_store_settles_is_not_rolled_back_without_it() {
    let (disk, _) = small();
    let options = JournalOptions { settled_by: SettledBy::Store, ..JournalOptions::default() };
    let theirs = Journal::new(disk.clone(), STATE, options).unwrap();
    let applied = apply(&theirs, vec![take("a", 0)]).unwrap();
    let after = tree(&*disk);
    let error = journal(disk.clone()).recover(None).unwrap_err();
    assert!(matches!(error, JournalError::StoreDecides { id } if id == applied.id), "{error}");
    assert_eq!(tree(&*disk), after);
    let kept = journal(disk.clone()).recover(Some(&|_| Ok(true))).unwrap();
    assert_eq!(kept, Recovered { kept: vec![applied.id], ..Recovered::default() });
    assert_eq!(tree(&*disk), after);
}

#[test]
fn an_intent_that_is_too_large_is_not_read() {
    let dir = tempfile::TempDir::new().unwrap();
    let disk = Arc::new(HostDisk::open(dir.path()).unwrap());
    disk.create(p("a"), b"old a", 0o644).unwrap();
    let journal = journal(disk.clone());
    let applied = apply(&journal, vec![take("a", 0)]).unwrap();
    let journals = disk.read_dir(p(".wink/journal")).unwrap();
    let intent = dir.path().join(".wink/journal").join(&journals[0].0).join("intent");
    std::fs::OpenOptions::new().write(true).open(intent).unwrap().set_len(1 << 40).unwrap();
    let error = journal.roll_back(applied.id).unwrap_err();
    assert!(matches!(error, JournalError::Unreadable { .. }), "{error}");
}

#[test]
fn a_journal_of_a_later_version_is_left_alone() {
    let (disk, journal) = small();
    let applied = apply(&journal, vec![take("a", 0)]).unwrap();
    let journals = disk.read_dir(p(".wink/journal")).unwrap();
    let intent = p(".wink/journal").join(&journals[0].0).join("intent");
    let text = String::from_utf8(disk.read(&intent).unwrap()).unwrap();
    disk.unlink(&intent).unwrap();
    disk.create(&intent, text.replacen(" 1 ", " 9 ", 1).as_bytes(), 0o600).unwrap();
    let error = journal.roll_back(applied.id).unwrap_err();
    assert!(error.to_string().contains("it is of version 9; it is left alone"), "{error}");
    assert_eq!(disk.look(p("a")).unwrap(), None);
}

#[test]
fn a_disk_that_fails_for_good_leaves_a_journal_to_recover() {
    let (disk, _) = small();
    let before = tree(&*disk);
    let plan = vec![take("d", 0), replace("a", staged(&*disk, "1", "new"))];
    let counting = Arc::new(FaultyDisk::counting(disk.clone()));
    Journal::new(counting.clone(), STATE, JournalOptions::default()).unwrap();
    let stopping = FaultyDisk::stopping_after(disk.clone(), counting.changes() + 11);
    let broken = Journal::new(Arc::new(stopping), STATE, JournalOptions::default()).unwrap();
    let error = apply(&broken, plan).unwrap_err();
    let JournalError::NotUndone { id, .. } = error else { panic!("{error}") };
    assert_ne!(tree(&*disk), before);
    assert_eq!(journal(disk.clone()).recover(None).unwrap().rolled_back, [id]);
    assert_eq!(tree(&*disk), before);
}

#[test]
fn a_full_disk_is_told_with_what_became_of_the_tree() {
    let (disk, _) = small();
    let counting = Arc::new(FaultyDisk::counting(disk.clone()));
    Journal::new(counting.clone(), STATE, JournalOptions::default()).unwrap();
    let full = FaultyDisk::full_after(disk.clone(), counting.changes() + 2);
    let journal = Journal::new(Arc::new(full), STATE, JournalOptions::default()).unwrap();
    let error = apply(&journal, vec![put("b", staged(&*disk, "1", "new"))]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot sync '.wink/stage/1': No space left on device (os error 28); everything is as it was before"
    );
}

#[test]
fn every_step_is_listed_and_reached() {
    let (disk, _) = small();
    let reached: Arc<Mutex<BTreeSet<&'static str>>> = Arc::default();
    let reaching = Arc::clone(&reached);
    let listening = on_own_steps(move |step| {
        reaching.lock().unwrap().insert(step);
    });
    let options = JournalOptions { retention: Retention::Last(1), ..JournalOptions::default() };
    let journal = Journal::new(disk.clone(), STATE, options).unwrap();
    for name in ["1", "2"] {
        let applied = apply(&journal, vec![put(name, staged(&*disk, name, "new"))]).unwrap();
        journal.keep(applied.id).unwrap();
    }
    let applied = apply(&journal, vec![take("a", 0)]).unwrap();
    journal.roll_back(applied.id).unwrap();
    drop(listening);
    let listed = steps::ALL.iter().copied().filter(|step| step.starts_with("journal."));
    assert_eq!(*reached.lock().unwrap(), listed.collect());
}

#[test]
fn a_tree_takes_the_place_of_a_link() {
    for open in [HostDisk::open, HostDisk::open_walking] {
        let root = tempfile::tempdir().unwrap();
        let disk = Arc::new(open(root.path()).unwrap());
        disk.make_link(p("l"), p("elsewhere")).unwrap();
        let journal = journal(disk.clone());
        for dir in [".wink/stage", ".wink/stage/0", ".wink/stage/1"] {
            disk.make_dir(p(dir), 0o755).unwrap();
        }
        let before = tree(&*disk);
        let steps = vec![
            take("l", 0),
            put("l", Source::Staged(".wink/stage/0".into())),
            put("l/b", Source::Staged(".wink/stage/1".into())),
            put("l/b/c", staged(&*disk, "2", "new")),
        ];
        let applied = apply(&journal, steps).unwrap();
        assert_eq!(disk.read(p("l/b/c")).unwrap(), b"new");
        assert_eq!(journal.roll_back(applied.id).unwrap(), []);
        assert_eq!(tree(&*disk), before);
    }
}
