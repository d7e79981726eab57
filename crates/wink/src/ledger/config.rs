//! What a tool says of its effects: how a key is made, how long it counts, and what to do when in doubt.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::BoxFuture;
use crate::resource::BoxError;

/// How a call's key is made.
#[derive(Clone)]
pub enum KeyStrategy {
    /// From all parameters.
    Auto,
    /// From these parameters only.
    Params(Vec<String>),
    /// By a function of the parameters (as JSON).
    Custom(Arc<dyn Fn(&Value) -> Result<String, String> + Send + Sync>),
    /// Not at all: the tool always runs.
    None,
}

impl std::fmt::Debug for KeyStrategy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("Auto"),
            Self::Params(fields) => f.debug_tuple("Params").field(fields).finish(),
            Self::Custom(_) => f.write_str("Custom(..)"),
            Self::None => f.write_str("None"),
        }
    }
}

/// Where a key counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum LedgerScope {
    /// In its session.
    #[default]
    Session,
    /// Everywhere.
    Global,
    /// Wherever this name is used.
    Named(String),
}

/// What a [probe](WhenInDoubt::Probe) found out.
#[derive(Debug, Clone, PartialEq)]
pub enum Probed {
    /// The effect happened; this is its message and value.
    Happened {
        /// The message for the model.
        message: String,
        /// The value, as JSON.
        value: Option<Value>,
        /// Whether the value is kept from the model.
        exclude_value_from_context: bool,
    },
    /// It did not happen: run the tool.
    DidNotHappen,
    /// It cannot be known yet.
    Unknown,
}

/// Asks the outside world whether an effect happened. Gets the key and the parameters as JSON.
pub type Probe = dyn Fn(String, Value) -> BoxFuture<'static, Result<Probed, BoxError>> + Send + Sync;

/// What to do with a call whose earlier try may or may not have had its effect.
#[derive(Clone, Default)]
pub enum WhenInDoubt {
    /// Fail, with the reason.
    #[default]
    Fail,
    /// Run it again.
    RunAgain,
    /// Ask the approver.
    Ask,
    /// Ask the outside world.
    Probe(Arc<Probe>),
}

impl std::fmt::Debug for WhenInDoubt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Fail => "Fail",
            Self::RunAgain => "RunAgain",
            Self::Ask => "Ask",
            Self::Probe(_) => "Probe(..)",
        })
    }
}

/// How a tool's effect is kept from happening twice.
#[derive(Debug, Clone)]
#[must_use = "a config does nothing until a tool has it"]
pub struct IdempotencyConfig {
    pub(crate) strategy: KeyStrategy,
    pub(crate) ttl: Option<Duration>,
    pub(crate) scope: LedgerScope,
    pub(crate) when_in_doubt: WhenInDoubt,
    pub(crate) reach: Reach,
}

/// Where the effect is that is to happen once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Outside, where nothing is undone: a call that was stopped may have had it.
    Outside,
    /// In what the call's transaction undoes: a call that was rolled back has had none.
    Inside,
}

/// How long a recorded effect counts unless told otherwise.
const DEFAULT_TTL: Duration = Duration::from_secs(24 * 60 * 60);

impl IdempotencyConfig {
    /// A config with this strategy, for one session, for 24 hours.
    pub fn new(strategy: KeyStrategy) -> Self {
        Self {
            strategy,
            ttl: Some(DEFAULT_TTL),
            scope: LedgerScope::default(),
            when_in_doubt: WhenInDoubt::default(),
            reach: Reach::Outside,
        }
    }

    /// A key from all parameters.
    pub fn auto() -> Self {
        Self::new(KeyStrategy::Auto)
    }

    /// A key from these parameters only.
    pub fn params<S: Into<String>>(fields: impl IntoIterator<Item = S>) -> Self {
        Self::new(KeyStrategy::Params(fields.into_iter().map(Into::into).collect()))
    }

    /// A key of your own.
    ///
    /// ```compile_fail
    /// // Without a function there is no key.
    /// let config = wink::ledger::IdempotencyConfig::custom();
    /// ```
    pub fn custom(key: impl Fn(&Value) -> Result<String, String> + Send + Sync + 'static) -> Self {
        Self::new(KeyStrategy::Custom(Arc::new(key)))
    }

    /// For a request that may be sent again within `ttl`.
    pub(crate) fn of_a_request(ttl: Duration, reach: Reach) -> Self {
        Self { ttl: Some(ttl), reach, ..Self::auto() }
    }

    /// The same for a call whose effect is there.
    pub(crate) fn reaching(self, reach: Reach) -> Self {
        Self { reach, ..self }
    }

    /// How long a recorded effect counts; forever, if `None`.
    pub fn ttl(mut self, ttl: Option<Duration>) -> Self {
        self.ttl = ttl;
        self
    }

    /// Where the key counts.
    pub fn scope(mut self, scope: LedgerScope) -> Self {
        self.scope = scope;
        self
    }

    /// What to do when it cannot be known whether an earlier try had its effect.
    pub fn when_in_doubt(mut self, what: WhenInDoubt) -> Self {
        self.when_in_doubt = what;
        self
    }
}
