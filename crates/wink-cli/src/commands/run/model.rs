//! Who answers: the model that the command line names, or the agent file; with its key, which goes nowhere else.

use std::sync::Arc;
#[cfg(feature = "http")]
use std::time::Duration;

use wink_agent::{Agent, ModelConfig, ModelProvider, USUAL_KEY_ENVS, withhold_variable};
#[cfg(all(feature = "claude", unix))]
use wink_models::claude::ClaudeAdapter;
#[cfg(feature = "http")]
use wink_models::providers::{Endpoint, Provider, SetupError, Streaming, anthropic, openai};
use wink_models::recording::Scrubber;
use wink_models::{BoxModel, RetryPolicy, ScriptedModel, Secret, Settings, Terms};

use crate::args::RunArgs;
use crate::frame::{CliError, Exit};

/// How a model is named on the command line.
const HOW: &str = "anthropic:MODEL, openai:MODEL, openai-chat:MODEL (with --base-url for LiteLLM, llama.cpp, vLLM or Ollama), claude:MODEL, or script:FILE";

/// Who answers, and how they are asked.
pub(super) struct Chosen {
    pub(super) who: Who,
    pub(super) terms: Terms,
    pub(super) settings: Settings,
    /// Knows the key, and those of others.
    pub(super) scrubber: Scrubber,
}

/// Something that answers.
pub(super) enum Who {
    Model(BoxModel),
    #[cfg(all(feature = "claude", unix))]
    Claude(Box<ClaudeAdapter>),
}

/// A model as the command line or the file names it.
enum Named {
    Script(String),
    Provided(Box<ModelConfig>),
}

/// What is shorter in one of the usual variables may be anything: a word that some local server wants to be told.
const SHORTEST_USUAL: usize = 20;

/// From here on commands of the agent are not given the variable that is named, as they are not given the usual ones and that of
/// `[model]`. Gives what knows all of those keys.
pub(in crate::commands) fn withhold_keys(agent: &Agent, named: Option<&str>) -> Scrubber {
    let own = agent.model().and_then(|config| config.key_env.as_deref());
    let mut scrubber = Scrubber::new();
    if let Some(name) = named {
        withhold_variable(name);
    }
    let usual = USUAL_KEY_ENVS.into_iter().map(|name| (name, SHORTEST_USUAL));
    for (name, shortest) in usual.chain(own.into_iter().chain(named).map(|name| (name, 0))) {
        if let Ok(key) = std::env::var(name)
            && key.trim().chars().count() >= shortest
        {
            // One that is too short to be found again is no secret.
            scrubber = scrubber.clone().knowing(&Secret::new(key)).unwrap_or(scrubber);
        }
    }
    scrubber
}

/// Who answers in this run.
pub(super) fn choose(agent: &Agent, args: &RunArgs) -> Result<Chosen, CliError> {
    let mut scrubber = withhold_keys(agent, args.key_env.as_deref());
    let config = agent.model();
    // How often and for how long is the run's own affair, whoever answers.
    let terms = terms(config, args);
    let (who, settings) = match named(config, args)? {
        Named::Script(file) => {
            for (given, option) in [
                (args.base_url.is_some(), "--base-url"),
                (args.key_env.is_some(), "--key-env"),
                (args.constrained, "--constrained"),
            ] {
                if given {
                    return Err(usage(format!("{option} is nothing for a script")));
                }
            }
            let script = ScriptedModel::load(&file).map_err(|error| usage(error.to_string()))?;
            (Who::Model(Arc::new(script)), Settings::default())
        }
        Named::Provided(config) => {
            let (key_env, key) = key(&config)?;
            if let Some(key) = &key {
                // One that is too short to be found again is no secret.
                scrubber = scrubber.clone().knowing(key).unwrap_or(scrubber);
            }
            (provided(&config, &key_env, key)?, settings(&config))
        }
    };
    Ok(Chosen { who, terms, settings, scrubber })
}

