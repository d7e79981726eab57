//! What a server offers beside tools: the prompt, and the log and the workspace's digest as resources.

use rmcp::model::{
    ErrorData, GetPromptResult, Prompt, PromptMessage, ReadResourceResult, Resource, ResourceContents, Role,
};
use wink::filesystem::Filesystem;
use wink::session::{LogEntry, LogEvent, Session, ToolInvoked};
use wink::store::StoreErrorKind;
use wink::suites::WorkspaceDigest;

use crate::server::Server;
use crate::session::stored_log;

/// The session's log.
const LOG: &str = "wink://log";
/// What there is in the workspace.
const DIGEST: &str = "wink://digest";
/// How many events of the log are shown, and how many bytes of them at most.
const LATEST: usize = 200;
const LOG_BYTES: usize = 4 * 1024 * 1024;

impl Server {
    pub(crate) fn own_prompt(&self) -> Prompt {
        let prompt = &self.session.prompt;
        let own = Prompt::new(
            prompt.key(),
            Some(format!("How to work with the tools of {}.", prompt.name())),
            None,
        );
        match prompt.display_name() {
            Some(name) => own.with_title(name),
            None => own,
        }
    }

    pub(crate) async fn prompt_text(&self, name: &str) -> Result<GetPromptResult, ErrorData> {
        let key = self.session.prompt.key();
        if name != key {
            return Err(ErrorData::invalid_params(
                format!("there is no prompt {name:?}; there is {key:?}"),
                None,
            ));
        }
        // As the session is now, whoever else has opened sections of it.
        let rendered = self.session.executor.catch_up().await;
        let rendered = rendered.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, rendered.text())]))
    }

    pub(crate) fn own_resources(&self) -> Vec<Resource> {
        let log = Resource::new(LOG, "log")
            .with_title("Log")
            .with_description(format!(
                "The last {LATEST} calls and undos of this session, or fewer if they are long: one JSON object a line, oldest first."
            ))
            .with_mime_type("application/jsonl");
        let digest = Resource::new(DIGEST, "digest")
            .with_title("Workspace digest")
            .with_description("What there is in the workspace: languages, layout, key files.")
            .with_mime_type("text/markdown");
        let has_files = self.session.executor.resources().registry().contains::<dyn Filesystem>();
        if has_files { vec![log, digest] } else { vec![log] }
    }

    pub(crate) async fn resource(&self, uri: &str) -> Result<ReadResourceResult, ErrorData> {
        let (text, mime) = match uri {
            LOG => (self.log().await?, "application/jsonl"),
            DIGEST => (self.digest().await?, "text/markdown"),
            _ => {
                let text = format!("there is no resource {uri}");
                return Err(ErrorData::resource_not_found(text, Some(serde_json::json!({ "uri": uri }))));
            }
        };
        // Read again each time: both change with every call.
        let contents = vec![ResourceContents::text(text, uri).with_mime_type(mime)];
        Ok(ReadResourceResult::new(contents).with_ttl_ms(0))
    }

    async fn log(&self) -> Result<String, ErrorData> {
        let session = self.session.executor.session();
        // As the store has it now, whoever else has added to it.
        let latest = async { stored_log(session)?.newest(0, LATEST, |_| true).await };
        let entries = match latest.await {
            Ok(entries) => entries,
            Err(error) if error.kind == StoreErrorKind::Unsupported => in_memory(session),
            Err(error) => return Err(ErrorData::internal_error(error.to_string(), None)),
        };
        let mut lines = Vec::new();
        let mut left = LOG_BYTES;
        for entry in entries.iter().rev() {
            let line = (self.session.log_form)(entry).to_string();
            let Some(rest) = left.checked_sub(line.len()) else { break };
            left = rest;
            lines.push(line);
        }
        lines.reverse();
        Ok(lines.join("\n"))
    }

    async fn digest(&self) -> Result<String, ErrorData> {
        let none = || ErrorData::resource_not_found("this session has no workspace", None);
        let failed = |error: String| ErrorData::internal_error(error, None);
        let executor = &self.session.executor;
        let files = executor.resources().get_optional::<dyn Filesystem>().await;
        let files = files.map_err(|error| failed(error.to_string()))?.ok_or_else(none)?;
        let known = executor.session().slice::<WorkspaceDigest>().latest();
        if let Some(digest) = known
            && digest.is_current(&*files).await.unwrap_or(false)
        {
            return Ok(digest.body.clone());
        }
        // Nothing is kept: reading a resource changes nothing.
        let digest = WorkspaceDigest::of(&*files).await.map_err(|error| failed(error.to_string()))?;
        Ok(digest.body)
    }
}

/// The last entries of a log that no store keeps, oldest first. Nothing can be undone there.
fn in_memory(session: &Session) -> Vec<LogEntry> {
    let events = session.slice::<ToolInvoked>();
    let numbers = (0..=events.len()).rev().map(|number| u64::try_from(number).unwrap_or(u64::MAX));
    let entries =
        numbers.zip(events.newest()).map(|(seq, event)| LogEntry { seq, event: LogEvent::Call(event) });
    let mut latest: Vec<LogEntry> = entries.take(LATEST).collect();
    latest.reverse();
    latest
}
