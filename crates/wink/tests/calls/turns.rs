//! Calls take turns, one session at a time. Who is inside a call and wants the turn of the same session is told so and does
//! not wait for itself; who is asked something does not keep the others waiting.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests panic when they fail"
)]

use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::{Barrier, Notify};
use wink::BoxFuture;
use wink::executor::{Approval, ApprovalRequest, Approver, Executor, ToolCall};
use wink::feedback::{Feedback, FeedbackContext, FeedbackProvider, Trigger};
use wink::filesystem::{DeleteMode, MemoryFilesystem};
use wink::policy::{Decision, PolicyCall, PolicyContext, ToolPolicy, policy_fn};
use wink::prelude::*;
use wink::resource::{Binding, BoxError, ResourceContext, ResourceRegistry};
use wink::session::{Ending, SliceKind, ToolInvoked};
use wink::store::{MemoryStore, SharedStore};
use wink::testing::ByteStore;
use wink::transaction::{Transaction, TransactionError, transaction};

const INSIDE: &str = "this runs inside a call of the same session and would wait for itself: use the call's own context, \
                      or a session of its own (Session::fork makes a child)";

/// The executor, for those who are inside it.
#[derive(Clone, Default)]
struct Own(Arc<OnceLock<Executor>>);

impl Own {
    fn executor(&self) -> &Executor {
        self.0.get().unwrap()
    }

    async fn note(&self) -> String {
        self.executor().call(ToolCall::new("inner", "note", "{}")).await.text().to_owned()
    }
}

async fn note(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    assert!(cx.session().dispatch(Note)?.is_ok());
    Ok(ToolResult::done("noted"))
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Note;
impl SliceType for Note {
    const NAME: &'static str = "note";
}

/// An executor over a section, which those inside it can reach.
async fn opened(section: Section, approver: Option<Arc<dyn Approver>>) -> Executor {
    opened_on(&Session::new(), section, approver).await.0
}

async fn opened_on(
    session: &Session,
    section: Section,
    approver: Option<Arc<dyn Approver>>,
) -> (Executor, Own) {
    let own = Own::default();
    let section = section.tool(Tool::new("note", "Notes.", note).footprint(|()| noting()));
    let prompt = PromptTemplate::builder("tests", "turns").section(section).build().unwrap().prompt();
    let resources = ResourceRegistry::of((Binding::instance(Arc::new(own.clone())),)).unwrap();
    let mut builder = Executor::builder(&prompt, session).resources(resources);
    if let Some(approver) = approver {
        builder = builder.approver(approver);
    }
    let executor = builder.open().await.unwrap();
    assert!(own.0.set(executor.clone()).is_ok());
    (executor, own)
}

fn noting() -> Footprint {
    Footprint::nothing().write_slice::<Note>()
}

async fn again(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    Ok(ToolResult::done(cx.resource::<Own>().await?.note().await))
}

fn again_blocking(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    Ok(ToolResult::done(cx.block_on(async { cx.resource::<Own>().await.unwrap().note().await })))
}

async fn by_hand(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let own = cx.resource::<Own>().await?;
    let (session, resources) = (own.executor().session(), own.executor().resources());
    let tx = Transaction::begin(session, resources, "inner").await;
    assert_eq!(tx.session().dispatch(Note).unwrap_err().to_string(), INSIDE);
    assert_eq!(tx.filesystem().await.err().unwrap().to_string(), INSIDE);
    assert_eq!(tx.commit().await.unwrap_err().to_string(), INSIDE);
    let scoped = transaction(session, resources, "inner", async |_| Ok::<_, TransactionError>(())).await;
    assert_eq!(scoped.unwrap_err().to_string(), INSIDE);
    Transaction::begin(session, resources, "inner").await.rollback().await.unwrap();
    let dry = own.executor().dry_run(ToolCall::new("d", "note", "{}")).await;
    assert_eq!(dry.refused.as_deref(), Some(INSIDE));
    let batch = own.executor().batch(vec![ToolCall::new("b", "note", "{}")]).await;
    Ok(ToolResult::done(batch[0].text()))
}

#[tokio::test]
async fn a_handler_that_calls_its_own_session_is_told_so() {
    let section = || {
        Section::tools("tools", "Tools")
            .tool(Tool::new("again", "Calls again.", again))
            .tool(Tool::blocking("again_blocking", "Calls again.", again_blocking))
            .tool(Tool::new("by_hand", "Tries everything.", by_hand))
    };
    let told = format!("note was not run: {INSIDE}");
    for tool in ["again", "again_blocking", "by_hand"] {
        let executor = opened(section(), None).await;
        let outcome = executor.call(ToolCall::new("1", tool, "{}")).await;
        assert_eq!((outcome.text(), outcome.event.ending), (&*told, Ending::Succeeded));
        let batch =
            executor.batch(vec![ToolCall::new("1", tool, "{}"), ToolCall::new("2", "note", "{}")]).await;
        assert_eq!((batch[0].text(), batch[1].text()), (&*told, "noted"));
        // The inner calls have their one event, too.
        let log: Vec<_> = executor
            .session()
            .slice::<ToolInvoked>()
            .iter()
            .map(|event| (event.tool.to_string(), event.ending))
            .collect();
        let inner = ("note".to_owned(), Ending::Unavailable);
        let outer = (tool.to_owned(), Ending::Succeeded);
        let noted = ("note".to_owned(), Ending::Succeeded);
        assert_eq!(log, [inner.clone(), outer.clone(), inner, outer, noted]);
        assert_eq!(executor.session().slice::<Note>().len(), 1);
    }
}

#[tokio::test]
async fn a_handler_can_call_other_sessions() {
    async fn elsewhere(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        let own = cx.resource::<Own>().await?;
        let child = own.executor().session().fork();
        let section = Section::tools("tools", "Tools").tool(Tool::new("up", "Calls up.", up));
        let prompt = PromptTemplate::builder("tests", "child").section(section).build().unwrap().prompt();
        let resources = ResourceRegistry::of((Binding::instance(own),)).unwrap();
        let inner = Executor::builder(&prompt, &child).resources(resources).open().await.unwrap();
        Ok(ToolResult::done(inner.call(ToolCall::new("c", "up", "{}")).await.text()))
    }
    /// From the child back to the parent, whose call waits for this one.
    async fn up(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        Ok(ToolResult::done(cx.resource::<Own>().await?.note().await))
    }
    let section = Section::tools("tools", "Tools").tool(Tool::new("elsewhere", "Calls a child.", elsewhere));
    let executor = opened(section, None).await;
    let outcome = executor.call(ToolCall::new("1", "elsewhere", "{}")).await;
    assert_eq!(outcome.text(), format!("note was not run: {INSIDE}"));
    assert_eq!(executor.call(ToolCall::new("2", "note", "{}")).await.text(), "noted");
}

/// Asks its own session something, in each of its moments.
struct Curious(Own, Arc<Mutex<Vec<String>>>);

impl ToolPolicy for Curious {
    fn kind(&self) -> &'static str {
        "curious"
    }

    fn covers(&self, call: &PolicyCall<'_>) -> bool {
        &**call.tool.name() == "plain"
    }

    fn check<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        Box::pin(async {
            let said = self.0.note().await;
            self.1.lock().unwrap().push(said);
            Ok(Decision::Allow)
        })
    }
}

