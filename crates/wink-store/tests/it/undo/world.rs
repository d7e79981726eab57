//! A workspace with a tool that does to files and slices what it is told.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use wink::BoxFuture;
use wink::executor::{Executor, Outcome, ToolCall};
use wink::filesystem::host::{Capture, HostFilesystem};
use wink::filesystem::{DeleteMode, Filesystem, FilesystemExt, MkdirOptions};
use wink::ledger::{IdempotencyConfig, LedgerScope};
use wink::policy::{Decision, PolicyCall, PolicyContext, PolicyMemory, ResultView, ToolPolicy};
use wink::prelude::*;
use wink::resource::BoxError;
use wink::session::{InvocationId, SliceKey, SliceKind, upsert_by_key};
use wink::store::SharedStore;
use wink::transaction::{UndoError, UndoForce, UndoReach, UndoRequest, Undone, undo};
use wink_store::{Workspace, WorkspaceOptions};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Note(pub(crate) String);
impl SliceType for Note {
    const NAME: &'static str = "note";
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Total(pub(crate) u32);
impl SliceType for Total {
    const NAME: &'static str = "total";
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) id: u32,
    pub(crate) done: bool,
}
impl SliceType for Step {
    const NAME: &'static str = "step";
    const KEYED: bool = true;
    fn key(&self) -> Option<SliceKey> {
        Some(self.id.to_string().into())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Said(pub(crate) String);
impl SliceType for Said {
    const NAME: &'static str = "said";
    const KIND: SliceKind = SliceKind::Log;
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Op {
    Write(String, String),
    Delete(String),
    Rename(String, String),
    Mkdir(String),
    Shell(String),
    Note(String),
    Total(u32),
    Step(u32),
    Say(String),
    Fail,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Work {
    ops: Vec<Op>,
}

/// Operations that are impossible are passed over.
async fn work(params: Work, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    for op in params.ops {
        let files = cx.resource::<dyn Filesystem>().await?;
        match op {
            Op::Write(path, text) => _ = files.write_text(&path, &text).await,
            Op::Delete(path) => _ = files.delete_all(&path).await,
            Op::Rename(from, to) => _ = files.rename_to(&from, &to).await,
            Op::Mkdir(path) => {
                let options = MkdirOptions { parents: true, exist_ok: true };
                _ = cx.filesystem().await?.mkdir(&path, options).await;
            }
            Op::Shell(script) => shell(&*files, &script),
            Op::Note(text) => assert!(cx.session().dispatch(Note(text))?.is_ok()),
            Op::Total(number) => cx.session().seed([Total(number)])?,
            Op::Step(id) => {
                let done = cx.session().slice::<Step>()?.iter().any(|step| step.id == id);
                assert!(cx.session().dispatch(Step { id, done })?.is_ok());
            }
            Op::Say(text) => assert!(cx.session().dispatch(Said(text))?.is_ok()),
            Op::Fail => return Ok(ToolResult::error("as told")),
        }
    }
    Ok(ToolResult::done("worked"))
}

/// Runs a script on the fork, as a command would be.
fn shell(files: &dyn Filesystem, script: &str) {
    let layer = HostFilesystem::of(files).unwrap().command_layer_by(Capture::Overlay).unwrap();
    let dirs = layer.overlay().unwrap();
    let at = tempfile::tempdir().unwrap();
    let options = format!(
        "{},metacopy=off,lowerdir={},upperdir={},workdir={}",
        if dirs.user_xattr { "userxattr" } else { "redirect_dir=on" },
        dirs.lower.display(),
        dirs.upper.display(),
        dirs.work.display()
    );
    let (at, state) = (at.path().display(), dirs.state_name);
    let script = format!(
        "mount -t overlay overlay -o {options} {at} && mount -t tmpfs tmpfs {at}/{state} && cd {at} || exit 99; {script}; exit 0"
    );
    let flags = if dirs.user_xattr { "-Urm" } else { "-m" };
    let ended = Command::new("unshare").args([flags, "sh", "-c", &script]).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    layer.finish().unwrap();
}

/// Whether commands can be run here; without the right to mount they are left out.
pub(crate) fn has_shell() -> bool {
    let can =
        |flags: &str| Command::new("unshare").args([flags, "true"]).status().is_ok_and(|done| done.success());
    let can = can("-m") || can("-Urm");
    if !can {
        wink::testing::leave_out("undoing commands", "no mount namespace can be made here");
    }
    can
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Pay {
    what: u32,
}

/// The outside world: a line for each payment.
struct Bank(PathBuf);

async fn pay(params: Pay, cx: &mut ToolContext) -> Result<ToolResult<u32>, ToolError> {
    let bank = cx.resource::<Bank>().await?;
    let mut file = fs::OpenOptions::new().create(true).append(true).open(&bank.0)?;
    file.write_all(format!("{}\n", params.what).as_bytes())?;
    cx.filesystem().await?.write_text("receipt", "paid").await?;
    Ok(ToolResult::ok(params.what, "paid"))
}

/// Counts successes of `work`, and says what it remembered when it was last asked.
struct Counts(Arc<Mutex<Option<Value>>>);

impl ToolPolicy for Counts {
    fn kind(&self) -> &'static str {
        "counts"
    }

    fn covers(&self, call: &PolicyCall<'_>) -> bool {
        **call.tool.name() == *"work"
    }

    fn check_now(&self, _: &PolicyCall<'_>, cx: &PolicyContext<'_>) -> Option<Result<Decision, BoxError>> {
        *self.0.lock().unwrap() = cx.remembered("count").map(|value| Value::clone(&value));
        Some(Ok(Decision::Allow))
    }

    fn on_result<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a ResultView<'a>,
        cx: &'a PolicyContext<'a>,
        memory: &'a PolicyMemory<'a>,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            let count = cx.remembered("count").and_then(|value| value.as_u64()).unwrap_or(0);
            Ok(memory.remember("count", json!(count + 1))?)
        })
    }

    fn wants_results(&self) -> bool {
        true
    }
}

pub(crate) struct World {
    pub(crate) root: PathBuf,
    pub(crate) workspace: Workspace,
    pub(crate) session: Session,
    pub(crate) executor: Executor,
    remembered: Arc<Mutex<Option<Value>>>,
}

/// All of a session that an undo is about.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Slices {
    pub(crate) notes: Vec<String>,
    pub(crate) totals: Vec<u32>,
    pub(crate) steps: Vec<Step>,
    pub(crate) calls: Option<u64>,
}

