//! Agent files: what `init` writes, and what is said about broken ones.

use crate::support::{Place, has_commands};

#[test]
fn what_init_writes_is_a_valid_agent() {
    let place = Place::new();
    insta::assert_snapshot!("init", place.wink(&["init"]).whole());
    let again = place.wink(&["init"]);
    assert_eq!((again.code, again.err.contains("--force")), (Some(2), true), "{again:?}");
    place.put("wink.toml", "broken");
    place.wink(&["init", "--force"]).ok();
    insta::assert_snapshot!("tools_after_init", place.wink(&["tools"]).ok());
}

/// Editors find the schema by themselves.
#[test]
fn the_first_line_of_it_names_a_schema_that_is_there() {
    let place = Place::new();
    place.wink(&["init"]).ok();
    assert_eq!(place.names(), ["wink.schema.json", "wink.toml"]);
    assert_eq!(place.text("wink.toml").unwrap().lines().next(), Some("#:schema ./wink.schema.json"));
    let schema = place.wink(&["init", "--schema"]).ok();
    assert_eq!(place.text("wink.schema.json").unwrap(), schema);
    // One that is somebody's own is not written over unasked.
    std::fs::remove_file(place.root().join("wink.toml")).unwrap();
    place.put("wink.schema.json", "theirs");
    let again = place.wink(&["init"]);
    let left = "note: ./wink.schema.json is there already, and is left as it is\n";
    assert_eq!((again.code, again.err.as_str()), (Some(0), left));
    assert_eq!(place.text("wink.schema.json").unwrap(), "theirs");
    place.wink(&["init", "--force"]).ok();
    assert_eq!(place.text("wink.schema.json").unwrap(), schema);
}

#[test]
fn init_writes_the_file_that_is_named_and_tells_what_it_wrote() {
    let place = Place::new();
    place.put("agents/other.txt", "");
    let said = place.json(&["init", "--agent", "agents/y.toml"]);
    let expected = serde_json::json!({ "written": "agents/y.toml", "schema": "agents/wink.schema.json" });
    assert_eq!(said, expected);
    assert_eq!(place.names(), ["agents"]);
    assert!(place.text("agents/wink.schema.json").is_some());
    assert!(place.wink(&["tools", "--agent", "agents/y.toml"]).ok().contains("write_file"));
    // What was there already was not written.
    let again = place.wink(&["init", "--agent", "agents/z.toml"]);
    assert!(
        again.out.starts_with("wrote agents/z.toml\nNext: `wink tools --agent agents/z.toml` "),
        "{again:?}"
    );
    let nowhere = place.wink(&["init", "--agent", "nowhere/z.toml"]);
    assert_eq!(nowhere.code, Some(2));
    assert!(nowhere.err.ends_with("\nhint: make its directory first\n"), "{nowhere:?}");
}

/// A name that is in the page of today may be nobody's tomorrow.
#[test]
fn no_model_is_recommended_by_name() {
    let place = Place::new();
    place.wink(&["init"]).ok();
    let text = place.text("wink.toml").unwrap();
    assert!(text.contains("\n# model = \"MODEL\"\n"), "{text}");
}

/// Every line of an example, a comment sign before it, makes part of an agent when the sign is gone.
#[test]
fn the_examples_in_it_are_valid_too() {
    let place = Place::new();
    place.wink(&["init"]).ok();
    let text = place.text("wink.toml").unwrap();
    let mut example = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("# ") {
            Some(table) if table.starts_with("[[") => example = true,
            None => example = false,
            Some(_) => {}
        }
        lines.push(if example { line.trim_start_matches("# ") } else { line });
    }
    let all = lines.join("\n");
    assert_eq!(all.matches("\n[[section.tool]]").count(), 2, "{all}");
    place.put("wink.toml", &all);
    let tools = place.wink(&["tools"]).ok();
    assert!(tools.contains("run_tests") && tools.contains("deploy"), "{tools}");
    let check = place.wink(&["policy", "check", "deploy", r#"{"environment":"staging"}"#]);
    assert_eq!(check.code, Some(1), "{check:?}");
    assert!(check.out.contains("missing required tools: run_tests"), "{check:?}");
}

#[test]
fn everything_wrong_with_an_agent_file_is_told_with_its_place() {
    let place = Place::with_agent(
        r#"
[agent]
ns = "ops"
kee = "deploy"

[[section]]
key = "Deployment"
title = 7
suites = ["plannin"]

[[section.tool]]
name = "Run Tests"
description = "Run."
command = []
timeout = "5 parsecs"

[[section.policy]]
sequential = { deploy = "run_tests" }

[[section.mcp]]
name = "github"
command = ["github-mcp-server", "stdio"]
"#,
    );
    for arguments in [&["tools"][..], &["prompt"], &["call", "x"], &["policy", "check", "x"]] {
        let said = place.wink(arguments);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{arguments:?}");
    }
    insta::assert_snapshot!("broken_agent", place.wink(&["tools"]).whole());
    assert_eq!(place.names(), ["wink.toml"], "nothing was made");
    let doctor = place.wink(&["doctor"]);
    assert_eq!(doctor.code, Some(1));
    assert!(doctor.out.contains("broken  agent: "), "{doctor:?}");
}

#[test]
fn an_agent_file_that_is_not_there_is_an_error() {
    let place = Place::new();
    insta::assert_snapshot!("no_agent", place.wink(&["tools", "--agent", "other.toml"]).whole());
}

#[test]
fn editors_get_a_schema() {
    let place = Place::new();
    let schema: serde_json::Value = serde_json::from_str(&place.wink(&["init", "--schema"]).ok()).unwrap();
    assert_eq!(schema, wink_agent::Agent::schema());
    assert_eq!(place.names(), Vec::<String>::new());
}

#[test]
fn another_agent_file_can_be_named() {
    let place = Place::new();
    place.put("agents/small.toml", "[agent]\nns = \"a\"\nkey = \"b\"\n\n[[section]]\nkey = \"s\"\ntitle = \"S\"\nsuites = [\"planning\"]\n");
    let tools = place.wink(&["--agent", "agents/small.toml", "tools", "--format", "anthropic"]).ok();
    assert!(tools.contains("planning_setup_plan") && !tools.contains("write_file"), "{tools}");
}

#[test]
fn a_doctor_names_programs_that_cannot_be_run() {
    if !has_commands() {
        return;
    }
    let tool = |name: &str, command: &str| {
        format!("\n[[section.tool]]\nname = \"{name}\"\ndescription = \"d\"\ncommand = [\"{command}\"]\n")
    };
    let mut text = "[agent]\nns = \"t\"\nkey = \"t\"\n\n[[section]]\nkey = \"s\"\ntitle = \"S\"\n".to_owned();
    text += &tool("there", "sh");
    text += &tool("own", "./own");
    let place = Place::with_agent(&text);
    place.put_script("own", "true");
    let checks = |place: &Place| place.json(&["doctor"])["checks"][0].clone();
    assert_eq!(checks(&place)["status"], "ok");
    text += &tool("gone", "/nonexistent/program");
    text += &tool("unknown", "no-such-program");
    text += &tool("plain", "./plain");
    place.put("wink.toml", &text);
    place.put("plain", "no program");
    let check = checks(&place);
    assert_eq!((&check["name"], &check["status"]), (&"agent".into(), &"warning".into()), "{check:#}");
    assert_eq!(
        check["found"],
        "t/t with 5 tools (./wink.toml); programs that cannot be run: /nonexistent/program of `gone`, no-such-program of \
         `unknown`, ./plain of `plain`"
    );
}
