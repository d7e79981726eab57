//! rmcp's own minimal server, with the tools that are called: what one writes who wants no more than to be called.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::{Json, Parameters};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService, stdio};
use rmcp::{ServerHandler, ServiceExt, tool, tool_handler, tool_router};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use wink::suites::files::{FileWritten, WriteFile};
use wink::suites::planning::{Plan, PlanStatus, PlanStep, ReadPlan, SetupPlan, StepStatus};

use super::{Keeps, Over};

/// The argument with which this program is the server.
pub(crate) const SERVE: &str = "--rmcp-server";

/// How it is served.
pub(crate) struct Serving {
    pub(super) over: Over,
    pub(super) keeps: Keeps,
    pub(super) place: PathBuf,
}

impl Serving {
    /// What [`parse`](Self::parse) reads.
    pub(super) fn arguments(&self) -> [String; 3] {
        let over = match self.over {
            Over::Stdio => "stdio",
            Over::Http => "http",
        };
        let keeps = match self.keeps {
            Keeps::Nothing => "nothing",
            Keeps::Line => "line",
        };
        [over.to_owned(), keeps.to_owned(), self.place.display().to_string()]
    }

    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let [over, keeps, place] = arguments else {
            return Err(format!("{SERVE} takes how, what is kept, and a directory"));
        };
        let over = match over.as_str() {
            "stdio" => Over::Stdio,
            "http" => Over::Http,
            _ => return Err(format!("`{over}` is neither stdio nor http")),
        };
        let keeps = match keeps.as_str() {
            "nothing" => Keeps::Nothing,
            "line" => Keeps::Line,
            _ => return Err(format!("`{keeps}` is neither nothing nor line")),
        };
        Ok(Self { over, keeps, place: place.into() })
    }

    /// Serves until its client is gone, or for good. As many threads as `wink serve` has.
    pub(crate) fn run(self) -> Result<(), String> {
        let server = Minimal::new(&self)?;
        let mut builder = match self.over {
            Over::Stdio => Builder::new_current_thread(),
            Over::Http => Builder::new_multi_thread(),
        };
        let runtime = builder.enable_all().build().map_err(|error| error.to_string())?;
        match self.over {
            Over::Stdio => runtime.block_on(over_stdio(server)),
            Over::Http => runtime.block_on(over_http(server)),
        }
    }
}

async fn over_stdio(server: Minimal) -> Result<(), String> {
    let running = server.serve(stdio()).await.map_err(|error| error.to_string())?;
    running.waiting().await.map_err(|error| error.to_string())?;
    Ok(())
}

async fn over_http(server: Minimal) -> Result<(), String> {
    let said = |error: std::io::Error| error.to_string();
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(said)?;
    let address = listener.local_addr().map_err(said)?;
    println!("{}", json!({ "url": format!("http://{address}/mcp") }));
    // Answers as short as Wink's.
    let config = StreamableHttpServerConfig::default().with_json_response(true);
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    loop {
        let (stream, _) = listener.accept().await.map_err(said)?;
        let _ = stream.set_nodelay(true);
        let service = service.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let service = service.clone();
                async move { Ok::<_, std::convert::Infallible>(service.handle(request).await) }
            });
            // Clients go when they like.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

#[derive(Clone)]
struct Minimal {
    place: Arc<PathBuf>,
    plan: Arc<Mutex<Plan>>,
    kept: Option<Arc<Mutex<File>>>,
    tool_router: ToolRouter<Self>,
}

#[tool_router]
impl Minimal {
    fn new(serving: &Serving) -> Result<Self, String> {
        let file = || OpenOptions::new().create(true).append(true).open(serving.place.join("calls.log"));
        let kept = match serving.keeps {
            Keeps::Nothing => None,
            Keeps::Line => Some(Arc::new(Mutex::new(file().map_err(|error| error.to_string())?))),
        };
        let plan = Plan { objective: String::new(), status: PlanStatus::Active, steps: Vec::new() };
        Ok(Self {
            place: Arc::new(serving.place.clone()),
            plan: Arc::new(Mutex::new(plan)),
            kept,
            tool_router: Self::tool_router(),
        })
    }

    #[tool(name = "planning_setup_plan", description = "Make a plan: the objective and the first steps.")]
    async fn set_up(&self, Parameters(given): Parameters<SetupPlan>) -> Result<Json<Plan>, String> {
        let steps = (1..).zip(given.initial_steps);
        let steps = steps.map(|(step_id, title)| PlanStep { step_id, title, status: StepStatus::Pending });
        let plan = Plan { objective: given.objective, status: PlanStatus::Active, steps: steps.collect() };
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan.clone();
        self.keep("planning_setup_plan")?;
        Ok(Json(plan))
    }

    #[tool(name = "planning_read_plan", description = "Show the plan.")]
    async fn read(&self, _: Parameters<ReadPlan>) -> Result<Json<Plan>, String> {
        let plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.keep("planning_read_plan")?;
        Ok(Json(plan))
    }

    #[tool(name = "write_file", description = "Write a text file.")]
    async fn write(&self, Parameters(given): Parameters<WriteFile>) -> Result<Json<FileWritten>, String> {
        let path = self.place.join(&given.path);
        let created = !path.exists();
        fs::write(&path, &given.content).map_err(|error| error.to_string())?;
        self.keep("write_file")?;
        let bytes = u64::try_from(given.content.len()).unwrap_or(u64::MAX);
        Ok(Json(FileWritten { path: given.path, created, bytes }))
    }

    /// Has a line about a call on disk, if lines are kept.
    fn keep(&self, tool: &str) -> Result<(), String> {
        let Some(kept) = &self.kept else { return Ok(()) };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let written = writeln!(kept, "{tool} was called").and_then(|()| kept.sync_data());
        written.map_err(|error| error.to_string())
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Minimal {}
