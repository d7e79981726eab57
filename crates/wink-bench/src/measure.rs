//! How a case is measured: nanoseconds by the clock, instructions by callgrind.
//!
//! The clock sees the contenders of a row in turn, batch by batch, so that a busy moment of the machine falls on
//! all of them; the median forgets it. Instructions are counted in a child process of this very program, run
//! under valgrind, which counts only inside [`measured_region`]: set-up and warm-up cost nothing.

use std::hint::black_box;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, process};

use crate::cases::{Case, Contender, Row};

#[cfg(test)]
mod tests;

/// The argument with which this program runs itself under valgrind.
pub(crate) const COUNTED: &str = "--counted";

/// What one case costs per call; `None` where it was not measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    pub(crate) instructions: Option<u64>,
    pub(crate) ns: Option<Timed>,
    pub(crate) memory: Option<Memory>,
}

/// What a server of many sessions takes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// With all sessions open and nothing to do.
    pub(crate) resident: u64,
    /// The most that it ever was.
    pub(crate) peak: u64,
    /// What each session added to what it was with none.
    pub(crate) of_each: u64,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// As often as the figures need it.
    Full,
    /// Once or twice, to see that it works.
    Few,
}

/// Nanoseconds per call, of many batches of calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Timed {
    pub(crate) median: f64,
    /// A tenth of the batches took less.
    pub(crate) low: f64,
    /// A tenth took more.
    pub(crate) high: f64,
    /// One in a hundred took more.
    pub(crate) most: f64,
}

const ROUNDS: usize = 101;
const BATCH: Duration = Duration::from_micros(500);
const MOST_CALLS_IN_A_BATCH: u32 = 50_000;
const WARM_UP_CALLS: u32 = 300;
const COUNTED_CALLS: u32 = 500;

/// Nanoseconds per call of each case: the median of many batches, the cases taking turns.
pub(crate) fn time(cases: &mut [Case]) -> Vec<Timed> {
    let calls: Vec<u32> = cases.iter_mut().map(calls_in_a_batch).collect();
    let mut batches = vec![Vec::with_capacity(ROUNDS); cases.len()];
    for _ in 0..ROUNDS {
        for ((case, calls), batches) in cases.iter_mut().zip(&calls).zip(&mut batches) {
            batches.push(nanoseconds_per_call(case, *calls));
        }
    }
    batches.into_iter().map(timed).collect()
}

/// The same for what is not in memory alone: each run is timed by itself.
pub(crate) fn time_alone(cases: &mut [(Contender, Row, Case)], effort: Effort) -> Vec<Timed> {
    let mut batches = vec![Vec::new(); cases.len()];
    let (warm_up, rounds) = match effort {
        Effort::Full => cases.first().map_or((0, 0), |(_, row, _)| row.runs()),
        Effort::Few => (1, 3),
    };
    for round in 0..warm_up + rounds {
        for ((contender, row, case), batches) in cases.iter_mut().zip(&mut batches) {
            let ns = nanoseconds_per_call(case, 1) / f64::from(contender.calls_in_a_run(*row));
            if round >= warm_up {
                batches.push(ns);
            }
        }
    }
    batches.into_iter().map(timed).collect()
}

fn calls_in_a_batch(case: &mut Case) -> u32 {
    measured_region(case, WARM_UP_CALLS);
    let per_call = nanoseconds_per_call(case, WARM_UP_CALLS).max(1.0);
    ((BATCH.as_nanos() as f64 / per_call) as u32).clamp(1, MOST_CALLS_IN_A_BATCH)
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
fn nanoseconds_per_call(case: &mut Case, calls: u32) -> f64 {
    let start = Instant::now();
    measured_region(case, calls);
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}

/// What there is to say of many measurements.
pub(crate) fn timed(mut values: Vec<f64>) -> Timed {
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    let from_end = |part: usize| at(values.len().saturating_sub(values.len() / part + 1));
    Timed {
        median: at(values.len() / 2),
        low: at(values.len() / 10),
        high: from_end(10),
        most: from_end(100),
    }
}

/// Does the calls. Callgrind starts counting when this function is entered and stops when it is left, so its
/// name must appear in no other function's name, and it must stay a function of its own.
#[inline(never)]
fn measured_region(case: &mut Case, calls: u32) {
    for _ in 0..calls {
        black_box(&mut *case)();
    }
}

/// What the child process under valgrind does.
pub(crate) fn run_counted(mut case: Case) {
    // Not through the counted function: the first calls fill caches and tables.
    for _ in 0..WARM_UP_CALLS {
        case();
    }
    measured_region(&mut case, COUNTED_CALLS);
}

/// A valgrind that is there.
pub(crate) struct Callgrind(());

impl Callgrind {
    /// Finds valgrind, and installs it where that needs no questions: as root, on a system with apt.
    pub(crate) fn find() -> Result<Self, String> {
        let runs = |program: &str, arguments: &[&str]| {
            let status = Command::new(program)
                .args(arguments)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            status.is_ok_and(|status| status.success())
        };
        let found = || runs("valgrind", &["--version"]);
        if found() {
            return Ok(Self(()));
        }
        if is_root() {
            eprintln!("valgrind is missing; installing it with `apt-get install -y valgrind`");
            if runs("apt-get", &["install", "-y", "valgrind"]) && found() {
                return Ok(Self(()));
            }
        }
        Err("valgrind is missing, so instructions were not counted; install it \
             (for example `apt-get install valgrind`) and run again"
            .to_owned())
    }

    /// Instructions per call of one case.
    pub(crate) fn count(&self, contender: Contender, row: Row) -> Result<u64, String> {
        let program = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
        let counts = Scratch::new(contender, row);
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--collect-atstart=no", "--toggle-collect=*measured_region*"])
            .arg(format!("--callgrind-out-file={}", counts.0.display()))
            .arg(program)
            .args([COUNTED, contender.name(), row.name()])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cannot run valgrind: {error}"))?;
        if !output.status.success() {
            return Err(format!("valgrind failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        let counts = fs::read_to_string(&counts.0)
            .map_err(|error| format!("valgrind left no counts at {}: {error}", counts.0.display()))?;
        let total =
            total(&counts).ok_or("valgrind's counts have no `totals:` line with a number above zero")?;
        Ok((total + u64::from(COUNTED_CALLS) / 2) / u64::from(COUNTED_CALLS))
    }
}

/// The instructions of a callgrind file. Zero means that the marked function was never met, and is no count.
fn total(counts: &str) -> Option<u64> {
    let totals = counts.lines().find_map(|line| line.strip_prefix("totals:"))?;
    totals.trim().parse().ok().filter(|total| *total > 0)
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").stdin(Stdio::null()).output();
    id.is_ok_and(|id| id.stdout.trim_ascii() == b"0")
}

/// The file that valgrind writes its counts to; gone when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(contender: Contender, row: Row) -> Self {
        let row = row.name().replace('/', "-");
        Self(env::temp_dir().join(format!("wink-bench-{}-{}-{row}.out", process::id(), contender.name())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing to do about a file that cannot be removed, or that valgrind never wrote.
        let _ = fs::remove_file(&self.0);
    }
}
