//! The worker's own limits: whoever started it has others, from outside.

use std::time::Duration;

use crate::interpreter::{Limits, OUT_OF_TIME};

/// How much longer than the program's time the worker lives: the interpreter looks at the time itself, now and then.
const GRACE: Duration = Duration::from_secs(1);

/// Address space beside the program's memory: the binary, the interpreter's stack, and what allocators keep.
#[cfg(unix)]
const BESIDE: u64 = 1024 * 1024 * 1024;

/// Puts the limits in place, while there is one thread. Why a program must not run, if they could not be.
pub(super) fn arm(limits: &Limits) -> Result<(), String> {
    // Without the allocator, which is the binary's choice, the system's limit below is the only one.
    let _ = monty_alloc::set_limit(Some(limits.memory), false);
    #[cfg(unix)]
    arm_system(limits);
    // Before there are other threads, which are then sealed as well. An interpreter that can be broken out of has nothing to reach.
    #[cfg(target_os = "linux")]
    wink_sandbox::seal().map_err(|error| error.to_string())?;
    let until = limits.time.saturating_add(GRACE);
    let alarm = move || {
        #[expect(
            clippy::disallowed_methods,
            reason = "a process that only has to end in time has no other clock"
        )]
        std::thread::sleep(until);
        std::process::exit(i32::from(OUT_OF_TIME));
    };
    if std::thread::Builder::new().spawn(alarm).is_err() {
        // Whoever started the worker has a clock as well.
    }
    Ok(())
}

/// Takes the program's memory limit away, for what has to be done after it.
pub(super) fn lift() {
    let _ = monty_alloc::set_limit(None, false);
}

/// Nothing is written, nothing is dumped, and time and address space end.
#[cfg(unix)]
fn arm_system(limits: &Limits) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let lower = |resource: Resource, to: u64| {
        let hard = getrlimit(resource).maximum.map_or(to, |hard| hard.min(to));
        // Lowering is always allowed; where a system does not know the limit, there is none.
        let _ = setrlimit(resource, Rlimit { current: Some(hard), maximum: Some(hard) });
    };
    lower(Resource::Core, 0);
    lower(Resource::Fsize, 0);
    lower(Resource::Cpu, limits.time.as_secs().saturating_add(3));
    #[cfg(not(target_os = "openbsd"))]
    lower(Resource::As, BESIDE.saturating_add(u64::try_from(limits.memory).unwrap_or(u64::MAX)));
}
