//! How large paths, writes and answers may be.

use super::{FsError, FsPath, FsResult};

/// The limits of a filesystem. All can be changed; exceeding one is an error that names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FsLimits {
    /// Segments in a path.
    pub max_segments: usize,
    /// Characters (not bytes) in a segment.
    pub max_segment_chars: usize,
    /// Bytes in one write. An edit may not grow a file beyond it either.
    pub max_write_bytes: usize,
    /// Bytes of a file that is read, edited, appended to or searched: all of it is in memory then, but for a search on
    /// disk, which reads it piece by piece. Not less than `max_write_bytes`, or what was written cannot be read.
    pub max_read_bytes: usize,
    /// Matches that one grep returns.
    pub max_grep_matches: usize,
    /// Lines that a read returns unless it asks for others.
    pub default_window: usize,
}

impl FsLimits {
    /// The limits that hold unless others are asked for.
    pub const DEFAULT: Self = Self {
        max_segments: 16,
        max_segment_chars: 80,
        max_write_bytes: 32 * 1024 * 1024,
        max_read_bytes: 64 * 1024 * 1024,
        max_grep_matches: 1000,
        default_window: 2000,
    };

    /// Whether a file of so many bytes may be read.
    pub(crate) fn check_read(&self, path: &FsPath, bytes: u64) -> FsResult<()> {
        let max = self.max_read_bytes;
        if bytes > max as u64 {
            return Err(FsError::TooLargeToRead { path: path.clone(), bytes, max });
        }
        Ok(())
    }
}

impl Default for FsLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
