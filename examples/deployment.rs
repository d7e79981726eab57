//! A deployment that policies keep in order: tests and build first, production only with a person's word, and only
//! so many deployments in one session. The calls are those of a model in a hurry.

use std::sync::Arc;

use wink::BoxFuture;
use wink::executor::{Approval, ApprovalRequest, Approver};
use wink::policy::{ApprovalPolicy, QuotaPolicy, SequentialDependencyPolicy};
use wink::prelude::*;
use wink::resource::BoxError;

#[data]
#[derive(Debug, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Environment {
    Staging,
    Production,
}

/// What is deployed where. Rolled back with a deployment that fails.
#[data]
#[derive(SliceType)]
#[slice(name = "deployed")]
struct Deployed {
    environment: Environment,
    version: String,
}

/// Run the tests.
#[tool]
async fn test() -> ToolResult<()> {
    ToolResult::done("214 tests passed.")
}

/// Build the release.
#[tool]
async fn build() -> ToolResult<String> {
    ToolResult::ok("2.1.0".to_owned(), "Built:")
}

/// Deploy a version.
#[tool]
async fn deploy(
    environment: Environment,
    /// As `build` returned it.
    version: String,
    cx: &mut ToolContext,
) -> Result<ToolResult<()>, ToolError> {
    let _ = cx.session().dispatch(Deployed { environment, version: version.clone() })?;
    if version != "2.1.0" {
        return Ok(ToolResult::error(format!(
            "There is no build of {version}. Deploy what `build` returned."
        )));
    }
    Ok(ToolResult::done(format!("{version} runs in {environment:?}.")))
}

/// A person at the other end of the corridor.
struct Ada;

impl Approver for Ada {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Result<Approval, BoxError>> {
        println!("        ada is asked: {}", request.question);
        Box::pin(std::future::ready(Ok(Approval::Approved { by: "ada".into() })))
    }
}

fn deployment() -> Section {
    Section::markdown("deployment", "Deployment")
        .body("Run the tests, build, deploy to staging, then to production.")
        .tool(test_tool())
        .tool(build_tool())
        .tool(deploy_tool())
        .policy(SequentialDependencyPolicy::new().require("deploy", ["test", "build"]))
        .policy(QuotaPolicy::new().tool("deploy", 2))
        .policy(
            ApprovalPolicy::new(["deploy"]).when(|params| {
                params.get("environment").is_some_and(|environment| environment == "production")
            }),
        )
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let prompt = PromptTemplate::builder("examples", "deployment").section(deployment()).build()?.prompt();
    let session = Session::new();
    let executor = Executor::builder(&prompt, &session).approver(Arc::new(Ada)).open().await?;

    let hurry = [
        ("deploy", r#"{"environment": "production", "version": "2.1.0"}"#),
        ("test", ""),
        ("build", ""),
        ("deploy", r#"{"environment": "prod", "version": "2.1.0"}"#),
        ("deploy", r#"{"environment": "staging", "version": "latest"}"#),
        ("deploy", r#"{"environment": "staging", "version": "2.1.0"}"#),
        ("deploy", r#"{"environment": "production", "version": "2.1.0"}"#),
        ("deploy", r#"{"environment": "production", "version": "2.1.0"}"#),
    ];
    for (at, (tool, arguments)) in hurry.into_iter().enumerate() {
        println!("model   {tool} {arguments}");
        let outcome = executor.call(ToolCall::new(at.to_string(), tool, arguments)).await;
        let kind = if outcome.is_success() { "ok" } else { "no" };
        for (at, line) in outcome.text().lines().filter(|line| !line.is_empty()).enumerate() {
            println!("{:<8}{line}", if at == 0 { kind } else { "" });
        }
        for by in &outcome.event.approvers {
            println!("        approved by {by}");
        }
        println!();
    }

    println!("Deployed in the end:");
    for deployed in session.slice::<Deployed>().iter() {
        println!("- {} in {:?}", deployed.version, deployed.environment);
    }
    Ok(())
}
