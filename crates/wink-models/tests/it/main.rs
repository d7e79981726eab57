//! The integration tests of this crate, as one program: each file is a module, and what has to be alone in a process is a program of its
//! own beside this directory.

mod answers;
#[cfg(all(feature = "claude", target_os = "linux"))]
#[path = "../support/claude_subject.rs"]
mod claude_subject;
#[cfg(feature = "http")]
mod provider_support;
#[path = "../support/mod.rs"]
mod support;

mod claude_contract;
mod claude_process;
mod claude_recorded;
#[cfg(feature = "http")]
mod compatibility;
mod dialect;
mod evaluate;
mod fuzz_corpus;
mod killed;
#[cfg(feature = "http")]
mod litellm;
#[cfg(feature = "http")]
mod local_model;
mod loops;
#[cfg(feature = "http")]
mod odd_answers;
#[cfg(feature = "http")]
mod provider_answers;
#[cfg(feature = "http")]
mod provider_renders;
#[cfg(feature = "http")]
mod provider_requests;
#[cfg(feature = "http")]
mod provider_secrets;
mod recorded_stops;
mod resume;
mod scripts;
mod sse;
mod sub_agents;
mod typed;
