//! The same programs as tools: with and without footprints, policies, idempotency and published values.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use wink::BoxFuture;
use wink::executor::{Executor, ExecutorLimits, Moment, Step, StepHook, ToolCall};
use wink::filesystem::{DeleteMode, Filesystem, MemoryFilesystem, MkdirOptions};
use wink::ledger::IdempotencyConfig;
use wink::policy::{Decision, PolicyCall, PolicyContext, PolicyMemory, ResultView, ToolPolicy, policy_fn};
use wink::prelude::*;
use wink::resource::{Binding, BoxError, ResourceRegistry};
use wink::serde_json::{self, Value, json};
use wink::session::{InvocationId, SliceKind, ToolInvoked};
use wink::store::SharedStore;
use wink::testing::{ByteStore, filesystem_tree};
use wink::tool::files::FilesError;
use wink::tool::{Phase, PromptEvaluationError};

use super::model::{Made, Seen, State};
use super::program::{End, Op, Program, SLICES, Verb};

macro_rules! slices {
    ($($name:ident $text:literal $kind:ident,)*) => {$(
        #[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
        pub(crate) struct $name(pub i64);
        impl SliceType for $name {
            const NAME: &'static str = $text;
            const KIND: SliceKind = SliceKind::$kind;
        }
    )*};
}
slices! { Red "red" State, Green "green" State, Blue "blue" State, Trail "trail" Log, }

/// The world outside, and who is in it at this moment.
#[derive(Default)]
pub(crate) struct Outside {
    pub(crate) effects: Mutex<Vec<i64>>,
    running: AtomicUsize,
    /// How often a handler went on while another was on its way.
    pub(crate) met: AtomicUsize,
}

/// Every tool, one that there is not, and the plain one more often than the others.
pub(crate) const NAMES: [&str; 18] = [
    "idle",
    "idle",
    "declared",
    "declared",
    "declared",
    "declared",
    "declared",
    "declared",
    "bare",
    "once",
    "once",
    "once_bare",
    "publishing",
    "guarded",
    "watched",
    "remembering",
    "lying",
    "publish",
];

async fn plain(program: Program, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    match perform(&program, cx).await? {
        Some(text) => Ok(ToolResult::done(text)),
        None => Ok(ToolResult::error("it refused")),
    }
}

/// Touches nothing at all, whatever the program says.
async fn idle(program: Program, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    for at in 0..3 {
        tokio::task::yield_now().await;
        pause(cx, at).await;
    }
    match ended(&program)? {
        End::Refuse => Ok(ToolResult::error("it refused")),
        _ => Ok(ToolResult::done("")),
    }
}

async fn publishing(program: Program, cx: &mut ToolContext) -> Result<ToolResult<Blue>, ToolError> {
    let value = Blue(program.ops.len() as i64);
    let result = match perform(&program, cx).await? {
        Some(text) => ToolResult::ok(value, text),
        None => ToolResult::failed(value, "it refused"),
    };
    Ok(result.exclude_value_from_context())
}

/// Does what the program says and tells what it saw; none when it refuses.
async fn perform(program: &Program, cx: &ToolContext) -> Result<Option<String>, ToolError> {
    let outside = cx.resource::<Outside>().await?;
    let _running = Running::enter(&outside);
    let mut said = Vec::new();
    for (at, op) in program.ops.iter().enumerate() {
        outside.look(cx, at).await;
        said.extend(step(op, cx, &outside).await?);
    }
    outside.look(cx, program.ops.len()).await;
    Ok(match ended(program)? {
        End::Refuse => None,
        _ => Some(said.join(";")),
    })
}

/// The errors that a program can end in.
fn ended(program: &Program) -> Result<End, ToolError> {
    match program.end {
        End::Well | End::Refuse => Ok(program.end),
        End::Error => Err(ToolError::new("it failed")),
        End::Escalate => {
            let message = "enough".to_owned();
            Err(PromptEvaluationError { phase: Phase::Tool, message, deadline: None }.into())
        }
    }
}

struct Running<'a>(&'a Outside);

