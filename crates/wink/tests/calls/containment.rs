//! Foreign code that panics where nobody looks, or keeps its thread: the call ends as if it had failed in the open.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use wink::BoxFuture;
use wink::executor::{Executor, Moment, Outcome, Step, StepHook, ToolCall};
use wink::feedback::{Feedback, StaticFeedback, Trigger};
use wink::limits::CancelToken;
use wink::policy::{Decision, PolicyCall, PolicyContext, ToolPolicy, policy_fn};
use wink::prelude::*;
use wink::resource::{Binding, BoxError, ResourceSnapshot, Scope, Snapshotable};
use wink::session::{Ending, InvocationId, LoggedAnswer, LoggedDecision, ToolInvoked};
use wink::testing::{ByteStore, FakeClock};

fn prompt(section: Section) -> Prompt {
    PromptTemplate::builder("tests", "containment").section(section).build().unwrap().prompt()
}

fn endings(session: &Session) -> Vec<Ending> {
    session.slice::<ToolInvoked>().iter().map(|event| event.ending).collect()
}

fn session(clock: &FakeClock) -> Session {
    Session::builder().clock(Arc::new(clock.clone())).build()
}

async fn fine(_: (), _: &mut ToolContext) -> ToolResult<String> {
    ToolResult::value("fine".to_owned())
}

#[tokio::test]
async fn a_policy_that_keeps_its_thread_past_its_time_denies() {
    let clock = FakeClock::new(jiff::Timestamp::UNIX_EPOCH);
    let late = clock.clone();
    let section = Section::tools("tools", "Tools").tool(Tool::new("fine", "Fine.", fine)).policy(policy_fn(
        "slow",
        move |_, _| {
            late.advance(Duration::from_secs(6));
            Decision::Allow
        },
    ));
    let session = session(&clock);
    let executor = Executor::open(&prompt(section), &session).await.unwrap();
    let outcome = executor.call(ToolCall::new("1", "fine", "")).await;
    assert_eq!(outcome.text(), "fine was denied: policy slow could not decide");
    let answers: Vec<_> = outcome.event.decisions.iter().map(|decision| decision.answer.clone()).collect();
    assert_eq!(answers, [LoggedAnswer::Deny("fine was denied: policy slow could not decide".into())]);
    assert_eq!(endings(&session), [Ending::Denied]);
}

#[tokio::test]
async fn a_policy_that_keeps_its_thread_after_it_waited_denies_too() {
    struct Slow(FakeClock);
    impl ToolPolicy for Slow {
        fn kind(&self) -> &'static str {
            "slow"
        }

        fn check<'a>(
            &'a self,
            _: &'a PolicyCall<'a>,
            _: &'a PolicyContext<'a>,
        ) -> BoxFuture<'a, Result<Decision, BoxError>> {
            Box::pin(async {
                tokio::task::yield_now().await;
                self.0.advance(Duration::from_secs(6));
                Ok(Decision::Allow)
            })
        }
    }
    let clock = FakeClock::new(jiff::Timestamp::UNIX_EPOCH);
    let section =
        Section::tools("tools", "Tools").tool(Tool::new("fine", "Fine.", fine)).policy(Slow(clock.clone()));
    let executor = Executor::open(&prompt(section), &session(&clock)).await.unwrap();
    let outcome = executor.call(ToolCall::new("1", "fine", "")).await;
    assert_eq!(outcome.text(), "fine was denied: policy slow could not decide");
}

