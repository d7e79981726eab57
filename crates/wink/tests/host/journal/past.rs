//! Kept journals: what they remember, how long, and what was pinned.

use std::sync::Arc;
use std::time::Duration;

use wink::filesystem::host::disk::{Disk, Meta};
use wink::filesystem::host::journal::{After, Before, Journal, JournalOptions, Retention, SettledBy, Stamp};
use wink::filesystem::host::plan::{PlanStep, Source};
use wink::store::JournalId;
use wink::testing::{FakeClock, ModelDisk};

use super::behaviour::{apply, p, put, replace, small, staged, take};
use wink::testing::journal::world::STATE;

fn stamp(disk: &ModelDisk, path: &str) -> Stamp {
    Stamp::of(&disk.look(p(path)).unwrap().unwrap())
}

fn keep(journal: &Journal, steps: Vec<PlanStep>) -> JournalId {
    let applied = apply(journal, steps).unwrap();
    journal.keep(applied.id).unwrap();
    applied.id
}

#[test]
fn a_kept_journal_knows_what_was_there_and_what_it_left() {
    let (disk, journal) = small();
    disk.create(p("gone"), b"gone", 0o644).unwrap();
    let (a, x, d, gone) = (stamp(&disk, "a"), stamp(&disk, "d/x"), stamp(&disk, "d"), stamp(&disk, "gone"));
    let meta = Meta { mode: 0o700, modified: 4, owner: None };
    let id = keep(
        &journal,
        vec![
            take("d", 0),
            take("gone", 1),
            replace("a", staged(&*disk, "1", "new a")),
            put("e", Source::Taken(0)),
            put("e/new", staged(&*disk, "2", "new")),
            replace("e/x", staged(&*disk, "3", "new x")),
            put("gone", staged(&*disk, "4", "back")),
            PlanStep::Meta { path: "e".into(), meta },
        ],
    );
    let past = journal.past(id).unwrap().unwrap();
    let images: Vec<(&str, &[u8])> = vec![("a", b"old a"), ("d/x", b"old x"), ("gone", b"gone")];
    for (path, content) in images {
        let Some((_, Before::Image { at, .. })) = past.before.iter().find(|(at, _)| at == p(path)) else {
            panic!("no image of {path}: {past:?}")
        };
        assert_eq!(disk.read(at).unwrap(), content);
    }
    let before: Vec<_> = past
        .before
        .iter()
        .map(|(path, state)| match state {
            Before::Image { stamp, .. } => (path.to_str().unwrap(), "image", Some(stamp.clone())),
            Before::Moved { to, stamp } => {
                assert_eq!(to, p("e"));
                (path.to_str().unwrap(), "moved", Some(stamp.clone()))
            }
            Before::InPlace(stamp) => (path.to_str().unwrap(), "in place", Some(stamp.clone())),
            Before::Nothing => (path.to_str().unwrap(), "nothing", None),
        })
        .collect();
    assert_eq!(
        before,
        [
            ("d", "moved", Some(d.clone())),
            ("gone", "image", Some(gone)),
            ("a", "image", Some(a)),
            ("e", "nothing", None),
            ("d/new", "nothing", None),
            ("d/x", "image", Some(x)),
            ("d", "in place", Some(d.clone())),
        ]
    );
    let entry = |path: &str| After::Entry(stamp(&disk, path));
    assert_eq!(
        past.after,
        [
            ("d".into(), After::Nothing),
            ("a".into(), entry("a")),
            ("e".into(), After::Entry(d)),
            ("e/new".into(), entry("e/new")),
            ("e/x".into(), entry("e/x")),
            ("gone".into(), entry("gone")),
            ("e".into(), After::Meta(meta)),
        ]
    );
}

#[test]
fn journals_are_counted_and_found_since_a_mark() {
    let (disk, journal) = small();
    assert_eq!(journal.sequence().unwrap(), 0);
    let first = keep(&journal, vec![put("b", staged(&*disk, "1", "b"))]);
    let mark = journal.sequence().unwrap();
    assert_eq!(mark, 1);
    let undone = apply(&journal, vec![take("a", 0)]).unwrap();
    assert_eq!(undone.sequence, 2);
    journal.roll_back(undone.id).unwrap();
    let second = keep(&journal, vec![take("a", 0)]);
    let third = keep(&journal, vec![take("b", 0)]);
    let ids = |sequence| -> Vec<_> {
        journal.since(sequence).unwrap().unwrap().into_iter().map(|past| (past.sequence, past.id)).collect()
    };
    assert_eq!(ids(mark), [(3, third), (2, second)]);
    assert_eq!(ids(0), [(3, third), (2, second), (1, first)]);
    assert_eq!(ids(3), []);
    assert_eq!(journal.past(undone.id).unwrap(), None);
}

fn with(disk: &Arc<ModelDisk>, retention: Retention, clock: Arc<FakeClock>) -> Arc<Journal> {
    let options = JournalOptions { retention, settled_by: SettledBy::Store, clock, pins: None };
    Arc::new(Journal::new(disk.clone(), STATE, options).unwrap())
}

#[test]
fn old_journals_go_unless_somebody_wants_to_go_back() {
    let (disk, _) = small();
    let clock = Arc::new(FakeClock::new(jiff::Timestamp::UNIX_EPOCH));
    let journal = with(&disk, Retention::Last(2), clock.clone());
    let touch = |journal: &Journal, mode| {
        keep(
            journal,
            vec![PlanStep::Meta { path: "a".into(), meta: Meta { mode, modified: 1, owner: None } }],
        )
    };
    for mode in 0..4 {
        touch(&journal, mode);
    }
    assert_eq!(journal.since(2).unwrap().unwrap().len(), 2);
    assert_eq!(journal.since(1).unwrap(), None);

    let pin = journal.pin(journal.sequence().unwrap());
    for mode in 0..4 {
        touch(&journal, mode);
    }
    assert_eq!(journal.since(pin.sequence()).unwrap().unwrap().len(), 4);
    drop(pin);
    touch(&journal, 0);
    assert_eq!(journal.sequence().unwrap(), 9);
    assert_eq!(journal.since(7).unwrap().unwrap().len(), 2);
    assert_eq!(disk.read_dir(p(".wink/journal")).unwrap().len(), 2);

    let journal = with(&disk, Retention::For(Duration::from_secs(60)), clock.clone());
    clock.advance(Duration::from_secs(50));
    touch(&journal, 1);
    assert_eq!(journal.since(7).unwrap().unwrap().len(), 3);
    clock.advance(Duration::from_secs(50));
    touch(&journal, 2);
    assert_eq!(journal.since(9).unwrap().unwrap().len(), 2);
    clock.advance(Duration::from_secs(500));
    touch(&journal, 3);
    // The last one stays to be counted from, though nothing is wanted.
    let journal = with(&disk, Retention::Last(0), clock);
    touch(&journal, 4);
    assert_eq!(journal.since(12).unwrap().unwrap().len(), 1);
    assert_eq!(journal.sequence().unwrap(), 13);
}

#[test]
fn who_settles_by_itself_stays_kept_when_the_power_fails() {
    for seed in 0..20 {
        let (disk, journal) = small();
        keep(&journal, vec![take("a", 0)]);
        let next = Arc::new(disk.crash(seed));
        let journal = wink::testing::journal::world::journal(next.clone());
        assert_eq!(journal.recover(None).unwrap(), Default::default());
        assert_eq!(next.look(p("a")).unwrap(), None);
        assert_eq!(journal.sequence().unwrap(), 1);
    }
}
