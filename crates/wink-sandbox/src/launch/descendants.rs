//! Ending a process tree where there is no process namespace to end.
//!
//! All that descendants of init leave behind become its children, since it is their reaper: whatever they do, they stay
//! below it, and are found by walking up from every process to its parents.

use std::collections::HashMap;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Kills everything below `init`, again and again until there is nothing. What is forked meanwhile is found in the next
/// round: the forking ones are stopped first, so that there are fewer of them in each.
pub(super) fn end(init: i32) {
    // A bound, since a process that cannot be killed (it waits for a broken disk) must not hold us for ever.
    for _ in 0..1000 {
        let below = below(init);
        if below.is_empty() {
            return;
        }
        for signal in [Signal::STOP, Signal::KILL] {
            for pid in &below {
                send(*pid, init, signal);
            }
        }
        std::thread::yield_now();
    }
    tracing::error!(init, "processes below it could not be ended");
}

/// The process is pinned first and looked at again, so that a number that was given to somebody else is not killed.
fn send(pid: i32, init: i32, signal: Signal) {
    let Some(number) = Pid::from_raw(pid) else { return };
    if let Ok(pinned) = pidfd_open(number, PidfdFlags::empty())
        && is_below(pid, init)
    {
        let _ = pidfd_send_signal(&pinned, signal);
    }
}

fn is_below(pid: i32, init: i32) -> bool {
    let mut next = pid;
    // Deeper than any tree that the kernel allows would be a loop.
    for _ in 0..100_000 {
        match parent(next) {
            Some((parent, _)) if parent == init => return true,
            Some((parent, _)) if parent > 1 => next = parent,
            _ => return false,
        }
    }
    false
}

fn below(init: i32) -> Vec<i32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let parents: HashMap<i32, (i32, bool)> = names.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let leads_to_init = |pid: i32| {
        let mut next = pid;
        for _ in 0..parents.len() {
            match parents.get(&next) {
                Some((parent, _)) if *parent == init => return true,
                Some((parent, _)) => next = *parent,
                None => return false,
            }
        }
        false
    };
    // The dead only wait for init to take note.
    parents.iter().filter(|(pid, (_, alive))| *alive && leads_to_init(**pid)).map(|(pid, _)| *pid).collect()
}

/// The parent of a process, and whether it is alive.
fn parent(pid: i32) -> Option<(i32, bool)> {
    // The name is in parentheses and may have any bytes in it, parentheses too.
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    Some((fields.next()?.parse().ok()?, !matches!(state, "Z" | "X")))
}
