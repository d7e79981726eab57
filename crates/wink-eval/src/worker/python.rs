//! The one place that knows which interpreter it is.

use std::borrow::Cow;

use monty::MontyRepl;
use monty_types::{
    CompileOptions, ExcType, MontyException, MontyObject, PrintWriter, PrintWriterCallback, ResourceLimits,
    ResourceTracker,
};

use super::check;
use crate::interpreter::{Captured, Failure, Finished, Limits, Program, Success, boundary, cut};

/// Characters of an exception's text, and of where it was raised.
const MAX_SUMMARY: usize = 2000;
const MAX_TRACEBACK: usize = 4000;

/// Runs a program and takes from it what is wanted.
pub(super) fn run(program: &Program, limits: &Limits) -> Finished {
    if let Err(text) = check::check(&program.code) {
        return Finished::failed(Failure::Rejected { text });
    }
    let given = ResourceLimits::default()
        .max_duration(limits.time)
        .max_memory(limits.memory)
        .max_recursion_depth(limits.recursion);
    let mut session = MontyRepl::new("program.py", ResourceTracker::new(given), CompileOptions::default());
    let mut printed = Printed { kept: Captured::default(), limits: limits.clone(), flooded: false };
    let inputs = program.inputs.iter().map(|(name, text)| (name.clone(), MontyObject::String(text.clone())));
    let ran = session.feed_run(&program.code, inputs.collect(), PrintWriter::Callback(&mut printed));
    let Printed { kept: stdout, flooded, .. } = printed;
    let outcome = match ran {
        _ if flooded => Err(Failure::Flood { bytes: limits.flood }),
        Ok(value) => ended(&mut session, &value, program, limits),
        Err(exception) => Err(failure(&exception, limits)),
    };
    Finished { stdout, outcome }
}

fn ended(
    session: &mut MontyRepl,
    value: &MontyObject,
    program: &Program,
    limits: &Limits,
) -> Result<Success, Failure> {
    let value = match value {
        MontyObject::None => None,
        value => {
            let (mut text, dropped) = cut(value.py_repr(), limits.output);
            if dropped > 0 {
                text.push_str(&format!("… ({dropped} bytes more)"));
            }
            Some(text)
        }
    };
    let mut outputs = Vec::new();
    let mut left = limits.text;
    for name in &program.outputs {
        let problem = |problem: String| Failure::Variable { name: name.clone(), problem };
        let text = match session.feed_run(name, Vec::new(), PrintWriter::Disabled) {
            Ok(MontyObject::String(text)) => text,
            Ok(other) => {
                let found = other.type_name();
                return Err(problem(format!(
                    "it is of type {found}; make a str of it, with str() or json.dumps()"
                )));
            }
            Err(exception) if exception.exc_type() == ExcType::NameError => {
                return Err(problem("the program did not set it; assign it at the top level".to_owned()));
            }
            Err(exception) => return Err(failure(&exception, limits)),
        };
        left = left.checked_sub(text.len()).ok_or_else(|| {
            problem(format!(
                "all that is written has more than {} bytes; write less in one call",
                limits.text
            ))
        })?;
        outputs.push(text);
    }
    Ok(Success { value, outputs })
}

/// An exception in words that say what to do.
fn failure(exception: &MontyException, limits: &Limits) -> Failure {
    let message = exception.message().unwrap_or_default();
    match exception.exc_type() {
        ExcType::TimeoutError if message.starts_with("time limit exceeded") => {
            let millis = u64::try_from(limits.time.as_millis()).unwrap_or(u64::MAX);
            return Failure::Time { millis };
        }
        ExcType::MemoryError if message.starts_with("memory limit exceeded") => {
            return Failure::Memory { bytes: limits.memory };
        }
        _ => {}
    }
    if let Some(text) = missing(message) {
        return Failure::Raised { text, traceback: String::new() };
    }
    let hint = match exception.exc_type() {
        ExcType::ModuleNotFoundError | ExcType::ImportError => check::MODULES,
        ExcType::NotImplementedError => "Write it with plain functions, loops and conditions.",
        ExcType::RecursionError => "Use a loop.",
        _ => "",
    };
    let (mut text, _) = cut(ours(exception.summary()), MAX_SUMMARY);
    if !hint.is_empty() {
        text.push_str(". ");
        text.push_str(hint);
    }
    // Without a place in the program it says nothing that the summary does not.
    let traceback =
        if exception.traceback().is_empty() { String::new() } else { ours(exception.to_string()) };
    let (traceback, _) = cut(traceback, MAX_TRACEBACK);
    Failure::Raised { text, traceback }
}

/// What to do when a program reached for the system by way of something that does exist.
fn missing(message: &str) -> Option<String> {
    let (name, _) = message.strip_prefix("OS function '")?.split_once('\'')?;
    let instead = match name {
        "date.today" | "datetime.now" => "there is no clock here; put the date into the code",
        name if name.starts_with("os.") => "there is no environment here; put the value into the code",
        _ => "files cannot be reached here; declare them in `reads` and `writes`",
    };
    Some(format!("{name}(): {instead}"))
}

/// In terms of the program, not of what runs it.
fn ours(text: String) -> String {
    text.replace("The monty syntax parser does not yet", "Python here does not")
        .replace("<python-input-0>", "program")
}

/// Keeps what fits, counts the rest, and stops a flood.
struct Printed {
    kept: Captured,
    limits: Limits,
    flooded: bool,
}

impl Printed {
    fn take(&mut self, text: &str) -> Result<(), MontyException> {
        let room = self.limits.output.saturating_sub(self.kept.text.len());
        // Once something did not fit, nothing follows it.
        let room = if self.kept.dropped > 0 { 0 } else { room };
        let end = boundary(text, room);
        let (head, tail) = text.split_at(end);
        self.kept.text.push_str(head);
        self.kept.dropped += tail.len() as u64;
        let total = self.kept.dropped.saturating_add(self.kept.text.len() as u64);
        if total > self.limits.flood as u64 {
            self.flooded = true;
            return Err(MontyException::new(ExcType::MemoryError, Some("too much was printed".to_owned())));
        }
        Ok(())
    }
}

impl PrintWriterCallback for Printed {
    fn stdout_write(&mut self, output: Cow<'_, str>) -> Result<(), MontyException> {
        self.take(&output)
    }

    fn stdout_push(&mut self, end: char) -> Result<(), MontyException> {
        self.take(end.encode_utf8(&mut [0; 4]))
    }
}
