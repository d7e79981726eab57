//! A prompt as the model is given it.

use std::fmt;
use std::sync::Arc;

use super::disclosure::OPEN_SECTIONS;
use super::output::OutputContract;
use super::placed::PlacedTool;
use crate::support::names::{ByName, LONGEST_NAME};

/// A rendered prompt: the text, and the tools that can be called. It never changes.
#[derive(Debug)]
pub struct RenderedPrompt {
    text: Arc<str>,
    tools: Vec<PlacedTool>,
    places: ByName<Place>,
    closed: Vec<Arc<str>>,
    output: Option<OutputContract>,
    /// Where the text about the output begins.
    sections_end: usize,
}

/// Why a tool of the prompt is not available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hidden {
    /// A section is disabled.
    Disabled {
        /// The section, by dotted path.
        section: Arc<str>,
    },
    /// A section shows only its summary: open it to use its tools.
    Closed {
        /// The section, by dotted path.
        section: Arc<str>,
    },
    /// It opens or reads closed sections, and there are none.
    NothingClosed,
}

impl fmt::Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled { section } => write!(f, "section {section} is disabled"),
            Self::NothingClosed => f.write_str("no section is closed"),
            Self::Closed { section } => {
                write!(
                    f,
                    "section {section} is closed; call {OPEN_SECTIONS} with section_keys [\"{section}\"] first"
                )
            }
        }
    }
}

#[derive(Debug)]
enum Place {
    At(usize),
    Hidden(Hidden),
}

impl RenderedPrompt {
    pub(crate) fn new(
        text: String,
        tools: Vec<PlacedTool>,
        hidden: Vec<(Arc<str>, Hidden)>,
        closed: Vec<Arc<str>>,
    ) -> Self {
        let shown = tools.iter().enumerate().map(|(at, placed)| (Arc::clone(placed.name()), Place::At(at)));
        let hidden = hidden.into_iter().map(|(name, why)| (name, Place::Hidden(why)));
        let places = hidden.chain(shown).collect();
        let sections_end = text.len();
        Self { text: text.into(), tools, places, closed, output: None, sections_end }
    }

    /// With a last part that says what the answer must be.
    pub(crate) fn with_output(self, output: OutputContract, told: &str) -> Self {
        Self { text: format!("{}{told}", self.text).into(), output: Some(output), ..self }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text, to be kept without copying it.
    pub fn shared_text(&self) -> Arc<str> {
        Arc::clone(&self.text)
    }

    /// The text without the last section, which says what the answer must be: for whoever has another way to say that.
    pub fn text_without_output(&self) -> &str {
        self.text.get(..self.sections_end).unwrap_or_default()
    }

    /// What the answer must be, unless it is just text.
    pub fn output(&self) -> Option<&OutputContract> {
        self.output.as_ref()
    }

    /// The tools that can be called, in order of declaration; the built-in ones last.
    pub fn tools(&self) -> &[PlacedTool] {
        &self.tools
    }

    /// The tool of this name, if it can be called.
    pub fn find(&self, name: &str) -> Option<&PlacedTool> {
        match self.place(name)? {
            Place::At(at) => self.tools.get(*at),
            Place::Hidden(_) => None,
        }
    }

    /// Why a tool that the prompt has cannot be called. None for one that can, and for one that it does not have.
    pub fn hidden(&self, name: &str) -> Option<&Hidden> {
        match self.place(name)? {
            Place::At(_) => None,
            Place::Hidden(why) => Some(why),
        }
    }

    /// The sections that show only their summary, by dotted path, in order.
    pub fn closed_sections(&self) -> &[Arc<str>] {
        &self.closed
    }

    fn place(&self, name: &str) -> Option<&Place> {
        if name.len() > LONGEST_NAME { None } else { self.places.get(name) }
    }
}
