//! Overrides of an agent: texts of its prompt and of its suites, replaced by files beside its own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use wink::prelude::*;
use wink::prompt::Overrides;
use wink_agent::{Agent, LoadError, OVERRIDES_TAG};
use wink_store::Workspace;

const AGENT: &str = r#"
[agent]
ns = "t/team"
key = "t"

[[section]]
key = "a"
title = "A"
body = "Work."
suites = ["planning", "files"]
"#;

fn override_description(agent: &Agent, text: &str) -> std::path::PathBuf {
    override_tagged(agent, OVERRIDES_TAG, text)
}

fn override_tagged(agent: &Agent, tag: &str, text: &str) -> std::path::PathBuf {
    let of = agent.prompt().descriptor();
    let mut overrides = Overrides::new(&of, tag).unwrap();
    overrides.replace(&of, "tools/planning_read_plan/description", text).unwrap();
    agent.overrides().unwrap().write(agent.prompt(), &overrides).unwrap()
}

fn description(prompt: &Prompt) -> String {
    let session = Session::new();
    prompt.prepare(&session).unwrap();
    let rendered = prompt.render(&session).unwrap();
    rendered.find("planning_read_plan").unwrap().tool.contract().description().to_owned()
}

#[tokio::test]
async fn what_is_beside_the_agent_file_is_in_place() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("conf")).unwrap();
    let file = dir.path().join("conf/agent.toml");
    fs::write(&file, AGENT).unwrap();
    let agent = Agent::find(dir.path(), Some(&file)).unwrap();
    let before = description(agent.prompt());
    let written = override_description(&agent, "Look at the plan.");
    assert_eq!(written, dir.path().join("conf/wink-overrides/t/team/t/latest.json"));

    let agent = Agent::find(dir.path(), Some(&file)).unwrap();
    assert_eq!(description(agent.prompt()), "Look at the plan.");
    let workspace = Arc::new(Workspace::open(dir.path()).unwrap());
    let opened = agent.open(&workspace, "main").await.unwrap();
    assert_eq!(description(opened.prompt()), "Look at the plan.");
    assert_eq!(description(Agent::find_as_written(dir.path(), Some(&file)).unwrap().prompt()), before);
    assert_eq!(description(Agent::load(&file).unwrap().prompt()), before);
    assert!(Agent::load(&file).unwrap().overrides().is_none());
}

#[test]
fn the_built_in_agent_has_them_in_the_workspace() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::find(dir.path(), None).unwrap();
    let written = override_description(&agent, "Look at the plan.");
    assert_eq!(written, dir.path().join("wink-overrides/wink/workspace/latest.json"));
    assert_eq!(description(Agent::find(dir.path(), None).unwrap().prompt()), "Look at the plan.");
}

#[tokio::test]
async fn which_are_in_place_is_the_files_or_whoever_asks_to_say() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("wink.toml");
    fs::write(&file, AGENT).unwrap();
    let agent = Agent::find(dir.path(), None).unwrap();
    override_tagged(&agent, "latest", "The latest.");
    override_tagged(&agent, "exp", "An experiment.");
    override_tagged(&agent, "other", "Another.");
    let found = |tag| Agent::find_tagged(dir.path(), None, tag).unwrap();
    let tagged = |tag| (found(tag).overrides_tag().to_owned(), description(found(tag).prompt()));
    assert_eq!(tagged(None), ("latest".to_owned(), "The latest.".to_owned()));
    assert_eq!(tagged(Some("exp")), ("exp".to_owned(), "An experiment.".to_owned()));
    fs::write(&file, AGENT.replace("key = \"t\"\n", "key = \"t\"\noverrides = \"other\"\n")).unwrap();
    assert_eq!(tagged(None), ("other".to_owned(), "Another.".to_owned()));
    assert_eq!(tagged(Some("exp")), ("exp".to_owned(), "An experiment.".to_owned()));
    // Also in a workspace at rest, whatever was changed meanwhile.
    let workspace = Arc::new(Workspace::open(dir.path()).unwrap());
    let agent = found(Some("exp"));
    override_tagged(&agent, "exp", "A second one.");
    let settled = agent.settled_in(&workspace, None).unwrap();
    assert_eq!(description(settled.open(&workspace, "main").await.unwrap().prompt()), "A second one.");
}

#[test]
fn those_that_were_asked_for_must_be_there() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("wink.toml"), AGENT).unwrap();
    let error = Agent::find_tagged(dir.path(), None, Some("exp")).unwrap_err();
    let wanted = dir.path().join("wink-overrides/t/team/t/exp.json");
    assert_eq!(
        error.to_string(),
        format!("there are no overrides with the tag exp: {} is not there", wanted.display())
    );
    // What always counts need not be there.
    assert!(Agent::find_tagged(dir.path(), None, Some("latest")).is_ok());
    let file = AGENT.replace("key = \"t\"\n", "key = \"t\"\noverrides = \"exp\"\n");
    fs::write(dir.path().join("wink.toml"), file).unwrap();
    assert!(matches!(Agent::find(dir.path(), None), Err(LoadError::NoOverrides { .. })));
    assert_eq!(Agent::find_as_written(dir.path(), None).unwrap().overrides_tag(), "exp");
}

#[test]
fn a_tag_that_cannot_be_one_is_told_where_it_is() {
    let file = AGENT.replace("key = \"t\"\n", "key = \"t\"\noverrides = \"../x\"\n");
    let error = Agent::parse(&file, "wink.toml").unwrap_err();
    insta::assert_snapshot!(error.to_string());
}

#[test]
fn what_cannot_be_used_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::find(dir.path(), None).unwrap();
    let written = override_description(&agent, "Look at the plan.");
    let refused = || {
        let error = Agent::find(dir.path(), None).unwrap_err();
        assert!(matches!(error, LoadError::Overrides(_)), "{error}");
        assert!(Agent::find_as_written(dir.path(), None).is_ok());
    };
    let good = fs::read_to_string(&written).unwrap();
    fs::write(&written, good.replace("Look at the plan.", &"long ".repeat(50))).unwrap();
    refused();
    fs::write(&written, "{").unwrap();
    refused();
    // A link would lead around what keeps tools from changing it.
    fs::write(&written, good).unwrap();
    let place = dir.path().join("wink-overrides");
    fs::rename(&place, dir.path().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(Path::new("elsewhere"), &place).unwrap();
    if let Ok(agent) = Agent::find(dir.path(), None) {
        assert_ne!(description(agent.prompt()), "Look at the plan.");
    }
}
