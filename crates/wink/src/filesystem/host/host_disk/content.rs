//! Contents of files: held to a limit where all of it is in memory, piece by piece elsewhere.

use std::fs::File;
use std::io::{self, Read, Take};
use std::path::Path;

use super::HostDisk;

/// A file that is held to a size while it is read.
pub(in super::super) struct AtMost {
    file: Take<File>,
    max: usize,
    /// Its size when it was opened.
    expected: usize,
}

impl AtMost {
    /// All of it.
    pub(in super::super) fn into_vec(mut self) -> io::Result<Vec<u8>> {
        let mut content = Vec::with_capacity(self.expected);
        self.read_to_end(&mut content)?;
        Ok(content)
    }
}

impl Read for AtMost {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        if self.file.limit() == 0 { Err(too_large(self.max)) } else { Ok(read) }
    }
}

fn too_large(max: usize) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("more than {max} bytes"))
}

impl HostDisk {
    /// The contents of a file, unless it has more than `max` bytes: that is [`io::ErrorKind::FileTooLarge`].
    pub(in super::super) fn read_at_most(&self, path: &Path, max: usize) -> io::Result<Vec<u8>> {
        self.open_at_most(path, max)?.into_vec()
    }

    /// The same as a stream, which fails where there turns out to be more.
    pub(in super::super) fn open_at_most(&self, path: &Path, max: usize) -> io::Result<AtMost> {
        let file = self.open_file(path)?;
        let len = file.metadata()?.len();
        let expected = usize::try_from(len).ok().filter(|len| *len <= max).ok_or_else(|| too_large(max))?;
        // It may grow meanwhile.
        Ok(AtMost { file: file.take(max as u64 + 1), max, expected })
    }

    /// Whether two files have the same contents.
    pub(in super::super) fn is_same_content(&self, one: &Path, two: &Path) -> io::Result<bool> {
        let (mut one, mut two) = (self.open_file(one)?, self.open_file(two)?);
        let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            let (a, b) = (fill(&mut one, &mut left)?, fill(&mut two, &mut right)?);
            if left.get(..a) != right.get(..b) {
                return Ok(false);
            }
            if a == 0 {
                return Ok(true);
            }
        }
    }
}

/// Reads until there is no more room or no more to read.
fn fill(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}
