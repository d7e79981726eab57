//! Names of what outlives a process that is killed, such as cgroups and containers: they say whose it is, so that the next one can
//! tidy up.

use std::path::Path;
use std::sync::OnceLock;

use wink::filesystem::host::CommandProcesses;

/// A name of something of this process.
pub(crate) fn name(number: u64) -> String {
    format!("{}{}-{number}", prefix(), std::process::id())
}

/// Whether something with this name is of a process that is gone. In another process namespace the number of a process is somebody
/// else's, or nobody's, so that what is of other containers is their own business.
pub(crate) fn is_orphaned(name: &str) -> bool {
    let owner = name.strip_prefix(prefix()).and_then(|rest| rest.split_once('-')?.0.parse::<u32>().ok());
    let is_gone = |owner| !Path::new(&format!("/proc/{owner}")).exists();
    owner.is_some_and(|owner| is_gone(owner) && CommandProcesses::check_proc().is_ok())
}

fn prefix() -> &'static str {
    static PREFIX: OnceLock<String> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let number: String = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
        format!("wink-{number}-")
    })
}

#[cfg(test)]
mod tests {
    use super::{is_orphaned, name, prefix};

    #[test]
    fn what_is_of_others_is_theirs() {
        assert!(!is_orphaned(&name(7)));
        // No system has that many.
        assert!(is_orphaned(&format!("{}4294967295-7", prefix())));
        assert!(!is_orphaned("wink-1-4294967295-7"), "of another process namespace");
        assert!(!is_orphaned("wink-4294967295-7") && !is_orphaned("else"));
    }
}
