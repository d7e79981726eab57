//! The scripted adapter: what all others are compared with.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wink::BoxFuture;
use wink::limits::CancelToken;

use super::{Line, Running, Script, Setup, Subject, Texts};
use crate::{
    Adapter, Model, ModelAdapter, ModelError, ModelErrorKind, ModelRequest, ModelResponse, ScriptedModel,
    Stream,
};

/// A [`ScriptedModel`], as a subject.
#[derive(Debug, Clone, Copy)]
pub struct Scripted;

impl Subject for Scripted {
    fn name(&self) -> String {
        "scripted".to_owned()
    }

    fn texts(&self) -> Texts {
        Texts::AtOnce
    }

    fn start<'a>(&'a self, script: &'a Script, setup: Setup) -> BoxFuture<'a, Box<dyn Running>> {
        let silent = script.lines.iter().position(|line| *line == Line::Silent);
        let model = ScriptedModel::with_failures(script.lines.iter().map(answer));
        let model = SilentAt { model, silent, asked: AtomicUsize::new(0) };
        let running: Box<dyn Running> = Box::new(Started(setup.adapter(Arc::new(model))));
        Box::pin(std::future::ready(running))
    }
}

struct Started(ModelAdapter);

impl Running for Started {
    fn adapter(&self) -> &dyn Adapter {
        &self.0
    }
}

fn answer(line: &Line) -> Result<ModelResponse, ModelError> {
    let (kind, retry_after) = match line {
        Line::Says(response) => return Ok(response.clone()),
        Line::Throttled { retry_after } => (ModelErrorKind::Throttled, Some(*retry_after)),
        Line::Overloaded => (ModelErrorKind::Unavailable, None),
        Line::Gone => (ModelErrorKind::Connection, None),
        Line::Unauthorized => (ModelErrorKind::Unauthorized, None),
        Line::TooLong => (ModelErrorKind::TooLong, None),
        // Never given.
        Line::Silent => (ModelErrorKind::TimedOut, None),
    };
    let retry_safe = !matches!(kind, ModelErrorKind::Unauthorized | ModelErrorKind::TooLong);
    Err(ModelError { kind, message: "as the script says".to_owned(), retry_safe, retry_after })
}

/// A scripted model that has nothing to say to one of its requests.
struct SilentAt {
    model: ScriptedModel,
    silent: Option<usize>,
    asked: AtomicUsize,
}

impl Model for SilentAt {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn respond<'a>(
        &'a self,
        request: &'a ModelRequest,
        stream: &'a dyn Stream,
        cancel: &'a CancelToken,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        match self.silent == Some(self.asked.fetch_add(1, Ordering::SeqCst)) {
            true => Box::pin(std::future::pending()),
            false => self.model.respond(request, stream, cancel),
        }
    }
}