impl<'a> Running<'a> {
    fn enter(outside: &'a Outside) -> Self {
        outside.running.fetch_add(1, Ordering::Relaxed);
        Self(outside)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Outside {
    /// Lets others go first, now and then, and looks whether there are any.
    async fn look(&self, cx: &ToolContext, at: usize) {
        pause(cx, at).await;
        if self.running.load(Ordering::Relaxed) > 1 {
            self.met.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Lets others go first, now and then. Not part of the program: idempotent calls must be able to be equal.
async fn pause(cx: &ToolContext, at: usize) {
    let mut hasher = DefaultHasher::new();
    (&cx.invocation().call_id, cx.tool().name(), at).hash(&mut hasher);
    for _ in 0..hasher.finish() % 4 {
        tokio::task::yield_now().await;
    }
}

async fn step(op: &Op, cx: &ToolContext, outside: &Outside) -> Result<Option<String>, ToolError> {
    match op.verb {
        Verb::Look => {
            let items = match op.on % SLICES.len() {
                0 => values(cx.session().slice::<Red>()?.iter(), |red| red.0),
                1 => values(cx.session().slice::<Green>()?.iter(), |green| green.0),
                _ => values(cx.session().slice::<Blue>()?.iter(), |blue| blue.0),
            };
            return Ok(Some(format!("{}={items:?}", SLICES[op.on % SLICES.len()])));
        }
        Verb::Push => {
            let dispatched = match op.on % SLICES.len() {
                0 => cx.session().dispatch(Red(op.value))?,
                1 => cx.session().dispatch(Green(op.value))?,
                _ => cx.session().dispatch(Blue(op.value))?,
            };
            assert!(dispatched.is_ok());
        }
        Verb::Clear => match op.on % SLICES.len() {
            0 => cx.session().seed::<Red>([])?,
            1 => cx.session().seed::<Green>([])?,
            _ => cx.session().seed::<Blue>([])?,
        },
        Verb::Read => {
            let files = cx.filesystem().await?;
            let text = match files.exists(op.path()).await? {
                true => match files.read_text(op.path()).await {
                    Err(FilesError::Fs(_)) => "refused".to_owned(),
                    read => read?,
                },
                false => "nothing".to_owned(),
            };
            return Ok(Some(format!("{}={text}", op.path())));
        }
        Verb::Write => {
            let files = cx.filesystem().await?;
            return refused(files.write_text(op.path(), &op.value.to_string()).await);
        }
        Verb::Delete => {
            let files = cx.filesystem().await?;
            if files.exists(op.path()).await? {
                return refused(files.delete(op.path(), DeleteMode::Single).await);
            }
        }
        Verb::DeleteAll => {
            return refused(cx.filesystem().await?.delete(op.path(), DeleteMode::Recursive).await);
        }
        Verb::Mkdir => {
            return refused(cx.filesystem().await?.mkdir(op.path(), MkdirOptions::default()).await);
        }
        Verb::Rename => return refused(cx.filesystem().await?.rename(op.path(), op.target()).await),
        Verb::Trail => drop(cx.session().dispatch(Trail(op.value))?),
        Verb::Outside => outside.effects.lock().unwrap().push(op.value),
        Verb::History => {
            let calls = cx.session().calls("declared")?;
            return Ok(Some(format!("declared={}", calls.map_or(0, |stat| stat.count))));
        }
        Verb::Log => return Ok(Some(format!("log={}", cx.session().slice::<ToolInvoked>()?.len()))),
    }
    Ok(None)
}

/// The filesystem may refuse; that the call may not do it is an error.
fn refused<T>(done: Result<T, FilesError>) -> Result<Option<String>, ToolError> {
    match done {
        Ok(_) => Ok(None),
        Err(FilesError::Fs(_)) => Ok(Some("refused".to_owned())),
        Err(error) => Err(error.into()),
    }
}

fn values<T>(items: impl Iterator<Item = Arc<T>>, value: impl Fn(&T) -> i64) -> Vec<i64> {
    items.map(|item| value(&item)).collect()
}

/// What a program touches.
fn declared(program: &Program) -> Footprint {
    let whole = Footprint::nothing().share_resource::<Outside>();
    program.ops.iter().fold(whole, |whole, op| match (op.verb, op.on % SLICES.len()) {
        (Verb::Look, 0) => whole.read_slice::<Red>(),
        (Verb::Look, 1) => whole.read_slice::<Green>(),
        (Verb::Look, _) => whole.read_slice::<Blue>(),
        (Verb::Push | Verb::Clear, 0) => whole.write_slice::<Red>(),
        (Verb::Push | Verb::Clear, 1) => whole.write_slice::<Green>(),
        (Verb::Push | Verb::Clear, _) => whole.write_slice::<Blue>(),
        (Verb::Read, _) => whole.read_path(op.path()),
        (Verb::Write | Verb::Delete | Verb::DeleteAll | Verb::Mkdir, _) => whole.write_path(op.path()),
        (Verb::Rename, _) => whole.write_path(op.path()).write_path(op.target()),
        (Verb::Trail, _) => whole.write_slice::<Trail>(),
        (Verb::Outside, _) => whole.outside(),
        (Verb::History, _) => whole.read_history(),
        (Verb::Log, _) => whole.read_slice::<ToolInvoked>(),
    })
}

fn hardly_declared(program: &Program) -> Footprint {
    let whole = Footprint::nothing().share_resource::<Outside>();
    if program.ops.iter().any(|op| op.verb == Verb::Outside) { whole.outside() } else { whole }
}

/// Counts the successes of its tool, and denies every third call.
struct Remembering;

impl Remembering {
    fn count(cx: &PolicyContext<'_>) -> u64 {
        cx.remembered("count").and_then(|count| count.as_u64()).unwrap_or_default()
    }
}

impl ToolPolicy for Remembering {
    fn kind(&self) -> &'static str {
        "remembering"
    }

    fn covers(&self, call: &PolicyCall<'_>) -> bool {
        **call.tool.name() == *"remembering"
    }

    fn check<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        cx: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        let enough = Self::count(cx) % 3 == 2;
        let decision = if enough { Decision::deny("two were enough for now") } else { Decision::Allow };
        Box::pin(std::future::ready(Ok(decision)))
    }

    fn on_result<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a ResultView<'a>,
        cx: &'a PolicyContext<'a>,
        memory: &'a PolicyMemory<'a>,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        let count = Self::count(cx) + 1;
        Box::pin(async move { Ok(memory.remember("count", json!(count))?) })
    }

    fn wants_results(&self) -> bool {
        true
    }

    fn footprint(&self, call: &PolicyCall<'_>, key: &Arc<str>) -> Footprint {
        match self.covers(call) {
            true => Footprint::nothing().write_remembered(key, "count"),
            false => Footprint::nothing(),
        }
    }
}

/// The prompt with all the tools. Built once; sessions are made anew.
pub(crate) fn prompt() -> Prompt {
    let tool = |name: &str| Tool::new(name, "Do as told.", plain);
    let auto = IdempotencyConfig::auto;
    let section = Section::tools("tools", "Tools")
        .tool(tool("declared").footprint(declared))
        .tool(tool("bare"))
        .tool(Tool::new("idle", "Do nothing.", idle).footprint(|_| Footprint::nothing()))
        .tool(tool("once").footprint(declared).idempotency(auto()))
        .tool(tool("once_bare").idempotency(auto()))
        .tool(Tool::new("publishing", "Do as told.", publishing).footprint(declared).publishes())
        .tool(tool("guarded").footprint(declared))
        .tool(tool("watched").footprint(declared))
        .tool(tool("remembering").footprint(declared))
        .tool(tool("lying").footprint(hardly_declared))
        .policy(
            policy_fn("guard", |_, cx| match cx.calls("declared").map_or(0, |stat| stat.count) % 2 {
                0 => Decision::Allow,
                _ => Decision::deny("an odd number of declared calls"),
            })
            .only(["guarded"])
            .reads(Footprint::nothing().read_history()),
        )
        // It does not say what it looks at.
        .policy(
            policy_fn("watch", |_, cx| match cx.slice::<Red>().map_or(0, |reds| reds.len()) % 2 {
                0 => Decision::Allow,
                _ => Decision::deny("an odd number of red things"),
            })
            .only(["watched"]),
        )
        .policy(Remembering);
    PromptTemplate::builder("tests", "serial").section(section).build().unwrap().prompt()
}

/// Holds calls up at every step, now and then.
struct Dawdler(AtomicUsize);

impl StepHook for Dawdler {
    fn at<'a>(&'a self, _: Step, _: Moment, _: InvocationId) -> BoxFuture<'a, Result<(), String>> {
        let mut hasher = DefaultHasher::new();
        self.0.fetch_add(1, Ordering::Relaxed).hash(&mut hasher);
        let dawdles = hasher.finish().is_multiple_of(8);
        Box::pin(async move {
            if dawdles {
                tokio::task::yield_now().await;
            }
            Ok(())
        })
    }
}

