//! Commands on overlays that `mount` makes, not we.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests panic when they fail")]

use std::process::Command;

use tempfile::TempDir;
use wink::filesystem::host::CommandLayer;
use wink::testing::leave_out;

/// Whether something can be mounted here. Where nothing can, that is a failure, or said aloud.
pub(crate) fn works() -> bool {
    let can =
        |flags: &str| Command::new("unshare").args([flags, "true"]).status().is_ok_and(|done| done.success());
    let works = can("-m") || can("-Urm");
    if !works {
        leave_out("a command on an overlay", "no mount namespace can be made here");
    }
    works
}

/// Runs a script in the workspace as the layer shows it.
pub(crate) fn sh(layer: &CommandLayer, script: &str) -> String {
    let dirs = layer.overlay().unwrap();
    let at = TempDir::new().unwrap();
    let options = format!(
        "{},metacopy=off,lowerdir={},upperdir={},workdir={}",
        if dirs.user_xattr { "userxattr" } else { "redirect_dir=on" },
        dirs.lower.display(),
        dirs.upper.display(),
        dirs.work.display()
    );
    let script = format!(
        "mount -t overlay overlay -o {options} {at}; mount -t tmpfs tmpfs {at}/{state}; cd {at}; {script}",
        at = at.path().display(),
        state = dirs.state_name
    );
    let flags = if dirs.user_xattr { "-Urm" } else { "-m" };
    let output = Command::new("unshare").args([flags, "sh", "-ec", &script]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
