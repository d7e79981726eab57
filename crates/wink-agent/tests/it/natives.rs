//! Tools of the program `claude` itself, as an agent file names them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use wink_agent::Agent;

const AGENT: &str = "[agent]\nns = \"a\"\nkey = \"b\"\n[model]\nmodel = \"m\"\n";

/// What is wrong with an agent whose model is this.
fn told(model: &str, more: &str) -> String {
    Agent::parse(&format!("{AGENT}{model}\n{more}"), "wink.toml").unwrap_err().to_string()
}

#[cfg(feature = "claude")]
mod with_the_program {
    use wink::executor::ToolCall;
    use wink::prelude::*;
    use wink_models::claude::Native;

    use super::{AGENT, told};
    use crate::support::{Place, load};

    fn tools(prompt: &Prompt) -> Vec<String> {
        prompt.placed_tools().map(|placed| placed.name().to_string()).collect()
    }

    #[test]
    fn every_one_of_them_can_be_named() {
        let names: Vec<&str> = Native::ALL.iter().map(|native| native.name()).collect();
        let agent = load(&format!("{AGENT}provider = \"claude\"\nnative_tools = {names:?}\n"));
        assert_eq!(agent.model().unwrap().native_tools, names);
        // Only the program can run them: whoever has it asks for them.
        assert_eq!(tools(agent.prompt()), Vec::<String>::new());
        let agent = agent.with_native_tools();
        assert_eq!(tools(agent.prompt()), Native::ALL.map(|native| native.tool().to_owned()));
        assert!(agent.prompt().render(&Session::new()).unwrap().text().contains("Tools of Claude Code."));
    }

    #[test]
    fn an_agent_without_them_is_what_it_is() {
        let agent = load(&format!("{AGENT}provider = \"claude\"\n"));
        assert_eq!(tools(agent.with_native_tools().prompt()), Vec::<String>::new());
    }

    const GOVERNED: &str = r#"
provider = "claude"
native_tools = ["Read", "Edit", "Bash"]

[[section]]
key = "work"
title = "Work"
suites = ["files"]

[[policy]]
paths = { deny = ["secrets/**"], trees = { claude_read = "path" } }

[[policy]]
approval = { tools = ["claude_bash"], when = { command = ["make"] } }
"#;

    #[tokio::test]
    async fn policies_speak_of_them_and_cover_them() {
        let (place, agent) = (Place::new(), load(&format!("{AGENT}{GOVERNED}")).with_native_tools());
        let opened = agent.open(&place.workspace, "main").await.unwrap();
        assert_eq!(
            tools(opened.prompt()).last().map(String::as_str),
            Some("claude_bash"),
            "in any workspace"
        );
        let call = |tool: &str, arguments: &str| {
            let call = ToolCall::new("1", tool, arguments);
            let executor = opened.executor().clone();
            async move { executor.call(call).await.event }
        };
        let denied = call("claude_edit", r#"{"path": "secrets/key"}"#).await;
        assert!(denied.message.contains("secrets/key"), "{}", denied.message);
        let asked = call("claude_bash", r#"{"command": "make"}"#).await;
        assert!(asked.message.contains("approv"), "{}", asked.message);
        // Nobody is there to run it.
        let alone = call("claude_edit", r#"{"path": "a"}"#).await;
        assert_eq!(
            &*alone.message,
            "claude_edit is run by Claude Code itself, which is not about to; nothing was changed"
        );
    }

    #[test]
    fn their_names_are_taken() {
        let one = "provider = \"claude\"\nnative_tools = [\"Edit\", \"Edit\"]\n";
        let section = "[[section]]\nkey = \"claude\"\ntitle = \"C\"\n[[section.tool]]\nname = \"claude_edit\"\ndescription = \"d\"\ncommand = [\"true\"]\n";
        insta::assert_snapshot!(told(one, section));
    }

    #[test]
    fn names_that_the_program_does_not_have_are_told() {
        insta::assert_snapshot!(told(
            "provider = \"claude\"\nnative_tools = [\"Edit\", \"edit\", \"Deploy\"]",
            ""
        ));
    }
}

#[test]
fn nobody_else_has_them() {
    let told = told("provider = \"anthropic\"\nnative_tools = [\"Edit\"]", "");
    assert_eq!(
        told,
        "wink.toml:7:16: only claude has tools of its own, and this is anthropic\n  hint: leave it out, or say `provider = \"claude\"`"
    );
}

#[cfg(not(feature = "claude"))]
#[test]
fn a_program_without_the_adapter_says_so() {
    assert_eq!(
        told("provider = \"claude\"\nnative_tools = [\"Edit\"]", ""),
        "wink.toml:7:16: this program was built without Claude Code, which these tools are of\n  hint: build it with `--features claude`, or leave them out"
    );
}
