//! The first tool: a shopping list that cannot be overfilled, and four calls as a model might make them.

use wink::prelude::*;

/// One line of the shopping list.
#[data]
#[derive(SliceType)]
#[slice(name = "item")]
struct Item {
    name: String,
    count: u32,
}

/// Puts something on the shopping list.
#[tool]
async fn add_item(name: String, count: u32, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let _ = cx.session().dispatch(Item { name: name.clone(), count })?;
    let total: u32 = cx.session().slice::<Item>()?.iter().map(|item| item.count).sum();
    if total > 10 {
        return Ok(ToolResult::error(format!("The bag holds 10 things, not {total}. Ask for fewer.")));
    }
    Ok(ToolResult::done(format!("{count} × {name}; {total} of 10 in the bag.")))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let section =
        Section::markdown("shopping", "Shopping").body("Keep the list short.").tool(add_item_tool());
    let prompt = PromptTemplate::builder("examples", "shopping").section(section).build()?.prompt();
    let session = Session::new();
    let executor = Executor::open(&prompt, &session).await?;

    for (id, arguments) in [
        ("1", r#"{"name": "apple", "count": 4}"#),
        ("2", r#"{"name": "melon", "count": 9}"#),
        ("3", r#"{"nmae": "pear", "count": "2"}"#),
        ("4", r#"{"name": "pear", "count": 2}"#),
    ] {
        let outcome = executor.call(ToolCall::new(id, "add_item", arguments)).await;
        println!("{} {}", if outcome.is_success() { "ok    " } else { "failed" }, outcome.text());
    }
    let list: Vec<String> = session.slice::<Item>().iter().map(|item| item.name.clone()).collect();
    println!("\nOn the list: {}.", list.join(", "));
    Ok(())
}
