//! The server of one session, as the protocol sees it.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CustomRequest, CustomResult, ErrorCode,
    ErrorData, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, Implementation,
    InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, TASKS_EXTENSION_ID, Tool, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};

use crate::session::ServedSession;

/// The revisions that are spoken, oldest first.
static VERSIONS: &[ProtocolVersion] =
    &[ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];

/// How long clients may keep what they were told of tools and prompts, which do not change while a server runs.
const LASTING_MS: u64 = 60 * 60 * 1000;

/// Serves one session. Cheap to clone: every connection has one.
///
/// It is a [`ServerHandler`]: whoever wants to offer more than an agent's tools wraps it in a handler of their own, and
/// hands on what is not theirs.
#[derive(Debug, Clone)]
pub struct Server {
    pub(crate) session: Arc<ServedSession>,
}

impl Server {
    /// A server of this session.
    pub fn new(session: Arc<ServedSession>) -> Self {
        Self { session }
    }

    /// The session.
    pub fn session(&self) -> &Arc<ServedSession> {
        &self.session
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_resources()
            .enable_tasks()
            .build();
        let name = self.session.prompt.name();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("wink", env!("CARGO_PKG_VERSION")))
            .with_instructions(format!(
                "The tools of the agent {name}. Every call is one transaction: it takes effect as a whole, or not at all. The \
                 prompt `{}` says how to work with them.",
                self.session.prompt.key()
            ))
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(VERSIONS)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let mut answer = self.negotiate_initialize(&request)?;
        context.peer.set_peer_info(request);
        // Whoever shakes hands speaks a revision in which a call is waited for.
        let extensions = &mut answer.capabilities.extensions;
        if let Some(offered) = extensions {
            offered.remove(TASKS_EXTENSION_ID);
        }
        extensions.take_if(|left| left.is_empty());
        Ok(answer)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        only_page(request)?;
        let tools = self.session.tools().cloned().collect();
        Ok(ListToolsResult::with_all_items(tools).with_ttl_ms(LASTING_MS))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.session.listed(name).map(|listed| listed.tool.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.answer_call(request, context).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.look_at_task(&request.task_id).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match self.session.tasks.update_task(&request.task_id, request.input_responses) {
            Err(unknown) => self.not_here(&request.task_id, unknown).await,
            told => told,
        }
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match self.session.tasks.cancel_task(&request.task_id) {
            Err(unknown) => self.not_here(&request.task_id, unknown).await,
            told => told,
        }
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        only_page(request)?;
        Ok(ListPromptsResult::with_all_items(vec![self.own_prompt()]).with_ttl_ms(LASTING_MS))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.prompt_text(&request.name).await.map(GetPromptResponse::Complete)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        only_page(request)?;
        Ok(ListResourcesResult::with_all_items(self.own_resources()).with_ttl_ms(LASTING_MS))
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        only_page(request)?;
        Ok(ListResourceTemplatesResult::default())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.resource(&request.uri).await.map(ReadResourceResponse::Complete)
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // A method that is known comes here when its params could not be read.
        let known = KNOWN_METHODS.contains(&request.method.as_str());
        Err(match known {
            true => ErrorData::invalid_params(
                format!("the params of {} are not as they must be", request.method),
                None,
            ),
            false => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None),
        })
    }
}

/// Everything is told at once, so that there is no cursor to go on from.
fn only_page(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        None => Ok(()),
        Some(_) => Err(ErrorData::invalid_params("this cursor is none of ours: there is one page", None)),
    }
}

const KNOWN_METHODS: &[&str] = &[
    "tools/call",
    "tools/list",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
    "completion/complete",
];
