use super::*;

fn take(path: &str, slot: u32) -> PlanStep {
    PlanStep::Take { path: path.into(), slot }
}

fn put(path: &str, from: Source) -> PlanStep {
    PlanStep::Put { path: path.into(), from, replaces: false }
}

fn meta(path: &str) -> PlanStep {
    PlanStep::Meta { path: path.into(), meta: Meta { mode: 0o755, modified: 0, owner: None } }
}

fn staged(path: &str) -> Source {
    Source::Staged(path.into())
}

fn problem(steps: Vec<PlanStep>) -> Option<String> {
    Plan { steps, ..Plan::default() }.check(Path::new(".wink")).err()
}

#[test]
fn a_plan_changes_each_path_of_the_workspace_once() {
    let fine = vec![take("a", 0), put("a", staged(".wink/stage/x/1")), put("b", Source::Taken(0)), meta("a")];
    assert_eq!(problem(fine), None);
    for (steps, expected) in [
        (vec![take("", 0)], "'' is not a path of the workspace"),
        (vec![take("../a", 0)], "'../a' is not a path of the workspace"),
        (vec![take("/a", 0)], "'/a' is not a path of the workspace"),
        (vec![take(".wink", 0)], "'.wink' is not a path of the workspace"),
        (vec![take(".wink/lock", 0)], "'.wink/lock' is not a path of the workspace"),
        (vec![take("a", 0), take("a", 1)], "'a' is changed twice"),
        (vec![take("a", 0), take("b", 0)], "slot 0 is filled twice"),
        (vec![put("a", Source::Taken(0))], "slot 0 is empty"),
        (vec![take("a", 0), put("b", Source::Taken(0)), put("c", Source::Taken(0))], "slot 0 is empty"),
        (vec![take("a", 0), take("a/b", 1)], "'a/b' is changed twice"),
        (vec![put("a", staged(".wink/1")), take("b", 0)], "'b' comes after Puts, and is one of Takes"),
        (vec![meta("a"), put("b", staged(".wink/1"))], "'b' comes after Metas, and is one of Puts"),
        (vec![meta("a"), meta("a")], "'a' is changed twice"),
        (vec![put("a", staged(".wink/1")), put("a", staged(".wink/2"))], "'a' is changed twice"),
        (vec![put("a", staged("b"))], "'b' is not in the stage"),
        (vec![put("a", staged(".wink/../b"))], "'.wink/../b' is not in the stage"),
    ] {
        assert_eq!(problem(steps).as_deref(), Some(expected));
    }
}

#[test]
fn what_is_below_a_moved_directory_is_followed_back() {
    // f, d and z are taken; then d comes to e, f into it, and z to where d was.
    let mut origins = Origins::default();
    for (from, to) in [("d", "e"), ("f", "e/f"), ("z", "d")] {
        origins.moved(Path::new(from), Path::new(to));
    }
    for (now, before) in
        [("e", "d"), ("e/x", "d/x"), ("e/f", "f"), ("e/f/x", "f/x"), ("d/x", "z/x"), ("other", "other")]
    {
        assert_eq!(origins.of(Path::new(now)), Path::new(before), "{now}");
    }
}
