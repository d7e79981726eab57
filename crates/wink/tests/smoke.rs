//! stub smoke
use std::sync::Arc;
use wink::prelude::*;
use wink::prompt::*;
use wink::executor::*;
use wink::resource::*;
use wink::filesystem::*;
use wink::tool::IntoTool;

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Note { text: String }
impl SliceType for Note { const NAME: &'static str = "note"; }
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct P { text: String, fail: bool }

async fn note(p: P, cx: &mut ToolContext) -> Result<ToolResult<Note>, ToolError> {
    let _ = cx.session().dispatch(Note { text: p.text.clone() })?;
    cx.filesystem().await?.write_text("a.txt", &p.text).await?;
    if p.fail { return Err(ToolError::new("boom")); }
    Ok(ToolResult::ok(Note { text: p.text }, "noted"))
}

#[tokio::test]
async fn smoke() {
    let fs: Arc<dyn Filesystem> = Arc::new(MemoryFilesystem::new());
    let tool = Tool::new("note", "Take a note.", note).into_tool().unwrap();
    let prompt = Prompt::stub(vec![PlacedTool { tool, policies: Arc::new([]) }], ResourceRegistry::of((Binding::filesystem(fs.clone()),)).unwrap());
    let session = Session::new();
    let executor = Executor::open(&prompt, &session).await.unwrap();
    let out = executor.call(ToolCall::new("1", "note", r#"{"text":"hi","fail":false}"#)).await;
    println!("{out:#?}");
    assert!(out.is_success());
    assert_eq!(session.slice::<Note>().len(), 1);
    let out = executor.call(ToolCall::new("2", "note", r#"{"text":"ho","fail":true}"#)).await;
    println!("{}", out.text());
    assert_eq!(session.slice::<Note>().len(), 1);
    assert_eq!(fs.read_text("a.txt").await.unwrap(), "hi");
    let out = executor.call(ToolCall::new("3", "notes", r#"{"text":"ho","fail":true}"#)).await;
    println!("{}", out.text());
    let out = executor.call(ToolCall::new("4", "note", r#"{"txt":"ho","fail":"x"}"#)).await;
    println!("{}", out.text());
    assert_eq!(session.slice::<wink::session::ToolInvoked>().len(), 4);
}
