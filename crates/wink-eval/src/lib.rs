//! Python for agents: the section [`AstevalSection`] with the tool `evaluate_python`.
//!
//! A program has no access of its own: no files, no network, no environment, no clock, no other modules than a few
//! that only compute. What it reads of the workspace is declared in the call and handed to it as variables; what it
//! writes is declared as well, taken from its variables when it has ended well, and written through the call's own
//! workspace, so that it stands or falls with the call.
//!
//! The interpreter runs in a worker process ([`WorkerProcess`]), one for each program, which is killed when its time
//! is up, whatever it does. On Linux it gives up all access before it looks at a program (`wink_sandbox::seal`): an interpreter
//! that could be broken out of has nothing to reach. The worker is any program that calls [`worker::main`] when its first argument is
//! [`worker::ARGUMENT`]:
//!
//! ```no_run
//! // Without this, memory is bounded by the operating system alone, and the message says less.
//! #[global_allocator]
//! static ALLOCATOR: wink_eval::LimitedAllocator = wink_eval::LimitedAllocator;
//!
//! fn main() -> std::process::ExitCode {
//!     if wink_eval::worker::is_called() {
//!         return wink_eval::worker::main();
//!     }
//!     // … the program's own business, with a prompt that has this section:
//!     let section = wink_eval::AstevalSection::new(wink_eval::WorkerProcess::this_program().expect("a path"));
//!     # let _ = section;
//!     std::process::ExitCode::SUCCESS
//! }
//! ```
//!
//! Another interpreter can take its place: [`Interpreter`] is all that the section knows.

mod interpreter;
mod process;
mod section;
mod tool;
pub mod worker;

pub use interpreter::{Captured, Failure, Finished, Interpreter, Limits, Program, Success};
pub use monty_alloc::LimitedAllocator;
pub use process::WorkerProcess;
pub use section::AstevalSection;
pub use tool::{EvaluatePython, Evaluated, ReadFile, WriteFile, WriteMode, Written};
