//! A stream that is held to the rule of what is text, the one of `as_text`, while it is read.

use std::io::{self, Read};

use crate::filesystem::search::SearchStop;

/// Reads text; a binary file is an error as soon as it shows.
pub(super) struct TextReader<R> {
    inner: R,
    /// The beginning of a character whose end has not been read yet.
    open: Vec<u8>,
    stop: SearchStop,
}

impl<R: Read> TextReader<R> {
    pub(super) fn new(inner: R, stop: SearchStop) -> Self {
        Self { inner, open: Vec::new(), stop }
    }

    /// Reads what is left.
    pub(super) fn finish(mut self) -> io::Result<()> {
        let mut buffer = [0; 8 * 1024];
        while self.read(&mut buffer)? > 0 {}
        Ok(())
    }

    fn check(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if bytes.contains(&0) {
            return Err(binary());
        }
        while !self.open.is_empty() {
            let Some((first, rest)) = bytes.split_first() else { return Ok(()) };
            self.open.push(*first);
            bytes = rest;
            match std::str::from_utf8(&self.open) {
                Ok(_) => self.open.clear(),
                Err(error) if error.error_len().is_none() => {}
                Err(_) => return Err(binary()),
            }
        }
        match std::str::from_utf8(bytes) {
            Ok(_) => Ok(()),
            Err(error) if error.error_len().is_none() => {
                self.open.extend_from_slice(bytes.get(error.valid_up_to()..).unwrap_or_default());
                Ok(())
            }
            Err(_) => Err(binary()),
        }
    }
}

impl<R: Read> Read for TextReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.is_stopped() {
            return Err(io::Error::other("the search was stopped"));
        }
        let read = self.inner.read(buffer)?;
        if read == 0 && !buffer.is_empty() && !self.open.is_empty() {
            return Err(binary());
        }
        self.check(buffer.get(..read).unwrap_or_default())?;
        Ok(read)
    }
}

/// Why a binary file is not read on.
#[derive(Debug, thiserror::Error)]
#[error("it is not text")]
struct Binary;

fn binary() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, Binary)
}

pub(super) fn is_binary(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Binary>())
}
