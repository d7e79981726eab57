//! How large paths, writes and answers may be.

/// The limits of a filesystem. All can be changed; exceeding one is an error that names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FsLimits {
    /// Segments in a path.
    pub max_segments: usize,
    /// Characters (not bytes) in a segment.
    pub max_segment_chars: usize,
    /// Bytes in one write. An edit may not grow a file beyond it either.
    pub max_write_bytes: usize,
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
        max_grep_matches: 1000,
        default_window: 2000,
    };
}

impl Default for FsLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
