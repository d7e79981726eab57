//! What the suite wants beside an agent's tools, around the server.

// Logging and subscriptions by request are of the revisions before 2026-07-28, and the suite of those asks for them.
#![expect(deprecated, reason = "the suite of 2025-11-25 still asks for it")]

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams, CompleteResult,
    CustomRequest, CustomResult, ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    GetTaskParams, GetTaskResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, LoggingLevel, LoggingMessageNotificationParam, PaginatedRequestParams, PromptMessage,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Role, ServerConfig,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
    UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::task_manager::TaskManager;
use rmcp::{RoleServer, ServerHandler};
use tokio::sync::broadcast;
use wink::limits::{Clock, SystemClock};
use wink_mcp::{Server, rmcp};

use crate::{asks, content, jobs};

/// What the connections of one process share.
pub(crate) struct State {
    changes: broadcast::Sender<Change>,
    tasks: TaskManager,
}

impl Default for State {
    fn default() -> Self {
        Self { changes: broadcast::channel(16).0, tasks: TaskManager::new() }
    }
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Tools,
    Prompts,
}

/// The server, with the suite's things around it.
#[derive(Clone)]
pub(crate) struct Fixture {
    server: Server,
    state: Arc<State>,
}

impl Fixture {
    pub(crate) fn new(server: Server, state: Arc<State>) -> Self {
        Self { server, state }
    }

    /// Sends three lines of log, if the client wants to hear them.
    async fn log(&self, context: &RequestContext<RoleServer>) {
        let stateless =
            context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        if stateless && context.meta.log_level().is_none() {
            return;
        }
        for text in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
            let line = LoggingMessageNotificationParam::new(LoggingLevel::Info, text.into());
            let _ = context.peer.notify_logging_message(line).await;
            SystemClock.sleep_until(SystemClock.monotonic().saturating_add(Duration::from_millis(50))).await;
        }
    }
}

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.server.get_info();
        let changing = Some(true);
        info.capabilities.logging = Some(Default::default());
        info.capabilities.completions = Some(Default::default());
        info.capabilities.tools.get_or_insert_default().list_changed = changing;
        info.capabilities.prompts.get_or_insert_default().list_changed = changing;
        info.capabilities.resources.get_or_insert_default().subscribe = changing;
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.server.supported_protocol_versions()
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut listed = self.server.list_tools(request, context).await?;
        listed.tools.extend(asks::tools());
        listed.tools.extend(jobs::tools());
        Ok(listed)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.server
            .get_tool(name)
            .or_else(|| asks::tools().into_iter().chain(jobs::tools()).find(|tool| tool.name == name))
    }

    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(answer) = asks::call(&request, &context).await {
            return answer;
        }
        if let Some(answer) = jobs::call(&self.state.tasks, &mut request, &mut context) {
            return answer;
        }
        if let Some(answers) = &mut request.input_responses {
            asks::understood(answers);
        }
        match &*request.name {
            "test_tool_with_logging" | "test_logging_tool" => self.log(&context).await,
            // Nobody may be listening.
            "test_trigger_tool_change" => drop(self.state.changes.send(Change::Tools)),
            "test_trigger_prompt_change" => drop(self.state.changes.send(Change::Prompts)),
            _ => {}
        }
        Ok(match self.server.call_tool(request, context).await? {
            CallToolResponse::Complete(result) => content::shown(result).into(),
            other => other,
        })
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut listed = self.server.list_prompts(request, context).await?;
        listed.prompts.extend(content::prompts());
        Ok(listed)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        if request.name == "test_input_required_result_prompt" {
            return Ok(match asks::context_of(request.input_responses.as_ref()) {
                Ok(text) => GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).into(),
                Err(required) => required.into(),
            });
        }
        match content::prompt(&request) {
            Some(prompt) => prompt.map(GetPromptResponse::Complete),
            None => self.server.get_prompt(request, context).await,
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut listed = self.server.list_resources(request, context).await?;
        listed.resources.extend(content::resources());
        Ok(listed)
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(content::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match content::resource(&request.uri) {
            Some(found) => Ok(ReadResourceResult::new(vec![found]).into()),
            None => self.server.read_resource(request, context).await,
        }
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Ok(CompleteResult::default())
    }

    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let stateless =
            context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        if stateless {
            return Err(ErrorData::method_not_found::<rmcp::model::SetLevelRequestMethod>());
        }
        Ok(())
    }

    async fn subscribe(
        &self,
        _: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.state.changes.subscribe();
        loop {
            let change = tokio::select! {
                () = context.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            // What was not asked for is not sent.
            let _ = match change {
                Ok(Change::Tools) => context.sink().notify_tool_list_changed().await,
                Ok(Change::Prompts) => context.sink().notify_prompt_list_changed().await,
                Err(broadcast::error::RecvError::Lagged(_)) => continue,
                Err(broadcast::error::RecvError::Closed) => return Ok(()),
            };
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        match self.state.tasks.get_task(&request.task_id) {
            Ok(task) => Ok(GetTaskResult::new(task)),
            Err(_) => self.server.get_task(request, context).await,
        }
    }

    async fn update_task(
        &self,
        mut request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        asks::understood(&mut request.input_responses);
        match self.state.tasks.get_task(&request.task_id) {
            Ok(_) => self.state.tasks.update_task(&request.task_id, request.input_responses),
            Err(_) => self.server.update_task(request, context).await,
        }
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match self.state.tasks.get_task(&request.task_id) {
            Ok(_) => self.state.tasks.cancel_task(&request.task_id),
            Err(_) => self.server.cancel_task(request, context).await,
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        self.server.on_custom_request(request, context).await
    }
}
