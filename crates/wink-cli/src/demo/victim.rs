//! Another process, that is killed in the middle of its commit: this same program, started with a word of its own.
//!
//! It makes one call. When the given number of files is in place it says so and waits to be killed; it never gets further.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wink::executor::ToolCall;
use wink::serde_json::Value;
use wink::testing::steps;

use super::bank::Bank;
use super::commands::Commands;
use super::place::Place;
use super::stage::Shop;
use super::tools::Lamps;
use super::{DemoError, Doing};

/// The word that makes this program one.
const COMMAND: &str = "demo-victim";

/// After how many changes of the tree it stops. The call that it makes takes one more.
const STEPS: usize = 2;

/// What it says when it has stopped.
const STOPPED: &str = "stopped";

/// Has another process make a call, and kills it half-way.
pub(super) fn killed_in(place: &Place, tool: &str, arguments: &Value) -> Result<(), DemoError> {
    let program = std::env::current_exe().doing("find this program")?;
    let mut child = Command::new(program)
        .arg(COMMAND)
        .arg(place.root())
        .args([tool, &arguments.to_string()])
        // It waits on this: should the demo die first, it does not wait for ever.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .doing("start another process")?;
    let mut said = String::new();
    let heard = match child.stdout.take() {
        Some(out) => BufReader::new(out).read_line(&mut said).doing("listen to another process"),
        None => Ok(0),
    };
    // On Unix this is SIGKILL, which no process can do anything about.
    child.kill().doing("kill another process")?;
    child.wait().doing("wait for another process")?;
    heard?;
    match said.trim_end() == STOPPED {
        true => Ok(()),
        false => Err(DemoError::Runtime {
            doing: "stop another process half-way",
            reason: format!("it ended by itself, and said {said:?}"),
        }),
    }
}

/// Is that process, if it was started as one: by that word and the three that [`killed_in`] gives.
pub(crate) fn called() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    if words.next()? != COMMAND {
        return None;
    }
    let (root, tool, arguments) = (words.next()?, words.next()?, words.next()?);
    Some(main(root.into(), tool.to_str()?, arguments.to_str()?))
}

fn main(root: PathBuf, tool: &str, arguments: &str) -> ExitCode {
    let done = AtomicUsize::new(0);
    steps::on_every_step(move |step| {
        if step == "journal.step-done" && done.fetch_add(1, Ordering::Relaxed) + 1 == STEPS {
            let mut out = std::io::stdout();
            let _ = writeln!(out, "{STOPPED}").and_then(|()| out.flush());
            let _ = std::io::stdin().read(&mut [0]);
            // Nobody kills it any more.
            std::process::abort();
        }
    });
    let call = async {
        let place = Place::at(root);
        let (lamps, bank) = (Arc::new(Lamps::new(0)), Arc::new(Bank::with_books(place.books())));
        let shop = Shop::open(&place, &lamps, &bank, &Commands::find()).await?;
        let outcome = shop.executor.call(ToolCall::new("victim", tool, arguments)).await;
        Ok::<_, DemoError>(outcome.text().to_owned())
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let ended = runtime.doing("start a runtime").and_then(|runtime| runtime.block_on(call));
    let reason = ended.unwrap_or_else(|error| error.to_string());
    anstream::eprintln!("wink {COMMAND}: the call came to its end: {reason}");
    ExitCode::FAILURE
}
