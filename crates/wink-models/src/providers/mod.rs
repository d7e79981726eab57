//! Providers: models behind an HTTP API.
//!
//! Three wire formats, each a module that turns a request into a body and an answer into a response, and knows nothing of
//! connections; and one [`Provider`] around them, which sends, bounds, cancels and maps errors, the same way for all. They are
//! written by hand: the crates of the field decode a call's arguments and write them anew, where the executor has to see what the
//! model wrote; they bound neither answers nor streams; and each has errors of its own. HTTP and TLS are `reqwest`'s.
//!
//! ```no_run
//! use wink_models::providers::{Endpoint, openai};
//!
//! let endpoint = Endpoint::new("http://127.0.0.1:8080/v1").key("a key".to_owned());
//! let model = openai::Chat::new("a-model").at(endpoint)?;
//! # Ok::<(), wink_models::providers::SetupError>(())
//! ```

mod again;
pub mod anthropic;
mod api;
mod arguments;
mod body;
mod endpoint;
mod error;
mod estimate;
mod http;
mod lenient;
pub mod openai;
mod provider;
mod secrets;
mod told;

pub use endpoint::{Endpoint, SetupError, Streaming};
pub use provider::Provider;
