//! Overrides: texts of a prompt that are replaced without touching code.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

use std::fs;
use std::os::unix::fs::symlink;

use wink::executor::{Executor, ToolCall};
use wink::prelude::*;
use wink::prompt::{
    LocalOverrides, OverrideError, OverrideExample, Overrides, PartState, PartValue, PromptDescriptor,
};
use wink::serde_json::{Value, json};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Lookup {
    /// The id.
    entity_id: String,
    /// Where to look.
    place: Option<Place>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Place {
    /// How far.
    depth: u8,
}

async fn lookup(params: Lookup, _: &mut ToolContext) -> ToolResult<String> {
    ToolResult::value(format!("found {}", params.entity_id))
}

async fn nothing(_: (), _: &mut ToolContext) -> ToolResult<()> {
    ToolResult::done("done")
}

#[derive(Serialize, JsonSchema)]
struct Task {
    goal: String,
}

fn example() -> Lookup {
    Lookup { entity_id: "abc".into(), place: None }
}

fn prompt_with(body: &str) -> Prompt {
    let tool =
        Tool::new("lookup", "Finds an entity.", lookup).example("By id", example(), "found abc".into());
    let inner = Section::markdown("detail", "Detail").body("All of it.").summary("Some of it.");
    let task = Section::markdown("task", "Task")
        .params::<Task>()
        .body(body)
        .tool(tool)
        .child(inner.visibility(Visibility::Summary));
    let fixed = Section::markdown("fixed", "Fixed")
        .body("As it is.")
        .without_overrides()
        .tool(Tool::new("stay", "Stays.", nothing).without_overrides());
    let template = PromptTemplate::builder("tests/overrides", "demo").section(task).section(fixed).build();
    template.unwrap().bind(Task { goal: "the top".into() }).unwrap()
}

fn prompt() -> Prompt {
    prompt_with("Reach ${goal}.")
}

fn replaced(path: &str, value: impl Into<PartValue>) -> Overrides {
    let of = prompt().descriptor();
    let mut overrides = Overrides::new(&of, "latest").unwrap();
    overrides.replace(&of, path, value).unwrap();
    overrides
}

fn text(prompt: &Prompt) -> String {
    prompt.render(&Session::new()).unwrap().text().to_owned()
}

fn spec(prompt: &Prompt) -> (String, Value) {
    let rendered = prompt.render(&Session::new()).unwrap();
    let contract = rendered.find("lookup").unwrap().tool.contract();
    assert_eq!(contract.schema_text(), contract.schema().to_string());
    (contract.description().to_owned(), contract.schema().clone())
}

fn paths(of: &PromptDescriptor) -> Vec<&str> {
    of.parts.iter().map(|part| part.path.as_str()).collect()
}

#[test]
fn every_part_that_may_be_replaced_is_described() {
    let of = prompt().descriptor();
    let expected = [
        "sections/task/body",
        "tools/lookup/description",
        "tools/lookup/params/entity_id",
        "tools/lookup/params/place",
        "tools/lookup/examples",
        "sections/task.detail/body",
        "sections/task.detail/summary",
    ];
    assert_eq!(paths(&of), expected);
    assert_eq!(of.part("sections/task/body").unwrap().value, "Reach ${goal}.".into());
    let input = json!({ "entity_id": "abc", "place": null });
    let shown = OverrideExample { description: "By id".into(), input, output: json!("found abc") };
    assert_eq!(of.part("tools/lookup/examples").unwrap().value, vec![shown].into());
}

// case 225b
#[test]
fn a_body_is_replaced_and_a_closed_section_stays_closed() {
    let prompt = prompt().with_overrides(replaced("sections/task.detail/body", "Every bit.")).unwrap();
    let closed = text(&prompt);
    assert!(closed.contains("### 1.1. Detail\n\nSome of it.\n\n[Closed."), "{closed}");
    assert!(!closed.contains("Every bit."), "{closed}");

    let session = Session::new();
    let open = wink::prompt::SectionVisibility { key: "task.detail".into(), visibility: Visibility::Full };
    assert!(session.dispatch(open).is_ok());
    let open = prompt.render(&session).unwrap();
    assert!(open.text().contains("### 1.1. Detail\n\nEvery bit."), "{}", open.text());
}

#[test]
fn a_summary_is_replaced() {
    let prompt = prompt().with_overrides(replaced("sections/task.detail/summary", "A part.")).unwrap();
    assert!(text(&prompt).contains("### 1.1. Detail\n\nA part.\n\n[Closed."));
}

#[test]
fn placeholders_of_an_override_are_checked_like_those_of_a_body() {
    let body = "sections/task/body";
    let good = prompt().with_overrides(replaced(body, "  Go for ${goal}, $$5.")).unwrap();
    assert!(text(&good).starts_with("## 1. Task\n\nGo for the top, $5."));
    let unknown = prompt().with_overrides(replaced(body, "Go for ${gaol}.")).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        format!(
            "section task, params {}: placeholder ${{gaol}} in its overridden body is no field of the params; its fields are goal",
            std::any::type_name::<Task>()
        )
    );
    let stray = prompt().with_overrides(replaced(body, "It costs $5.")).unwrap_err();
    assert_eq!(
        stray.to_string(),
        "section task: stray $ in its overridden body, at \"$5.\"; write $$ for a dollar sign"
    );
}

