//! One `tools/call`: from the request through the session's executor to the answer.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelledNotificationParam, ClientResult,
    ContentBlock, CreateTaskResult, DetailedTask, ElicitRequest, ErrorCode, ErrorData, GetTaskResult,
    InputRequest, InputRequiredResult, JsonObject, MetaObject, NumberOrString, ProtocolVersion,
    ServerRequest, TaskPayload,
};
use rmcp::service::{PeerRequestOptions, RequestContext};
use rmcp::task_manager::{TaskContext, TaskExit};
use serde_json::Value;
use wink::executor::{Approval, ApprovalRequest, Escalation, Outcome, ToolCall};
use wink::session::{Ending, InvocationId, LoggedValue, ToolInvoked};

use crate::approval::{APPROVAL, Answered, Bound, approval_of, elicitation, input_requests};
use crate::reports::Reports;
use crate::room::Room;
use crate::running::{Asks, Moment, Question, Running};
use crate::server::Server;
use crate::tasks::{Past, TaskBegun};
use crate::wire::RawArguments;

/// Where a client may say which request a call is, so that sending it again does not do it again. Ours first.
const REQUEST_KEYS: [&str; 3] = [crate::REQUEST_KEY, "claudecode/toolUseId", "callId"];
/// Where the answer says which event of the log it is.
const INVOCATION: &str = "wink/invocation";
/// How many bytes of what a client calls a call are kept as its id.
const LONGEST_ID: usize = 200;

/// What is told of a task that has its result.
const ENDED: &str = "it has ended";

/// What the client can do, and how it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Era {
    /// Every request by itself; questions are results.
    Stateless,
    /// A handshake before everything; questions are requests.
    Handshake,
}

/// What became of a question.
enum Heard {
    /// It was answered, one way or the other.
    Said(Approval),
    /// Nobody answered in time.
    Nothing,
    /// The call was cancelled meanwhile.
    Cancelled,
}

/// Who is at the other end of a call.
struct Caller {
    era: Era,
    can_be_asked: bool,
    knows_tasks: bool,
    name: String,
}

impl Caller {
    fn of(context: &RequestContext<RoleServer>) -> Self {
        let stateless =
            context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        let capabilities = context.client_capabilities().unwrap_or_default();
        // A client that says nothing of modes knows forms.
        let forms =
            capabilities.elicitation.as_ref().is_some_and(|can| can.form.is_some() || can.url.is_none());
        // Of a request by itself only what it says: over HTTP, the protocol's crate has a name of its own for one that
        // says nothing.
        let client = if stateless { context.meta.client_info() } else { context.client_info() };
        let client = client.map(|client| client.name).unwrap_or_default();
        let client: String = client.chars().filter(|character| !character.is_control()).take(80).collect();
        Self {
            era: if stateless { Era::Stateless } else { Era::Handshake },
            can_be_asked: forms,
            knows_tasks: stateless && capabilities.supports_tasks(),
            name: if client.is_empty() {
                "the client's user".to_owned()
            } else {
                format!("the user of {client}")
            },
        }
    }
}

