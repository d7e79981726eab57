//! The workspace digest, through the executor.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

use wink::executor::{Executor, ToolCall};
use wink::prelude::*;
use wink::suites::{WorkspaceDigest, WorkspaceDigestSection};

async fn open(session: &Session) -> Executor {
    let section: Section = WorkspaceDigestSection::new().into();
    let prompt = PromptTemplate::builder("tests", "digest").section(section).build().expect("valid").prompt();
    Executor::open(&prompt, session).await.expect("opens")
}

async fn read(executor: &Executor) -> String {
    let call = ToolCall::new("c", "read_section", r#"{"section_key":"workspace-digest"}"#);
    executor.call(call).await.text().to_owned()
}

const INVITATION: &str = "[Closed. To read it, call `read_section` with section_key \"workspace-digest\".]";

// case 181
#[tokio::test]
async fn a_digest_is_shown_as_its_summary_and_read_whole() {
    let session = Session::new();
    let executor = open(&session).await;
    let shown = |text: &str| format!("## 1. Workspace digest\n\n{text}\n\n{INVITATION}");
    let rendered = executor.rendered().expect("rendered");
    assert_eq!(rendered.text(), shown("There is no digest of the workspace yet."));
    assert_eq!(
        read(&executor).await,
        "## 1. Workspace digest\n\nThere is no digest of the workspace yet. Look at the files themselves."
    );

    // What looks like a placeholder is just text.
    let body = "# A parser for TOML ($5)\n\nsrc/lex.rs has the ${lexer}.";
    assert!(session.dispatch(WorkspaceDigest::new(body)).is_ok());
    assert_eq!(executor.refresh().expect("renders").text(), shown("A parser for TOML ($5)"));
    assert_eq!(read(&executor).await, format!("## 1. Workspace digest\n\n{body}"));

    // The latest counts, and is the only one that is kept.
    assert!(session.dispatch(WorkspaceDigest::new("New.").summary("Short.")).is_ok());
    assert_eq!(executor.refresh().expect("renders").text(), shown("Short."));
    assert_eq!(read(&executor).await, "## 1. Workspace digest\n\nNew.");
    assert_eq!(session.slice::<WorkspaceDigest>().len(), 1);
}

#[tokio::test]
async fn a_text_from_the_session_that_panics_is_a_render_error() {
    let section = Section::markdown("odd", "Odd").body("x").body_from(|_| panic!("oops"));
    let prompt = PromptTemplate::builder("tests", "odd").section(section).build().expect("valid").prompt();
    let error = prompt.render(&Session::new()).expect_err("the text panics");
    assert!(error.to_string().contains("its text from the session panicked: oops"), "{error}");
}

#[test]
fn a_summary_from_the_session_needs_one_to_begin_with() {
    let section = Section::markdown("odd", "Odd").summary_from(|_| None);
    let error = PromptTemplate::builder("tests", "odd").section(section).build().expect_err("no summary");
    assert!(error.to_string().contains("say .summary("), "{error}");
}

#[test]
fn a_long_first_line_is_cut() {
    let digest = WorkspaceDigest::new(format!("\n## {}\nrest", "é".repeat(300)));
    assert_eq!(digest.summary, format!("{}…", "é".repeat(240)));
}
