//! The pipes to the program: lines come in, and lines go out without anybody waiting for the other side to read them.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::recording::Talk;

/// No line of the program's is longer than this: an answer of a tool may be a large file.
const LONGEST: usize = 64 * 1024 * 1024;

/// Lines as they come in.
pub(super) struct Lines<R> {
    from: BufReader<R>,
    line: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from: BufReader::new(from), line: Vec::new() }
    }

    /// The next line; nothing at the end. Nothing is lost if this is dropped.
    pub(super) async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let piece = self.from.fill_buf().await?;
            if piece.is_empty() {
                // What has no end is no line.
                return Ok(None);
            }
            let (taken, is_whole) = match piece.iter().position(|byte| *byte == b'\n') {
                Some(end) => (end + 1, true),
                None => (piece.len(), false),
            };
            self.line.extend(piece.get(..taken).unwrap_or_default());
            self.from.consume(taken);
            if is_whole {
                return Ok(Some(std::mem::take(&mut self.line)));
            }
            if self.line.len() > LONGEST {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line has no end"));
            }
        }
    }
}

/// Lines as they go out, in the order that they are said in. Dropping this closes the pipe.
pub(super) struct Writer {
    lines: Option<mpsc::UnboundedSender<Vec<u8>>>,
    writing: JoinHandle<()>,
    talk: Option<Talk>,
}

impl Writer {
    /// To a pipe; `talk` has it as well.
    pub(super) fn new(mut to: impl AsyncWrite + Unpin + Send + 'static, talk: Option<Talk>) -> Self {
        let (lines, mut written) = mpsc::unbounded_channel::<Vec<u8>>();
        let writing = tokio::spawn(async move {
            while let Some(line) = written.recv().await {
                // A program that does not listen any more has ended, as is seen where it is read from.
                if to.write_all(&line).await.is_err() || to.flush().await.is_err() {
                    break;
                }
            }
            let _ = to.shutdown().await;
        });
        Self { lines: Some(lines), writing, talk }
    }

    pub(super) fn say(&self, frame: &Value) {
        if let Some(talk) = &self.talk {
            talk.told(frame);
        }
        let mut line = frame.to_string().into_bytes();
        line.push(b'\n');
        if let Some(lines) = &self.lines {
            let _ = lines.send(line);
        }
    }

    /// Closes the pipe after what was said.
    pub(super) fn close(&mut self) {
        self.lines = None;
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.writing.abort();
    }
}
