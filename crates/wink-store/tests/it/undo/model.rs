//! Any calls, and back to before any of them.

use proptest::prelude::*;

use wink::session::InvocationId;

use crate::undo::world::{Op, Slices, Tree, World, has_shell};

fn path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "c"]);
    prop::collection::vec(name, 1..=3).prop_map(|names| names.join("/"))
}

fn op(shell: bool) -> impl Strategy<Value = Op> {
    let text = || prop::sample::select(vec!["x", "yy", "zzz"]).prop_map(str::to_owned);
    let script = (path(), path(), 0..6).prop_map(|(one, two, which)| {
        Op::Shell(match which {
            0 => format!("rm -rf {one}"),
            1 => format!("mv {one} {two}"),
            2 => format!("mkdir -p {one}; echo s > {two}"),
            3 => format!("chmod 700 {one}; chmod 711 {two}"),
            4 => format!("ln -s {one} {two}"),
            _ => format!("echo more >> {one}; rm -f {two}"),
        })
    });
    prop_oneof![
        6 => (path(), text()).prop_map(|(path, text)| Op::Write(path, text)),
        2 => path().prop_map(Op::Delete),
        4 => (path(), path()).prop_map(|(from, to)| Op::Rename(from, to)),
        2 => path().prop_map(Op::Mkdir),
        if shell { 3 } else { 0 } => script,
        1 => text().prop_map(Op::Note),
        1 => (0..3_u32).prop_map(Op::Total),
        1 => (0..3_u32).prop_map(Op::Step),
    ]
}

/// What is done to the world.
#[derive(Debug, Clone)]
enum Act {
    Call(Vec<Op>),
    /// To before the call of this number, counted round.
    Back(usize),
    /// The latest call or undo, alone.
    Last,
}

fn act(shell: bool) -> impl Strategy<Value = Act> {
    prop_oneof![
        5 => prop::collection::vec(op(shell), 1..5).prop_map(Act::Call),
        2 => any::<usize>().prop_map(Act::Back),
        2 => Just(Act::Last),
    ]
}

async fn check(acts: Vec<Act>) {
    let dir = tempfile::tempdir().unwrap();
    let world = World::open(dir.path()).await;
    // Each call or undo, and what there was before it.
    let mut past: Vec<(InvocationId, (Tree, Slices))> = Vec::new();
    for act in acts {
        let now = (world.tree(), world.slices());
        let id = match act {
            Act::Call(ops) => world.work(&ops).await,
            Act::Back(_) | Act::Last if past.is_empty() => continue,
            Act::Back(at) => {
                let (id, before) = past[at % past.len()].clone();
                let undone = world.undo_to(id).await.unwrap();
                assert_eq!((world.tree(), world.slices()), before, "to before {}", at % past.len());
                undone.id
            }
            Act::Last => {
                let (id, before) = past.last().unwrap().clone();
                let undone = world.undo(id).await.unwrap();
                assert_eq!((world.tree(), world.slices()), before, "the last one");
                undone.id
            }
        };
        past.push((id, now));
    }
    let now = (world.tree(), world.slices());
    drop(world);
    let world = World::open(dir.path()).await;
    assert_eq!((world.tree(), world.slices()), now);
}

#[test]
fn everything_is_as_it_was() {
    let shell = has_shell();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(24);
    proptest!(ProptestConfig::with_cases(cases), |(acts in prop::collection::vec(act(shell), 1..8))| {
        runtime.block_on(check(acts));
    });
}
