//! The built-in agent: an agent file like any other, for whoever has none.

/// The text of its file, as it is on this machine.
pub(crate) fn text() -> String {
    let mut suites = vec!["planning", "files"];
    if cfg!(feature = "eval") {
        suites.push("eval");
    }
    if has_sandbox() {
        suites.push("sandbox");
    }
    format!(
        r#"
        [agent]
        ns = "wink"
        key = "workspace"
        name = "Workspace"

        [sandbox]
        unlimited = ["unenforceable"]

        [[section]]
        key = "workspace"
        title = "Workspace"
        body = "You work in a directory of the user's. What a failed call did to it is undone."
        suites = {suites:?}
        "#
    )
}

/// Whether this machine lets programs be confined, as far as that can be read. Trying it takes a few processes, and is left to
/// the first call; where that finds that it was wrong, nothing runs.
#[cfg(target_os = "linux")]
fn has_sandbox() -> bool {
    use std::fs::read_to_string;

    const SYS_ADMIN: u32 = 21;
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let rights = field("CapEff:").and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or_default();
    if rights >> SYS_ADMIN & 1 == 1 {
        return true;
    }
    let setting = |path: &str| read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok());
    // Containers filter system calls, and those that make namespaces first of all.
    field("Seccomp:") == Some("0")
        && setting("/proc/sys/user/max_user_namespaces").is_some_and(|most| most > 0)
        && setting("/proc/sys/kernel/unprivileged_userns_clone") != Some(0)
        && setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").unwrap_or(0) == 0
}

/// Sandboxes are Linux's.
#[cfg(not(target_os = "linux"))]
fn has_sandbox() -> bool {
    false
}