// case 223
#[tokio::test]
async fn descriptions_of_tools_and_parameters_are_replaced() {
    let of = prompt().descriptor();
    let mut overrides = replaced("tools/lookup/description", " Looks an entity up. ");
    overrides.replace(&of, "tools/lookup/params/entity_id", "Three letters.").unwrap();
    let (_, before) = spec(&prompt());
    let prompt = prompt().with_overrides(overrides).unwrap();
    let (description, schema) = spec(&prompt);
    assert_eq!(description, "Looks an entity up.");
    let mut expected = before;
    expected["properties"]["entity_id"]["description"] = "Three letters.".into();
    assert_eq!(schema, expected);
    // What it takes and does is as before.
    let executor = Executor::open(&prompt, &Session::new()).await.unwrap();
    let call = |arguments: &str| executor.call(ToolCall::new("call_1", "lookup", arguments));
    assert_eq!(call("{\"entity_id\":\"abc\"}").await.text(), "found abc");
    assert_eq!(
        call("{\"entity_id\":7}").await.text(),
        "Invalid arguments: `entity_id`: expected a string, got an integer"
    );
}

// case 223
#[test]
fn examples_are_replaced_and_held_to_the_tool() {
    let one =
        |input: Value, output: Value| vec![OverrideExample { description: "Another".into(), input, output }];
    let path = "tools/lookup/examples";
    let good = replaced(path, one(json!({ "entity_id": "xyz" }), json!("found xyz")));
    let shown = text(&prompt().with_overrides(good).unwrap());
    assert!(shown.contains("- Another\n  call: `{\"entity_id\":\"xyz\"}`\n  result: `found xyz`"), "{shown}");
    assert!(!shown.contains("By id"));
    let none = prompt().with_overrides(replaced(path, Vec::new())).unwrap();
    assert!(!text(&none).contains("Examples of"));

    let refused = |value: PartValue| prompt().with_overrides(replaced(path, value)).unwrap_err().to_string();
    let input = refused(one(json!({ "id": "xyz" }), json!("found")).into());
    assert!(
        input.starts_with("section task, tool lookup: its override: example \"Another\": its input: "),
        "{input}"
    );
    let output = refused(one(json!({ "entity_id": "xyz" }), json!(7)).into());
    assert!(
        output.starts_with("section task, tool lookup: its override: example \"Another\": its output: "),
        "{output}"
    );
    let kind = refused("text".into());
    assert_eq!(
        kind,
        "section task, tool lookup: its override: the override of tools/lookup/examples must be a list of examples"
    );
}

#[test]
fn a_description_that_is_too_long_is_refused() {
    let long = replaced("tools/lookup/description", "a".repeat(201));
    assert_eq!(
        prompt().with_overrides(long).unwrap_err().to_string(),
        "section task, tool lookup: its override: its description must have 1 to 200 characters, not 201"
    );
}

// case 222
#[test]
fn a_stale_override_is_left_out_and_refused_when_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalOverrides::new(dir.path());
    let overrides = replaced("sections/task/body", "Go for ${goal}.");
    let changed = prompt_with("Reach ${goal} now.");
    assert_eq!(
        overrides.get("sections/task/body").unwrap().state("sections/task/body", &changed.descriptor()),
        PartState::Stale
    );
    let file = store.write(&prompt(), &overrides).unwrap();
    let read = store.applied(&changed, "latest").unwrap();
    assert!(text(&read).starts_with("## 1. Task\n\nReach the top now."));

    let before = fs::read(&file).unwrap();
    let error = store.write(&changed, &overrides).unwrap_err();
    let OverrideError::Stale { paths } = error else { panic!("{error}") };
    assert_eq!(paths, ["sections/task/body"]);
    assert_eq!(fs::read(&file).unwrap(), before);
}

