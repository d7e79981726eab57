//! A coding agent's tools on a real directory: reading and editing files, running commands, a tool of one's own that fails
//! half-way, and the undo of a call that succeeded. The calls are those of a model; everything else is a program that
//! somebody would write around it.

use std::path::Path;

use wink::filesystem::Edit;
use wink::prelude::*;
use wink::session::ToolInvoked;
use wink::suites::VfsToolsSection;
use wink::transaction::{UndoForce, UndoReach, UndoRequest, undo};
use wink_store::Workspace;

/// Replace a word in every file of a directory.
#[tool]
async fn replace_everywhere(
    old: String,
    new: String,
    cx: &mut ToolContext,
) -> Result<ToolResult<()>, ToolError> {
    let files = cx.filesystem().await?;
    let mut changed = 0;
    // Sorted by name, and written one after the other. Nobody sees any of it before all of it is done.
    for entry in files.glob(".", "**/*").await? {
        let text = files.read_text(entry.path.as_str()).await?;
        if text.contains("DO NOT EDIT") {
            let (path, done) = (&entry.path, changed);
            return Ok(ToolResult::error(format!(
                "{path} must not be changed; {done} files were, and are undone."
            )));
        }
        if text.contains(&old) {
            files.edit(entry.path.as_str(), &Edit::all(old.as_str(), new.as_str())).await?;
            changed += 1;
        }
    }
    Ok(ToolResult::done(format!("{changed} files changed.")))
}

/// A sandbox for `shell_execute`, where the machine has what it takes.
#[cfg(target_os = "linux")]
fn shell() -> Result<Section, Box<dyn std::error::Error>> {
    use wink_sandbox::{Limits, NamespaceSandbox, SandboxSection};
    // What takes a cgroup is not asked for, since not every user may make one.
    let limits = Limits { memory: None, cpu: None, processes: None, ..Limits::default() };
    Ok(SandboxSection::new(NamespaceSandbox::new(limits)?).section())
}

#[cfg(not(target_os = "linux"))]
fn shell() -> Result<Section, Box<dyn std::error::Error>> {
    Err("commands need Linux".into())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = tempfile::tempdir()?;
    let root = place.path();
    std::fs::write(root.join("price.sh"), "echo $(( $1 * 119 / 100 ))\n")?;
    std::fs::write(root.join("test.sh"), "test $(sh price.sh 100) = 119 && echo passed\n")?;

    let workspace = Workspace::open(root)?;
    let session = workspace.session("main").open().await?;
    let mut template = PromptTemplate::builder("examples", "workspace")
        .section(VfsToolsSection::new().over(workspace.files().clone()).section())
        .section(Section::tools("refactoring", "Refactoring").tool(replace_everywhere_tool()));
    match shell() {
        Ok(section) => template = template.section(section),
        Err(reason) => println!("(There are no commands here: {reason})\n"),
    }
    let executor = Executor::open(&template.build()?.prompt(), &session).await?;
    let call = async |tool: &str, arguments: &str| {
        println!("model   {tool} {arguments}");
        let outcome = executor.call(ToolCall::new("", tool, arguments)).await;
        for (at, line) in outcome.text().lines().enumerate() {
            let kind = if outcome.is_success() { "ok" } else { "no" };
            println!("{:<8}{line}", if at == 0 { kind } else { "" });
        }
        outcome.event.id
    };

    call("read_file", r#"{"path": "price.sh"}"#).await;
    let edit = call("edit_file", r#"{"path": "price.sh", "old_string": "119", "new_string": "107"}"#).await;
    call("shell_execute", r#"{"command": ["sh", "test.sh"]}"#).await;
    show(root)?;

    // The test does not pass any more. What a call changed can be undone for as long as its undo point is kept.
    let request = UndoRequest { call: edit, reach: UndoReach::Call, force: UndoForce::Refuse };
    let undone = undo(&session, executor.resources(), request).await?;
    println!("{undone}");
    show(root)?;

    // A command may do what it likes, and a tool too: what fails was never there.
    call("shell_execute", r#"{"command": ["sh", "-c", "rm *.sh; exit 1"], "undo_on_failure": true}"#).await;
    std::fs::write(root.join("shipping.sh"), "# DO NOT EDIT\n")?;
    call("replace_everywhere", r#"{"old": "100", "new": "1000"}"#).await;
    show(root)?;

    // The session is on disk as well: whoever opens it next finds every call.
    drop((executor, session, workspace));
    let session = Workspace::open(root)?.session("main").open().await?;
    println!("In the log of the session:");
    for event in session.slice::<ToolInvoked>().iter() {
        println!("- {} {}", event.tool, if event.success { "succeeded" } else { "failed" });
    }
    Ok(())
}

/// What is on disk.
fn show(root: &Path) -> std::io::Result<()> {
    println!();
    for name in ["price.sh", "test.sh"] {
        print!("{name}: {}", std::fs::read_to_string(root.join(name))?);
    }
    println!();
    Ok(())
}
