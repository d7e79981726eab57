//! Loading agent files: what is right becomes an agent, and all that is wrong is told at once, each with its place.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use wink::prelude::*;
use wink_agent::{Agent, LoadError, Origin, Problem};

const BEGINNING: &str = "[agent]\nns = \"ops\"\nkey = \"deploy\"\n";

fn problems(text: &str) -> Vec<Problem> {
    match Agent::parse(text, "wink.toml") {
        Ok(agent) => panic!("nothing was wrong: {agent:?}"),
        Err(error) => error.problems().to_vec(),
    }
}

fn told(text: &str) -> String {
    Agent::parse(text, "wink.toml").unwrap_err().to_string()
}

fn load(text: &str) -> Agent {
    Agent::parse(text, "wink.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn tools(agent: &Agent) -> Vec<String> {
    agent.prompt().placed_tools().map(|tool| tool.name().to_string()).collect()
}

const DESIGNED: &str = r#"
[agent]
ns = "ops"
key = "deploy"

[[section]]
key = "deployment"
title = "Deployment"
body = "Always run the tests, then build, then deploy."
suites = ["planning", "files"]

[[section.tool]]
name = "run_tests"
description = "Run the test suite."
command = ["./scripts/test.sh"]          # arguments: JSON on stdin and WINK_ARG_NAME; exit 0 = success, stdout = message
timeout = "5m"

[[section.tool]]
name = "deploy"
description = "Deploy one environment."
command = ["./scripts/deploy.sh"]
params = { type = "object", required = ["environment"], properties = { environment = { enum = ["staging", "production"] } } }
idempotency = { strategy = "params", fields = ["environment"], ttl = "1h" }

[[section.policy]]
sequential = { deploy = ["run_tests"] }
"#;

#[test]
fn the_agent_of_the_front_page_is_one() {
    let agent = load(DESIGNED);
    assert_eq!(&**agent.name(), "ops/deploy");
    assert_eq!(agent.origin(), &Origin::Text("wink.toml".to_owned()));
    assert_eq!(
        tools(&agent),
        [
            "run_tests",
            "deploy",
            "planning_setup_plan",
            "planning_add_step",
            "planning_update_step",
            "planning_read_plan",
            "read_file",
            "write_file",
            "edit_file",
            "list_directory",
            "delete_file",
            "glob",
            "grep",
        ]
    );
    let text = agent.prompt().render(&Session::new()).unwrap().text().to_owned();
    assert!(text.starts_with(
        "## 1. Deployment\n\nAlways run the tests, then build, then deploy.\n\n### 1.1. Planning"
    ));
    let run_tests = agent.prompt().placed_tools().next().unwrap();
    assert_eq!(run_tests.tool.contract().timeout(), Some(std::time::Duration::from_secs(300)));
    let deploy = agent.prompt().placed_tools().nth(1).unwrap();
    assert!(deploy.tool.contract().idempotency().is_some());
    assert_eq!(deploy.policies.len(), 1);
}

/// The keys of a schema's tables, wherever they are.
fn keys(schema: &serde_json::Value, found: &mut Vec<String>) {
    match schema {
        serde_json::Value::Object(fields) => {
            let properties = fields.get("properties").and_then(serde_json::Value::as_object);
            found.extend(properties.into_iter().flat_map(|properties| properties.keys().cloned()));
            fields.values().for_each(|value| keys(value, found));
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
        _ => {}
    }
}

#[test]
fn the_reference_has_every_key_and_is_an_agent() {
    let reference = include_str!("../../src/reference.toml");
    let agent = load(reference);
    assert_eq!(&**agent.name(), "ops/deploy");
    assert_eq!(agent.prompt().display_name(), Some("Deployment"));
    let mut known = Vec::new();
    keys(&Agent::schema(), &mut known);
    let words: std::collections::BTreeSet<&str> =
        reference.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let missing: Vec<_> = known.iter().filter(|key| !words.contains(key.as_str())).collect();
    assert_eq!(missing, Vec::<&String>::new());
}

#[test]
fn servers_of_others_are_not_built_yet() {
    let text = format!(
        "{DESIGNED}\n[[section.mcp]]   # another MCP server's tools\nname = \"github\"\ncommand = [\"github-mcp-server\", \"stdio\"]\n"
    );
    assert_eq!(
        told(&text),
        "wink.toml:28:11: `mcp` is not built yet: other MCP servers' tools cannot be used\n  hint: remove it; tools \
         come from `suites` and from commands ([[section.tool]])"
    );
}

/// Ten mistakes, of every kind that there is.
const BROKEN: &str = r#"[agent]
ns = "ops"
key = "deploy"
titel = "Deploy things"

[[section]]
key = "deployment"
title = "Deployment"
body = "Deploy to ${enviroment}."
params = { environment = "staging" }
suites = ["planing", "files"]

[[section.tool]]
name = "run tests"
description = "Run the test suite."
command = ["./scripts/test.sh"]
timeout = "5 minutes"

[[section.tool]]
name = "deploy"
description = "Deploy one environment."
command = "./scripts/deploy.sh"

[[section.tool]]
name = "build"
command = ["make", "build"]
description = "Build."
params = { type = "object", properties = { target = { type = "strin" } } }
idempotency = { strategy = "params", fields = ["traget"] }

[[section.policy]]
sequential = { biuld = ["deploy"] }

[[section.policy]]
quota = { session = -1 }
"#;

#[test]
fn ten_mistakes_are_told_at_once() {
    insta::assert_snapshot!(told(BROKEN));
    assert_eq!(problems(BROKEN).len(), 10);
}

/// What people get wrong first: names, texts that are empty, lists of nothing.
const FIRST_TRY: &str = r#"[agent]
ns = "Ops!"
key = ""
foo = 1

[[section]]
key = "deployment"
title = ""
body = "Hello ${x}"
suites = ["planing", "files"]

[[section.tool]]
name = "Run Tests"
description = ""
command = []
timeout = "5 minutes"

[[section.tool]]
name = "deploy"
description = "Deploy one environment."
command = ["./scripts/deploy.sh"]
params = { type = "objekt", requird = ["environment"] }
idempotency = { strategy = "params", fields = ["nope"], ttl = "1x" }

[[section.policy]]
sequential = { deploy = ["nothing"] }

[[section.policy]]
quota = { deploy = -1 }

[[section.server]]
name = "github"
command = ["x"]
"#;

#[test]
fn every_mistake_has_a_hint() {
    insta::assert_snapshot!(told(FIRST_TRY));
    for text in [
        FIRST_TRY,
        BROKEN,
        "",
        "[agent]\n",
        "a",
        "[agent]\nns = [1]\nkey = { a = 1 }\n",
        "[agent]\nns = \"a//b\"\nkey = \"-\"\n[limits]\nbudget = {}\narguments = \"9 MiB\"\ncalls_at_once = 1.5\n",
    ] {
        let found = problems(text);
        assert!(!found.is_empty(), "{text}");
        assert_eq!(found.iter().find(|problem| problem.hint.trim().is_empty()), None, "{text}");
    }
}

#[test]
fn a_file_that_is_not_toml_says_where() {
    let found = problems("[agent]\nns = \"ops\nkey = \"deploy\"\n");
    assert_eq!((found[0].line, found[0].column), (2, 10));
    assert!(found[0].message.starts_with("this is not TOML: "), "{found:?}");
}

#[test]
fn what_is_beside_broken_toml_is_told_too() {
    let text = "[agent]\nns = \"ops\"\nkey = \nkey = \"x\"\n\n[[section]]\nkey = \"a\"\ntitle = \"A\"\nbodi = \"…\"\n";
    let found = problems(text);
    let lines: Vec<usize> = found.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [3, 4, 9], "{found:?}");
}

#[test]
fn a_file_without_anything_says_what_is_missing() {
    assert_eq!(told(""), "wink.toml:1:1: `agent` is missing\n  hint: add `[agent]`: Who the agent is.");
    assert_eq!(
        told("[agent]\n"),
        "wink.toml:1:1: `ns` is missing\n  hint: add `ns = \"…\"`: The namespace; may have several parts, with slashes \
         between them.\nwink.toml:1:1: `key` is missing\n  hint: add `key = \"…\"`: The key in the namespace: small \
         letters, digits, `.`, `_` and `-`."
    );
}

#[test]
fn columns_count_characters() {
    let found = problems(&format!(
        "{BEGINNING}[[section]]\nkey = \"a\"\ntitle = \"A\"\nfiles = {{ \"größe\" = 1, \"b\" = 2 }}\n"
    ));
    let places: Vec<_> = found.iter().map(|problem| (problem.line, problem.column)).collect();
    assert_eq!(places, [(7, 9), (7, 11), (7, 24)], "{found:?}");
}

#[test]
fn one_wrong_thing_does_not_hide_another() {
    let cases = [
        "[[section]]\nkey = \"a\"\ntitle = \"A\"\n[[section]]\nkey = \"a\"\ntitle = \"\"\n",
        "[section]\nkey = \"a\"\n",
        "[[section]]\nkey = \"a\"\ntitle = \"A\"\nvisibility = \"summary\"\nsuites = [\"files\", \"files\"]\n",
        "[[section]]\nkey = \"a\"\ntitle = \"A\"\nplanning = { strategy = \"react\" }\n",
        "[[policy]]\nquota = { session = 1 }\nsequential = {}\n",
        "[limits]\ndeadline = \"1s\"\nanswer = \"64k\"\nbudget = {}\narguments_depth = 500\n[sandbox]\nmemory = \"1 \
             KiB\"\nengine = \"podman\"\n",
    ];
    let told = cases.map(|text| format!("{text}\n=>\n{}\n", told(&format!("{BEGINNING}{text}"))));
    insta::assert_snapshot!(told.join("\n"));
}

/// Every message of a text, without places and hints.
fn messages(text: &str) -> Vec<String> {
    problems(&format!("{BEGINNING}{text}")).into_iter().map(|problem| problem.message).collect()
}

#[test]
fn what_is_wrong_in_one_text_or_one_tool_is_told_at_once() {
    let section = "[[section]]\nkey = \"a\"\ntitle = \"A\"\n";
    assert_eq!(
        messages(&format!(
            "{section}body = \"$5 and $ for ${{nobody}}\"\nsummary = \"$1 ${{three}}\"\nparams = {{ one = 1 }}\n"
        )),
        [
            "stray $ at \"$5 and $ for \"",
            "stray $ at \"$ for ${nobod\"",
            "there is no param `nobody`",
            "stray $ at \"$1 ${three}\"",
            "there is no param `three`",
        ]
    );
    let tool = |rest: &str| messages(&format!("{section}[[section.tool]]\ndescription = \"d\"\n{rest}"));
    assert_eq!(
        tool("name = \"open_sections\"\ncommand = [\"x\"]\ncwd = \"../x\"\n"),
        ["the name belongs to a built-in tool", "\"../x\" is not below the workspace"]
    );
    let wrong = tool(
        "name = \"t\"\ncommand = [\"x\"]\nexample = [{ description = \"x\", input = { y = 1 }, output = 7 }]\n",
    );
    let [input, output] = wrong.as_slice() else { panic!("{wrong:?}") };
    assert!(input.contains("its input: ") && output == "expected a text, found a whole number", "{wrong:?}");
    assert_eq!(
        tool(
            "name = \"t\"\ncommand = [\"make test\"]\nsensitive = [\"token\"]\nparams = { type = \"object\", properties = { a = {} \
             } }\nidempotency = { strategy = \"custom\", key = \"$ ${b}\" }\n"
        ),
        [
            "there is no shell to take \"make test\" apart",
            "the parameters have no field `token`",
            "stray $ at \"$ ${b}\"",
            "the tool has no parameter `b`",
        ]
    );
}

#[test]
fn keywords_of_a_schema_that_are_not_supported_are_told_with_those_that_are() {
    let tool = |keyword: &str| {
        let text = format!(
            "{BEGINNING}[[section]]\nkey = \"a\"\ntitle = \"A\"\n[[section.tool]]\nname = \"t\"\ndescription = \"d\"\ncommand = \
             [\"x\"]\nparams = {{ type = \"object\", properties = {{ a = {{ type = \"string\", {keyword} }} }} }}\n"
        );
        Agent::parse(&text, "wink.toml")
    };
    let hint = |keyword: &str| match tool(keyword).unwrap_err() {
        LoadError::Invalid { problems, .. } => problems.into_iter().next().unwrap().hint,
        other => panic!("{other}"),
    };
    let listed = hint("if = {}");
    assert!(wink::tool::schema::keywords().all(|keyword| listed.contains(keyword)), "{listed}");
    assert_eq!(hint("desription = \"x\""), "did you mean `description`?");
    // What is for others is passed on.
    let agent = tool("x-mcp-header = \"A\", contentEncoding = \"base64\"").unwrap();
    let schema = agent.prompt().placed_tools().next().unwrap().tool.contract().schema().clone();
    assert_eq!(
        schema["properties"]["a"],
        serde_json::json!({ "type": "string", "x-mcp-header": "A", "contentEncoding": "base64" })
    );
}

#[test]
fn tools_are_checked_in_every_part() {
    let tool = |rest: &str| {
        told(&format!(
            "{BEGINNING}[[section]]\nkey = \"a\"\ntitle = \"A\"\n[[section.tool]]\nname = \"t\"\ndescription = \"d\"\n{rest}"
        ))
    };
    let cases = [
        "command = []",
        "command = [\"make test\"]",
        "command = [\"a\\u0000\"]",
        "command = [\"a\"]\ncwd = \"../x\"",
        "command = [\"a\"]\ncwd = \"./.wink/journals\"",
        "command = [\"a\"]\nenv = { WINK_ARG_X = \"1\", \"A=B\" = \"2\" }",
        "command = [\"a\"]\nenv = [\"FINE\", \"WINK_TOOL\", \"=x\", \"A=\\u0000\", 7]",
        "command = [\"a\"]\nenv = \"HOME\"",
        "command = [\"a\"]\nparams = { type = \"object\", properties = { a-b = {}, a_b = {} } }",
        "command = [\"a\"]\nsensitive = [\"token\"]",
        "command = [\"a\"]\nsensitive = [\"token\", \"nmae\"]\nparams = { type = \"object\", properties = { name = {} } }",
        "command = [\"a\"]\nidempotency = { strategy = \"custom\", key = \"x-${b}\", scope = \"named\" }\nparams = { type = \
             \"object\", properties = { a = { type = \"string\" } } }",
        "command = [\"a\"]\nidempotency = { strategy = \"auto\", fields = [\"x\"], when_in_doubt = \"probe\" }",
        "command = [\"a\"]\nexample = [{ description = \"x\", input = { y = 1 }, output = \"\" }]",
        "command = [\"a\"]\nparams = { type = \"object\", properties = { when = { const = 1979-05-27 } } }",
    ];
    let told = cases.map(|text| format!("{text}\n=>\n{}\n", tool(text)));
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn names_are_unique_wherever_they_are() {
    let text = format!(
        "{BEGINNING}[[section]]\nkey = \"a\"\ntitle = \"A\"\nsuites = [\"files\"]\n[[section.section]]\nkey = \"b\"\ntitle = \
         \"B\"\n[[section.section.tool]]\nname = \"grep\"\ndescription = \"d\"\ncommand = [\"grep\"]\n[[section.section.tool]]\nname = \
         \"open_sections\"\ndescription = \"d\"\ncommand = [\"x\"]\n"
    );
    assert_eq!(
        told(&text),
        "wink.toml:12:8: there is a tool `grep` already, in section `a.files`\n  hint: names are unique in an agent: choose \
         another\nwink.toml:16:8: the name belongs to a built-in tool\n  hint: choose another"
    );
}

#[test]
fn a_name_is_taken_also_by_a_tool_that_something_is_wrong_with() {
    let tool = "[[section.tool]]\nname = \"a\"\ndescription = \"d\"\n";
    let text = format!(
        "{BEGINNING}[[section]]\nkey = \"s\"\ntitle = \"S\"\n{tool}command = []\n{tool}command = [\"x\"]\n{tool}command = []\n"
    );
    let taken =
        "there is a tool `a` already, in section `s`\n  hint: names are unique in an agent: choose another";
    let empty = "the list is empty\n  hint: put something into it: [ … ]";
    assert_eq!(
        told(&text),
        format!(
            "wink.toml:10:11: {empty}\nwink.toml:12:8: {taken}\nwink.toml:16:8: {taken}\nwink.toml:18:11: {empty}"
        )
    );
}

#[test]
fn sections_nest_and_close() {
    let text = format!(
        "{BEGINNING}[[section]]\nkey = \"a\"\ntitle = \"A\"\nbody = \"For ${{who}}, $who: $$1\"\nparams = {{ who = \"you\" \
         }}\n[[section.section]]\nkey = \"b\"\ntitle = \"B\"\nvisibility = \"summary\"\nsummary = \"More of \
         it.\"\n[[section.section.section]]\nkey = \"c\"\ntitle = \"C\"\nsuites = [\"planning\"]\n"
    );
    let agent = load(&text);
    let rendered = agent.prompt().render(&Session::new()).unwrap();
    let text = rendered.text();
    assert!(text.starts_with("## 1. A\n\nFor you, you: $1\n\n### 1.1. B\n\nMore of it."), "{text}");
    assert!(!text.contains("Planning"), "{text}");
    let paths: Vec<_> = agent.prompt().placed_tools().map(|tool| tool.section.to_string()).collect();
    assert_eq!(paths, ["a.b.c.planning"; 4]);
}

#[test]
fn files_are_found_as_they_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::find(dir.path(), None).unwrap();
    assert_eq!(agent.origin(), &Origin::Builtin);
    let own = dir.path().join("wink.toml");
    std::fs::write(&own, DESIGNED).unwrap();
    assert_eq!(Agent::find(dir.path(), None).unwrap().origin(), &Origin::File(own.clone()));
    let other = dir.path().join("other.toml");
    std::fs::write(&other, BEGINNING).unwrap();
    assert_eq!(Agent::find(dir.path(), Some(&other)).unwrap().origin(), &Origin::File(other));
    let missing = dir.path().join("missing.toml");
    let error = Agent::find(dir.path(), Some(&missing)).unwrap_err();
    assert!(matches!(&error, LoadError::Unreadable { .. }), "{error:?}");
    assert!(
        error.to_string().ends_with("missing.toml: cannot be read: No such file or directory (os error 2)")
    );
    std::fs::write(&own, b"[agent]\nns = \"\xff\"\n").unwrap();
    let error = Agent::find(dir.path(), None).unwrap_err();
    assert!(
        error.to_string().ends_with("wink.toml:2:7: this is not UTF-8\n  hint: save the file as UTF-8"),
        "{error}"
    );
    std::fs::write(&own, "#".repeat(2_000_000)).unwrap();
    let error = Agent::find(dir.path(), None).unwrap_err();
    assert!(
        error.to_string().ends_with("cannot be read: it is larger than 1 MiB, which no agent file is"),
        "{error}"
    );
    // Nobody is kept waiting by a pipe, whoever named it.
    std::fs::remove_file(&own).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&own).status().unwrap().success());
    for explicit in [None, Some(own.as_path())] {
        let error = Agent::find(dir.path(), explicit).unwrap_err();
        assert!(error.to_string().ends_with("cannot be read: it is not a regular file"), "{error}");
    }
    // A link to nowhere is a mistake, and not nobody's file.
    std::fs::remove_file(&own).unwrap();
    std::os::unix::fs::symlink("nowhere", &own).unwrap();
    assert!(matches!(Agent::find(dir.path(), None), Err(LoadError::Unreadable { .. })));
}

