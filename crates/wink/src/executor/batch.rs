//! Several calls in one turn: they look as if run in order, and overlap where nobody can tell.
//!
//! A call starts when every earlier call that is not decided yet has a footprint disjoint from its own, what its
//! policies look at included; without a footprint, or with effects that no rollback reaches, it waits for all of
//! them. Who writes into a directory that is not there makes it, so such calls wait for each other too, and so do all that
//! write files of a workspace on disk. Each works on its own fork. From the moment subscribers hear of a call, everything happens in request order:
//! a call waits there until the one before it is decided, and is not run after all when that one escalated.

use std::collections::HashSet;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use tokio::sync::{Mutex, watch};

use super::call::Call;
use super::outcome::{Failure, Outcome, ToolCall};
use super::stop::{StopWhen, held_to};
use super::{Executor, Shared};
use crate::BoxFuture;
use crate::filesystem::{EntryKind, Filesystem, FsPath};
use crate::limits::CancelToken;
use crate::policy::{PolicyCall, declared_by};
use crate::session::Ending;
use crate::support::future::catch;
use crate::tool::Isolation;
use crate::tool::footprint::{Area, Footprint};
use crate::transaction::{NoTurn, Turn, take_turn_of_call};

/// A call's place in its batch.
pub(super) struct Place {
    /// The turn that all calls of the batch share.
    turn: Arc<BatchTurn>,
    /// Set once the call asks nobody any more.
    asked: Arc<AtomicBool>,
    /// What became of the call before.
    before: watch::Receiver<Decided>,
    /// What becomes of this one.
    decided: watch::Sender<Decided>,
}

#[derive(Debug, Clone)]
enum Decided {
    NotYet,
    /// The next may go on.
    Clear,
    /// This tool ended the turn.
    Escalated(Arc<str>),
}

/// The session's turn, while the batch has it.
#[derive(Default)]
struct BatchTurn {
    turn: Mutex<Option<Arc<Turn>>>,
    held: AtomicBool,
}

impl Place {
    pub(super) async fn turn(&self, call: &Call) -> Result<Turn, NoTurn> {
        let mut shared = self.turn.turn.lock().await;
        let turn = match &*shared {
            Some(turn) => Arc::clone(turn),
            None => Arc::clone(shared.insert(Arc::new(take_turn_of_call(call.session()).await?))),
        };
        self.turn.held.store(true, Ordering::Release);
        Ok(Turn::Shared { _guard: turn })
    }

    /// Gives the batch's turn back while somebody is asked. By then no other call of the batch is on its way: those
    /// before are decided, and none after starts before [`Place::asks_no_more`].
    pub(super) async fn leave_turn(&mut self) -> Result<(), Box<Failure>> {
        self.wait().await?;
        self.turn.held.store(false, Ordering::Release);
        *self.turn.turn.lock().await = None;
        Ok(())
    }

    /// Lets calls after this one start.
    pub(super) fn asks_no_more(&self) {
        self.asked.store(true, Ordering::Release);
    }

    /// Waits until everything before this call is decided.
    pub(super) async fn wait(&mut self) -> Result<(), Box<Failure>> {
        let before = match self.before.wait_for(|before| !matches!(before, Decided::NotYet)).await {
            Ok(before) => before.clone(),
            // Dropped undecided: the batch is being dropped, and this call with it.
            Err(_) => return Err(Failure::new(Ending::NotRun, "not run: the batch was dropped")),
        };
        match before {
            Decided::NotYet | Decided::Clear => Ok(()),
            Decided::Escalated(by) => Err(not_run(&by)),
        }
    }

    /// Why the call is not run, if the turn has ended already.
    pub(super) fn ended(&self) -> Option<Box<Failure>> {
        match &*self.before.borrow() {
            Decided::NotYet | Decided::Clear => None,
            Decided::Escalated(by) => Some(not_run(by)),
        }
    }

    /// Lets the next call go on, or not.
    pub(super) fn decide(&self, outcome: &Outcome) {
        let before = self.before.borrow().clone();
        self.decided.send_replace(match (before, &outcome.escalation) {
            (Decided::Escalated(by), _) => Decided::Escalated(by),
            (_, Some(_)) => Decided::Escalated(Arc::clone(&outcome.event.tool)),
            (_, None) => Decided::Clear,
        });
    }
}

fn not_run(by: &str) -> Box<Failure> {
    Failure::new(Ending::NotRun, format!("not run: {by} ended the turn before it"))
}

/// A call of the batch, and everything that it may touch.
struct Member {
    footprint: Footprint,
    /// Whether somebody may still have to be asked about it.
    asks: Option<Arc<AtomicBool>>,
    progress: Progress,
}

