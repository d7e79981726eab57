//! Who answers, as an agent file says it; and never a key.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use serde_json::json;
use wink_agent::{Agent, ModelConfig, ModelProvider, RetryConfig};

use crate::support::load;

const AGENT: &str = "[agent]\nns = \"a\"\nkey = \"b\"\n";

#[test]
fn everything_of_a_model_is_read() {
    let agent = load(include_str!("../../src/reference.toml"));
    let Some(serde_json::Value::Object(extra)) = Some(json!({ "seed": 7 })) else { panic!() };
    assert_eq!(
        agent.model(),
        Some(&ModelConfig {
            provider: ModelProvider::OpenAiChat,
            model: "qwen3".to_owned(),
            url: Some("http://127.0.0.1:8080/v1".to_owned()),
            key_env: Some("LOCAL_API_KEY".to_owned()),
            constrained: true,
            streaming: Some(true),
            timeout: Some(Duration::from_secs(600)),
            max_output_tokens: Some(4096),
            temperature: Some(0.2),
            extra,
            max_turns: Some(50),
            native_tools: Vec::new(),
            retry: RetryConfig {
                attempts: Some(5),
                delay: Some(Duration::from_millis(500)),
                max_delay: Some(Duration::from_secs(30)),
                window: Some(Duration::from_secs(300)),
            },
        })
    );
    assert_eq!(load(AGENT).model(), None);
    for provider in ModelProvider::ALL {
        let text = format!("{AGENT}[model]\nprovider = \"{provider}\"\nmodel = \"m\"\n");
        assert_eq!(load(&text).model().map(|model| model.provider), Some(provider));
    }
}

#[test]
fn what_is_wrong_with_a_model_is_told_at_once() {
    let text = format!(
        "{AGENT}[model]\nprovider = \"anthropic\"\nmodel = \" \"\nurl = \"https://me:planted-secret@example.com\"\nkey_env = \"sk-planted-secret\"\ntools = \"constrained\"\ntemperature = -1.0\nmax_turns = 0\nkey = \"planted\"\nretry = {{ delay = \"1m\", max_delay = \"1s\", window = \"soon\" }}\n"
    );
    let error = Agent::parse(&text, "wink.toml").unwrap_err();
    insta::assert_snapshot!(error.to_string());
    assert!(!error.to_string().contains("planted-secret"), "what may be a key is not repeated");
    for text in ["url = \"nowhere\"", "url = \"ftp://example.com\""] {
        let text = format!("{AGENT}[model]\nprovider = \"openai\"\nmodel = \"m\"\n{text}\n");
        assert_eq!(Agent::parse(&text, "wink.toml").unwrap_err().problems().len(), 1, "{text}");
    }
}

#[test]
fn what_the_program_claude_cannot_be_told_is_said() {
    let text = format!(
        "{AGENT}[model]\nprovider = \"claude\"\nmodel = \"m\"\nmax_turns = 3\ntimeout = \"1m\"\nmax_output_tokens = 5\ntemperature = 0.5\nextra = {{ top_p = 1 }}\nstreaming = false\nretry = {{ attempts = 2, delay = \"1s\", max_delay = \"2s\", window = \"3s\" }}\n"
    );
    let hint = "  hint: leave it out, or say `provider = \"anthropic\"`";
    assert_eq!(
        Agent::parse(&text, "wink.toml").unwrap_err().to_string(),
        format!(
            "wink.toml:8:11: the program claude cannot be told timeout\n{hint}\n\
             wink.toml:9:21: the program claude cannot be told max_output_tokens\n{hint}\n\
             wink.toml:10:15: the program claude cannot be told temperature\n{hint}\n\
             wink.toml:11:9: the program claude cannot be told extra\n{hint}\n\
             wink.toml:12:13: the program claude cannot be told streaming\n{hint}\n\
             wink.toml:13:33: the program claude cannot be told retry.delay\n{hint}\n\
             wink.toml:13:51: the program claude cannot be told retry.max_delay\n{hint}\n\
             wink.toml:13:66: the program claude cannot be told retry.window\n{hint}"
        )
    );
    let text = text.replace("\"claude\"", "\"anthropic\"");
    assert_eq!(load(&text).model().and_then(|model| model.temperature), Some(0.5));
}