/// Kind and mode, and contents or target.
pub(crate) type Tree = BTreeMap<String, (u32, Vec<u8>)>;

impl World {
    pub(crate) async fn open(root: &Path) -> Self {
        Self::open_with(root, "s", WorkspaceOptions::default(), |store| store).await
    }

    pub(crate) async fn open_with(
        root: &Path,
        session: &str,
        options: WorkspaceOptions,
        store: impl FnOnce(SharedStore) -> SharedStore,
    ) -> Self {
        let workspace = Workspace::open_with(root, options).unwrap();
        let store = store(Arc::clone(workspace.store()) as _);
        let session = Session::builder().store(store).id(session).open().await.unwrap();
        session.register::<Step, Step>(upsert_by_key()).unwrap();
        for known in [session.know::<Note>(), session.know::<Total>(), session.know::<Said>()] {
            known.unwrap();
        }
        let remembered = Arc::new(Mutex::new(None));
        let bank = Bank(root.with_extension("payments"));
        let idempotent = IdempotencyConfig::auto().scope(LedgerScope::Global);
        let section = Section::tools("work", "Work")
            .tool(Tool::new("work", "Work.", work))
            .tool(Tool::new("pay", "Pay.", pay).idempotency(idempotent))
            .policy(Counts(Arc::clone(&remembered)))
            .resource(wink::resource::Binding::instance(Arc::new(bank)));
        let prompt = PromptTemplate::builder("tests", "undo").section(section).build().unwrap().prompt();
        let executor =
            Executor::builder(&prompt, &session).resources(workspace.resources()).open().await.unwrap();
        Self { root: root.to_owned(), workspace, session, executor, remembered }
    }