impl Server {
    pub(crate) async fn answer_call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = Caller::of(&context);
        let arguments = raw_arguments(&request, &context);
        let bound = Bound { tool: &request.name, arguments: &arguments };
        let running = match &request.request_state {
            Some(state) => {
                let answer = request.input_responses.as_ref().and_then(|answers| answers.get(APPROVAL));
                let answered = self.session.questions.answer(state, bound, answer, &caller.name);
                match answered.map_err(|error| ErrorData::invalid_params(error.to_string(), None))? {
                    Answered::GoesOn(running) => running,
                    Answered::StillOpen(about) => {
                        let requests = input_requests(&about);
                        return Ok(InputRequiredResult::new(Some(requests), Some(state.clone())).into());
                    }
                }
            }
            None => self.begin(&request, &arguments, &caller, &context)?,
        };
        self.follow(running, bound, &caller, &context).await
    }

    fn begin(
        &self,
        request: &CallToolRequestParams,
        arguments: &Arc<str>,
        caller: &Caller,
        context: &RequestContext<RoleServer>,
    ) -> Result<Running, ErrorData> {
        let key = REQUEST_KEYS.iter().find_map(|key| context.meta.get(*key)?.as_str());
        let id = match key {
            Some(key) => Cow::Borrowed(key),
            None => own_id(&context.id),
        };
        let id = id.get(..id.floor_char_boundary(LONGEST_ID)).unwrap_or_default();
        let mut call = ToolCall::new(id, &*request.name, Arc::clone(arguments));
        if let Some(key) = key {
            call = call.request_key(key);
        }
        let permit = Arc::clone(&self.session.calls).try_acquire_owned().map_err(|_| {
            let most = self.session.options.max_calls;
            let text = format!(
                "{most} calls of this session are on their way already; try again when one has ended"
            );
            ErrorData::new(ErrorCode::INTERNAL_ERROR, text, None)
        })?;
        let asks = if caller.can_be_asked { Asks::Client } else { Asks::Executor };
        let room = carried::<Room>(context).cloned().unwrap_or_default();
        Ok(Running::begin(&self.session, call, asks, (permit, room)))
    }

    /// Waits for a call's end, or for as long as this request has to do with it.
    async fn follow(
        &self,
        mut running: Running,
        bound: Bound<'_>,
        caller: &Caller,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut reports = Reports::to(&context.peer, context.meta.get_progress_token());
        let clock = &self.session.options.clock;
        let patience = async {
            match caller.knows_tasks {
                true => {
                    clock
                        .sleep_until(clock.monotonic().saturating_add(self.session.options.task_after))
                        .await;
                }
                false => std::future::pending().await,
            }
        };
        let mut patience = std::pin::pin!(patience);
        let (mut cancelled, mut patient) = (false, true);
        loop {
            let moment = tokio::select! {
                biased;
                () = context.ct.cancelled(), if !cancelled => {
                    cancelled = true;
                    running.cancel();
                    continue;
                }
                moment = running.next() => moment,
                () = &mut patience, if !cancelled && patient => {
                    patient = false;
                    match running.known_as() {
                        Some(call) if self.session.tasks.reserve() => {
                            return self.leave_to_itself(running, call, caller).await;
                        }
                        _ => continue,
                    }
                }
            };
            match moment {
                Some(Moment::Report(report)) => tokio::select! {
                    biased;
                    // Whoever takes no messages can still cancel.
                    () = context.ct.cancelled(), if !cancelled => {
                        cancelled = true;
                        running.cancel();
                    }
                    () = reports.tell(report) => {}
                },
                Some(Moment::Done(outcome)) => {
                    return self.result(&outcome).map(CallToolResponse::Complete);
                }
                Some(Moment::Question(question)) => match caller.era {
                    Era::Stateless => {
                        let requests = input_requests(&question.about);
                        let state = self.session.questions.park(running, question, bound).map_err(|_| {
                            let text = format!(
                                "{} needs approval, and too many questions wait for an answer",
                                bound.tool
                            );
                            ErrorData::new(ErrorCode::INTERNAL_ERROR, text, None)
                        })?;
                        return Ok(InputRequiredResult::new(Some(requests), Some(state)).into());
                    }
                    Era::Handshake => match self.ask(&question.about, caller, context).await {
                        Heard::Said(approval) => drop(question.reply.send(approval)),
                        // The call itself does not wait any longer either.
                        Heard::Nothing => {}
                        // Whoever does not want the answer does not want the call.
                        Heard::Cancelled => {
                            cancelled = true;
                            running.cancel();
                        }
                    },
                },
                None => return Err(ErrorData::internal_error("the call was lost", None)),
            }
        }
    }

    /// Asks a client that has shaken hands.
    async fn ask(
        &self,
        about: &ApprovalRequest,
        caller: &Caller,
        context: &RequestContext<RoleServer>,
    ) -> Heard {
        let refused = |error: rmcp::ServiceError| {
            tracing::warn!(%error, "the client could not be asked");
            let reason = "the client could not be asked".to_owned();
            Heard::Said(Approval::Refused { by: caller.name.as_str().into(), reason })
        };
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(elicitation(about)));
        let asked =
            match context.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await {
                Ok(asked) => asked,
                Err(error) => return refused(error),
            };
        let id = asked.id.clone();
        let clock = self.session.executor.session().clock();
        let late = clock.sleep_until(clock.monotonic().saturating_add(self.session.options.answer_within));
        let heard = tokio::select! {
            biased;
            () = context.ct.cancelled() => Heard::Cancelled,
            answer = asked.await_response() => match answer {
                Ok(ClientResult::ElicitResult(answer)) => return Heard::Said(approval_of(&answer, &caller.name)),
                Ok(_) => return refused(rmcp::ServiceError::UnexpectedResponse),
                Err(error) => return refused(error),
            },
            () = late => Heard::Nothing,
        };
        // So that nobody is shown a question that concerns nobody.
        let _ = context.peer.notify_cancelled(CancelledNotificationParam::new(Some(id), None)).await;
        heard
    }

    /// Lets a call go on by itself; the client looks after it.
    async fn leave_to_itself(
        &self,
        running: Running,
        call: InvocationId,
        caller: &Caller,
    ) -> Result<CallToolResponse, ErrorData> {
        let server = self.clone();
        let by = caller.name.clone();
        let task = self
            .session
            .tasks
            .spawn(|context| Box::pin(async move { server.task(running, context, &by).await }));
        // Whoever is told of it can ask about it, whatever becomes of this process.
        let session = self.session.executor.session();
        let begun = TaskBegun { task: task.task_id.clone(), call, time: session.clock().now() };
        let _ = session.dispatch(begun);
        if let Err(error) = session.flush().await {
            tracing::error!(%error, "that a call became a task could not be stored");
            let _ = self.session.tasks.cancel_task(&task.task_id);
            let text = format!("the call takes long, and could not become a task: {error}. It was cancelled");
            return Err(ErrorData::internal_error(text, None));
        }
        Ok(CreateTaskResult::new(task).into())
    }

    /// A task as it is now.
    pub(crate) async fn look_at_task(&self, id: &str) -> Result<GetTaskResult, ErrorData> {
        let unknown = match self.session.tasks.get_task(id) {
            Ok(mut state) => {
                // One whose time is up said last how far it was.
                if let TaskPayload::Failed { error } = &state.payload {
                    state.task.status_message = message_of(error);
                }
                return Ok(GetTaskResult::new(state));
            }
            Err(unknown) => unknown,
        };
        let Some(past) = self.session.past_task(id).await? else { return Err(unknown) };
        let mut task = self.session.tasks.told(&past);
        let payload = match &past {
            Past::Ended(_, event) if past.was_cancelled() => {
                task.status_message = Some(event.rendered.to_string());
                TaskPayload::Cancelled
            }
            Past::Ended(_, event) => match self.result_of(event, &event.rendered) {
                Ok(result) => {
                    task.status_message = Some(ENDED.to_owned());
                    TaskPayload::Completed { result: object(&result) }
                }
                Err(error) => {
                    let error = object(&error);
                    task.status_message = message_of(&error);
                    TaskPayload::Failed { error }
                }
            },
            Past::Elsewhere(_) => {
                task.status_message = Some("another server of this session has it".to_owned());
                TaskPayload::Working
            }
        };
        Ok(GetTaskResult::new(DetailedTask::new(task, payload)))
    }

    /// What a client is told that wants something of a task which this server does not have: nothing, if it is over.
    pub(crate) async fn not_here(&self, id: &str, unknown: ErrorData) -> Result<(), ErrorData> {
        match self.session.past_task(id).await? {
            Some(Past::Ended(..)) => Ok(()),
            Some(Past::Elsewhere(_)) => {
                let text = format!(
                    "task {id} is on its way in another server of this session: only that one can cancel it, or take \
                     answers for it"
                );
                Err(ErrorData::invalid_params(text, None))
            }
            None => Err(unknown),
        }
    }

    async fn task(
        &self,
        mut running: Running,
        context: TaskContext,
        by: &str,
    ) -> Result<CallToolResult, TaskExit> {
        let mut cancelled = false;
        let mut questions = 0;
        loop {
            let moment = tokio::select! {
                biased;
                () = context.cancelled(), if !cancelled => {
                    cancelled = true;
                    running.cancel();
                    context.set_status_message("it is being cancelled");
                    continue;
                }
                moment = running.next() => moment,
            };
            match moment {
                // Of one that is to end nobody asks how far it is.
                Some(Moment::Report(_)) if cancelled => {}
                Some(Moment::Report(report)) => context.set_status_message(report.text()),
                Some(Moment::Done(outcome)) => {
                    if let (true, Some(Escalation::Cancelled)) = (cancelled, &outcome.escalation) {
                        context.set_status_message(outcome.text());
                        return Err(TaskExit::Cancelled);
                    }
                    // Not how far it was, which it has said until now.
                    context.set_status_message(match cancelled {
                        true => "it had ended before it could be cancelled",
                        false => ENDED,
                    });
                    return self.result(&outcome).map_err(TaskExit::from);
                }
                Some(Moment::Question(Question { about, reply })) => {
                    questions += 1;
                    let request = InputRequest::Elicitation(ElicitRequest::new(elicitation(&about)));
                    // One that does not come is a cancellation, which is seen above.
                    let Ok(answer) = context.request_input(format!("{APPROVAL}-{questions}"), request).await
                    else {
                        continue;
                    };
                    let approval = match serde_json::from_value(answer) {
                        Ok(answer) => approval_of(&answer, by),
                        Err(_) => Approval::Refused {
                            by: by.into(),
                            reason: "their answer could not be read".to_owned(),
                        },
                    };
                    let _ = reply.send(approval);
                }
                None => return Err(ErrorData::internal_error("the call was lost", None).into()),
            }
        }
    }

    /// What a client is told of a call's end.
    fn result(&self, outcome: &Outcome) -> Result<CallToolResult, ErrorData> {
        self.result_of(&outcome.event, outcome.text())
    }

    fn result_of(&self, event: &ToolInvoked, text: &str) -> Result<CallToolResult, ErrorData> {
        let Some(listed) = self.session.listed(&event.tool) else {
            // The text and the event are those of any other surface; only here it is an error of the protocol too.
            return Err(ErrorData::invalid_params(text.to_owned(), None));
        };
        let content = vec![ContentBlock::text(text)];
        // What is opened was asked for: the call did not fail, it did something else than a result.
        let mut result = match event.success || event.ending == Ending::Expanded {
            true => CallToolResult::success(content),
            false => CallToolResult::error(content),
        };
        if event.success {
            // What is kept from the model is not told its client either, which may show it.
            let value = if event.value_hidden { None } else { value_of(event) };
            result.structured_content = listed.structured(value);
        }
        let mut meta = MetaObject::new();
        meta.insert(INVOCATION.to_owned(), event.id.to_string().into());
        result.meta = Some(meta);
        Ok(result)
    }
}