#[tokio::test]
async fn a_handler_that_keeps_its_thread_past_its_time_has_timed_out() {
    #[derive(Clone)]
    struct Late(FakeClock);
    async fn slow(_: (), cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
        let late = cx.resource::<Late>().await?;
        let _ = cx.session().dispatch(Written { line: 1 })?;
        late.0.advance(Duration::from_secs(2));
        Ok(ToolResult::value("done".to_owned()))
    }
    let clock = FakeClock::new(jiff::Timestamp::UNIX_EPOCH);
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("slow", "Slow.", slow).timeout(Duration::from_secs(1)))
        .resource(Binding::instance(Arc::new(Late(clock.clone()))));
    let session = session(&clock);
    let executor = Executor::open(&prompt(section), &session).await.unwrap();
    let outcome = executor.call(ToolCall::new("1", "slow", "")).await;
    assert_eq!(outcome.text(), "slow took longer than 1s and was stopped; nothing was changed");
    assert_eq!((endings(&session), session.slice::<Written>().len()), (vec![Ending::TimedOut], 0));
}

#[tokio::test]
async fn who_takes_exactly_the_time_there_is_is_in_time() {
    let clock = FakeClock::new(jiff::Timestamp::UNIX_EPOCH);
    let (policy, handler) = (clock.clone(), Arc::new(clock.clone()));
    async fn slow(_: (), cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
        cx.resource::<FakeClock>().await?.advance(Duration::from_secs(1));
        Ok(ToolResult::value("done".to_owned()))
    }
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("slow", "Slow.", slow).timeout(Duration::from_secs(1)))
        .policy(policy_fn("slow", move |_, _| {
            policy.advance(Duration::from_secs(5));
            Decision::Allow
        }))
        .resource(Binding::instance(handler));
    let executor = Executor::open(&prompt(section), &session(&clock)).await.unwrap();
    assert_eq!(executor.call(ToolCall::new("1", "slow", "")).await.text(), "done");
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Written {
    line: u32,
}

impl SliceType for Written {
    const NAME: &'static str = "tests.written";
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Bomb {
    fuse: u32,
}

impl<'de> Deserialize<'de> for Bomb {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("decoding")
    }
}

#[tokio::test]
async fn a_decoder_that_panics_rejects_the_arguments() {
    async fn never(_: Bomb, _: &mut ToolContext) -> ToolResult<String> {
        panic!("not called")
    }
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("bomb", "Bomb.", never))
        .tool(Tool::new("fine", "Fine.", fine));
    let session = Session::new();
    let executor = Executor::open(&prompt(section), &session).await.unwrap();
    let bomb = |id: &str| ToolCall::new(id, "bomb", r#"{"fuse":1}"#);
    let text = executor.call(bomb("1")).await.text().to_owned();
    assert!(text.contains("decoder broke down"), "{text}");
    let outcomes = executor.batch(vec![bomb("2"), ToolCall::new("3", "fine", "")]).await;
    assert_eq!(outcomes.iter().map(Outcome::text).collect::<Vec<_>>(), [&*text, "fine"]);
    let dry = executor.dry_run(bomb("4")).await;
    assert_eq!(dry.refused.as_deref(), Some(&*text));
    assert_eq!(endings(&session), [Ending::Rejected, Ending::Rejected, Ending::Succeeded]);
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped");
    }
}

async fn waits(_: (), cx: &mut ToolContext) -> ToolResult<String> {
    let _held = PanicsWhenDropped;
    let _ = cx.session().dispatch(Written { line: 1 });
    pending().await
}

#[tokio::test]
async fn what_a_handler_holds_may_panic_when_it_is_stopped() {
    let clock = FakeClock::new(jiff::Timestamp::UNIX_EPOCH);
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("waits", "Wait.", waits))
        .tool(Tool::new("times_out", "Wait.", waits).timeout(Duration::from_secs(1)));
    let session = session(&clock);
    let executor = Executor::open(&prompt(section), &session).await.unwrap();

    // Cancelled, and dropped by whoever waits.
    let cancel = CancelToken::new();
    let mut call = pin!(executor.call_cancellable(ToolCall::new("1", "waits", ""), cancel.clone()));
    assert!(poll(call.as_mut()).is_pending());
    cancel.cancel();
    assert_eq!(call.await.event.ending, Ending::Cancelled);
    {
        let mut call = Box::pin(executor.call(ToolCall::new("2", "waits", "")));
        assert!(poll(call.as_mut()).is_pending());
    }
    let mut call = pin!(executor.call(ToolCall::new("3", "times_out", "")));
    assert!(poll(call.as_mut()).is_pending());
    clock.advance(Duration::from_secs(2));
    assert!(!call.await.is_success());
    let ended = endings(&session);
    assert_eq!((ended.len(), ended[..2].to_vec()), (3, vec![Ending::Cancelled, Ending::Cancelled]));
    assert_eq!(session.slice::<Written>().len(), 0);
}

