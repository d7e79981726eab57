//! What an answer cost whose server does not say: without a number, no budget would ever be used up.

use wink::limits::TokenUsage;

use crate::ModelResponse;

/// Of English text and of code, a token is about this long.
const BYTES_PER_TOKEN: u64 = 4;

/// A count that the server did not say. It is estimated before the response is handed on.
pub(super) const UNSAID: u64 = u64::MAX;

/// The tokens of a request of so many bytes and of the response to it: all that was sent, as providers count it, and all that came,
/// with nothing cached. A number that is too high stops a run too early, and not too late.
pub(super) fn usage(sent: usize, response: &ModelResponse) -> TokenUsage {
    let called = response.calls.iter().map(|call| call.name.len() + call.arguments.len());
    let came = response.text.len() + called.sum::<usize>();
    TokenUsage { input_tokens: tokens(sent), output_tokens: tokens(came), cached_tokens: 0 }
}

fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX).div_ceil(BYTES_PER_TOKEN)
}
