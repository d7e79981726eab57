//! The model, and how it is asked.

use wink::tool::secret::MASK;

use super::{entries, limits};
use crate::file::{At, ModelTable, ProviderName, RetryTable, TIME_HINT, Time, ToolModeName};
use crate::model::{ModelConfig, ModelProvider, RetryConfig, is_variable};
use crate::problem::Problems;

/// What a file says of its model.
pub(super) fn model(table: Option<&At<ModelTable>>, problems: &mut Problems) -> Option<ModelConfig> {
    let table = table?;
    let provider = table.provider.as_ref().map(|provider| match provider.value {
        ProviderName::Anthropic => ModelProvider::Anthropic,
        ProviderName::Openai => ModelProvider::OpenAi,
        ProviderName::OpenaiChat => ModelProvider::OpenAiChat,
        ProviderName::Claude => ModelProvider::Claude,
    });
    if let Some(model) = table.model.as_ref().filter(|model| model.trim().is_empty()) {
        problems.hint(&model.span, "a model has a name", "write it as the provider does");
    }
    if let Some(url) = &table.url {
        check_url(url, problems);
    }
    if let Some(name) = table.key_env.as_ref().filter(|name| !is_variable(name)) {
        // Whatever it is, it may be a key.
        let message = format!("this is not the name of an environment variable ({MASK})");
        let hint = "write its name, such as \"ANTHROPIC_API_KEY\"; a key is never part of an agent file";
        problems.hint(&name.span, message, hint);
    }
    let constrained = table.tools.as_ref().filter(|mode| mode.value == ToolModeName::Constrained);
    if let (Some(mode), Some(provider)) = (constrained, provider)
        && provider != ModelProvider::OpenAiChat
    {
        let message = format!("only openai-chat has tools = \"constrained\", and this is {provider}");
        problems.hint(&mode.span, message, "leave it out, or say `provider = \"openai-chat\"`");
    }
    let natives = table.native_tools.as_ref();
    if let (Some(natives), Some(provider)) = (natives, provider)
        && provider != ModelProvider::Claude
    {
        let message = format!("only claude has tools of its own, and this is {provider}");
        problems.hint(&natives.span, message, "leave it out, or say `provider = \"claude\"`");
    }
    if provider == Some(ModelProvider::Claude) {
        // It streams, and waits between its attempts, as it sees fit.
        let retry = table.retry.as_ref();
        for (name, span) in [
            ("streaming", table.streaming.as_ref().map(|at| &at.span)),
            ("timeout", table.timeout.as_ref().map(|at| &at.span)),
            ("max_output_tokens", table.max_output_tokens.as_ref().map(|at| &at.span)),
            ("temperature", table.temperature.as_ref().map(|at| &at.span)),
            ("extra", table.extra.as_ref().map(|at| &at.span)),
            ("retry.delay", retry.and_then(|retry| retry.delay.as_ref()).map(|at| &at.span)),
            ("retry.max_delay", retry.and_then(|retry| retry.max_delay.as_ref()).map(|at| &at.span)),
            ("retry.window", retry.and_then(|retry| retry.window.as_ref()).map(|at| &at.span)),
        ] {
            if let Some(span) = span {
                let message = format!("the program claude cannot be told {name}");
                problems.hint(span, message, "leave it out, or say `provider = \"anthropic\"`");
            }
        }
    }
    if let Some(temperature) = table.temperature.as_ref()
        && !(temperature.is_finite() && temperature.value >= 0.0)
    {
        problems.hint(&temperature.span, "a temperature is 0 or more", "most providers take 0 to 1, or to 2");
    }
    let retry = retry(table.retry.as_ref(), problems);
    let timeout = table.timeout.as_ref().and_then(|time| limits::duration(time, problems));
    Some(ModelConfig {
        provider: provider?,
        model: table.model.as_ref()?.value.clone(),
        url: table.url.as_ref().map(|url| url.value.clone()),
        key_env: table.key_env.as_ref().map(|name| name.value.clone()),
        constrained: constrained.is_some(),
        streaming: table.streaming.as_ref().map(|streaming| streaming.value),
        timeout,
        max_output_tokens: table.max_output_tokens.as_ref().map(|tokens| tokens.value),
        temperature: table.temperature.as_ref().map(|temperature| temperature.value),
        extra: table.extra.as_ref().map(|extra| entries(extra)).unwrap_or_default(),
        max_turns: table.max_turns.as_ref().map(|turns| turns.value),
        native_tools: natives.into_iter().flat_map(|natives| natives.iter()).map(|one| one.name()).collect(),
        retry,
    })
}

fn check_url(url: &At<String>, problems: &mut Problems) {
    let hint = "write it as the server's documentation does, such as \"http://127.0.0.1:8080/v1\"";
    let Some((scheme, rest)) = url.split_once("://") else {
        problems.hint(&url.span, "this is no URL", hint);
        return;
    };
    if !matches!(scheme, "http" | "https") {
        problems.hint(&url.span, "a model is asked over http or https", hint);
    } else if rest.split('/').next().is_some_and(|host| host.contains('@')) {
        let hint = "say with `key_env` which environment variable has the key";
        problems.hint(&url.span, "a user or a password is never part of an agent file", hint);
    }
}

fn retry(table: Option<&At<RetryTable>>, problems: &mut Problems) -> RetryConfig {
    let Some(table) = table else { return RetryConfig::default() };
    let mut time = |time: &Option<At<Time>>| time.as_ref().and_then(|time| limits::duration(time, problems));
    let (delay, max_delay, window) = (time(&table.delay), time(&table.max_delay), time(&table.window));
    if let (Some(delay), Some(most), Some(at)) = (delay, max_delay, &table.max_delay)
        && most < delay
    {
        problems.hint(&at.span, "the longest wait is shorter than the first", TIME_HINT);
    }
    RetryConfig { attempts: table.attempts.as_ref().map(|attempts| attempts.value), delay, max_delay, window }
}
