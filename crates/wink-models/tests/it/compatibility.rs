//! One suite of conversations, and every adapter in it: each provider in front of a server that speaks its wire format, streaming and
//! not, comes to the very session that a scripted model comes to.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

use std::sync::Arc;

use wink::BoxFuture;
use wink_fake::Fake;
use wink_models::providers::Streaming;
use wink_models::testing::{
    Line, Replies, Running, Script, Scripted, Setup, Subject, Texts, adapter_contract,
};
use wink_models::{Adapter, ModelAdapter, ModelResponse, Stop};

use crate::provider_support::{WAYS, Way};

/// A provider in front of a fake.
struct Provided(Way, Streaming);

impl Subject for Provided {
    fn name(&self) -> String {
        format!("{:?} {:?}", self.0, self.1)
    }

    fn replies(&self) -> Replies {
        match self.0 {
            Way::Constrained => Replies::OneCallOrText,
            Way::Anthropic | Way::Chat | Way::Responses => Replies::Any,
        }
    }

    fn texts(&self) -> Texts {
        match (self.0, self.1) {
            // What is in a form of ours is nothing to show before it is read.
            (Way::Constrained, _) | (_, Streaming::Off) => Texts::AtOnce,
            (Way::Anthropic | Way::Chat | Way::Responses, Streaming::On) => Texts::InPieces,
        }
    }

    fn start<'a>(&'a self, script: &'a Script, setup: Setup) -> BoxFuture<'a, Box<dyn Running>> {
        Box::pin(async move {
            let (fake, provider) = self.0.saying(self.1, &script.to_json_lines()).await;
            Box::new(Started { fake, adapter: setup.adapter(Arc::new(provider)) }) as Box<dyn Running>
        })
    }
}

struct Started {
    fake: Fake,
    adapter: ModelAdapter,
}

impl Running for Started {
    fn adapter(&self) -> &dyn Adapter {
        &self.adapter
    }

    fn complaints(&self) -> Vec<String> {
        self.fake.seen().into_iter().filter_map(|seen| seen.refused).collect()
    }
}

async fn every(way: Way) {
    for (_, streaming) in WAYS.into_iter().filter(|(one, _)| *one == way) {
        adapter_contract(&Provided(way, streaming)).await;
    }
}

// case 211
#[tokio::test]
async fn a_scripted_model() {
    adapter_contract(&Scripted).await;
}

// case 211
#[tokio::test]
async fn anthropic_messages() {
    every(Way::Anthropic).await;
}

// case 211
#[tokio::test]
async fn openai_chat_completions() {
    every(Way::Chat).await;
}

// case 211
#[tokio::test]
async fn openai_chat_completions_held_to_a_schema() {
    every(Way::Constrained).await;
}

// case 211
#[tokio::test]
async fn openai_responses() {
    every(Way::Responses).await;
}

/// One that has everything before it shows anything, and says that it has not.
struct Buffering(Provided);

impl Subject for Buffering {
    fn name(&self) -> String {
        "buffering".to_owned()
    }

    fn start<'a>(&'a self, script: &'a Script, setup: Setup) -> BoxFuture<'a, Box<dyn Running>> {
        self.0.start(script, setup)
    }
}

#[tokio::test]
async fn text_that_comes_at_once_does_not_pass_for_a_stream() {
    let buffering = Buffering(Provided(Way::Chat, Streaming::Off));
    let judged = tokio::spawn(async move { adapter_contract(&buffering).await }).await;
    let panic = judged.expect_err("a text that is not streamed").into_panic();
    let said = panic.downcast_ref::<String>().expect("a panic has a text");
    let at_once = "streaming: a text of 1100 characters is shown in one piece";
    assert_eq!(*said, format!("buffering differs from a scripted model:\n{at_once}\n{at_once}"));
}

/// A scripted model that says something else than it is told to.
struct Liar(&'static str, fn(&mut ModelResponse));

impl Subject for Liar {
    fn name(&self) -> String {
        self.0.to_owned()
    }

    fn texts(&self) -> Texts {
        Texts::AtOnce
    }

    fn start<'a>(&'a self, script: &'a Script, setup: Setup) -> BoxFuture<'a, Box<dyn Running>> {
        Box::pin(async move {
            let mut script = script.clone();
            for line in &mut script.lines {
                if let Line::Says(response) = line {
                    (self.1)(response);
                }
            }
            Scripted.start(&script, setup).await
        })
    }
}

#[tokio::test]
async fn nothing_else_passes_for_the_same() {
    let lies = [
        Liar("other words", |response| response.text = response.text.replace('.', "!").into()),
        Liar("another cost", |response| response.usage.cached_tokens += 1),
        Liar("no end", |response| {
            if response.calls.is_empty() {
                response.stop = Stop::Truncated;
            }
        }),
        Liar("a space", |response| {
            for call in &mut response.calls {
                call.arguments = format!(" {}", call.arguments).into();
            }
        }),
        Liar("a call less", |response| drop(response.calls.pop())),
        Liar("another order", |response| response.calls.reverse()),
    ];
    for lie in lies {
        let name = lie.0;
        let judged = tokio::spawn(async move { adapter_contract(&lie).await }).await;
        let panic = judged.expect_err(name).into_panic();
        let said = panic.downcast_ref::<String>().expect("a panic has a text");
        assert!(said.starts_with(&format!("{name} differs from a scripted model:\n")), "{said}");
    }
}
