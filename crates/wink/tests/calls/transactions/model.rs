//! Random transactions inside transactions, ended in every way, against a stack of plain copies.

use std::collections::BTreeMap;

use proptest::prelude::*;
use wink::BoxFuture;
use wink::filesystem::DeleteMode;
use wink::transaction::{Nested, Transaction, Views};

use super::world::{Counter, Note, Said, Seen, World, note};

#[derive(Debug, Clone)]
enum Step {
    Append(u8),
    Seed(Vec<u8>),
    ClearWhere(u8),
    Say(u8),
    Write {
        path: &'static str,
        content: u8,
    },
    Delete {
        path: &'static str,
    },
    Add(i64),
    /// From outside, while the transaction runs.
    SayOutside(u8),
    Inner(Vec<Step>, End),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Commit,
    Rollback,
    Drop,
    Leak,
}

fn step() -> impl Strategy<Value = Step> {
    let path = prop::sample::select(vec!["a", "b", "d/a", "d/b", "there.txt"]);
    let leaf = prop_oneof![
        any::<u8>().prop_map(Step::Append),
        prop::collection::vec(any::<u8>(), 0..3).prop_map(Step::Seed),
        (0..8_u8).prop_map(Step::ClearWhere),
        any::<u8>().prop_map(Step::Say),
        (path.clone(), any::<u8>()).prop_map(|(path, content)| Step::Write { path, content }),
        path.prop_map(|path| Step::Delete { path }),
        (-5..5_i64).prop_map(Step::Add),
        any::<u8>().prop_map(Step::SayOutside),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        (prop::collection::vec(inner, 0..6), end()).prop_map(|(steps, end)| Step::Inner(steps, end))
    })
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![4 => Just(End::Commit), 2 => Just(End::Rollback), 2 => Just(End::Drop), 1 => Just(End::Leak)]
}

/// A file and its text, or a directory.
type Files = BTreeMap<String, Option<String>>;

#[derive(Debug, Clone, PartialEq)]
struct State {
    notes: Vec<String>,
    files: Files,
    counter: i64,
}

/// The innermost copy is the last.
struct Model {
    stack: Vec<State>,
    /// What the running transaction said, and what the log has.
    saying: Vec<String>,
    said: Vec<String>,
}

impl Model {
    fn top(&mut self) -> &mut State {
        self.stack.last_mut().unwrap()
    }

    fn begin(&mut self) {
        let copy = self.top().clone();
        self.stack.push(copy);
    }

    fn end(&mut self, end: End) {
        let inner = self.stack.pop().unwrap();
        if end == End::Commit {
            *self.top() = inner;
        }
    }

    fn apply(&mut self, step: &Step) {
        let state = self.stack.last_mut().unwrap();
        match step {
            Step::Append(n) => state.notes.push(n.to_string()),
            Step::Seed(all) => state.notes = all.iter().map(u8::to_string).collect(),
            Step::ClearWhere(n) => state.notes.retain(|text| !matches(text, *n)),
            Step::Say(n) => self.saying.push(n.to_string()),
            Step::SayOutside(n) => self.said.push(n.to_string()),
            Step::Write { path, content } => {
                if let Some((dir, _)) = path.split_once('/') {
                    state.files.insert(dir.to_owned(), None);
                }
                state.files.insert((*path).to_owned(), Some(content.to_string()));
            }
            Step::Delete { path } => _ = state.files.remove(*path),
            Step::Add(n) => state.counter += n,
            Step::Inner(..) => {}
        }
    }
}

fn matches(text: &str, n: u8) -> bool {
    text.parse::<u8>().is_ok_and(|number| number % 8 == n)
}

