//! Contents of files: held to a limit where all of it is in memory, piece by piece elsewhere.

use std::fs::File;
use std::io::{self, Read, Take};
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::OFlags;

use super::{HostDisk, open_regular};
use crate::filesystem::host::disk::{Disk, Meta};

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

    /// Gives a file the contents of another one, in place.
    pub(in super::super) fn overwrite(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut source = self.open_file(from)?;
        let len = source.metadata()?.len();
        let open = || {
            self.opened(&[to], || {
                let (dir, name) = self.parent(to)?;
                open_regular(dir.as_fd(), name, OFlags::WRONLY)
            })
        };
        let mut target = match open() {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let entry = self.look(to)?.ok_or(io::ErrorKind::NotFound)?;
                self.set_meta(to, Meta { mode: entry.meta.mode | 0o600, ..entry.meta })?;
                open()?
            }
            opened => opened?,
        };
        target.set_len(0)?;
        copy(&mut source, &mut target, len, &|| false)
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

/// As much is copied before it is asked whether to stop.
const PIECE: u64 = 16 << 20;

/// Copies contents, holes as holes. `len` is how many bytes there were; there may be more by now.
pub(super) fn copy(
    source: &mut File,
    target: &mut File,
    len: u64,
    stop: &dyn Fn() -> bool,
) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if copy_data(source, target, len, stop)? {
        return Ok(());
    }
    let _ = len;
    copy_pieces(source, target, u64::MAX, stop)
}

fn copy_pieces(source: &mut File, target: &mut File, most: u64, stop: &dyn Fn() -> bool) -> io::Result<()> {
    let mut left = most;
    while left > 0 {
        if stop() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let copied = io::copy(&mut (&*source).take(left.min(PIECE)), target)?;
        if copied == 0 {
            break;
        }
        left -= copied;
    }
    Ok(())
}

/// Whether the filesystem says where the holes are; if not, nothing was done.
#[cfg(target_os = "linux")]
fn copy_data(source: &mut File, target: &mut File, len: u64, stop: &dyn Fn() -> bool) -> io::Result<bool> {
    use rustix::fs::{SeekFrom, seek};
    use rustix::io::Errno;
    use std::io::Seek;

    let mut at = 0;
    while at < len {
        let data = match seek(&*source, SeekFrom::Data(at)) {
            Ok(data) => data,
            // A hole to the end.
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL | Errno::OPNOTSUPP) if at == 0 => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let end = match seek(&*source, SeekFrom::Hole(data)) {
            Ok(end) => end,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        if data == 0 && end >= len {
            // No hole at all.
            source.rewind()?;
            return Ok(false);
        }
        source.seek(io::SeekFrom::Start(data))?;
        target.seek(io::SeekFrom::Start(data))?;
        copy_pieces(source, target, end - data, stop)?;
        at = end;
    }
    if target.metadata()?.len() < len {
        target.set_len(len)?;
    }
    Ok(true)
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
