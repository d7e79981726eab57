//! Token budgets, and the tracker that several evaluations can share.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::support::lock::lock;

/// Tokens that were used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Tokens sent to the model.
    #[serde(default)]
    pub input_tokens: u64,
    /// Tokens that the model wrote.
    #[serde(default)]
    pub output_tokens: u64,
    /// Of the input, those that came from the provider's cache.
    #[serde(default)]
    pub cached_tokens: u64,
}

impl TokenUsage {
    /// This much input and output.
    #[must_use]
    pub fn new(input_tokens: u64, output_tokens: u64) -> Self {
        Self { input_tokens, output_tokens, cached_tokens: 0 }
    }

    /// Input and output together.
    #[must_use]
    pub fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
        }
    }
}

/// What a budget limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetDimension {
    /// Input and output together.
    TotalTokens,
    /// Input.
    InputTokens,
    /// Output.
    OutputTokens,
}

impl fmt::Display for BudgetDimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TotalTokens => "total tokens",
            Self::InputTokens => "input tokens",
            Self::OutputTokens => "output tokens",
        })
    }
}

/// Limits on tokens: at least one, each positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BudgetLimits", into = "BudgetLimits")]
pub struct Budget(BudgetLimits);

/// The limits of a [`Budget`], as they are written down. A limit that is not set does not limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetLimits {
    /// The most input and output together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_total_tokens: Option<i64>,
    /// The most input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_input_tokens: Option<i64>,
    /// The most output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<i64>,
}

impl Budget {
    /// A budget with these limits.
    ///
    /// # Errors
    /// When none is set, or one is not positive.
    pub fn new(limits: BudgetLimits) -> Result<Self, InvalidBudget> {
        let budget = Self(limits);
        if budget.limits().all(|(_, limit)| limit.is_none()) {
            return Err(InvalidBudget::NoLimit);
        }
        for (dimension, limit) in budget.limits() {
            if let Some(limit) = limit
                && limit <= 0
            {
                return Err(InvalidBudget::NotPositive { dimension, limit });
            }
        }
        Ok(budget)
    }

    /// A budget that limits input and output together.
    ///
    /// # Errors
    /// When the limit is not positive.
    pub fn total(max_total_tokens: i64) -> Result<Self, InvalidBudget> {
        Self::new(BudgetLimits { max_total_tokens: Some(max_total_tokens), ..BudgetLimits::default() })
    }

    /// `Ok` when `used` is within every limit; exactly at a limit is within.
    ///
    /// # Errors
    /// The first limit that is exceeded.
    pub fn check(&self, used: TokenUsage) -> Result<(), BudgetExceededError> {
        for (dimension, limit) in self.limits() {
            let used = match dimension {
                BudgetDimension::TotalTokens => used.total(),
                BudgetDimension::InputTokens => used.input_tokens,
                BudgetDimension::OutputTokens => used.output_tokens,
            };
            if let Some(limit) = limit.and_then(|limit| u64::try_from(limit).ok())
                && used > limit
            {
                return Err(BudgetExceededError { dimension, limit, used });
            }
        }
        Ok(())
    }

    fn limits(&self) -> impl Iterator<Item = (BudgetDimension, Option<i64>)> {
        [
            (BudgetDimension::TotalTokens, self.0.max_total_tokens),
            (BudgetDimension::InputTokens, self.0.max_input_tokens),
            (BudgetDimension::OutputTokens, self.0.max_output_tokens),
        ]
        .into_iter()
    }
}

impl TryFrom<BudgetLimits> for Budget {
    type Error = InvalidBudget;

    fn try_from(limits: BudgetLimits) -> Result<Self, InvalidBudget> {
        Self::new(limits)
    }
}

impl From<Budget> for BudgetLimits {
    fn from(budget: Budget) -> Self {
        budget.0
    }
}

/// Why limits are no budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidBudget {
    /// None is set.
    #[error("a budget needs at least one limit: total, input or output tokens")]
    NoLimit,
    /// One is zero or less.
    #[error("the limit of {dimension} must be positive, but is {limit}")]
    NotPositive {
        /// Which.
        dimension: BudgetDimension,
        /// Its value.
        limit: i64,
    },
}

/// More tokens were used than the budget has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("the budget of {limit} {dimension} is exceeded: {used} used")]
pub struct BudgetExceededError {
    /// What ran out.
    pub dimension: BudgetDimension,
    /// How much there was.
    pub limit: u64,
    /// How much was used.
    pub used: u64,
}

/// Counts what evaluations use against one budget. Clones share their counts.
#[derive(Debug, Clone)]
pub struct BudgetTracker {
    budget: Budget,
    used: Arc<Mutex<Used>>,
}

#[derive(Debug, Default)]
struct Used {
    whole: TokenUsage,
    by_evaluation: HashMap<String, TokenUsage>,
}

impl BudgetTracker {
    /// A tracker with nothing used.
    #[must_use]
    pub fn new(budget: Budget) -> Self {
        Self { budget, used: Arc::default() }
    }

    /// The budget.
    #[must_use]
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// Adds what one response of `evaluation` used.
    pub fn record(&self, evaluation: &str, usage: TokenUsage) {
        let mut used = lock(&self.used);
        used.whole = used.whole.plus(usage);
        match used.by_evaluation.get_mut(evaluation) {
            Some(known) => *known = known.plus(usage),
            None => {
                used.by_evaluation.insert(evaluation.to_owned(), usage);
            }
        }
    }

    /// What all evaluations used.
    #[must_use]
    pub fn used(&self) -> TokenUsage {
        lock(&self.used).whole
    }

    /// What one evaluation used.
    #[must_use]
    pub fn used_by(&self, evaluation: &str) -> TokenUsage {
        lock(&self.used).by_evaluation.get(evaluation).copied().unwrap_or_default()
    }

    /// What one evaluation and those below it used, whose names begin with its own and a slash.
    #[must_use]
    pub fn used_under(&self, evaluation: &str) -> TokenUsage {
        let used = lock(&self.used);
        let below = |name: &str| {
            name.strip_prefix(evaluation).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let under = used.by_evaluation.iter().filter(|(name, _)| below(name));
        under.fold(TokenUsage::default(), |sum, (_, usage)| sum.plus(*usage))
    }

    /// `Ok` while all evaluations together are within the budget.
    ///
    /// # Errors
    /// The first limit that is exceeded.
    pub fn check(&self) -> Result<(), BudgetExceededError> {
        self.budget.check(self.used())
    }
}
