//! Effects outside: a process of its own that counts them, and asks nobody whether they were meant.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Counts effects by key until it is killed. `+KEY` is an effect, `?` asks for all counts as one line of JSON.
pub(crate) fn count(socket: &Path) -> std::io::Result<()> {
    let listener = UnixListener::bind(socket)?;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    // One at a time: what was counted before the answer is never lost.
    for stream in listener.incoming() {
        let mut stream = stream?;
        let mut line = String::new();
        BufReader::new(stream.try_clone()?).read_line(&mut line)?;
        let answer = match line.trim_end().strip_prefix('+') {
            Some(key) => {
                *counts.entry(key.to_owned()).or_default() += 1;
                "counted".to_owned()
            }
            None => serde_json::to_string(&counts)?,
        };
        // A client that was killed meanwhile hears nothing, and its effect counts.
        let _ = writeln!(stream, "{answer}");
    }
    Ok(())
}

/// Has the effect.
pub(crate) fn happen(socket: &Path, key: &str) -> std::io::Result<()> {
    ask(socket, &format!("+{key}")).map(drop)
}

/// How often each effect happened.
pub(crate) fn counts(socket: &Path) -> std::io::Result<BTreeMap<String, u64>> {
    Ok(serde_json::from_str(&ask(socket, "?")?)?)
}

fn ask(socket: &Path, text: &str) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    writeln!(stream, "{text}")?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(answer)
}
