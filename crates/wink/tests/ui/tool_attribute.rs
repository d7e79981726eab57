use wink::prelude::*;

#[tool]
async fn undescribed() -> ToolResult<()> {
    ToolResult::done("")
}

/// A description that goes on and on and on and on and on and on and on and on and on and on and on and on and on and
/// on and on and on and on and on and on and on and on and on and on and on and on and on and on and on and on.
#[tool]
async fn long_winded() -> ToolResult<()> {
    ToolResult::done("")
}

/// Has a bad name.
#[tool(name = "Bad Name")]
async fn badly_named() -> ToolResult<()> {
    ToolResult::done("")
}

/// Has a bad time.
#[tool(timeout = "soon")]
async fn badly_timed() -> ToolResult<()> {
    ToolResult::done("")
}

/// Has an option that there is not.
#[tool(retries = "3")]
async fn badly_set() -> ToolResult<()> {
    ToolResult::done("")
}

/// Is no function.
#[tool]
struct Thing;

/// Has many schemas.
#[tool]
async fn generic<T>(value: T) -> ToolResult<()> {
    ToolResult::done("")
}

/// Borrows.
#[tool]
async fn borrowing(text: &str) -> ToolResult<()> {
    ToolResult::done("")
}

/// Has its arguments in another order.
#[tool]
async fn context_first(cx: &mut ToolContext, text: String) -> ToolResult<()> {
    ToolResult::done("")
}

/// Takes its context away.
#[tool]
async fn context_owned(text: String, cx: ToolContext) -> ToolResult<()> {
    ToolResult::done("")
}

/// Cannot fail.
#[tool]
async fn returns_nothing(text: String) {}

struct State;

impl State {
    /// Has state.
    #[tool]
    async fn with_state(&self) -> ToolResult<()> {
        ToolResult::done("")
    }
}

fn main() {}