/// The model, with what the command line says of it in place of what the file does.
fn named(config: Option<&ModelConfig>, args: &RunArgs) -> Result<Named, CliError> {
    let mut config = match (&args.model, config) {
        (None, None) => {
            let message = "nobody is there to answer: neither --model nor the agent file names a model";
            return Err(usage(message.to_owned()).hint(format!("--model {HOW}; or [model] in wink.toml")));
        }
        (None, Some(config)) => config.clone(),
        (Some(text), config) => {
            let Some((provider, model)) = text.split_once(':').filter(|(_, model)| !model.is_empty()) else {
                return Err(usage(format!("--model {text}: no model is called so")).hint(HOW));
            };
            if provider == "script" {
                return Ok(Named::Script(model.to_owned()));
            }
            let Some(provider) = ModelProvider::ALL.into_iter().find(|one| one.name() == provider) else {
                return Err(usage(format!("--model {text}: there is no provider {provider}")).hint(HOW));
            };
            match config.filter(|config| config.provider == provider) {
                Some(config) => ModelConfig { model: model.to_owned(), ..config.clone() },
                None => bare(provider, model),
            }
        }
    };
    if let Some(url) = &args.base_url {
        config.url = Some(url.clone());
    }
    if let Some(name) = &args.key_env {
        config.key_env = Some(name.clone());
    }
    config.constrained |= args.constrained;
    if config.constrained && config.provider != ModelProvider::OpenAiChat {
        let message = format!("--constrained is for openai-chat, and the model is {}'s", config.provider);
        return Err(usage(message));
    }
    if args.record.is_some() && !config.native_tools.is_empty() {
        let message =
            "a run with tools of Claude Code itself cannot be recorded: what they do is not said to Wink";
        return Err(usage(message.to_owned()).hint("leave --record out, or `native_tools` in [model]"));
    }
    Ok(Named::Provided(Box::new(config)))
}

/// A model of which nothing else is said.
fn bare(provider: ModelProvider, model: &str) -> ModelConfig {
    ModelConfig {
        provider,
        model: model.to_owned(),
        url: None,
        key_env: None,
        constrained: false,
        streaming: None,
        timeout: None,
        max_output_tokens: None,
        temperature: None,
        extra: serde_json::Map::new(),
        max_turns: None,
        native_tools: Vec::new(),
        retry: wink_agent::RetryConfig::default(),
    }
}

/// The key, and the variable that has it.
///
/// A URL of somebody else's gets a key only if the variable is named: the usual one is the provider's.
fn key(config: &ModelConfig) -> Result<(String, Option<Secret<String>>), CliError> {
    let usual = config.provider.usual_key_env();
    let name = config.key_env.as_deref().unwrap_or(usual);
    if config.key_env.is_none() && config.url.is_some() {
        return Ok((name.to_owned(), None));
    }
    let missing = |how: &str| {
        usage(format!("the environment variable {name}, which has the key for {}, {how}", config.provider))
            .hint("set it, name another with --key-env or `key_env` in [model], or run without a model: --model script:FILE")
    };
    match std::env::var(name) {
        Ok(key) if key.trim().is_empty() => Err(missing("is empty")),
        Ok(key) => Ok((name.to_owned(), Some(Secret::new(key.trim().to_owned())))),
        Err(std::env::VarError::NotPresent) => Err(missing("is not set")),
        Err(std::env::VarError::NotUnicode(_)) => Err(missing("is no text")),
    }
}

fn provided(config: &ModelConfig, key_env: &str, key: Option<Secret<String>>) -> Result<Who, CliError> {
    if config.provider == ModelProvider::Claude {
        return claude(config, key_env, key);
    }
    http(config, key)
}