    pub(crate) async fn try_work(&self, ops: &[Op]) -> Outcome {
        self.executor.call(ToolCall::new("c", "work", json!({ "ops": ops }).to_string())).await
    }

    pub(crate) async fn work(&self, ops: &[Op]) -> InvocationId {
        let outcome = self.try_work(ops).await;
        assert!(outcome.is_success(), "{}", outcome.text());
        outcome.event.id
    }

    pub(crate) async fn pay(&self, what: u32) -> Outcome {
        self.executor.call(ToolCall::new("p", "pay", json!({ "what": what }).to_string())).await
    }

    pub(crate) fn payments(&self) -> String {
        fs::read_to_string(self.root.with_extension("payments")).unwrap_or_default()
    }

    /// What the policy remembers of calls that succeeded.
    pub(crate) async fn remembered(&self) -> Option<Value> {
        assert!(!self.try_work(&[Op::Fail]).await.is_success());
        self.remembered.lock().unwrap().clone()
    }

    pub(crate) async fn undo(&self, call: InvocationId) -> Result<Undone, UndoError> {
        self.undo_with(call, UndoReach::Call, UndoForce::Refuse).await
    }

    pub(crate) async fn undo_to(&self, call: InvocationId) -> Result<Undone, UndoError> {
        self.undo_with(call, UndoReach::ToBefore, UndoForce::Refuse).await
    }

    pub(crate) async fn force(&self, call: InvocationId) -> Result<Undone, UndoError> {
        self.undo_with(call, UndoReach::Call, UndoForce::Anyway).await
    }

    pub(crate) async fn undo_with(
        &self,
        call: InvocationId,
        reach: UndoReach,
        force: UndoForce,
    ) -> Result<Undone, UndoError> {
        undo(&self.session, self.executor.resources(), UndoRequest { call, reach, force }).await
    }

    pub(crate) fn slices(&self) -> Slices {
        slices(&self.session)
    }

    pub(crate) fn tree(&self) -> Tree {
        tree(&self.root)
    }

    pub(crate) fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }

    pub(crate) fn put(&self, path: &str, text: &str) {
        fs::create_dir_all(self.root.join(path).parent().unwrap()).unwrap();
        fs::write(self.root.join(path), text).unwrap();
    }

    /// The events of undos.
    pub(crate) fn undos(&self) -> Vec<Undone> {
        self.session.slice::<Undone>().iter().map(|event| Undone::clone(&event)).collect()
    }

    /// Removes a file as part of no call.
    pub(crate) async fn delete_by_hand(&self, path: &str) {
        wink::filesystem::Filesystem::delete(
            &**self.workspace.files(),
            &wink::filesystem::FsPath::parse(path, &wink::filesystem::FsLimits::default()).unwrap(),
            DeleteMode::Recursive,
        )
        .await
        .unwrap();
    }
}

pub(crate) fn slices(session: &Session) -> Slices {
    Slices {
        notes: session.slice::<Note>().iter().map(|note| note.0.clone()).collect(),
        totals: session.slice::<Total>().iter().map(|total| total.0).collect(),
        steps: session.slice::<Step>().iter().map(|step| Step::clone(&step)).collect(),
        calls: session.calls("work").map(|stat| stat.count),
    }
}

/// What is on disk, as the operating system says.
pub(crate) fn tree(root: &Path) -> Tree {
    let mut found = Tree::new();
    let mut todo: Vec<PathBuf> = children(root);
    while let Some(path) = todo.pop() {
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        if name == ".wink" {
            continue;
        }
        let about = fs::symlink_metadata(&path).unwrap();
        let content = if about.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
        } else if about.is_dir() {
            todo.extend(children(&path));
            Vec::new()
        } else {
            fs::read(&path).unwrap()
        };
        found.insert(name, (about.permissions().mode(), content));
    }
    found
}

fn children(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

pub(crate) fn write(path: &str, text: &str) -> Op {
    Op::Write(path.to_owned(), text.to_owned())
}

pub(crate) fn note(text: &str) -> Op {
    Op::Note(text.to_owned())
}