#[tokio::test]
async fn a_policy_and_a_subscriber_are_told_so_too() {
    async fn plain(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        assert!(cx.session().dispatch(Note)?.is_ok());
        Ok(ToolResult::done("done"))
    }
    let (said, own) = (Arc::new(Mutex::new(Vec::new())), Own::default());
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("plain", "Does it.", plain))
        .policy(Curious(own.clone(), Arc::clone(&said)));
    let session = Session::new();
    let (executor, _) = opened_on(&session, section, None).await;
    assert!(own.0.set(executor.clone()).is_ok());
    for committed in [false, true] {
        let (own, said) = (own.clone(), Arc::clone(&said));
        let ask = move || {
            let executor = own.executor().clone();
            let call = async move { executor.call(ToolCall::new("s", "note", "{}")).await.text().to_owned() };
            // A subscriber cannot wait; its call is over at once, or it would never be.
            let mut call = Box::pin(call);
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            match call.as_mut().poll(&mut cx) {
                std::task::Poll::Ready(text) => said.lock().unwrap().push(text),
                std::task::Poll::Pending => said.lock().unwrap().push("waits".to_owned()),
            }
        };
        match committed {
            false => drop(session.dispatcher().subscribe::<ToolInvoked>(move |event, _| {
                if &*event.tool == "plain" {
                    ask();
                }
                Ok(())
            })),
            true => drop(session.dispatcher().subscribe::<Note>(move |_, _| {
                ask();
                Ok(())
            })),
        }
    }
    assert_eq!(executor.call(ToolCall::new("1", "plain", "{}")).await.text(), "done");
    let told = format!("note was not run: {INSIDE}");
    assert_eq!(*said.lock().unwrap(), [told.clone(), told.clone(), told]);
}

/// Goes to the log, and stands when its call fails.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Said;
impl SliceType for Said {
    const NAME: &'static str = "said";
    const KIND: SliceKind = SliceKind::Log;
}

