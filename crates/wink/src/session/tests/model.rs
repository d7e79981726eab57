//! A stored session under random operations, against plain vectors.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Do {
    Dispatch(u32),
    Upsert(u8, u32),
    Last(u8, u32),
    Hear(u32),
    Seed(Vec<u32>),
    ClearOdd,
    Commit(Vec<u32>),
    CommitWith(u32, bool, Vec<u32>),
    Roll(Vec<u32>),
    Policy(Option<u8>),
    Snapshot,
    Restore,
    Reset,
    Flush,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Do>> {
    let numbers = || proptest::collection::vec(0..9u32, 0..3);
    let one = prop_oneof![
        4 => (0..9u32).prop_map(Do::Dispatch),
        2 => (0..3u8, 0..9u32).prop_map(|(key, value)| Do::Upsert(key, value)),
        2 => (0..3u8, 0..9u32).prop_map(|(key, value)| Do::Last(key, value)),
        1 => (0..9u32).prop_map(Do::Hear),
        1 => numbers().prop_map(Do::Seed),
        1 => Just(Do::ClearOdd),
        2 => numbers().prop_map(Do::Commit),
        3 => (100..900u32, any::<bool>(), numbers()).prop_map(|(own, takes, late)| Do::CommitWith(own, takes, late)),
        1 => numbers().prop_map(Do::Roll),
        1 => proptest::option::of(0..9u8).prop_map(Do::Policy),
        1 => Just(Do::Snapshot),
        1 => Just(Do::Restore),
        1 => Just(Do::Reset),
        1 => Just(Do::Flush),
        2 => Just(Do::Reopen),
    ];
    proptest::collection::vec(one, 1..40)
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    notes: Vec<u32>,
    sum: Option<u32>,
    entries: Vec<Entry>,
    last: Vec<Last>,
    policy: Option<u8>,
    calls: u64,
    heard: Vec<u32>,
}

impl Model {
    fn note(&mut self, note: u32) {
        self.heard.push(note);
        self.notes.push(note);
        let next = self.sum.unwrap_or(0) + note;
        if next <= 1000 {
            self.sum = Some(next);
        }
    }
}

fn model_of(session: &Session) -> Model {
    let (notes, sums, heard, entries) = contents(session);
    let policy = session.policy_item("p", "item").map(|value| value.as_u64().unwrap() as u8);
    let calls = session.calls("tool").map_or(0, |stat| stat.count);
    assert!(sums.len() < 2);
    let last = session.slice::<Last>().iter().map(|last| Last::clone(&last)).collect();
    Model { notes, sum: sums.first().copied(), entries, last, policy, calls, heard }
}

fn run(steps: Vec<Do>) {
    let mut kept = kept();
    let mut model = Model::default();
    let mut saved = (kept.session.snapshot(), Model::default());
    for step in steps {
        let session = &kept.session;
        match step {
            Do::Dispatch(note) => {
                let _ = session.dispatch(Note(note));
                model.note(note);
            }
            Do::Upsert(key, value) => {
                let entry = Entry(key.to_string(), value);
                let _ = session.dispatch(entry.clone());
                match model.entries.iter_mut().find(|old| old.0 == entry.0) {
                    Some(old) => *old = entry,
                    None => model.entries.push(entry),
                }
            }
            Do::Last(key, value) => {
                let last = Last(key.to_string(), value);
                let _ = session.dispatch(last.clone());
                model.last.retain(|old| old.0 != last.0);
                model.last.push(last);
            }
            Do::Hear(number) => {
                let _ = session.dispatch(Heard(number));
                model.heard.push(number);
            }
            Do::Seed(notes) => {
                session.seed(notes.iter().copied().map(Note)).unwrap();
                model.notes = notes;
            }
            Do::ClearOdd => {
                session.clear_where::<Note>(|note| note.0 % 2 == 1).unwrap();
                model.notes.retain(|note| note % 2 == 0);
            }
            Do::Commit(notes) => {
                let mut fork =
                    Fork { success: Some(("tool".into(), Timestamp::UNIX_EPOCH)), ..Fork::default() };
                notes.iter().for_each(|note| drop(put(session, &mut fork, *note)));
                block_on(commit(session, fork)).unwrap();
                notes.into_iter().for_each(|note| model.note(note));
                model.calls += 1;
            }
            Do::CommitWith(own, takes, late) => {
                commit_with_window(&kept, own, takes, |session| {
                    late.iter().for_each(|note| drop(session.dispatch(Note(*note))));
                });
                // In the log they stand in the order in which they are stored.
                if takes {
                    model.note(own);
                    model.calls += 1;
                }
                late.into_iter().for_each(|note| model.note(note));
            }
            Do::Roll(notes) => {
                let mut fork = Fork::default();
                notes.iter().for_each(|note| drop(put(session, &mut fork, *note)));
                let turn = block_on(session.committing());
                block_on(session.close_failed(&turn, &fork, Closing::default())).unwrap();
                model.heard.extend(notes);
            }
            Do::Policy(value) => {
                let mut fork = Fork::default();
                with_policy(session, &mut fork, value.map(Value::from));
                block_on(commit(session, fork)).unwrap();
                model.policy = value;
            }
            Do::Snapshot => saved = (session.snapshot(), model.clone()),
            Do::Restore => {
                session.restore(&saved.0).unwrap();
                model = Model { heard: model.heard, ..saved.1.clone() };
            }
            Do::Reset => {
                session.reset();
                model = Model::default();
            }
            Do::Flush => block_on(session.flush()).unwrap(),
            Do::Reopen => {
                block_on(session.flush()).unwrap();
                let bytes = Arc::new(kept.bytes.reopen().unwrap());
                let store = Arc::new(FaultyStore::new(Arc::clone(&bytes) as SharedStore));
                let opened = Session::builder().id("s").store(Arc::clone(&store) as SharedStore).open();
                // A snapshot from before anything was named must hold it all the same.
                let opened = block_on(opened).unwrap();
                saved = (opened.snapshot(), model.clone());
                kept = Kept { bytes, store, session: prepared(opened) };
            }
        }
        assert_eq!(model_of(&kept.session), model);
    }
    let copy = kept.session.duplicate();
    assert_eq!(model_of(&copy), model);
    block_on(kept.same_after_restart());
    block_on(copy.flush()).unwrap();
    let store: SharedStore = Arc::new(kept.bytes.reopen().unwrap());
    let copy = block_on(Session::builder().id(copy.id().to_string()).store(store).open()).unwrap();
    assert_eq!(model_of(&prepared(copy)), model, "a copy is stored whole");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_session_is_what_a_plain_model_says_and_comes_back_the_same(steps in steps()) {
        run(steps);
    }
}