/// What a call without a key is known as. Never a number, which in the log is something else.
fn own_id(request: &NumberOrString) -> Cow<'_, str> {
    match request {
        NumberOrString::Number(number) => Cow::Owned(format!("mcp-{number}")),
        NumberOrString::String(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Cow::Owned(format!("mcp-{text}"))
        }
        NumberOrString::String(text) => Cow::Borrowed(text),
    }
}

fn value_of(event: &ToolInvoked) -> Option<Value> {
    match &event.value {
        LoggedValue::None => None,
        LoggedValue::Json(value) => Some(Value::clone(value)),
        LoggedValue::Typed(value) => value.to_json().ok(),
    }
}

fn object(value: &impl serde::Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        _ => JsonObject::new(),
    }
}

fn message_of(error: &JsonObject) -> Option<String> {
    error.get("message").and_then(Value::as_str).map(str::to_owned)
}

/// What the transport sent along with a request.
fn carried<T: Send + Sync + 'static>(context: &RequestContext<RoleServer>) -> Option<&T> {
    let by_http = || context.extensions.get::<http::request::Parts>()?.extensions.get::<T>();
    context.extensions.get::<T>().or_else(by_http)
}

/// The arguments as the client wrote them, if the transport kept them; as they were decoded otherwise.
fn raw_arguments(request: &CallToolRequestParams, context: &RequestContext<RoleServer>) -> Arc<str> {
    if let Some(RawArguments(text)) = carried(context) {
        return Arc::clone(text);
    }
    request
        .arguments
        .as_ref()
        .map_or_else(|| "".into(), |arguments| serde_json::to_string(arguments).unwrap_or_default().into())
}