#[cfg(feature = "http")]
fn http(config: &ModelConfig, key: Option<Secret<String>>) -> Result<Who, CliError> {
    let (usual, variable) = match config.provider {
        ModelProvider::Anthropic | ModelProvider::Claude => (anthropic::BASE_URL, "ANTHROPIC_BASE_URL"),
        ModelProvider::OpenAi | ModelProvider::OpenAiChat => (openai::BASE_URL, "OPENAI_BASE_URL"),
    };
    // As the providers' own libraries have it.
    let moved = std::env::var(variable).ok().filter(|url| !url.trim().is_empty());
    let url = config.url.clone().or(moved);
    let is_theirs = url.is_none();
    let mut endpoint = Endpoint::new(url.unwrap_or_else(|| usual.to_owned()))
        .streaming(if config.streaming.unwrap_or(true) { Streaming::On } else { Streaming::Off })
        .timeout(config.timeout.unwrap_or(Duration::from_secs(10 * 60)));
    if let Some(key) = key {
        endpoint = endpoint.key(key);
    }
    let model = config.model.as_str();
    let made: Result<Provider, SetupError> = match config.provider {
        ModelProvider::Anthropic | ModelProvider::Claude => anthropic::Messages::new(model).at(endpoint),
        ModelProvider::OpenAi => openai::Responses::new(model).at(endpoint),
        ModelProvider::OpenAiChat => {
            let tools = match config.constrained {
                true => openai::ToolMode::Constrained,
                false => openai::ToolMode::Native,
            };
            let length = match is_theirs {
                true => openai::LengthField::MaxCompletionTokens,
                false => openai::LengthField::MaxTokens,
            };
            openai::Chat::new(model).tools(tools).length_field(length).at(endpoint)
        }
    };
    made.map(|provider| Who::Model(Arc::new(provider))).map_err(|error| usage(error.to_string()))
}

#[cfg(not(feature = "http"))]
fn http(config: &ModelConfig, _: Option<Secret<String>>) -> Result<Who, CliError> {
    let message =
        format!("this program was built without the network, so that {} cannot be asked", config.provider);
    Err(usage(message).hint("build it with --features http, or use --model script:FILE"))
}

#[cfg(all(feature = "claude", unix))]
fn claude(config: &ModelConfig, key_env: &str, key: Option<Secret<String>>) -> Result<Who, CliError> {
    // Names that the program knows itself stay what they are.
    const KNOWN: [&str; 2] = ["ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"];
    let name = if KNOWN.contains(&key_env) { key_env } else { ModelProvider::Claude.usual_key_env() };
    let paths = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&paths).any(|dir| dir.join("claude").is_file()) {
        return Err(usage("the program claude is not in PATH".to_owned())
            .hint("install Claude Code, or use another provider, such as anthropic:MODEL"));
    }
    let mut adapter = ClaudeAdapter::new(config.model.as_str());
    let moved = std::env::var("ANTHROPIC_BASE_URL").ok().filter(|url| !url.trim().is_empty());
    if let Some(url) = config.url.clone().or(moved) {
        adapter = adapter.env("ANTHROPIC_BASE_URL", url);
    }
    if let Some(key) = key {
        adapter = adapter.secret(name, key).map_err(|error| usage(format!("{key_env}: {error}")))?;
    }
    Ok(Who::Claude(Box::new(adapter)))
}

#[cfg(not(all(feature = "claude", unix)))]
fn claude(_: &ModelConfig, _: &str, _: Option<Secret<String>>) -> Result<Who, CliError> {
    let message = "this program was built without the adapter of Claude Code";
    Err(usage(message.to_owned()).hint("build it with --features claude"))
}

fn terms(config: Option<&ModelConfig>, args: &RunArgs) -> Terms {
    let usual = Terms::default();
    let retry = config.map(|config| config.retry.clone()).unwrap_or_default();
    Terms {
        max_turns: args.max_turns.or(config.and_then(|config| config.max_turns)).unwrap_or(usual.max_turns),
        retry: RetryPolicy {
            max_attempts: retry.attempts.unwrap_or(usual.retry.max_attempts),
            base_delay: retry.delay.unwrap_or(usual.retry.base_delay),
            max_delay: retry.max_delay.unwrap_or(usual.retry.max_delay),
            window: retry.window.unwrap_or(usual.retry.window),
        },
        ..usual
    }
}

/// They go with their provider: another's are left behind where the command line names another.
fn settings(config: &ModelConfig) -> Settings {
    Settings {
        max_output_tokens: config.max_output_tokens,
        temperature: config.temperature,
        extra: config.extra.clone(),
    }
}

fn usage(message: String) -> CliError {
    CliError::new(Exit::Usage, message)
}
