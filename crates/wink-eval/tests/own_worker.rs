//! A program that is its own worker, with an ordinary allocator: the operating system's limit on memory holds alone.
//!
//! Not run by the usual harness, since this very program is started again as the worker.

#![allow(clippy::expect_used, clippy::panic, reason = "tests panic when they fail")]

use std::process::ExitCode;
use std::sync::Arc;

use wink::limits::{Clock, SystemClock};
use wink_eval::{Failure, Finished, Interpreter, Limits, Program, Success, WorkerProcess, worker};

fn main() -> ExitCode {
    if worker::is_called() {
        return worker::main();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(async {
        let value = run("6 * 7").await.outcome;
        assert_eq!(value, Ok(Success { value: Some("42".to_owned()), outputs: Vec::new() }));
        if cfg!(target_os = "linux") {
            // One large text is foreseen by the interpreter; many that are not large add up unseen.
            let failure = run("a = 'a' * (1 << 20)\nwhile True: a = a + a").await.outcome;
            assert_eq!(failure, Err(Failure::Memory { bytes: 64 * 1024 * 1024 }));
            let failure =
                run("a = 'a' * (1 << 20)\nb = []\nwhile True: b.append(a + str(len(b)))").await.outcome;
            assert_eq!(failure, Err(Failure::Died { how: "signal: 6 (SIGABRT)".to_owned() }));
        }
    });
    ExitCode::SUCCESS
}

async fn run(code: &str) -> Finished {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let program = Program { code: code.to_owned(), ..Program::default() };
    let worker = WorkerProcess::this_program().expect("a path");
    worker.run(program, &Limits::default(), &clock).await
}
