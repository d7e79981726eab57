//! A run that died at any moment is taken up again and comes to the same end; what reaches outside happens once.
//!
//! A store that keeps bytes is cut off after every entry: that is what the next process finds after a kill there.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use wink::ledger::{IdempotencyConfig, Probed, WhenInDoubt};
use wink::limits::{Budget, BudgetTracker};
use wink::policy::{QuotaPolicy, SequentialDependencyPolicy};
use wink::prelude::*;
use wink::resource::{Binding, ResourceRegistry};
use wink::session::{PromptExecuted, RunContext, ToolInvoked};
use wink::testing::{ByteStore, FakeClock};
use wink::tool::Annotations;
use wink_models::conversation::{Conversation, Tally};
use wink_models::{
    Adapter, Evaluation, Message, ModelAdapter, PromptResponse, RunStats, ScriptedModel, Stopped,
};

#[data]
#[derive(Debug, Clone, PartialEq)]
struct Note {
    text: String,
}
impl SliceType for Note {
    const NAME: &'static str = "note";
}

#[data]
struct Text {
    text: String,
}

/// What happened outside, and how much the store had by then.
#[derive(Default)]
struct Bank {
    paid: Mutex<Vec<(String, usize)>>,
    store: Mutex<Option<Arc<ByteStore>>>,
}

async fn note(params: Text, _: &mut ToolContext) -> Result<ToolResult<Note>, ToolError> {
    Ok(ToolResult::ok(Note { text: params.text }, "noted"))
}

async fn pay(params: Text, cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
    let bank = cx.resource::<Bank>().await?;
    let so_far = bank.store.lock().unwrap().as_ref().map_or(0, |store| store.bytes().len());
    bank.paid.lock().unwrap().push((params.text.clone(), so_far));
    Ok(ToolResult::value(format!("paid {}", params.text)))
}

async fn fail(params: Text, _: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    Ok(ToolResult::error(params.text))
}

fn prompt(bank: &Arc<Bank>) -> Prompt {
    let asked = Arc::clone(bank);
    let probe = move |_: String, params: serde_json::Value| -> wink::BoxFuture<'static, _> {
        let text = params["text"].as_str().unwrap_or_default().to_owned();
        let happened = asked.paid.lock().unwrap().iter().any(|(paid, _)| *paid == text);
        Box::pin(std::future::ready(Ok(match happened {
            true => Probed::Happened {
                message: String::new(),
                value: Some(format!("paid {text}").into()),
                exclude_value_from_context: false,
            },
            false => Probed::DidNotHappen,
        })))
    };
    let once = IdempotencyConfig::auto().when_in_doubt(WhenInDoubt::Probe(Arc::new(probe)));
    let inside = Annotations { open_world: false, ..Annotations::default() };
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("note", "Notes something.", note).publishes().annotations(inside))
        .tool(Tool::new("pay", "Pays.", pay).idempotency(once))
        .tool(Tool::new("early", "Comes too early.", note).annotations(inside))
        .tool(Tool::new("fail", "Fails.", fail).annotations(inside));
    // Asked again, they would say something else: what was denied is allowed by now, and what was allowed is used up.
    PromptTemplate::builder("tests", "resume")
        .section(section)
        .policy(SequentialDependencyPolicy::new().require("early", ["note"]))
        .policy(QuotaPolicy::new().tool("note", 3))
        .build()
        .unwrap()
        .prompt()
}

const SCRIPT: &str = r#"
{"tool_calls": [{"id": "0", "name": "early", "arguments": {"text": "z"}}, {"id": "1", "name": "note", "arguments": {"text": "a"}}, {"id": "2", "name": "pay", "arguments": {"text": "rent"}}]}
{"tool_calls": [{"id": "1", "name": "pay", "arguments": {"text": "food"}}, {"id": "2", "name": "fail", "arguments": {"text": "no"}}, {"id": "3", "name": "note", "arguments": {"text": "b"}}]}
{"tool_calls": [{"id": "1", "name": "note", "arguments": {"text": "b"}}]}
{"text": "done", "usage": {"input_tokens": 7}}
"#;

struct World {
    bank: Arc<Bank>,
    store: Arc<ByteStore>,
    clock: FakeClock,
}