pub(crate) struct World {
    pub(crate) session: Session,
    pub(crate) executor: Executor,
    pub(crate) files: Arc<dyn Filesystem>,
    pub(crate) outside: Arc<Outside>,
    prompt: Prompt,
    setting: Setting,
    /// What outlives a process, if anything does.
    bytes: Option<Arc<ByteStore>>,
}

/// How calls go in a world.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) at_once: usize,
    /// Held up at every step, now and then; otherwise nobody watches them.
    pub(crate) dawdles: bool,
}

impl World {
    pub(crate) async fn new(prompt: &Prompt, at_once: usize) -> Self {
        Self::on(prompt, Setting { at_once, dawdles: true }, None).await
    }

    /// On a store that keeps nothing but bytes, or in memory.
    pub(crate) async fn on(prompt: &Prompt, setting: Setting, bytes: Option<Arc<ByteStore>>) -> Self {
        let files: Arc<dyn Filesystem> = Arc::new(MemoryFilesystem::new());
        let outside = Arc::new(Outside::default());
        let (session, executor) = open(prompt, setting, bytes.as_ref(), &files, &outside).await;
        Self { session, executor, files, outside, prompt: prompt.clone(), setting, bytes }
    }

    /// What the next process finds. In memory nothing is opened again.
    pub(crate) async fn reopen(&mut self) {
        let Some(bytes) = &self.bytes else { return };
        let bytes = Arc::new(bytes.reopen().unwrap());
        (self.session, self.executor) =
            open(&self.prompt, self.setting, Some(&bytes), &self.files, &self.outside).await;
        self.bytes = Some(bytes);
    }

