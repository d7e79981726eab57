//! What the program's parts say of how it goes (`tracing`), told on standard error: to whoever runs a server, who hears of
//! errors what its clients are not told, and to whoever asks for it. Never on standard output.
//!
//! A command that is run once tells what went wrong by its own result, and says nothing here unless it is asked to.

use std::backtrace::Backtrace;
use std::fmt::{self, Debug};
use std::panic::PanicHookInfo;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, SpanRef};
use wink::limits::{Clock, SystemClock};

use crate::frame::{self, CliError, Exit};

/// Where somebody says how much is told.
const VARIABLE: &str = "WINK_LOG";

/// From here on what happens is told.
pub(crate) fn begin(verbose: u8, is_server: bool) -> Result<(), CliError> {
    let level = level(verbose, is_server)?;
    if is_server {
        // The usual hook writes to standard error itself, and would wait for it to be read.
        std::panic::set_hook(Box::new(panicked));
    }
    if level == LevelFilter::OFF {
        return Ok(());
    }
    let told = tracing_subscriber::registry().with(Told { level });
    // There is none before.
    let _ = tracing::subscriber::set_global_default(told);
    Ok(())
}

fn level(verbose: u8, is_server: bool) -> Result<LevelFilter, CliError> {
    match verbose {
        0 => {}
        1 => return Ok(LevelFilter::INFO),
        2 => return Ok(LevelFilter::DEBUG),
        _ => return Ok(LevelFilter::TRACE),
    }
    match std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        None if is_server => Ok(LevelFilter::WARN),
        None => Ok(LevelFilter::OFF),
        Some(value) => {
            let level =
                value.to_str().filter(|text| text.parse::<u8>().is_err()).and_then(|text| text.parse().ok());
            level.ok_or_else(|| {
                let message = format!("{VARIABLE} is {value:?}, which is no level");
                CliError::new(Exit::Usage, message).hint("off, error, warn, info, debug or trace")
            })
        }
    }
}

/// A panic is one line for programs, and has its backtrace, whoever catches it.
fn panicked(about: &PanicHookInfo<'_>) {
    let payload = about.payload();
    let text =
        payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    let place = about.location().map(ToString::to_string).unwrap_or_default();
    let backtrace = Backtrace::force_capture();
    tracing::error!(panic = text.unwrap_or("?"), place, %backtrace, "a thread panicked");
}

/// Tells what happens.
struct Told {
    level: LevelFilter,
}

/// The fields of a span.
struct Fields(Vec<(String, String)>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Told {
    fn enabled(&self, about: &Metadata<'_>, _: Context<'_, S>) -> bool {
        // What others say is for whoever looks for a mistake; and at their lower levels they tell all that clients send, also what
        // is masked everywhere else.
        let is_ours = about.target().starts_with("wink");
        let is_told = is_ours || (self.level >= LevelFilter::DEBUG && *about.level() <= Level::INFO);
        is_told && *about.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, cx: Context<'_, S>) {
        let mut said = Said::default();
        attributes.record(&mut said);
        if let Some(span) = cx.span(id) {
            span.extensions_mut().insert(Fields(said.fields));
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, cx: Context<'_, S>) {
        let mut said = Said::default();
        record.record(&mut said);
        if let Some(span) = cx.span(id)
            && let Some(Fields(fields)) = span.extensions_mut().get_mut()
        {
            fields.append(&mut said.fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, cx: Context<'_, S>) {
        let mut said = Said::default();
        event.record(&mut said);
        cx.event_scope(event).into_iter().flatten().for_each(|span| said.add(&span));
        said.tell(*event.metadata().level());
    }

    /// That something is over is told of what is only looked at closely: calls, and their steps.
    fn on_close(&self, id: Id, cx: Context<'_, S>) {
        let Some(span) = cx.span(&id) else { return };
        let mut said = Said { message: format!("{} is over", span.name()), fields: Vec::new() };
        span.scope().for_each(|span| said.add(&span));
        said.tell(*span.metadata().level());
    }
}

/// What an event or a span says.
#[derive(Default)]
struct Said {
    message: String,
    fields: Vec<(String, String)>,
}

impl Said {
    /// Adds what a span says that was not said yet.
    fn add<'a, S: LookupSpan<'a>>(&mut self, span: &SpanRef<'a, S>) {
        let extensions = span.extensions();
        let Some(Fields(fields)) = extensions.get() else { return };
        for field in fields {
            if !self.fields.iter().any(|(name, _)| *name == field.0) {
                self.fields.push(field.clone());
            }
        }
    }

    fn tell(&self, level: Level) {
        let level = match level {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        frame::diagnostic(level, &self.message, &SystemClock.now().to_string(), &self.fields);
    }

    fn put(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            name => self.fields.push((name.to_owned(), value)),
        }
    }
}

impl Visit for Said {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, fmt::format(format_args!("{value:?}")));
    }
}