fn poll<F: Future + ?Sized>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A resource whose copies panic when they are dropped.
struct Fragile {
    copy: bool,
}

impl Drop for Fragile {
    fn drop(&mut self) {
        assert!(!self.copy || std::thread::panicking(), "a copy was dropped");
    }
}

impl Snapshotable for Fragile {
    fn fork(&self) -> Result<Self, BoxError> {
        Ok(Self { copy: true })
    }

    fn snapshot(&self) -> Result<ResourceSnapshot, BoxError> {
        Ok(ResourceSnapshot::new(1))
    }

    fn restore(&self, _: &ResourceSnapshot) -> Result<(), BoxError> {
        Ok(())
    }

    fn decode(&self, _: &serde_json::Value) -> Result<ResourceSnapshot, BoxError> {
        Ok(ResourceSnapshot::new(1))
    }
}

#[tokio::test]
async fn a_copy_that_panics_when_it_is_dropped_costs_no_event() {
    async fn touch(_: (), cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
        cx.resource::<Fragile>().await?;
        let _ = cx.session().dispatch(Written { line: 1 })?;
        Ok(ToolResult::value("touched".to_owned()))
    }
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("touch", "Touch.", touch))
        .tool(Tool::new("fine", "Fine.", fine))
        .resource(Binding::instance(Arc::new(Fragile { copy: false })).snapshotable());
    let session = Session::new();
    let executor = Executor::open(&prompt(section), &session).await.unwrap();
    let outcomes = [
        executor.call(ToolCall::new("1", "touch", "")).await,
        executor.call(ToolCall::new("2", "fine", "")).await,
    ];
    assert_eq!(outcomes.iter().map(Outcome::text).collect::<Vec<_>>(), ["touched", "fine"]);
    assert_eq!(endings(&session), [Ending::Succeeded, Ending::Succeeded]);
    assert_eq!(session.slice::<Written>().len(), 1);
}

/// A resource that takes nothing back from its copies, and says so at length.
#[derive(Default)]
struct Stubborn(AtomicBool);

impl Snapshotable for Stubborn {
    fn fork(&self) -> Result<Self, BoxError> {
        Ok(Self::default())
    }

    fn merge(&self, _: &Self, _: &ResourceSnapshot) -> Result<(), BoxError> {
        Err("no ".repeat(3000).into())
    }

    fn snapshot(&self) -> Result<ResourceSnapshot, BoxError> {
        Ok(ResourceSnapshot::new(self.0.load(Ordering::SeqCst)))
    }

    fn restore(&self, _: &ResourceSnapshot) -> Result<(), BoxError> {
        Ok(())
    }

    fn decode(&self, _: &serde_json::Value) -> Result<ResourceSnapshot, BoxError> {
        Ok(ResourceSnapshot::new(false))
    }
}

#[tokio::test]
async fn an_endless_reason_not_to_commit_is_cut_in_the_answer_and_in_the_event() {
    async fn touch(_: (), cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
        cx.resource::<Stubborn>().await?.0.store(true, Ordering::SeqCst);
        Ok(ToolResult::value("touched".to_owned()))
    }
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("touch", "Touch.", touch))
        .resource(Binding::instance(Arc::new(Stubborn::default())).snapshotable());
    let executor = Executor::open(&prompt(section), &Session::new()).await.unwrap();
    let outcome = executor.call(ToolCall::new("1", "touch", "")).await;
    let (text, event) = (outcome.text(), &outcome.event);
    assert!(text.starts_with("touch was not committed: ") && (4000..=4096).contains(&text.len()), "{text}");
    assert_eq!((&*event.message, &*event.rendered, event.ending), (text, text, Ending::NotCommitted));
    let chain = event.error_chain.join(": ");
    assert!(chain.contains(&"no ".repeat(3000)), "{chain}");
}