#[tokio::test]
async fn who_hears_of_what_a_failed_call_leaves_in_the_log_is_told_so_as_well() {
    async fn fails(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        assert!(cx.session().dispatch(Said)?.is_ok());
        Ok(ToolResult::error("no"))
    }
    let session = Session::new();
    let section = Section::tools("tools", "Tools").tool(Tool::new("fails", "Fails.", fails));
    let (executor, own) = opened_on(&session, section, None).await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ear = Arc::clone(&heard);
    let _subscription = session.dispatcher().subscribe::<Said>(move |_, _| {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        ear.lock().unwrap().push(Box::pin(own.note()).as_mut().poll(&mut cx));
        Ok(())
    });
    assert_eq!(executor.call(ToolCall::new("1", "fails", "{}")).await.text(), "no");
    let told = std::task::Poll::Ready(format!("note was not run: {INSIDE}"));
    assert_eq!(*heard.lock().unwrap(), [told]);
}

/// Looks around in the session before approving.
struct Desk {
    own: OnceLock<Executor>,
    asked: Notify,
    said: Mutex<Vec<String>>,
}

impl Desk {
    fn new() -> Arc<Self> {
        Arc::new(Self { own: OnceLock::new(), asked: Notify::new(), said: Mutex::default() })
    }
}

impl Approver for Desk {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Result<Approval, BoxError>> {
        Box::pin(async move {
            let executor = self.own.get().unwrap();
            // What somebody does there must not be waited for by what it waits for.
            let read = executor.call(ToolCall::new("look", "look", "{}")).await;
            let tx = Transaction::begin(executor.session(), executor.resources(), "desk").await;
            tx.rollback().await?;
            self.said.lock().unwrap().push(format!("{} {}", request.question, read.text()));
            self.asked.notify_one();
            tokio::task::yield_now().await;
            Ok(Approval::Approved { by: "desk".into() })
        })
    }
}

#[tokio::test]
async fn an_approver_can_use_the_session_in_a_single_call_and_in_a_batch() {
    async fn pay(_: (), _: &mut ToolContext) -> ToolResult<()> {
        tokio::task::yield_now().await;
        ToolResult::done("paid")
    }
    /// A success would count, and so change what somebody was shown.
    async fn look(_: (), cx: &mut ReadContext) -> Result<ToolResult<()>, ToolError> {
        Ok(ToolResult::error(format!("{} notes", cx.session().slice::<Note>()?.len())))
    }
    async fn slow_note(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        tokio::task::yield_now().await;
        note((), cx).await
    }
    let asking = || {
        policy_fn("asking", |_, _| Decision::Ask("pay?".to_owned())).only(["pay"]).reads(Footprint::nothing())
    };
    let section = || {
        Section::tools("tools", "Tools")
            .tool(Tool::new("pay", "Pays.", pay).footprint(|()| Footprint::nothing()))
            .tool(Tool::new("look", "Looks.", look).footprint(|()| Footprint::nothing().read_slice::<Note>()))
            .tool(Tool::new("slow_note", "Notes.", slow_note).footprint(|()| noting()))
            .policy(asking())
    };
    let desk = Desk::new();
    let executor = opened(section(), Some(Arc::<Desk>::clone(&desk))).await;
    assert!(desk.own.set(executor.clone()).is_ok());
    assert_eq!(executor.call(ToolCall::new("1", "pay", "{}")).await.text(), "paid");
    assert_eq!(*desk.said.lock().unwrap(), ["pay? 0 notes"]);

    // Calls before it are over when it is asked, calls after it have not begun.
    let calls = ["slow_note", "pay", "slow_note", "pay"];
    let calls = calls.iter().enumerate().map(|(at, tool)| ToolCall::new(at.to_string(), *tool, "{}"));
    let outcomes = executor.batch(calls.collect()).await;
    let texts: Vec<_> = outcomes.iter().map(|outcome| outcome.text().to_owned()).collect();
    assert_eq!(texts, ["noted", "paid", "noted", "paid"]);
    assert_eq!(*desk.said.lock().unwrap(), ["pay? 0 notes", "pay? 1 notes", "pay? 2 notes"]);
}

#[tokio::test]
async fn the_body_of_a_transaction_is_told_so_as_well() {
    let executor = opened(Section::tools("tools", "Tools"), None).await;
    let resources: &ResourceContext = executor.resources();
    let text = transaction(executor.session(), resources, "outer", async |_| {
        let outcome = executor.call(ToolCall::new("1", "note", "{}")).await;
        Ok::<_, TransactionError>(outcome.text().to_owned())
    });
    assert_eq!(text.await.unwrap(), format!("note was not run: {INSIDE}"));
    assert_eq!(executor.call(ToolCall::new("2", "note", "{}")).await.text(), "noted");
}

