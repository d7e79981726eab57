//! Prompts: a tree of sections with everything that belongs to them, checked once, rendered as often as needed.
//!
//! A [`Section`] carries text, tools, policies and resources; a [`PromptTemplate`] is a checked tree of them; a
//! [`Prompt`] is a template with params, resources and further sections bound to it; a [`RenderedPrompt`] is what
//! the model is given. An [`Output`] says what the model's answer must be, [`Overrides`] replace texts without touching
//! code, a [`TaskExample`] shows how a task is done. Rendering is pure: it does no I/O, reads no clock and changes nothing. Nothing here runs a
//! tool or decides whether one may run.

mod bind;
mod disclosure;
mod error;
mod examples;
mod output;
mod overrides;
mod params;
mod placed;
mod render;
mod rendered;
mod section;
mod task;
mod template;
mod text;
mod tree;
mod view;
mod visibility;

pub use bind::{Prompt, PromptBinding};
pub use disclosure::{OPEN_SECTIONS, READ_SECTION};
pub use error::{PromptRenderError, PromptValidationError};
pub use output::{Container, ExtraKeys, Output, OutputContract, OutputError, OutputErrorKind, ParsedOutput};
#[cfg(unix)]
pub use overrides::{LocalOverrides, Seeded};
pub use overrides::{
    Override, OverrideError, OverrideExample, OverridePart, Overrides, PartState, PartValue, PromptDescriptor,
};
pub use params::PromptParams;
pub use placed::{PlacedSection, PlacedTool};
pub use rendered::{Hidden, RenderedPrompt};
pub use section::{Section, SectionKind};
pub use task::TaskExample;
pub use template::{PromptTemplate, PromptTemplateBuilder};
pub use text::{StrayDollar, Text};
pub use view::SessionView;
pub use visibility::{SectionVisibility, Visibility, record_expansion};