#[tokio::test]
async fn a_subscriber_that_fails_is_in_the_answer_and_in_the_event() {
    let session = Session::new();
    let _ = session.dispatcher().subscribe::<ToolInvoked>(|_, _| Err("not today".to_owned()));
    let section = Section::tools("tools", "Tools").tool(Tool::new("fine", "Fine.", fine));
    let executor = Executor::open(&prompt(section), &session).await.unwrap();
    let outcome = executor.call(ToolCall::new("1", "fine", "")).await;
    let (text, event) = (outcome.text(), &outcome.event);
    assert_eq!(text, "fine was not committed: not today; nothing was changed");
    assert_eq!((&*event.message, &*event.rendered, event.ending), (text, text, Ending::NotCommitted));
}

/// Never comes to an end.
struct Thinks;
impl ToolPolicy for Thinks {
    fn kind(&self) -> &'static str {
        "thinks"
    }

    fn check<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        Box::pin(pending())
    }
}

/// Cancels when the call is about to be committed.
struct TooLate(CancelToken);

impl StepHook for TooLate {
    fn at<'a>(&'a self, step: Step, moment: Moment, _: InvocationId) -> BoxFuture<'a, Result<(), String>> {
        if (step, moment) == (Step::Commit, Moment::Before) {
            self.0.cancel();
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test]
async fn whoever_cancels_at_the_commit_is_too_late() {
    let session = Session::new();
    let token = CancelToken::new();
    let section = Section::tools("tools", "Tools").tool(Tool::new("fine", "Fine.", fine));
    let builder = Executor::builder(&prompt(section), &session).hook(Arc::new(TooLate(token.clone())));
    let executor = builder.open().await.unwrap();
    let outcome = executor.call_cancellable(ToolCall::new("1", "fine", ""), token).await;
    assert_eq!((outcome.text(), endings(&session)), ("fine", vec![Ending::Succeeded]));
}

/// Notes where it was called.
#[derive(Default)]
struct Watches(Mutex<Vec<(Step, Moment)>>);

impl StepHook for Watches {
    fn at<'a>(&'a self, step: Step, moment: Moment, _: InvocationId) -> BoxFuture<'a, Result<(), String>> {
        self.0.lock().unwrap().push((step, moment));
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test]
async fn whoever_watches_sees_every_step_begin_and_end() {
    let watches = Arc::new(Watches::default());
    let section = Section::tools("tools", "Tools").tool(Tool::new("fine", "Fine.", fine));
    let builder = Executor::builder(&prompt(section), &Session::new()).hook(Arc::<Watches>::clone(&watches));
    let executor = builder.open().await.unwrap();
    let seen = async |tool: &str| {
        let _ = executor.call(ToolCall::new("1", tool, "")).await;
        std::mem::take(&mut *watches.0.lock().unwrap())
    };
    let both = |step: Step| [(step, Moment::Before), (step, Moment::After)];
    let steps = Step::ALL.into_iter().filter(|step| *step != Step::Record);
    assert_eq!(seen("fine").await, steps.flat_map(both).collect::<Vec<_>>());
    let mut failed = vec![(Step::Lookup, Moment::Before)];
    failed.extend([Step::Record, Step::Feedback, Step::Answer].into_iter().flat_map(both));
    assert_eq!(seen("nobody").await, failed);
}

/// Fails whatever can no longer be taken back.
struct FailsLate;

