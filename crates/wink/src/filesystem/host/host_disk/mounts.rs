//! What is mounted below the root.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::HostDisk;

impl HostDisk {
    /// Where something is mounted below the root, of whatever device. Where the system does not tell, nowhere.
    pub(in super::super) fn mounts(&self) -> io::Result<Vec<PathBuf>> {
        let told = |path: &str| match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        };
        let mounts = told("/proc/self/mountinfo")?;
        if mounts.is_empty() {
            return Ok(Vec::new());
        }
        let root = std::fs::read_link(format!("/proc/self/fd/{}", self.root.as_raw_fd()))?;
        Ok(below(&mounts, &root))
    }
}

/// The mount points of a table that are below a directory. The fifth word of a line is the mount point.
fn below(table: &[u8], root: &Path) -> Vec<PathBuf> {
    let points =
        table.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    let points = points.map(|point| PathBuf::from(unescaped(point)));
    let mut found: Vec<PathBuf> = points
        .filter_map(|point| Some(point.strip_prefix(root).ok()?.to_owned()))
        .filter(|point| !point.as_os_str().is_empty())
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Blanks and the like are written as three octal digits.
fn unescaped(text: &[u8]) -> OsString {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let octal = |digit: &u8| (b'0'..=b'7').contains(digit).then(|| u32::from(digit - b'0'));
        let digits = match after {
            [a, b, c, tail @ ..] if *first == b'\\' => {
                octal(a).zip(octal(b)).zip(octal(c)).map(|((a, b), c)| ((a * 64 + b * 8 + c) as u8, tail))
            }
            _ => None,
        };
        let (byte, tail) = digits.unwrap_or((*first, after));
        bytes.push(byte);
        rest = tail;
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_below_are_found() {
        let table = b"22 1 8:1 / / rw - ext4 /dev/a rw\n23 22 0:5 / /w rw - tmpfs t rw\n\
            24 23 8:1 /x /w/a\\040b\\134/c rw shared:1 - ext4 /dev/a rw\n25 22 0:6 / /work rw - tmpfs t rw\n";
        assert_eq!(below(table, Path::new("/w")), [PathBuf::from("a b\\/c")]);
        assert_eq!(unescaped(b"/w\\04"), OsString::from("/w\\04"));
    }
}
