//! What goes wrong where nothing can be done about it any more is said in diagnostics, and only that.

#![allow(clippy::unwrap_used, reason = "tests panic when they fail")]

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use wink::BoxFuture;
use wink::executor::{Executor, ToolCall};
use wink::feedback::{Feedback, FeedbackContext, FeedbackGiven, FeedbackProvider, Trigger};
use wink::prelude::*;
use wink::prompt::SectionVisibility;
use wink::resource::{Binding, BoxError, ResourceRegistry, Scope};
use wink::session::PromptRendered;
use wink::tool::VisibilityExpansionRequired;

use crate::hearing;

/// Keeps the texts of warnings and errors, in order.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<String>>>);

impl Said {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Said {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN && metadata.target().starts_with("wink")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().unwrap().push(message.0);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Note;
impl SliceType for Note {
    const NAME: &'static str = "note";
}

/// Made for each call, and closed with it.
struct Guest;

async fn note(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    cx.resource::<Guest>().await?;
    assert!(cx.session().dispatch(Note)?.is_ok());
    Ok(ToolResult::done("noted"))
}

struct Clerk;

impl FeedbackProvider for Clerk {
    fn name(&self) -> &str {
        "clerk"
    }

    fn feedback<'a>(
        &'a self,
        _: &'a FeedbackContext<'a>,
    ) -> BoxFuture<'a, Result<Option<Feedback>, BoxError>> {
        Box::pin(async { Ok(Some(Feedback::info("seen"))) })
    }
}

/// Everybody who hears of something fails on it, and closing fails, or all goes well.
async fn said(fails: bool) -> [Vec<String>; 3] {
    fn hear<E: SliceType>(session: &Session, fails: bool) {
        let answer = move || if fails { Err("no".to_owned()) } else { Ok(()) };
        let _ = session.dispatcher().subscribe::<E>(move |_, _| answer());
    }
    let said = Said::default();
    let _default = hearing::hear(said.clone());
    let session = Session::new();
    hear::<PromptRendered>(&session, fails);
    hear::<Note>(&session, fails);
    hear::<FeedbackGiven>(&session, fails);
    hear::<SectionVisibility>(&session, fails);
    let guests = Binding::new(|_| Ok(Guest)).scope(Scope::ToolCall).on_close(move |_| async move {
        match fails {
            true => Err("stuck".into()),
            false => Ok(()),
        }
    });
    let section = Section::tools("tools", "Tools").tool(Tool::new("note", "Notes.", note));
    let prompt = PromptTemplate::builder("tests", "said").section(section).build().unwrap().prompt();
    let executor = Executor::builder(&prompt, &session)
        .resources(ResourceRegistry::of((guests,)).unwrap())
        .feedback(Trigger::every_calls(1), Clerk)
        .open()
        .await
        .unwrap();
    let opening = said.take();
    let outcome = executor.call(ToolCall::new("1", "note", "{}")).await;
    assert!(outcome.is_success(), "what is only said changes nothing");
    let calling = said.take();
    let expansion = VisibilityExpansionRequired { keys: vec!["tools".into()], reason: "to see".into() };
    executor.expand(&expansion).unwrap();
    [opening, calling, said.take()]
}

#[tokio::test]
async fn what_goes_wrong_afterwards_is_said_and_what_goes_well_is_not() {
    let wrong = said(true).await;
    assert_eq!(wrong[0], ["that a prompt was rendered was recorded with failures"]);
    assert_eq!(
        wrong[1],
        [
            "a subscriber failed on an event that stands",
            "a resource of the call could not be closed",
            "feedback was recorded with failures",
        ]
    );
    assert_eq!(wrong[2], ["an expansion was recorded with failures"]);
    assert_eq!(said(false).await, [const { Vec::<String>::new() }; 3]);
}