impl StepHook for FailsLate {
    fn at<'a>(&'a self, step: Step, _: Moment, _: InvocationId) -> BoxFuture<'a, Result<(), String>> {
        let late = matches!(step, Step::Record | Step::Feedback | Step::Answer);
        Box::pin(std::future::ready(if late { Err("no".to_owned()) } else { Ok(()) }))
    }
}

#[tokio::test]
async fn a_hook_that_fails_too_late_changes_nothing() {
    let session = Session::new();
    let section = Section::tools("tools", "Tools").tool(Tool::new("fine", "Fine.", fine));
    let hint = StaticFeedback::new("a", Feedback::info("hint"));
    let builder = Executor::builder(&prompt(section), &session).hook(Arc::new(FailsLate));
    let executor = builder.feedback(Trigger::every_calls(1), hint).open().await.unwrap();
    let outcome = executor.call(ToolCall::new("1", "fine", "")).await;
    assert_eq!(outcome.text(), "fine\n\n[feedback from a, info] hint");
    let _ = executor.call(ToolCall::new("2", "nobody", "")).await;
    assert_eq!(endings(&session), [Ending::Succeeded, Ending::Unavailable]);
}

#[tokio::test]
async fn a_call_stopped_while_a_policy_thinks_has_the_decisions_until_then() {
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("fine", "Fine.", fine))
        .policy(policy_fn("allows", |_, _| Decision::Allow))
        .policy(Thinks);
    let executor = Executor::open(&prompt(section), &Session::new()).await.unwrap();
    let token = CancelToken::new();
    let mut call = Box::pin(executor.call_cancellable(ToolCall::new("1", "fine", ""), token.clone()));
    assert!(poll(call.as_mut()).is_pending());
    token.cancel();
    let outcome = call.await;
    let allowed = LoggedDecision { policy: "tools/allows/0".into(), answer: LoggedAnswer::Allow };
    assert_eq!((outcome.event.ending, &*outcome.event.decisions), (Ending::Cancelled, &[allowed][..]));
}

#[tokio::test]
async fn a_call_that_was_cancelled_before_it_began_is_not_run() {
    let section = || Section::tools("tools", "Tools").tool(Tool::new("fine", "Fine.", fine));
    for one in [false, true] {
        let session = Session::new();
        let executor = Executor::open(&prompt(section()), &session).await.unwrap();
        let token = CancelToken::new();
        if one {
            token.cancel()
        } else {
            executor.cancel()
        }
        // It is not even looked at.
        for tool in ["fine", "nobody"] {
            let outcome = executor.call_cancellable(ToolCall::new("1", tool, ""), token.clone()).await;
            assert_eq!(outcome.text(), format!("{tool} was cancelled; nothing was changed"));
        }
        assert_eq!(endings(&session), [Ending::Cancelled, Ending::Cancelled]);
    }
}

#[tokio::test]
async fn a_process_that_dies_while_a_policy_thinks_leaves_the_calls_event() {
    let store = Arc::new(ByteStore::new());
    let section = Section::tools("tools", "Tools").tool(Tool::new("fine", "Fine.", fine)).policy(Thinks);
    let prompt = prompt(section);
    let id = {
        let session = Session::builder().store(Arc::clone(&store) as _).open().await.unwrap();
        let executor = Executor::open(&prompt, &session).await.unwrap();
        let mut call = Box::pin(executor.call(ToolCall::new("1", "fine", "")));
        assert!(poll(call.as_mut()).is_pending());
        let (id, bytes) = (session.id().clone(), store.bytes());
        // The process dies here: what it had not written by now is gone.
        std::mem::forget(call);
        (id, bytes)
    };
    let reopened = ByteStore::from_bytes(&id.1).unwrap();
    let session = Session::builder().store(Arc::new(reopened)).id(id.0).open().await.unwrap();
    assert_eq!(endings(&session), [Ending::Interrupted]);
}