// case 222
#[test]
fn an_override_of_an_unknown_part_is_left_out_and_refused_when_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalOverrides::new(dir.path());
    let of = prompt().descriptor();
    let mut overrides = Overrides::new(&of, "latest").unwrap();
    // A part that takes no overrides is as unknown as one that is not there.
    for path in ["sections/fixed/body", "tools/stay/description", "sections/none/body"] {
        let error = overrides.replace(&of, path, "New.").unwrap_err();
        let OverrideError::Unknown { paths } = error else { panic!("{error}") };
        assert_eq!(paths, [path]);
    }
    let json = json!({
        "version": 1, "ns": "tests/overrides", "key": "demo", "tag": "latest",
        "parts": { "sections/fixed/body": { "hash": "0", "value": "New." } },
    });
    let overrides: Overrides = wink::serde_json::from_value(json.clone()).unwrap();
    let file = dir.path().join("tests/overrides/demo/latest.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, json.to_string()).unwrap();
    assert_eq!(text(&store.applied(&prompt(), "latest").unwrap()), text(&prompt()));
    let error = store.write(&prompt(), &overrides).unwrap_err();
    let OverrideError::Unknown { paths } = error else { panic!("{error}") };
    assert_eq!(paths, ["sections/fixed/body"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), json.to_string());
}

#[test]
fn what_would_not_build_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalOverrides::new(dir.path());
    let error = store.write(&prompt(), &replaced("sections/task/body", "Go for ${gaol}.")).unwrap_err();
    assert!(matches!(error, OverrideError::Invalid(_)), "{error}");
    assert!(store.read(&prompt(), "latest").unwrap().is_none());
}

#[test]
fn overrides_come_back_as_they_were_written_and_by_their_tag() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalOverrides::new(dir.path().join("not/there/yet"));
    assert!(store.read(&prompt(), "latest").unwrap().is_none());
    let overrides = replaced("sections/task/body", "Go for ${goal}.");
    let file = store.write(&prompt(), &overrides).unwrap();
    assert_eq!(file, dir.path().join("not/there/yet/tests/overrides/demo/latest.json"));
    assert_eq!(file, store.file(&prompt(), "latest").unwrap());
    assert_eq!(store.read(&prompt(), "latest").unwrap(), Some(overrides));
    assert!(store.read(&prompt(), "other").unwrap().is_none());
    for tag in ["", "../latest", "a/b", ".hidden", "Ä"] {
        assert!(matches!(store.read(&prompt(), tag), Err(OverrideError::Tag { .. })), "{tag}");
    }
}

#[test]
fn a_file_that_is_not_what_it_should_be_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalOverrides::new(dir.path());
    let file = store.write(&prompt(), &replaced("sections/task/body", "Go for ${goal}.")).unwrap();
    let good = fs::read_to_string(&file).unwrap();
    let read = |content: &str| {
        fs::write(&file, content).unwrap();
        store.read(&prompt(), "latest").unwrap_err()
    };
    assert!(matches!(read("{"), OverrideError::Malformed { .. }));
    assert!(matches!(
        read(&good.replace("\"version\": 1", "\"version\": 2")),
        OverrideError::Malformed { .. }
    ));
    assert!(matches!(read(&good.replace("\"parts\"", "\"part\"")), OverrideError::Malformed { .. }));
    assert!(matches!(read(&"[".repeat(100_000)), OverrideError::Malformed { .. }));
    assert!(matches!(read(&good.replace("\"demo\"", "\"other\"")), OverrideError::OtherPrompt { .. }));
    assert!(matches!(read(&good.replace("\"latest\"", "\"older\"")), OverrideError::OtherPrompt { .. }));
    assert!(matches!(read(&" ".repeat(5 << 20)), OverrideError::Io { .. }));
}

