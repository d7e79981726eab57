//! Who is asked when a policy wants somebody's word: the person at the terminal, if there is one.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use tokio::sync::oneshot;
use wink::BoxFuture;
use wink::executor::{Approval, ApprovalRequest, Approver};

use super::progress::Reporter;
use crate::frame::visible;
use crate::term::{BOLD, DIM, NAME};

/// The approver of a call from the command line. In a pipe there is none, and what needs one is denied as everywhere.
pub(super) fn approver(yes: bool, reporter: Reporter) -> Option<Arc<dyn Approver>> {
    let is_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
    match (yes, is_terminal) {
        (true, _) => Some(Arc::new(Asked::Beforehand)),
        (false, true) => Some(Arc::new(Asked::Person(reporter))),
        (false, false) => None,
    }
}

enum Asked {
    /// Whoever called has approved everything.
    Beforehand,
    Person(Reporter),
}

impl Approver for Asked {
    fn ask<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> BoxFuture<'a, Result<Approval, wink::resource::BoxError>> {
        Box::pin(async move {
            Ok(match self {
                Self::Beforehand => Approval::Approved { by: "--yes".into() },
                Self::Person(reporter) => {
                    reporter.pause();
                    let answer = at_terminal(request).await;
                    reporter.resume();
                    answer?
                }
            })
        })
    }
}

/// Asks the person at the terminal. Anything but yes is no.
async fn at_terminal(request: &ApprovalRequest) -> io::Result<Approval> {
    let arguments = visible(&request.arguments).into_owned();
    let mut err = anstream::stderr();
    writeln!(err, "{NAME}{}{NAME:#} {DIM}{arguments}{DIM:#}", visible(&request.tool))?;
    write!(err, "{BOLD}{}{BOLD:#} [y/N] ", visible(&request.question))?;
    err.flush()?;
    let line = line().await?;
    if !line.ends_with('\n') {
        // Nobody pressed the key that ends a line.
        writeln!(err)?;
    }
    let by: Arc<str> =
        std::env::var("USER").ok().filter(|name| !name.is_empty()).as_deref().unwrap_or("terminal").into();
    Ok(match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Approval::Approved { by },
        _ => Approval::Refused { by, reason: "the answer was no".to_owned() },
    })
}

/// A line of standard input. It is waited for by a thread that nobody waits for: the call may be cancelled meanwhile.
async fn line() -> io::Result<String> {
    let (send, answer) = oneshot::channel();
    std::thread::Builder::new().name("wink-ask".into()).spawn(move || {
        let mut line = String::new();
        let read = io::stdin().read_line(&mut line);
        let _ = send.send(read.map(|_| line));
    })?;
    answer.await.unwrap_or_else(|_| Err(io::ErrorKind::UnexpectedEof.into()))
}