impl World {
    fn new(store: ByteStore, paid: Vec<(String, usize)>) -> Self {
        let store = Arc::new(store);
        let bank = Bank { paid: Mutex::new(paid), store: Mutex::new(Some(Arc::clone(&store))) };
        Self { bank: Arc::new(bank), store, clock: FakeClock::new(Timestamp::UNIX_EPOCH) }
    }

    async fn run(&self) -> (Result<PromptResponse, Stopped>, Session, u64) {
        let tracker = Arc::new(BudgetTracker::new(Budget::total(1000).unwrap()));
        let (came, session) = self.run_with(SCRIPT, &tracker).await;
        (came, session, tracker.used().total())
    }

    async fn run_with(
        &self,
        script: &str,
        tracker: &Arc<BudgetTracker>,
    ) -> (Result<PromptResponse, Stopped>, Session) {
        let session =
            Session::builder().store(self.store.clone()).clock(Arc::new(self.clock.clone())).id("s");
        let session = session.open().await.unwrap();
        let model = Arc::new(ScriptedModel::parse(script).unwrap());
        let resources = ResourceRegistry::of((Binding::instance(Arc::clone(&self.bank)),)).unwrap();
        let evaluation = Evaluation::new()
            .task("Live.")
            .run(RunContext { run_id: Some("r".into()), ..RunContext::default() })
            .budget(Arc::clone(tracker))
            .resources(resources);
        let came = ModelAdapter::new(model).evaluate(&prompt(&self.bank), &session, evaluation).await;
        (came, session)
    }

    fn paid(&self) -> Vec<String> {
        self.bank.paid.lock().unwrap().iter().map(|(paid, _)| paid.clone()).collect()
    }
}

fn notes(session: &Session) -> Vec<String> {
    session.slice::<Note>().iter().map(|note| note.text.clone()).collect()
}

/// All that was said in the run, by the model and to it.
fn told(session: &Session) -> Vec<Arc<Message>> {
    Conversation::read_back(session, "r").unwrap().unwrap().messages().iter().cloned().collect()
}

#[tokio::test]
async fn a_run_that_died_anywhere_comes_to_the_same_end() {
    let whole = World::new(ByteStore::new(), Vec::new());
    let (came, session, used) = whole.run().await;
    let expected = came.unwrap();
    assert_eq!((&*expected.text, used), ("done", 7));
    let (all_notes, all_paid, all_told) = (notes(&session), whole.paid(), told(&session));
    assert_eq!(all_notes, ["a", "b", "b"]);
    assert_eq!(all_paid, ["rent", "food"]);
    let bytes = whole.store.bytes();
    let effects = whole.bank.paid.lock().unwrap().clone();
    let (mut taken_up, mut more_calls) = (0, 0);
    // Every length at which there is one entry more; an entry is longer than the stride.
    let kept = |length: usize| ByteStore::from_bytes(&bytes[..length]).unwrap().bytes().len();
    let mut lengths: Vec<_> = (0..bytes.len()).step_by(64).map(kept).chain([bytes.len()]).collect();
    lengths.dedup();
    assert!(lengths.len() > 20, "only {} entries", lengths.len());
    for length in lengths {
        // A process that died with so much written may have paid or not, if that was next.
        for paid_last in [false, true] {
            let happened = |effect: &&(String, usize)| match paid_last {
                true => effect.1 <= length,
                false => effect.1 < length,
            };
            let paid: Vec<_> = effects.iter().filter(happened).cloned().collect();
            let world = World::new(ByteStore::from_bytes(&bytes[..length]).unwrap(), paid);
            let (came, session, used) = world.run().await;
            let response = came.unwrap_or_else(|error| panic!("cut at {length}: {error}"));
            // With calls that were stopped by its death: what the log has is what it did.
            let events = session.slice::<ToolInvoked>();
            let logged = Tally::of(events.iter().map(|event| event.ending));
            let Tally { calls, rolled_back, denied, usage: _ } = logged;
            let stats = RunStats { calls, rolled_back, denied, ..expected.stats };
            assert_eq!((&response.text, response.stats), (&expected.text, stats), "cut at {length}");
            more_calls += usize::from(stats != expected.stats);
            assert_eq!(told(&session), all_told, "cut at {length}");
            assert_eq!(notes(&session), all_notes, "cut at {length}");
            assert_eq!(world.paid(), all_paid, "cut at {length}");
            assert_eq!(used, 7, "cut at {length}: what was used before counts once");
            assert_eq!(session.slice::<PromptExecuted>().len(), 1, "cut at {length}");
            let again = session.slice::<ToolInvoked>().iter().any(|event| event.attempt == 2);
            taken_up += usize::from(again);
        }
    }
    assert!(taken_up > 8, "only {taken_up} runs had calls that were made again");
    assert!(more_calls > 8, "only {more_calls} runs had calls that were stopped");
}