#[test]
fn no_link_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let store = LocalOverrides::new(dir.path());
    let overrides = replaced("sections/task/body", "Go for ${goal}.");

    // A link in the file's place is not read, and is replaced, not written through.
    let file = store.write(&prompt(), &overrides).unwrap();
    let target = outside.path().join("target.json");
    fs::rename(&file, &target).unwrap();
    let before = fs::read(&target).unwrap();
    symlink(&target, &file).unwrap();
    assert!(matches!(store.read(&prompt(), "latest"), Err(OverrideError::Io { .. })));
    store.write(&prompt(), &replaced("sections/task/body", "Elsewhere.")).unwrap();
    assert_eq!(fs::read(&target).unwrap(), before);
    assert!(fs::symlink_metadata(&file).unwrap().is_file());

    // A link on the way leads nowhere.
    fs::remove_dir_all(dir.path().join("tests")).unwrap();
    symlink(outside.path(), dir.path().join("tests")).unwrap();
    assert!(store.write(&prompt(), &overrides).is_err());
    assert!(store.read(&prompt(), "latest").unwrap_or(None).is_none());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn seeding_writes_every_part_and_keeps_what_was_changed() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalOverrides::new(dir.path());
    let seeded = store.seed(&prompt(), "latest").unwrap();
    let mut all: Vec<String> = prompt().descriptor().parts.into_iter().map(|part| part.path).collect();
    all.sort();
    assert_eq!(seeded.written, all);
    assert_eq!(text(&store.applied(&prompt(), "latest").unwrap()), text(&prompt()));
    assert!(store.seed(&prompt(), "latest").unwrap().written.is_empty());

    // One is changed by hand, another part by the code.
    let content = fs::read_to_string(&seeded.file).unwrap();
    fs::write(&seeded.file, content.replace("\"Some of it.\"", "\"A part.\"")).unwrap();
    let changed = prompt_with("Reach ${goal} now.");
    let shown = text(&store.applied(&changed, "latest").unwrap());
    assert!(shown.starts_with("## 1. Task\n\nReach the top now."), "{shown}");
    assert!(shown.contains("A part."), "{shown}");
    assert_eq!(store.seed(&changed, "latest").unwrap().written, ["sections/task/body"]);
    let read = store.read(&changed, "latest").unwrap().unwrap();
    assert_eq!(read.get("sections/task/body").unwrap().value, "Reach ${goal} now.".into());
    assert_eq!(read.get("sections/task.detail/summary").unwrap().value, "A part.".into());

    // What was changed by both is nothing that a program can settle.
    let content = fs::read_to_string(&seeded.file).unwrap();
    fs::write(&seeded.file, content.replace("\"Reach ${goal} now.\"", "\"Off to ${goal}.\"")).unwrap();
    let error = store.seed(&prompt(), "latest").unwrap_err();
    let OverrideError::Stale { paths } = error else { panic!("{error}") };
    assert_eq!(paths, ["sections/task/body"]);
}

#[test]
fn overrides_stay_when_something_is_bound_and_reach_what_is_bound() {
    let hint = || Section::markdown("hint", "Hint").body("Go up.");
    let with_hint = prompt().binding().section(hint()).build().unwrap();
    let of = with_hint.descriptor();
    let mut overrides = replaced("sections/task/body", "Go for ${goal}.");
    overrides.replace(&of, "sections/hint/body", "Go down.").unwrap();
    let bound = prompt().with_overrides(overrides).unwrap().binding().section(hint()).build().unwrap();
    let bound = bound.bind(Task { goal: "the sea".into() }).unwrap();
    let shown = text(&bound);
    assert!(shown.starts_with("## 1. Task\n\nGo for the sea."), "{shown}");
    assert!(shown.ends_with("## 3. Hint\n\nGo down."), "{shown}");
    // What can be replaced is what the code says, not what an override says.
    assert_eq!(bound.descriptor(), of);
}

#[test]
fn overrides_of_another_prompt_are_refused() {
    let other = PromptTemplate::builder("tests/overrides", "other").build().unwrap().prompt();
    let overrides = replaced("sections/task/body", "Go for ${goal}.");
    assert_eq!(
        other.with_overrides(overrides.clone()).unwrap_err().to_string(),
        "prompt: these overrides are for tests/overrides/demo"
    );
    let dir = tempfile::tempdir().unwrap();
    let error = LocalOverrides::new(dir.path()).write(&other, &overrides).unwrap_err();
    assert!(matches!(error, OverrideError::OtherPrompt { .. }), "{error}");
}