impl Member {
    fn is_done(&self) -> bool {
        matches!(self.progress, Progress::Done(_))
    }

    fn may_ask(&self) -> bool {
        self.asks.as_ref().is_some_and(|asked| !asked.load(Ordering::Acquire))
    }
}

enum Progress {
    Waiting(Box<Call>),
    Running(BoxFuture<'static, Outcome>),
    Done(Outcome),
    /// Between two of the others.
    Moving,
}

impl Executor {
    /// Runs the calls of one response. There is one outcome per call, in the same order.
    pub async fn batch(&self, calls: Vec<ToolCall>) -> Vec<Outcome> {
        self.batch_cancellable(calls, None).await
    }

    /// Like [`Executor::batch`]; cancelling stops what runs, and the rest is not run.
    pub async fn batch_cancellable(&self, calls: Vec<ToolCall>, cancel: Option<CancelToken>) -> Vec<Outcome> {
        self.batch_watched(calls, cancel, &|_| ()).await
    }

    /// Like [`Executor::batch_cancellable`]; `told` is called with each outcome while later calls still run, in the order of the calls.
    /// A panic of it goes no further.
    pub async fn batch_watched(
        &self,
        calls: Vec<ToolCall>,
        cancel: Option<CancelToken>,
        told: &(dyn Fn(&Outcome) + Sync),
    ) -> Vec<Outcome> {
        let turn = Arc::new(BatchTurn::default());
        let (_first, mut before) = watch::channel(Decided::Clear);
        let mut seen: HashSet<Arc<str>> = HashSet::new();
        let mut members = Vec::with_capacity(calls.len());
        for call in calls {
            let repeated = !seen.insert(Arc::clone(&call.id));
            let footprint = if repeated { Footprint::nothing() } else { footprint(&self.shared, &call) };
            let asked = Arc::new(AtomicBool::new(false));
            let asks = may_ask(&self.shared, &call).then(|| Arc::clone(&asked));
            let (decided, next) = watch::channel(Decided::NotYet);
            let mut call = Call::new(&self.shared, call, cancel.clone());
            call.place = Some(Place { turn: Arc::clone(&turn), asked, before, decided });
            call.repeated = repeated;
            before = next;
            members.push(Member { footprint, asks, progress: Progress::Waiting(call) });
        }
        self.mark_ahead(&mut members, cancel.as_ref()).await;
        let most = self.shared.limits.max_calls_at_once.max(1);
        // Who comes before has ended and who comes after has not started: a long batch is not walked for every call.
        let mut going = 0..0;
        poll_fn(|cx| {
            loop {
                let held = turn.held.load(Ordering::Acquire);
                start(&self.shared, &mut members, &mut going, most, held);
                let mut moved = false;
                let going_on = members.get_mut(going.clone()).unwrap_or_default();
                let may_ask = |members: &[Member]| members.iter().filter(|member| member.may_ask()).count();
                let asking = may_ask(going_on);
                for member in &mut *going_on {
                    if let Progress::Running(running) = &mut member.progress
                        && let Poll::Ready(outcome) = running.as_mut().poll(cx)
                    {
                        member.progress = Progress::Done(outcome);
                        moved = true;
                    }
                }
                moved |= held != turn.held.load(Ordering::Acquire);
                moved |= asking != may_ask(going_on);
                let done = |member: &'_ Member| match &member.progress {
                    Progress::Done(outcome) => Some(catch(|| told(outcome))),
                    Progress::Waiting(_) | Progress::Running(_) | Progress::Moving => None,
                };
                let ended = going_on.iter().map_while(done).count();
                going.start += ended;
                if !moved {
                    break;
                }
            }
            match going.start == members.len() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        let done = |member: Member| match member.progress {
            Progress::Done(outcome) => Some(outcome),
            Progress::Waiting(_) | Progress::Running(_) | Progress::Moving => None,
        };
        members.into_iter().filter_map(done).collect()
    }

    /// Makes it known that all of them are on their way: one that comes after a long one may not have started when the
    /// process dies. Whoever could not be marked is marked, or fails, when it starts.
    async fn mark_ahead(&self, members: &mut [Member], cancel: Option<&CancelToken>) {
        let session = &self.shared.session;
        if !session.is_durable() {
            return;
        }
        let around = self.shared.around.load_full();
        let when = StopWhen { cancel: [Some(&around.cancel), cancel], ..StopWhen::until(around.deadline) };
        for member in members {
            if let Progress::Waiting(call) = &mut member.progress
                && !matches!(held_to(&when, session.clock(), pin!(call.mark())).await, Ok(Ok(())))
            {
                return;
            }
        }
    }
}

/// Starts what may start, and makes it part of what is `going`. The first call that has not ended always may. `held`
/// says whether the batch has the session's turn, so that nobody else changes the workspace.
fn start(shared: &Shared, members: &mut [Member], going: &mut Range<usize>, most: usize, held: bool) {
    let first = going.start;
    let running = |member: &&Member| matches!(member.progress, Progress::Running(_));
    let mut running = members.get(going.clone()).unwrap_or_default().iter().filter(running).count();
    for at in first..members.len() {
        let (earlier, rest) = members.split_at_mut(at);
        let Some(member) = rest.first_mut().filter(|member| !member.is_done()) else { continue };
        if matches!(member.progress, Progress::Waiting(_)) {
            if running >= most {
                return;
            }
            let own = &member.footprint;
            let undecided = || earlier.iter().skip(first).filter(|earlier| !earlier.is_done());
            // Who may remove a directory writes it, and overlaps with whoever touches something in it.
            let lasts = |dir: &FsPath| held && is_directory_now(shared, dir);
            let beside = |other: &Member| {
                !own.is_lasting()
                    && !other.may_ask()
                    && other.footprint.is_disjoint(own)
                    && !other.footprint.shares_parents(own, lasts)
            };
            let free = undecided().all(beside);
            if free && let Progress::Waiting(call) = std::mem::replace(&mut member.progress, Progress::Moving)
            {
                member.progress = Progress::Running(Box::pin(call.run()));
                running += 1;
                going.end = going.end.max(at + 1);
            }
        }
        if member.footprint.is_alone() {
            // Nothing after it starts before it has ended.
            return;
        }
    }
}

/// Whether somebody may have to be asked about a call: then the session is others' meanwhile, and no call of the batch
/// after it may be on its way.
fn may_ask(shared: &Shared, call: &ToolCall) -> bool {
    let around = shared.around.load();
    let placed = around.rendered.as_ref().and_then(|rendered| rendered.find(&call.tool));
    let asked_about = match placed {
        Some(placed) => !placed.policies.is_empty() || placed.tool.contract().idempotency.is_some(),
        None => shared.may_be_open(&around, &call.tool),
    };
    shared.approver.is_some() && asked_about
}

/// Whether there is a directory in the workspace as it is committed. A workspace that cannot say so at once has none.
fn is_directory_now(shared: &Shared, dir: &FsPath) -> bool {
    let Some(files) = shared.resources.there_already::<dyn Filesystem>() else { return false };
    let looked = catch(|| {
        let mut looking = files.stat(dir);
        looking.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    });
    matches!(looked, Ok(Poll::Ready(Ok(found))) if found.kind == EntryKind::Directory)
}

/// Everything that a call may touch, what its policies look at included.
fn footprint(shared: &Shared, call: &ToolCall) -> Footprint {
    // Parameters are foreign, and are dropped here too.
    catch(|| declared_footprint(shared, call)).unwrap_or_else(|_| Footprint::everything())
}

fn declared_footprint(shared: &Shared, call: &ToolCall) -> Footprint {
    // What a call's event is reduced to, the next one may look at.
    if !shared.feedback.is_empty() || shared.session.reduces_calls() {
        return Footprint::everything();
    }
    let around = shared.around.load();
    let Some(placed) = around.rendered.as_ref().and_then(|rendered| rendered.find(&call.tool)) else {
        // What it touches is known once its section is.
        return match shared.may_be_open(&around, &call.tool) {
            true => Footprint::everything(),
            false => Footprint::nothing(),
        };
    };
    let Ok(params) = placed.tool.inner.parse(&call.arguments, &shared.limits.parse) else {
        return Footprint::nothing();
    };
    let Some(declared) = placed.tool.inner.footprint(&params) else { return Footprint::everything() };
    let mut whole = declared.and(shared.published_footprint(&placed.tool));
    if placed.tool.contract().idempotency.is_some() {
        whole = whole.writing(Area::Outside);
    }
    if placed.tool.contract().isolation == Isolation::Serial {
        // It has the turn that a call before it may need for its commit.
        whole = whole.writing(Area::Disk);
    }
    let call = PolicyCall { tool: &placed.tool, params: &params };
    let mut whole = placed.policies.iter().fold(whole, |whole, placed| whole.and(declared_by(placed, &call)));
    if whole.writes_files()
        && shared.resources.there_already::<dyn Filesystem>().is_none_or(|files| files.writers_take_turns())
    {
        whole = whole.writing(Area::Disk);
    }
    let copied = whole.used_resources().all(|resource| shared.resources.is_copied(resource));
    match copied {
        true => whole,
        false => whole.writing(Area::Outside),
    }
}
