use wink::serde_json::{Value, json};

use super::{filters, sealing, stricter};

#[test]
fn there_is_a_filter_for_this_machine() {
    for filters in [filters().unwrap(), sealing().unwrap()] {
        assert_eq!(filters.len(), 3);
        // More than the kernel takes would be found out only in the new process.
        assert!(filters.iter().all(|filter| !filter.is_empty() && filter.len() <= 4096));
    }
}

/// The rules of a profile that speak of a call.
fn about<'a>(profile: &'a Value, call: &str) -> Vec<&'a Value> {
    let rules = profile["syscalls"].as_array().unwrap().iter();
    rules.filter(|rule| rule["names"].as_array().unwrap().iter().any(|name| name == call)).collect()
}

#[test]
fn what_podman_allows_is_allowed_unless_it_is_refused_here() {
    let profile = json!({ "defaultAction": "SCMP_ACT_ERRNO", "syscalls": [
        { "names": ["read", "unshare", "clone", "socket", "chmod", "openat"], "action": "SCMP_ACT_ALLOW" },
        { "names": ["mount"], "action": "SCMP_ACT_ALLOW" },
    ] });
    let strict = stricter(profile).unwrap();
    assert_eq!(about(&strict, "read"), [&json!({ "names": ["read"], "action": "SCMP_ACT_ALLOW" })]);
    for call in ["unshare", "mount", "ptrace", "bpf", "keyctl", "setns"] {
        let rules = about(&strict, call);
        assert!(matches!(&rules[..], [rule] if rule["action"] == "SCMP_ACT_ERRNO"), "{call}: {rules:?}");
    }
    // Allowed under conditions only.
    for (call, rules) in [("clone", 1), ("socket", 4), ("chmod", 1), ("openat", 2)] {
        let about = about(&strict, call);
        assert!(
            about.len() == rules && about.iter().all(|rule| rule["args"].is_array()),
            "{call}: {about:?}"
        );
    }
}

/// A device of no number marks what is gone on an overlay, and needs no right.
#[test]
fn a_container_makes_pipes_and_no_devices() {
    let strict = stricter(json!({ "syscalls": [{ "names": ["mknod", "mknodat"] }] })).unwrap();
    let (pipe, character, block, setuid) = (0o010_644, 0o020_600, 0o060_600, 0o104_755);
    for call in ["mknod", "mknodat"] {
        let about = about(&strict, call);
        let [rule] = about[..] else { panic!("{about:?}") };
        let refused = rule["args"][0]["value"].as_u64().unwrap();
        assert_eq!(
            [pipe, character, block, setuid].map(|mode| mode & refused == 0),
            [true, false, false, false]
        );
    }
}

#[test]
fn what_is_no_profile_is_refused() {
    assert_eq!(stricter(json!({})), None);
    assert_eq!(stricter(json!({ "syscalls": [{ "action": "SCMP_ACT_ALLOW" }] })), None);
}
