//! The body of a request: as long as it may be, as soon as it must be, and in no more memory than there is for it.

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};

use super::HttpOptions;
use crate::room::{Full, Taken};

/// A body that is not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error("a message has at most {0} bytes")]
    TooLong(usize),
    #[error("the body took too long")]
    TooSlow,
    #[error("the body could not be read")]
    Broken,
    #[error(transparent)]
    Full(#[from] Full),
}

impl BodyError {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::TooLong(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken => StatusCode::BAD_REQUEST,
            Self::Full(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// Reads a body. One that is announced as too long, or for which there is no room, is not waited for.
pub(super) async fn read(
    body: Incoming,
    options: &HttpOptions,
    room: &mut Taken,
) -> Result<Bytes, BodyError> {
    let most = options.server.max_message_bytes;
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > most {
        return Err(BodyError::TooLong(most));
    }
    room.for_bytes(announced)?;
    let clock = &options.server.clock;
    let late = clock.sleep_until(clock.monotonic().saturating_add(options.body_within));
    tokio::select! {
        biased;
        read = collect(body, most, announced, room) => read,
        () = late => Err(BodyError::TooSlow),
    }
}

async fn collect(
    mut body: Incoming,
    most: usize,
    announced: usize,
    room: &mut Taken,
) -> Result<Bytes, BodyError> {
    let mut read = Vec::with_capacity(announced);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| BodyError::Broken)?;
        let Some(piece) = frame.data_ref() else { continue };
        let length = read.len().saturating_add(piece.len());
        if length > most {
            return Err(BodyError::TooLong(most));
        }
        // One that was not announced grows.
        room.for_bytes(length)?;
        read.extend_from_slice(piece);
    }
    Ok(read.into())
}
