//! What the log keeps of a call: all of it, up to a bound. Nothing is copied that is within the bound.

use std::sync::Arc;

use super::Shared;
use crate::prompt::{Prompt, RenderedPrompt};
use crate::session::{ErasedValue, LoggedParams, LoggedValue, PromptRendered, RenderedTool, ToolsRendered};
use crate::tool::AnyTool;
use crate::tool::render::bounded;

/// Whether the log keeps only the beginning of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IsCut {
    Yes,
    No,
}

impl Shared {
    /// A text as the log keeps it.
    pub(super) fn logged(&self, text: &Arc<str>) -> Arc<str> {
        match text.len() <= self.limits.max_logged_bytes {
            true => Arc::clone(text),
            false => bounded(text, self.limits.max_logged_bytes).into(),
        }
    }

    /// The same for a text that is handed over. The empty one is shared, not allocated.
    pub(super) fn logged_text(&self, text: String) -> Arc<str> {
        match text.len() {
            0 => Arc::default(),
            bytes if bytes <= self.limits.max_logged_bytes => text.into(),
            _ => bounded(&text, self.limits.max_logged_bytes).into(),
        }
    }

    pub(super) fn logged_params(&self, params: LoggedParams) -> LoggedParams {
        match params {
            LoggedParams::Accepted(text) if text.len() <= self.limits.max_logged_bytes => {
                LoggedParams::Accepted(text)
            }
            LoggedParams::Accepted(text) => LoggedParams::Accepted(self.logged(&text)),
            LoggedParams::Rejected { raw, problems } => {
                LoggedParams::Rejected { raw: self.logged(&raw), problems: self.logged(&problems) }
            }
        }
    }

    /// Says in the log what the model sees from now on. What it saw already is not said again: an executor may be
    /// opened for every request.
    pub(super) fn record_rendered(&self, prompt: &Prompt, rendered: &RenderedPrompt) {
        let tools = rendered.tools().iter().map(|placed| Arc::clone(placed.tool.name())).collect();
        let time = self.session.clock().now();
        let event = PromptRendered {
            id: self.session.fresh_id(time),
            run: Arc::clone(&self.around.load().run),
            prompt: Arc::clone(prompt.name()),
            time,
            text: match &self.withhold {
                Some(withhold) => self.logged_text(withhold.text(rendered.text())),
                None => self.logged(&rendered.shared_text()),
            },
            tools,
        };
        let known = self.session.counted::<PromptRendered>([&event.prompt, &event.prompt]);
        let known = known.and_then(|(_, latest)| latest);
        if known.is_some_and(|known| known.text == event.text && known.tools == event.tools) {
            return;
        }
        let described = rendered.tools().iter().map(|placed| described(&placed.tool)).collect();
        let tools = ToolsRendered {
            id: event.id,
            run: Arc::clone(&event.run),
            prompt: Arc::clone(&event.prompt),
            time,
            tools: described,
        };
        for recorded in [self.session.dispatch(event), self.session.dispatch(tools)] {
            if !recorded.is_ok() {
                tracing::warn!(?recorded, "that a prompt was rendered was recorded with failures");
            }
        }
    }

    /// An error and its causes: together within the bound, the outermost first.
    pub(super) fn logged_chain(&self, mut chain: Vec<String>) -> Vec<String> {
        bound_chain(&mut chain, self.limits.max_logged_bytes);
        chain
    }

    /// What the log keeps of a value: all of it, or the beginning of its JSON, as text. A durable session keeps it as JSON
    /// from here on: log, store and ledger have the same, whatever becomes of the value itself.
    ///
    /// # Errors
    /// When the value cannot be written as JSON.
    pub(super) fn logged_value(&self, value: &Arc<dyn ErasedValue>) -> Result<(LoggedValue, IsCut), String> {
        let max = self.limits.max_logged_bytes;
        let Some(mut text) = value.as_ref().beginning(max)? else {
            let whole = match self.session.is_durable() {
                true => LoggedValue::Json(Arc::new(value.as_ref().to_json()?)),
                false => LoggedValue::Typed(Arc::clone(value)),
            };
            return Ok((whole, IsCut::No));
        };
        let marker = format!("\n[value cut: the log keeps {max} bytes of it]");
        text.truncate(text.floor_char_boundary(max.saturating_sub(marker.len())));
        text.push_str(&marker);
        Ok((LoggedValue::Json(Arc::new(text.into())), IsCut::Yes))
    }
}

fn described(tool: &AnyTool) -> RenderedTool {
    let contract = tool.contract();
    RenderedTool {
        name: Arc::clone(contract.name()),
        description: contract.description().into(),
        schema: blake3::hash(contract.schema_text().as_bytes()).to_hex().as_str().into(),
    }
}

pub(super) fn bound_chain(chain: &mut Vec<String>, max: usize) {
    let mut room = max;
    let mut kept = 0;
    for text in chain.iter_mut() {
        if room == 0 {
            break;
        }
        if text.len() > room {
            *text = bounded(text, room).into_owned();
        }
        room = room.saturating_sub(text.len());
        kept += 1;
    }
    chain.truncate(kept);
}
