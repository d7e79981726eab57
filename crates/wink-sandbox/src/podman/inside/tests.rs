use super::*;

fn limits() -> Limits {
    Limits { memory: Some(10_000_000), cpu: Some(0.2), processes: Some(24), ..Limits::default() }
}

const FIRST: &str = "memory/memory.limit_in_bytes 9998336\npids/pids.max 24\n\
    cpu/cpu.cfs_quota_us 20000\ncpu/cpu.cfs_period_us 100000\n";

const SECOND: &str = "memory.max 9998336\npids.max 24\ncpu.max 20000 100000\n";

#[test]
fn limits_that_are_there_are_found_in_both_versions() {
    for told in [FIRST, SECOND] {
        check(told, &limits()).unwrap();
        check(told, &Limits { memory: None, cpu: None, processes: None, ..limits() }).unwrap();
    }
    check("", &Limits { memory: None, cpu: None, processes: None, ..limits() }).unwrap();
    check(
        "cpu.max 33333 100000\n",
        &Limits { memory: None, cpu: Some(1.0 / 3.0), processes: None, ..limits() },
    )
    .unwrap();
}

#[test]
fn a_limit_that_is_not_there_is_an_error() {
    let without = |told: &str, file: &str| -> String {
        told.lines().filter(|line| !line.starts_with(file)).flat_map(|line| [line, "\n"]).collect()
    };
    for (told, limit) in [
        (without(FIRST, "memory"), "memory"),
        (without(SECOND, "memory"), "memory"),
        (SECOND.replace("9998336", "max"), "memory"),
        (without(FIRST, "pids"), "processes"),
        (SECOND.replace("pids.max 24", "pids.max max"), "processes"),
        (without(FIRST, "cpu/cpu.cfs_quota"), "cpu"),
        (without(FIRST, "cpu/cpu.cfs_period"), "cpu"),
        (FIRST.replace("20000", "-1"), "cpu"),
        (without(SECOND, "cpu"), "cpu"),
        (SECOND.replace("20000", "max"), "cpu"),
        (SECOND.replace("20000", "40000"), "cpu"),
    ] {
        let refused = check(&told, &limits()).unwrap_err();
        assert!(
            matches!(refused, SandboxError::Unenforceable { limit: is, .. } if is == limit),
            "{told}: {refused}"
        );
    }
    assert_eq!(
        check(&SECOND.replace("20000", "max"), &limits()).unwrap_err().to_string(),
        "the limit on cpu cannot be enforced here: a container that was to have 0.2 processors had \"max 100000\"; \
         lift this limit (`None` in Rust, `unlimited` in an agent file), or run with cgroups that podman can use"
    );
}