    pub(crate) async fn batch(&self, calls: &[Made]) -> Vec<Seen> {
        let call = |made: &Made| {
            let arguments = match &made.program {
                Some(program) => serde_json::to_string(program).unwrap(),
                None => "{oops".to_owned(),
            };
            ToolCall::new(made.id.as_str(), made.tool, arguments)
        };
        let outcomes = self.executor.batch(calls.iter().map(call).collect()).await;
        for outcome in &outcomes {
            assert_eq!(outcome.answer.text, outcome.event.rendered);
            assert_eq!(outcome.answer.call_id, outcome.event.call_id);
        }
        outcomes.iter().map(|outcome| seen(&outcome.event)).collect()
    }

    pub(crate) async fn state(&self) -> State {
        let tree = filesystem_tree(&*self.files).await;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let files = tree.into_iter().map(|(path, content)| (path.to_string(), content.map(text)));
        State {
            slices: [
                values(self.session.slice::<Red>().iter(), |red| red.0),
                values(self.session.slice::<Green>().iter(), |green| green.0),
                values(self.session.slice::<Blue>().iter(), |blue| blue.0),
            ],
            files: files.collect(),
        }
    }

    pub(crate) fn trail(&self) -> Vec<i64> {
        values(self.session.slice::<Trail>().iter(), |trail| trail.0)
    }

    /// The log, oldest first. What says that a call was not run must say nothing else of it.
    pub(crate) fn log(&self) -> Vec<Seen> {
        let events = self.session.slice::<ToolInvoked>();
        for event in events.iter().filter(|event| format!("{:?}", event.ending) == "NotRun") {
            assert!(matches!(event.params, wink::session::LoggedParams::Rejected { .. }), "{event:?}");
            assert_eq!(
                (&event.decisions[..], event.value.to_json(), event.replayed),
                (&[][..], Value::Null, false)
            );
        }
        events.iter().map(|event| seen(&event)).collect()
    }
}

async fn open(
    prompt: &Prompt,
    setting: Setting,
    bytes: Option<&Arc<ByteStore>>,
    files: &Arc<dyn Filesystem>,
    outside: &Arc<Outside>,
) -> (Session, Executor) {
    let session = match bytes {
        Some(bytes) => {
            let store = Arc::clone(bytes) as SharedStore;
            Session::builder().id("the-session").store(store).open().await.unwrap()
        }
        None => Session::new(),
    };
    let resources = ResourceRegistry::of((
        Binding::filesystem(Arc::clone(files)),
        Binding::instance(Arc::clone(outside)),
    ))
    .unwrap();
    let limits = ExecutorLimits { max_calls_at_once: setting.at_once, ..ExecutorLimits::default() };
    let mut builder = Executor::builder(prompt, &session).resources(resources).limits(limits);
    if setting.dawdles {
        builder = builder.hook(Arc::new(Dawdler(AtomicUsize::new(0))));
    }
    let executor = builder.open().await.unwrap();
    (session, executor)
}

fn seen(event: &ToolInvoked) -> Seen {
    let ending = match format!("{:?}", event.ending).as_str() {
        "Succeeded" => "Succeeded",
        "Unavailable" => "Unavailable",
        "Rejected" => "Rejected",
        "Denied" => "Denied",
        "Failed" => "Failed",
        "Errored" => "Errored",
        "Escalated" => "Escalated",
        "NotRun" => "NotRun",
        other => panic!("{other}: {}", event.rendered),
    };
    Seen {
        id: event.call_id.to_string(),
        tool: event.tool.to_string(),
        text: event.rendered.to_string(),
        ending,
    }
}
