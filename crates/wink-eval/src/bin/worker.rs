//! A worker and nothing else, for tests and for programs that cannot be their own worker.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: wink_eval::LimitedAllocator = wink_eval::LimitedAllocator;

fn main() -> ExitCode {
    if wink_eval::worker::is_called() {
        return wink_eval::worker::main();
    }
    eprintln!(
        "wink-eval-worker is started by other programs, with the argument {}",
        wink_eval::worker::ARGUMENT
    );
    ExitCode::from(2)
}
