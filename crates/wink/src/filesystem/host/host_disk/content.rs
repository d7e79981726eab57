//! Contents of files: held to a limit where all of it is in memory, piece by piece elsewhere.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::HostDisk;

impl HostDisk {
    /// The contents of a file, unless it has more than `max` bytes: that is [`io::ErrorKind::FileTooLarge`].
    pub(in super::super) fn read_at_most(&self, path: &Path, max: usize) -> io::Result<Vec<u8>> {
        let file = self.open_file(path)?;
        let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, format!("more than {max} bytes"));
        let len = file.metadata()?.len();
        let len = usize::try_from(len).ok().filter(|len| *len <= max).ok_or_else(too_large)?;
        let mut content = Vec::with_capacity(len);
        // It may grow meanwhile.
        file.take(max as u64 + 1).read_to_end(&mut content)?;
        if content.len() > max { Err(too_large()) } else { Ok(content) }
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
