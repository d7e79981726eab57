//! The built-in agent: an agent file like any other, for whoever has none.

/// The text of its file, as it is on this machine.
pub(crate) fn text() -> String {
    let mut suites = vec!["planning", "files"];
    if cfg!(feature = "eval") {
        suites.push("eval");
    }
    let (lifted, sandboxed) = sandbox();
    if sandboxed {
        suites.push("sandbox");
    }
    format!(
        r#"
        [agent]
        ns = "wink"
        key = "workspace"
        name = "Workspace"

        [sandbox]
        unlimited = {lifted:?}

        [[section]]
        key = "workspace"
        title = "Workspace"
        body = "You work in a directory of the user's. What a failed call did to it is undone."
        suites = {suites:?}
        "#
    )
}

/// Which limits a sandbox here cannot have, and whether there is one.
#[cfg(target_os = "linux")]
fn sandbox() -> (Vec<&'static str>, bool) {
    use wink_sandbox::{Limits, NamespaceSandbox, SandboxError};
    let mut limits = Limits::default();
    let mut lifted = Vec::new();
    loop {
        match NamespaceSandbox::new(limits.clone()) {
            Ok(_) => return (lifted, true),
            // Not everybody may make cgroups. What is left still confines.
            Err(SandboxError::Unenforceable { limit, .. }) if !lifted.contains(&limit) => {
                match limit {
                    "memory" => limits.memory = None,
                    "cpu" => limits.cpu = None,
                    "processes" => limits.processes = None,
                    _ => return (Vec::new(), false),
                }
                lifted.push(limit);
            }
            Err(_) => return (Vec::new(), false),
        }
    }
}

/// Sandboxes are Linux's.
#[cfg(not(target_os = "linux"))]
fn sandbox() -> (Vec<&'static str>, bool) {
    (Vec::new(), false)
}