async fn apply(world: &World, views: &Views, step: &Step) {
    let session = views.session();
    match step {
        Step::Append(n) => _ = session.dispatch(note(&n.to_string())).unwrap(),
        Step::Seed(all) => session.seed(all.iter().map(|n| note(&n.to_string()))).unwrap(),
        Step::ClearWhere(n) => {
            let n = *n;
            session.clear_where::<Note>(move |note| matches(&note.0, n)).unwrap();
        }
        Step::Say(n) => _ = session.dispatch(Said(n.to_string())).unwrap(),
        Step::SayOutside(n) => _ = world.session.dispatch(Said(n.to_string())),
        Step::Write { path, content } => {
            _ = views.filesystem().await.unwrap().write_text(path, &content.to_string()).await.unwrap();
        }
        Step::Delete { path } => {
            let files = views.filesystem().await.unwrap();
            if files.exists(path).await.unwrap() {
                files.delete(path, DeleteMode::Single).await.unwrap();
            }
        }
        Step::Add(n) => views.resource::<Counter>().await.unwrap().update(|value| *value += n),
        Step::Inner(..) => {}
    }
}

async fn seen_inside(views: &Views) -> State {
    let files = views.filesystem().await.unwrap();
    let mut tree = Files::new();
    for entry in files.glob("", "**").await.unwrap() {
        let path = entry.path.to_string();
        let text = files.read_text(&path).await.ok();
        tree.insert(path, text);
    }
    State {
        notes: views.session().slice::<Note>().unwrap().iter().map(|note| note.0.clone()).collect(),
        files: tree,
        counter: *views.resource::<Counter>().await.unwrap().read(),
    }
}

fn state(seen: &Seen) -> State {
    State { notes: seen.notes.clone(), files: seen.files.clone(), counter: seen.counter }
}

/// A transaction of any depth.
enum Level<'a, 'b> {
    Outer(&'a mut Transaction),
    Inner(&'a mut Nested<'b>),
}

impl Level<'_, '_> {
    fn views(&self) -> &Views {
        match self {
            Self::Outer(tx) => tx,
            Self::Inner(nested) => nested,
        }
    }

    fn nested(&mut self) -> Nested<'_> {
        match self {
            Self::Outer(tx) => tx.nested("inner"),
            Self::Inner(nested) => nested.nested("inner"),
        }
    }
}

fn run<'a, 'b: 'a>(
    world: &'a World,
    model: &'a mut Model,
    mut level: Level<'a, 'b>,
    steps: &'a [Step],
) -> BoxFuture<'a, ()> {
    Box::pin(async move {
        for step in steps {
            let Step::Inner(steps, end) = step else {
                apply(world, level.views(), step).await;
                model.apply(step);
                assert_eq!(seen_inside(level.views()).await, *model.top());
                continue;
            };
            model.begin();
            let mut inner = level.nested();
            run(world, model, Level::Inner(&mut inner), steps).await;
            match end {
                End::Commit => inner.commit().await.unwrap(),
                End::Rollback => inner.rollback().await,
                End::Drop => drop(inner),
                End::Leak => {
                    std::mem::forget(inner);
                    // It is rolled back with the next thing around it.
                    drop(level.nested());
                }
            }
            model.end(*end);
            assert_eq!(seen_inside(level.views()).await, *model.top());
        }
    })
}

async fn check(script: Vec<(Vec<Step>, End)>) {
    let world = World::new().await;
    let start = state(&world.seen().await);
    let mut model = Model { stack: vec![start], saying: vec![], said: vec![] };
    for (steps, end) in script {
        model.begin();
        let mut tx = Transaction::begin(&world.session, &world.resources, "outer").await;
        run(&world, &mut model, Level::Outer(&mut tx), &steps).await;
        match end {
            End::Commit => tx.commit().await.unwrap(),
            End::Rollback => tx.rollback().await.unwrap(),
            End::Drop | End::Leak => drop(tx),
        }
        model.end(end);
        let saying = std::mem::take(&mut model.saying);
        model.said.extend(saying);
        let seen = world.seen().await;
        assert_eq!(state(&seen), *model.top());
        assert_eq!(seen.said, model.said);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    // cases 73, 75, 93
    #[test]
    fn random_nesting_agrees_with_a_stack_of_copies(
        script in prop::collection::vec((prop::collection::vec(step(), 0..8), end()), 1..6),
    ) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(check(script));
    }
}