/// Where two calls meet: nobody passes alone.
async fn meet(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    assert!(cx.session().dispatch(Note)?.is_ok());
    cx.resource::<Barrier>().await?.wait().await;
    Ok(ToolResult::done("met"))
}

async fn meeting_on(session: &Session, barrier: &Arc<Barrier>) -> Executor {
    let section = Section::tools("tools", "Tools").tool(Tool::new("meet", "Meets.", meet));
    let prompt = PromptTemplate::builder("tests", "meeting").section(section).build().unwrap().prompt();
    let resources = ResourceRegistry::of((Binding::instance(Arc::clone(barrier)),)).unwrap();
    Executor::builder(&prompt, session).resources(resources).open().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn calls_of_two_sessions_overlap_and_those_of_one_do_not() {
    // The paused clock moves when nothing else does, so whoever waits in vain is found out at once.
    #[expect(clippy::disallowed_methods, reason = "whoever waits in vain would wait for ever")]
    async fn together(one: &Executor, other: &Executor) -> Option<[String; 2]> {
        let call = || ToolCall::new("1", "meet", "{}");
        let both = async { tokio::join!(one.call(call()), other.call(call())) };
        let (one, other) = tokio::time::timeout(Duration::from_secs(1), both).await.ok()?;
        Some([one, other].map(|outcome| outcome.text().to_owned()))
    }
    let stores: [SharedStore; 2] = [Arc::new(MemoryStore::new()), Arc::new(ByteStore::new())];
    for store in stores {
        let barrier = Arc::new(Barrier::new(2));
        let session =
            async |id: &str| Session::builder().id(id).store(Arc::clone(&store)).open().await.unwrap();
        let (left, right) = (session("left").await, session("right").await);
        let executors = [meeting_on(&left, &barrier).await, meeting_on(&right, &barrier).await];
        assert_eq!(together(&executors[0], &executors[1]).await, Some(["met".to_owned(), "met".to_owned()]));
        for session in [&left, &right] {
            assert_eq!((session.slice::<Note>().len(), session.total_calls()), (1, 1));
        }
        // On one session the second waits for its turn, and the first for the second.
        let second = meeting_on(&left, &barrier).await;
        assert_eq!(together(&executors[0], &second).await, None);
        assert_eq!(
            (left.slice::<Note>().len(), left.total_calls()),
            (1, 1),
            "given up, nothing is left of them"
        );
        let endings: Vec<_> = left.slice::<ToolInvoked>().iter().map(|event| event.ending).collect();
        assert_eq!(endings, [Ending::Succeeded, Ending::Cancelled, Ending::Cancelled]);
    }
}

#[tokio::test]
async fn once_it_is_approved_a_call_does_not_keep_those_after_it_waiting() {
    struct Yes;
    impl Approver for Yes {
        fn ask<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Result<Approval, BoxError>> {
            Box::pin(async { Ok(Approval::Approved { by: "ada".into() }) })
        }
    }
    static GIVEN: Notify = Notify::const_new();
    async fn take(_: (), _: &mut ToolContext) -> ToolResult<()> {
        GIVEN.notified().await;
        ToolResult::done("taken")
    }
    async fn give(_: (), _: &mut ToolContext) -> ToolResult<()> {
        GIVEN.notify_one();
        ToolResult::done("given")
    }
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("take", "Takes.", take).footprint(|()| Footprint::nothing()))
        .tool(Tool::new("give", "Gives.", give).footprint(|()| Footprint::nothing()))
        .policy(
            policy_fn("asks", |_, _| Decision::Ask("take it?".to_owned()))
                .only(["take"])
                .reads(Footprint::nothing()),
        );
    let executor = opened(section, Some(Arc::new(Yes))).await;
    let outcomes =
        executor.batch(vec![ToolCall::new("1", "take", "{}"), ToolCall::new("2", "give", "{}")]).await;
    let texts: Vec<_> = outcomes.iter().map(|outcome| outcome.text().to_owned()).collect();
    assert_eq!(texts, ["taken", "given"]);
}

