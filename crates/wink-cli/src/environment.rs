//! Keeps what the program was given in its environment from whoever looks at the process.
//!
//! `/proc/PID/environ` shows the memory that the kernel laid the environment in, for as long as the process lives, in every process
//! that is forked from it, and to every process of the same user: to the commands of an agent, which are not given the variables that
//! have keys. So the environment is moved, and that memory wiped. What is read from it is the same afterwards.
//!
//! Proof for the unsafe code, which sets variables and writes to a range of memory. Nothing else reads or writes either meanwhile: the
//! kernel says that this process has one thread, and that one is here. The range is the kernel's own word for where it put the
//! strings of this process: it is mapped, readable and writable, on the stack's mapping above every frame, and stays so; no value of
//! Rust lies in it, and std hands out copies of what it finds there. Strings of C that still point into it (an entry without a name,
//! the second of two entries of one name, what the loader kept) see zeros: an empty string, that ends where it begins.

#![expect(unsafe_code, reason = "the memory of the environment has no safe form; see the proof above")]

use std::ffi::OsStr;
use std::ops::Range;

/// Moves the environment to memory of its own, and wipes where it was. Nothing is done where the system does not say where that is,
/// nor where there are other threads.
pub(crate) fn hide() {
    let Some(range) = std::fs::read_to_string("/proc/self/stat").ok().as_deref().and_then(range) else {
        return;
    };
    if std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count) != 1 {
        return;
    }
    // libc keeps a copy of every variable that is set. The last first: of two entries of one name, the first is the one that counts.
    let given: Vec<_> = std::env::vars_os().filter(|(name, _)| can_be_set(name)).collect();
    for (name, value) in given.into_iter().rev() {
        // SAFETY: there is no other thread.
        unsafe { std::env::set_var(name, value) };
    }
    // SAFETY: the kernel says that the environment is there, and there is no other thread.
    unsafe { wipe(range) };
}

/// What libc does not refuse.
fn can_be_set(name: &OsStr) -> bool {
    !name.is_empty() && !name.as_encoded_bytes().contains(&b'=')
}

/// Where the kernel put the environment: the 50th and the 51st field. The second is the program's name, which may have anything in
/// it, and ends with the last parenthesis.
fn range(stat: &str) -> Option<Range<usize>> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(50 - 3);
    let (start, end) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    // Both are 0 where they are not told.
    (0 < start && start < end).then_some(start..end)
}

/// # Safety
/// The range is this process's environment as the kernel laid it out, and nobody else uses it now.
unsafe fn wipe(range: Range<usize>) {
    let first: *mut u8 = std::ptr::with_exposed_provenance_mut(range.start);
    for at in 0..range.len() {
        // SAFETY: inside of the range. Volatile, since nothing in this program reads it again.
        unsafe { first.add(at).write_volatile(0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_found_behind_any_name() {
        let fields = |start: &str, end: &str| {
            let before: String = (3..50).map(|number| format!("{number} ")).collect();
            format!("1 (a ) b) {before}{start} {end} 0\n")
        };
        assert_eq!(range(&fields("4096", "4100")), Some(4096..4100));
        for (start, end) in [("0", "0"), ("4100", "4096"), ("x", "4096"), ("4096", "-1")] {
            assert_eq!(range(&fields(start, end)), None);
        }
        for none in ["", "1 (a) S", "1 a S 3"] {
            assert_eq!(range(none), None);
        }
    }
}
