use wink::prelude::*;

#[derive(Serialize, Deserialize, SliceType)]
#[slice(name = "note")]
struct Note {
    text: String,
}

async fn look(_: (), cx: &mut ReadContext) -> Result<ToolResult<()>, ToolError> {
    cx.session().dispatch(Note { text: "seen".into() })?;
    Ok(ToolResult::done("looked"))
}

fn main() {
    let _ = Tool::new("look", "Look.", look);
}
