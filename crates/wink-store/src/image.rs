//! The database as it is on disk, with what is only in its log, in memory: for places where nothing can be written.
//!
//! SQLite itself needs to write beside a database to read its log. So the log is read here as SQLite reads it
//! (<https://sqlite.org/fileformat2.html#walformat>): its frames count up to the last commit before the first that is not whole.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use wink::store::StoreError;

use crate::schema::failed;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// What a log begins with; the last bit says in which order the words of its checksums are.
const MAGIC: u32 = 0x377f_0682;
/// Where a database says how it is written: ahead, or not.
const WRITTEN_AHEAD: std::ops::Range<usize> = 18..20;
/// How often it is tried to read database and log while others write.
const TRIES: usize = 50;
/// By how much more than its log a database may grow by it.
const MOST_GROWTH: usize = 16;

/// Reads a database and its log, without writing or locking anything.
pub(crate) fn read(path: &Path) -> Result<Connection, StoreError> {
    let unreadable = |error: io::Error| StoreError::failed("read", format!("{}: {error}", path.display()));
    let mut bytes = at_one_moment(path).map_err(unreadable)?;
    if let Some(modes) = bytes.get_mut(WRITTEN_AHEAD) {
        // In memory there is no log.
        modes.fill(1);
    }
    let mut conn = Connection::open_in_memory().map_err(failed("read"))?;
    if !bytes.is_empty() {
        conn.deserialize_read_exact("main", bytes.as_slice(), bytes.len(), false).map_err(failed("read"))?;
    }
    Ok(conn)
}

/// Only the log changes while others commit, at its end. What they fold into the database is in the log until that begins anew, which
/// its header tells.
fn at_one_moment(path: &Path) -> io::Result<Vec<u8>> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let log = PathBuf::from(log);
    let read_log = || match std::fs::read(&log) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read,
    };
    let mut before = read_log()?;
    for _ in 0..TRIES {
        let database = std::fs::read(path)?;
        let after = read_log()?;
        if before.get(..HEADER) == after.get(..HEADER) {
            return with_log(database, &after);
        }
        before = after;
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "other processes change it all the time; try again"))
}

/// The database with the commits in its log.
fn with_log(mut database: Vec<u8>, log: &[u8]) -> io::Result<Vec<u8>> {
    let Some(Committed { pages, size, frames }) = committed(log) else { return Ok(database) };
    let len = pages.saturating_mul(size);
    // Most pages that a commit adds are in the log. A damaged or hostile one must not ask for all the memory that there is.
    if len > database.len().saturating_add(log.len().saturating_mul(MOST_GROWTH)) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "its log says that it has far more pages than there are",
        ));
    }
    database.resize(len, 0);
    for (number, page) in frames {
        let at = number.saturating_sub(1).saturating_mul(size);
        // What is behind the end was removed by a later commit.
        if let Some(place) = database.get_mut(at..at.saturating_add(size)) {
            place.copy_from_slice(page);
        }
    }
    Ok(database)
}

/// What a log has up to its last commit.
struct Committed<'l> {
    /// How many pages the database has then.
    pages: usize,
    size: usize,
    /// Pages with their numbers, oldest first.
    frames: Vec<(usize, &'l [u8])>,
}

fn committed(log: &[u8]) -> Option<Committed<'_>> {
    let whole = Whole::of(log)?;
    let size = whole.size;
    let (mut frames, mut last) = (Vec::new(), None);
    for (number, pages, page) in whole {
        frames.push((number, page));
        if pages > 0 {
            last = Some((pages, frames.len()));
        }
    }
    let (pages, count) = last?;
    frames.truncate(count);
    Some(Committed { pages, size, frames })
}

/// The frames of a log that are whole, in order: the number of the page, how many pages the database has if it is the last of a
/// commit, and the page.
struct Whole<'l> {
    rest: &'l [u8],
    size: usize,
    salts: &'l [u8],
    sums: [u32; 2],
    big_endian: bool,
}

impl<'l> Whole<'l> {
    fn of(log: &'l [u8]) -> Option<Self> {
        let (header, rest) = log.split_at_checked(HEADER)?;
        let magic = word(header, 0)?;
        if magic & !1 != MAGIC {
            return None;
        }
        let big_endian = magic & 1 == 1;
        let size = usize::try_from(word(header, 8)?).ok()?;
        if !(size.is_power_of_two() && (512..=65536).contains(&size)) {
            return None;
        }
        let sums = checksum([0; 2], header.get(..24)?, big_endian);
        let is_whole = [word(header, 24)?, word(header, 28)?] == sums;
        is_whole.then_some(Self { rest, size, salts: header.get(16..24)?, sums, big_endian })
    }
}

impl<'l> Iterator for Whole<'l> {
    type Item = (usize, usize, &'l [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (frame, rest) = self.rest.split_at_checked(FRAME_HEADER + self.size)?;
        let (header, page) = frame.split_at_checked(FRAME_HEADER)?;
        let sums = checksum(self.sums, header.get(..8)?, self.big_endian);
        let sums = checksum(sums, page, self.big_endian);
        let number = usize::try_from(word(header, 0)?).ok()?;
        let is_whole =
            header.get(8..16)? == self.salts && [word(header, 16)?, word(header, 20)?] == sums && number > 0;
        if !is_whole {
            return None;
        }
        (self.rest, self.sums) = (rest, sums);
        Some((number, usize::try_from(word(header, 4)?).ok()?, page))
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn checksum([mut one, mut two]: [u32; 2], bytes: &[u8], big_endian: bool) -> [u32; 2] {
    let word =
        |bytes: [u8; 4]| if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
    let (pairs, _) = bytes.as_chunks::<8>();
    for [a, b, c, d, e, f, g, h] in pairs {
        one = one.wrapping_add(word([*a, *b, *c, *d])).wrapping_add(two);
        two = two.wrapping_add(word([*e, *f, *g, *h])).wrapping_add(one);
    }
    [one, two]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what is broken by panicking")]

    use super::*;

    /// A log with one commit: page 1 of a database of so many pages.
    fn log(pages: u32) -> Vec<u8> {
        let mut log: Vec<u8> =
            [MAGIC | 1, 3_007_000, 512, 0, 7, 9].into_iter().flat_map(u32::to_be_bytes).collect();
        let sums = checksum([0; 2], &log, true);
        log.extend(sums.into_iter().flat_map(u32::to_be_bytes));
        let (header, page) =
            ([1, pages].into_iter().flat_map(u32::to_be_bytes).collect::<Vec<u8>>(), [5; 512]);
        let sums = checksum(checksum(sums, &header, true), &page, true);
        let rest = [7, 9].into_iter().chain(sums).flat_map(u32::to_be_bytes);
        [log, header, rest.collect(), page.to_vec()].concat()
    }

    #[test]
    fn a_log_asks_for_no_more_memory_than_it_can_need() {
        assert_eq!(with_log(Vec::new(), &log(1)).unwrap(), [5; 512]);
        assert_eq!(with_log(vec![1; 1024], &log(2)).unwrap(), [[5; 512], [1; 512]].concat());
        assert_eq!(with_log(Vec::new(), &log(u32::MAX)).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
