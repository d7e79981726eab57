//! Every stage of a call is a span, inside the span of its call.

#![allow(clippy::unwrap_used, reason = "tests panic when they fail")]

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use wink::executor::{Executor, Step, ToolCall};
use wink::prelude::*;

use crate::hearing::hear;

/// Keeps every span as its name and its `step` or `tool`, in order.
#[derive(Clone, Default)]
struct Spans {
    seen: Arc<Mutex<Vec<String>>>,
    next: Arc<AtomicU64>,
}

struct Label(Option<String>);

impl Visit for Label {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if matches!(field.name(), "step" | "tool") {
            self.0 = Some(format!("{value:?}").trim_matches('"').to_owned());
        }
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && metadata.name().starts_with("wink.")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut label = Label(None);
        attributes.record(&mut label);
        let text = format!("{} {}", attributes.metadata().name(), label.0.unwrap_or_default());
        self.seen.lock().unwrap().push(text);
        Id::from_u64(self.next.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

async fn hello(_: (), _: &mut ToolContext) -> ToolResult<String> {
    ToolResult::value("hello".to_owned())
}

#[tokio::test]
async fn every_stage_has_its_span() {
    let section = Section::tools("tools", "Tools").tool(Tool::new("hello", "Say hello.", hello));
    let prompt = PromptTemplate::builder("tests", "spans").section(section).build().unwrap().prompt();
    let executor = Executor::open(&prompt, &Session::new()).await.unwrap();
    let spans = Spans::default();
    let _default = hear(spans.clone());

    let succeeded = executor.call(ToolCall::new("1", "hello", "{}")).await;
    assert!(succeeded.is_success());
    let seen = std::mem::take(&mut *spans.seen.lock().unwrap());
    let steps = |skipped: Step| Step::ALL.into_iter().filter(move |step| *step != skipped);
    let mut expected = vec!["wink.call hello".to_owned()];
    expected.extend(steps(Step::Record).map(|step| format!("wink.step {}", step.name())));
    assert_eq!(seen, expected);

    let failed = executor.call(ToolCall::new("2", "nobody", "{}")).await;
    assert!(!failed.is_success());
    let seen = std::mem::take(&mut *spans.seen.lock().unwrap());
    let expected = ["call nobody", "step lookup", "step record", "step feedback", "step answer"];
    assert_eq!(seen, expected.map(|name| format!("wink.{name}")));
}