#[tokio::test]
async fn without_an_approver_nobody_waits_for_a_policy_that_thinks() {
    static GIVEN: Notify = Notify::const_new();
    struct Thinks;
    impl ToolPolicy for Thinks {
        fn kind(&self) -> &'static str {
            "thinks"
        }

        fn covers(&self, call: &PolicyCall<'_>) -> bool {
            &**call.tool.name() == "take"
        }

        fn check<'a>(
            &'a self,
            _: &'a PolicyCall<'a>,
            _: &'a PolicyContext<'a>,
        ) -> BoxFuture<'a, Result<Decision, BoxError>> {
            Box::pin(async {
                GIVEN.notified().await;
                Ok(Decision::Allow)
            })
        }

        fn footprint(&self, _: &PolicyCall<'_>, _: &Arc<str>) -> Footprint {
            Footprint::nothing()
        }
    }
    async fn take(_: (), _: &mut ToolContext) -> ToolResult<()> {
        ToolResult::done("taken")
    }
    async fn give(_: (), _: &mut ToolContext) -> ToolResult<()> {
        GIVEN.notify_one();
        ToolResult::done("given")
    }
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("take", "Takes.", take).footprint(|()| Footprint::nothing()))
        .tool(Tool::new("give", "Gives.", give).footprint(|()| Footprint::nothing()))
        .policy(Thinks);
    let executor = opened(section, None).await;
    let calls = vec![ToolCall::new("1", "take", "{}"), ToolCall::new("2", "give", "{}")];
    let texts: Vec<_> = executor.batch(calls).await.iter().map(|outcome| outcome.text().to_owned()).collect();
    assert_eq!(texts, ["taken", "given"]);
}

#[tokio::test]
async fn a_batch_that_waits_for_its_turn_does_not_count_on_a_directory() {
    static LEAVES: Notify = Notify::const_new();
    async fn clear(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        cx.filesystem().await?.delete("d", DeleteMode::Recursive).await?;
        LEAVES.notified().await;
        Ok(ToolResult::done("cleared"))
    }
    async fn a(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        cx.filesystem().await?.write_text("d/a", "a").await?;
        tokio::task::yield_now().await;
        Ok(ToolResult::done("a"))
    }
    async fn b(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        cx.filesystem().await?.write_text("d/b", "b").await?;
        Ok(ToolResult::done("b"))
    }
    let files = MemoryFilesystem::from_files([("d/old", "old")]).unwrap();
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("clear", "Clears.", clear))
        .tool(Tool::new("a", "Writes.", a).footprint(|()| Footprint::nothing().write_path("d/a")))
        .tool(Tool::new("b", "Writes.", b).footprint(|()| Footprint::nothing().write_path("d/b")))
        .resource(Binding::filesystem(Arc::new(files)));
    let executor = opened(section, None).await;
    let call = |tool: &str| ToolCall::new(tool, tool, "{}");
    let batch = async {
        let batch = executor.batch(vec![call("a"), call("b")]);
        LEAVES.notify_one();
        batch.await
    };
    let (cleared, batch) = tokio::join!(executor.call(call("clear")), batch);
    let texts: Vec<_> = std::iter::once(&cleared).chain(&batch).map(|outcome| outcome.text()).collect();
    assert_eq!(texts, ["cleared", "a", "b"]);
}

#[tokio::test]
async fn a_feedback_provider_is_told_so_only_while_its_batch_has_the_turn() {
    /// Calls its own session, once.
    struct Curious(Own, Arc<Mutex<Option<String>>>);
    impl FeedbackProvider for Curious {
        fn name(&self) -> &str {
            "curious"
        }

        fn feedback<'a>(
            &'a self,
            _: &'a FeedbackContext<'a>,
        ) -> BoxFuture<'a, Result<Option<Feedback>, BoxError>> {
            Box::pin(async {
                let first = self.1.lock().unwrap().replace(String::new()).is_none();
                if first {
                    let said = self.0.note().await;
                    *self.1.lock().unwrap() = Some(said);
                }
                Ok(None)
            })
        }
    }
    for (batch, expected) in [(false, "noted".to_owned()), (true, format!("note was not run: {INSIDE}"))] {
        let (own, said) = (Own::default(), Arc::new(Mutex::new(None)));
        let section = Section::tools("tools", "Tools").tool(Tool::new("note", "Notes.", note));
        let prompt = PromptTemplate::builder("tests", "turns").section(section).build().unwrap().prompt();
        let executor = Executor::builder(&prompt, &Session::new())
            .feedback(Trigger::every_calls(1), Curious(own.clone(), Arc::clone(&said)))
            .open()
            .await
            .unwrap();
        assert!(own.0.set(executor.clone()).is_ok());
        let call = ToolCall::new("1", "note", "{}");
        match batch {
            true => assert_eq!(executor.batch(vec![call]).await[0].text(), "noted"),
            false => assert_eq!(executor.call(call).await.text(), "noted"),
        }
        assert_eq!(said.lock().unwrap().as_deref(), Some(&*expected));
    }
}