#[tokio::test]
async fn a_run_that_is_done_is_done() {
    let world = World::new(ByteStore::new(), Vec::new());
    let (first, ..) = world.run().await;
    let again = World::new(world.store.reopen().unwrap(), world.bank.paid.lock().unwrap().clone());
    let (second, session, _) = again.run().await;
    assert_eq!(second, first);
    assert_eq!(session.slice::<ToolInvoked>().len(), 7);
    assert_eq!(session.slice::<PromptExecuted>().len(), 1);
}

#[tokio::test]
async fn a_run_that_was_stopped_goes_on_and_counts_what_it_used_once() {
    let world = World::new(ByteStore::new(), Vec::new());
    let tracker = Arc::new(BudgetTracker::new(Budget::total(10).unwrap()));
    let lines: Vec<_> = SCRIPT.trim().lines().collect();
    let first = lines[0].replacen('{', r#"{"usage": {"input_tokens": 3}, "#, 1);
    let half = format!("{first}\n{}", r#"{"error": {"kind": "unauthorized", "message": "no"}}"#);
    let (came, session) = world.run_with(&half, &tracker).await;
    assert_eq!(came.unwrap_err().reason.name(), "request_failed");
    assert_eq!(session.slice::<ToolInvoked>().len(), 3);
    let whole = [&first, lines[1], lines[2], lines[3]].join("\n");
    let (came, session) = world.run_with(&whole, &tracker).await;
    assert_eq!((&*came.unwrap().text, tracker.used().total()), ("done", 10));
    // Nothing was done again, and nothing is called a second try.
    assert_eq!(session.slice::<ToolInvoked>().len(), 7);
    assert!(session.slice::<ToolInvoked>().iter().all(|event| event.attempt == 1));
    assert_eq!(world.paid(), ["rent", "food"]);
}

#[tokio::test]
async fn a_run_that_used_up_its_budget_does_not_go_on_with_the_same() {
    let world = World::new(ByteStore::new(), Vec::new());
    let budget = |most| Arc::new(BudgetTracker::new(Budget::total(most).unwrap()));
    let (came, _) = world.run_with(SCRIPT, &budget(6)).await;
    assert_eq!(came.unwrap_err().reason.name(), "budget");
    let (came, session) = world.run_with(SCRIPT, &budget(6)).await;
    assert_eq!(came.unwrap_err().reason.name(), "budget");
    assert_eq!(session.slice::<PromptExecuted>().len(), 0);
    let (came, session) = world.run_with(SCRIPT, &budget(7)).await;
    assert_eq!((&*came.unwrap().text, session.slice::<PromptExecuted>().len()), ("done", 1));
}

#[tokio::test]
async fn a_run_that_goes_on_has_the_budget_that_it_began_with() {
    let world = World::new(ByteStore::new(), Vec::new());
    let (came, _) = world.run_with(SCRIPT, &Arc::new(BudgetTracker::new(Budget::total(6).unwrap()))).await;
    assert_eq!(came.unwrap_err().reason.name(), "budget");
    let session = Session::builder().store(world.store.clone()).clock(Arc::new(world.clock.clone())).id("s");
    let session = session.open().await.unwrap();
    let resources = ResourceRegistry::of((Binding::instance(Arc::clone(&world.bank)),)).unwrap();
    let run = RunContext { run_id: Some("r".into()), ..RunContext::default() };
    let model = Arc::new(ScriptedModel::parse(SCRIPT).unwrap());
    let evaluation = Evaluation::new().run(run).resources(resources);
    let came = ModelAdapter::new(model).evaluate(&prompt(&world.bank), &session, evaluation).await;
    assert_eq!(came.unwrap_err().reason.name(), "budget", "nobody has said that it may use more");
}