#[tokio::test]
async fn a_digest_is_made_when_a_session_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("README.md"), "# Parser\n").unwrap();
    let workspace = std::sync::Arc::new(wink_store::Workspace::open(dir.path()).unwrap());
    let agent = load(&format!("{BEGINNING}[[section]]\nkey = \"a\"\ntitle = \"A\"\nsuites = [\"digest\"]\n"));
    let opened = agent.open(&workspace, "main").await.unwrap();
    let text = opened.executor().rendered().unwrap().text().to_owned();
    assert!(text.contains("README.md says: Parser"), "{text}");
}

#[tokio::test]
async fn the_built_in_agent_has_planning_and_files() {
    let agent = Agent::builtin();
    assert_eq!(&**agent.name(), "wink/workspace");
    let tools = tools(&agent);
    assert!(tools.contains(&"planning_setup_plan".to_owned()), "{tools:?}");
    assert!(tools.contains(&"write_file".to_owned()), "{tools:?}");
    if !tools.contains(&"shell_execute".to_owned()) {
        wink::testing::leave_out("shell_execute", "this machine has no sandbox");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let workspace = std::sync::Arc::new(wink_store::Workspace::open(dir.path()).unwrap());
    let opened = agent.open(&workspace, "main").await.unwrap();
    let run =
        ToolCall::new("1", "shell_execute", r#"{"command": ["sh", "-c", "echo hello > a.txt; cat a.txt"]}"#);
    let outcome = opened.executor().call(run).await;
    assert_eq!(&*outcome.answer.text, "exit code 0\n--- stdout\nhello");
    assert_eq!(std::fs::read_to_string(dir.path().join("a.txt")).unwrap(), "hello\n");
}

/// Mistakes of every part of the way: keys, names that are taken, schemas, and policies that speak of a tool which is wrong itself.
const ALL_AT_ONCE: &str = r#"[agent]
ns = "b"
key = "b"
[[section]]
key = "s"
title = "t"
bogus = 1
[[section.tool]]
name = "open_sections"
description = "again"
command = ["true"]
[[section.tool]]
name = "read_section"
description = "again"
command = ["true"]
[[section.tool]]
name = "x"
description = "again"
command = ["./nosuch"]
params = { type = "object", properties = { x = { type = "string", pattern = "(" , frob = 1}, y = {type="strin"} }, required = ["zzz"] }
[[section.policy]]
paths = { allow = ["src/**"], tools = { x = ["nosuch"] } }
[[section.policy]]
rate_limit = { max = 0, window = "1s" }
"#;

#[test]
fn what_is_wrong_in_different_ways_is_told_at_once_too() {
    insta::assert_snapshot!("all_at_once", told(ALL_AT_ONCE));
}

#[test]
fn a_tool_that_could_never_be_called_is_told() {
    let tool = |params: &str| {
        format!(
            "{BEGINNING}[[section]]\nkey = \"a\"\ntitle = \"A\"\n[[section.tool]]\nname = \"t\"\ndescription = \"d\"\ncommand = [\"a\"]\nparams = {params}\n"
        )
    };
    let told = |params: &str| match Agent::parse(&tool(params), "wink.toml") {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    };
    let never = "is required and not among the properties, and others are not taken: nothing fits this";
    assert_eq!(
        told(r#"{ type = "object", properties = { name = {} }, required = ["name", "nmae"] }"#),
        format!("wink.toml:11:77: `nmae` {never}\n  hint: did you mean `name`?")
    );
    assert_eq!(
        told(r#"{ type = "object", required = ["zzz"] }"#),
        format!(
            "wink.toml:11:41: `zzz` {never}\n  hint: describe it: `properties = {{ zzz = {{ … }} }}`, or take it out of \
             `required`"
        )
    );
    let inside = r#"{ type = "object", properties = { a = { type = "object", required = ["b"] } } }"#;
    assert!(told(inside).starts_with("wink.toml:11:79: `b` is required"), "{}", told(inside));
    // Where others are taken, or another part has it, it can be there.
    for fine in [
        r#"{ type = "object", required = ["b"], additionalProperties = true }"#,
        r#"{ type = "object", required = ["b"], patternProperties = { "^b" = {} } }"#,
        r#"{ type = "object", properties = { a = {}, b = {} }, anyOf = [{ required = ["a"] }, { required = ["b"] }] }"#,
        r#"{ type = "object", required = ["b"], allOf = [{ properties = { b = {} } }] }"#,
    ] {
        assert_eq!(told(fine), "", "{fine}");
    }
}
