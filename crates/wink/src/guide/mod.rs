//! The guide: one page per topic, with examples that are run as tests.
//!
//! Read [contracts], [context] and [results] first; with these three a tool can be written. The others
//! stand on their own.
//!
//! | page | what it answers |
//! | --- | --- |
//! | [contracts] | What is a tool, what is the model told, and which arguments are accepted? |
//! | [context] | What can a handler see and change? |
//! | [results] | What does a handler return, and what does the model read? |
//! | [examples] | How is a model shown what a call looks like? |
//! | [answers] | How is a model's last answer typed and checked? Who says that the work is done? |
//! | [overrides] | How are the words of a prompt changed without touching code? |
//! | [suites] | How are tools, guidance, state and policies kept together? Which suites are there? |
//! | [transactions] | What is rolled back, and what is not? |
//! | [durability] | What survives the process, on what ground, and what is in doubt after it? |
//! | [protection] | Which isolation and which protection is there, in which environment? |
//! | [policies] | Who decides whether a call may run? |
//! | [idempotency] | How is an effect kept from happening twice? |
//! | [scopes] | How long do clients, connections and other resources live? |
//! | [batches] | What happens to several calls in one turn? |
//! | [testing_tools] | How is a tool tested, alone and with faults? |
//! | [practices] | What is worth doing in every tool? |

#[doc = include_str!("answers.md")]
pub mod answers {}
#[doc = include_str!("batches.md")]
pub mod batches {}
#[doc = include_str!("context.md")]
pub mod context {}
#[doc = include_str!("contracts.md")]
pub mod contracts {}
// Its examples use `wink-store`, which runs them as its own tests.
#[cfg_attr(not(doctest), doc = include_str!("durability.md"))]
pub mod durability {}
#[doc = include_str!("examples.md")]
pub mod examples {}
#[doc = include_str!("idempotency.md")]
pub mod idempotency {}
#[doc = include_str!("overrides.md")]
pub mod overrides {}
#[doc = include_str!("policies.md")]
pub mod policies {}
#[doc = include_str!("practices.md")]
pub mod practices {}
#[doc = include_str!("protection.md")]
pub mod protection {}
#[doc = include_str!("results.md")]
pub mod results {}
#[doc = include_str!("scopes.md")]
pub mod scopes {}
#[doc = include_str!("suites.md")]
pub mod suites {}
#[doc = include_str!("testing_tools.md")]
pub mod testing_tools {}
#[doc = include_str!("transactions.md")]
pub mod transactions {}
