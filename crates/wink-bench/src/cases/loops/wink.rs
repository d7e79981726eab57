//! The loop of this project: `MainLoop` with a scripted model.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tempfile::TempDir;
use tokio::runtime::Runtime;
use wink::BoxFuture;
use wink::limits::CancelToken;
use wink::prelude::*;
use wink_models::{
    MainLoop, MainLoopConfig, Message, Model, ModelAdapter, ModelError, ModelRequest, ModelResponse, Request,
    ScriptedModel, Stream, Terms,
};
use wink_store::{SqliteStore, StoreOptions};

use super::{DONE, Turns, last_answer};
use crate::cases::Keeping;
use crate::cases::place::{runtime, scratch, wait};
use crate::cases::typed_call::{Args, DESCRIPTION, TOOL, answer};

/// The script, and when it was asked.
struct Clocked {
    script: ScriptedModel,
    asked: Mutex<Asked>,
}

#[derive(Default)]
struct Asked {
    at: Vec<Instant>,
    last: Option<Arc<Message>>,
}

impl Model for Clocked {
    fn name(&self) -> &str {
        self.script.name()
    }

    #[expect(clippy::disallowed_methods, reason = "a benchmark measures")]
    fn respond<'a>(
        &'a self,
        request: &'a ModelRequest,
        stream: &'a dyn Stream,
        cancel: &'a CancelToken,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.at.push(Instant::now());
        asked.last = request.messages.last().cloned();
        self.script.respond(request, stream, cancel)
    }
}

async fn write(args: Args, _: &mut ToolContext) -> ToolResult<String> {
    ToolResult::value(answer(&args))
}

/// Where sessions are kept, if they are. The place goes last.
struct Kept {
    store: Arc<SqliteStore>,
    _place: TempDir,
}

impl Kept {
    fn new() -> Self {
        let place = scratch();
        let store = SqliteStore::open(place.path(), StoreOptions::default());
        Self { store: Arc::new(store.unwrap_or_else(|error| unreachable!("{error}"))), _place: place }
    }

    fn session(&self, runtime: &Runtime, number: usize) -> Session {
        let store = Arc::clone(&self.store) as _;
        wait(runtime, Session::builder().id(format!("run_{number}")).store(store).open())
    }
}

pub(super) fn make(script: &str, turns: usize, keeping: Keeping) -> Box<dyn FnMut() -> Turns> {
    let section =
        Section::markdown("work", "Work").body("Write the file.").tool(Tool::new(TOOL, DESCRIPTION, write));
    let template = PromptTemplate::builder("bench", "loop").section(section).build();
    let prompt = template.unwrap_or_else(|error| unreachable!("{error}")).prompt();
    let (script, runtime) = (script.to_owned(), runtime());
    let kept = match keeping {
        Keeping::Memory => None,
        Keeping::Durable => Some(Kept::new()),
    };
    let mut number = 0;
    Box::new(move || {
        number += 1;
        let script = ScriptedModel::parse(&script).unwrap_or_else(|error| unreachable!("{error}"));
        let model = Arc::new(Clocked { script, asked: Mutex::default() });
        let terms = Terms { max_turns: u32::MAX, ..Terms::default() };
        let adapter = ModelAdapter::new(Arc::clone(&model) as _).terms(terms);
        let main_loop = MainLoop::new(Arc::new(adapter), Arc::default(), MainLoopConfig::default());
        let mut request = Request::new(&prompt).task("Write the file.");
        if let Some(kept) = &kept {
            request = request.session(&kept.session(&runtime, number));
        }
        let (response, _) = wait(&runtime, main_loop.execute(request));
        assert_eq!(&*response.text, DONE);
        let asked = model.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Message::Tools { answers }) = asked.last.as_deref() else {
            unreachable!("the last word answers a call, not {:?}", asked.last)
        };
        let answers: Vec<&str> = answers.iter().map(|answer| &*answer.text).collect();
        assert_eq!(answers, [last_answer(turns)]);
        let early_and_late = asked.at.iter().zip(asked.at.iter().skip(1));
        early_and_late.map(|(early, late)| late.duration_since(*early).as_nanos() as f64).collect()
    })
}