#[tokio::test]
async fn a_close_hook_that_never_ends_holds_nobody_for_good() {
    struct Sticky;
    async fn stick(_: (), cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
        cx.resource::<Sticky>().await?;
        Err(ToolError::new("no"))
    }
    let clock = FakeClock::new(jiff::Timestamp::UNIX_EPOCH);
    let sticky = Binding::new(|_| Ok(Sticky)).scope(Scope::ToolCall).on_close(|_| async { pending().await });
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("stick", "Stick.", stick))
        .tool(Tool::new("fine", "Fine.", fine))
        .resource(sticky);
    let session = session(&clock);
    let executor = Executor::open(&prompt(section), &session).await.unwrap();
    let mut call = pin!(executor.call(ToolCall::new("1", "stick", "")));
    assert!(poll(call.as_mut()).is_pending());
    clock.advance(Duration::from_secs(31));
    assert_eq!(call.await.text(), "no");
    assert_eq!(executor.call(ToolCall::new("2", "fine", "")).await.text(), "fine");
    assert_eq!(endings(&session), [Ending::Errored, Ending::Succeeded]);
}

/// An item that panics when it is dropped while it says so.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Brittle {
    breaks: bool,
}

impl Drop for Brittle {
    fn drop(&mut self) {
        assert!(!self.breaks || std::thread::panicking(), "an item was dropped");
    }
}

impl SliceType for Brittle {
    const NAME: &'static str = "tests.brittle";
}

/// What a replaced item does when it is dropped changes nothing of the commit that replaced it.
#[tokio::test]
async fn replaced_items_may_panic_when_they_are_dropped() {
    async fn replace(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        let _ = cx.session().dispatch(Brittle { breaks: true })?;
        cx.filesystem().await?.write_text("old.txt", "new").await?;
        cx.session().seed([Brittle { breaks: false }])?;
        Ok(ToolResult::done("replaced"))
    }
    for durable in [false, true] {
        let files: Arc<dyn wink::filesystem::Filesystem> =
            Arc::new(wink::filesystem::MemoryFilesystem::from_files([("old.txt", "old")]).unwrap());
        let section = Section::tools("tools", "Tools")
            .tool(Tool::new("replace", "Replace.", replace))
            .tool(Tool::new("fine", "Fine.", fine))
            .resource(Binding::filesystem(Arc::clone(&files)));
        let session = match durable {
            true => Session::builder().store(Arc::new(ByteStore::new())).open().await.unwrap(),
            false => Session::new(),
        };
        session.seed([Brittle { breaks: true }]).unwrap();
        let executor = Executor::open(&prompt(section), &session).await.unwrap();
        assert_eq!(executor.call(ToolCall::new("1", "replace", "")).await.text(), "replaced");
        assert_eq!(wink::filesystem::FilesystemExt::read_text(&*files, "old.txt").await.unwrap(), "new");
        assert_eq!(session.slice::<Brittle>().len(), 1);
        // The session still has its turn to give.
        assert_eq!(executor.call(ToolCall::new("2", "fine", "")).await.text(), "fine");
        assert_eq!(endings(&session), [Ending::Succeeded, Ending::Succeeded]);
    }
}

/// Parameters that panic when they are dropped.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
struct Shaky {
    breaks: bool,
}

impl Drop for Shaky {
    fn drop(&mut self) {
        assert!(!self.breaks || std::thread::panicking(), "parameters were dropped");
    }
}

#[tokio::test]
async fn parameters_may_panic_when_they_are_dropped() {
    async fn take(shaky: Shaky, _: &mut ToolContext) -> ToolResult<String> {
        std::mem::forget(shaky);
        ToolResult::value("taken".to_owned())
    }
    let never = policy_fn("never", |_, _| Decision::deny("never")).only(["denied"]);
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("take", "Take.", take))
        .tool(Tool::new("denied", "Take.", take))
        .tool(Tool::new("fine", "Fine.", fine))
        .policy(never);
    let session = Session::new();
    let executor = Executor::open(&prompt(section), &session).await.unwrap();
    let call = |id: &str, tool: &str| ToolCall::new(id, tool, r#"{"breaks":true}"#);
    assert_eq!(executor.call(call("1", "denied")).await.text(), "never");
    let outcomes =
        executor.batch(vec![call("2", "take"), call("3", "denied"), ToolCall::new("4", "fine", "")]).await;
    assert_eq!(outcomes.iter().map(Outcome::text).collect::<Vec<_>>(), ["taken", "never", "fine"]);
    assert_eq!(
        executor.dry_run(call("5", "denied")).await.decisive().unwrap().decision,
        Decision::deny("never")
    );
    assert_eq!(endings(&session), [Ending::Denied, Ending::Succeeded, Ending::Denied, Ending::Succeeded]);
}

/// Who keeps the thread cannot outrun a cancellation or the deadline.
#[tokio::test]
async fn what_never_waits_is_stopped_before_and_after_the_handler() {
    let clock = FakeClock::new(jiff::Timestamp::UNIX_EPOCH);
    for (who, cancels) in [("policy", false), ("policy", true), ("handler", false), ("handler", true)] {
        let token = CancelToken::new();
        let stop = {
            let (clock, token) = (clock.clone(), token.clone());
            Arc::new(Stopper(Box::new(move || match cancels {
                true => token.cancel(),
                false => clock.advance(Duration::from_secs(3)),
            })))
        };
        async fn work(_: (), cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
            let _ = cx.session().dispatch(Written { line: 1 })?;
            if let Some(stop) = cx.resource_optional::<Stopper>().await? {
                (stop.0)();
            }
            Ok(ToolResult::value("done".to_owned()))
        }
        let mut section = Section::tools("tools", "Tools").tool(Tool::new("work", "Work.", work));
        match who {
            "policy" => {
                let stop = Arc::clone(&stop);
                section = section.policy(policy_fn("stops", move |_, _| {
                    (stop.0)();
                    Decision::Allow
                }));
            }
            _ => section = section.resource(Binding::instance(stop)),
        }
        let session = session(&clock);
        let deadline = wink::limits::Deadline::after(Duration::from_secs(1), &clock).unwrap();
        let executor = Executor::builder(&prompt(section), &session).deadline(deadline).open().await.unwrap();
        let outcome = executor.call_cancellable(ToolCall::new("1", "work", ""), token).await;
        let expected = if cancels { Ending::Cancelled } else { Ending::Exhausted };
        assert_eq!((who, endings(&session)), (who, vec![expected]));
        assert!(outcome.escalation.is_some());
        assert_eq!(session.slice::<Written>().len(), 0);
    }
}

struct Stopper(Box<dyn Fn() + Send + Sync>);

/// A policy answers for its own time only.
#[tokio::test]
async fn a_policy_is_not_denied_for_the_time_of_others() {
    #[derive(Clone, Debug, Serialize, JsonSchema)]
    struct Slow {}
    impl<'de> Deserialize<'de> for Slow {
        fn deserialize<D: Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
            CLOCK.with(|clock| clock.advance(Duration::from_secs(20)));
            serde::de::IgnoredAny::deserialize(decoder)?;
            Ok(Self {})
        }
    }
    thread_local! {
        static CLOCK: FakeClock = FakeClock::new(jiff::Timestamp::UNIX_EPOCH);
    }
    async fn slow(_: Slow, _: &mut ToolContext) -> ToolResult<String> {
        ToolResult::value("done".to_owned())
    }
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("slow", "Slow.", slow))
        .policy(policy_fn("quick", |_, _| Decision::Allow));
    let session = session(&CLOCK.with(FakeClock::clone));
    let executor = Executor::open(&prompt(section), &session).await.unwrap();
    assert_eq!(executor.call(ToolCall::new("1", "slow", "{}")).await.text(), "done");
}
