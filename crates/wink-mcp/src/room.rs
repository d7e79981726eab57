//! How much memory messages may take while they are on their way.
//!
//! What a message will take is reckoned before anything is made of it: its bytes, which are kept a few times over, and the
//! values in it, each of which is many times as large as the two bytes that it can be written with.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A message of more bytes is a large one. Smaller ones are bounded by how many there may be.
pub(crate) const LARGE: usize = 64 * 1024;
/// How often the bytes of a message are there at a time: as they came, as arguments, in the event, for the store.
const COPIES: usize = 4;
/// What a decoded value takes.
const VALUE: usize = 80;
/// Room is handed out in pieces of this many bytes.
const PIECE: usize = 1024;

/// The room that there is.
#[derive(Debug, Clone)]
pub(crate) struct Rooms {
    free: Arc<Semaphore>,
    all: u32,
}

/// There is no room now. It is there again when messages have been answered.
#[derive(Debug, thiserror::Error)]
#[error("too many large messages are on their way; try again when they are answered")]
pub(crate) struct Full;

impl Rooms {
    pub(crate) fn new(bytes: usize) -> Self {
        let all = pieces(bytes).max(1);
        Self { free: Arc::new(Semaphore::new(usize::try_from(all).unwrap_or(1))), all }
    }

    /// Nothing yet.
    pub(crate) fn none(&self) -> Taken {
        Taken { rooms: self.clone(), permit: None, bytes: 0, values: 0 }
    }
}

/// Room for a message that is being read.
#[derive(Debug)]
pub(crate) struct Taken {
    rooms: Rooms,
    permit: Option<OwnedSemaphorePermit>,
    bytes: usize,
    values: usize,
}

impl Taken {
    /// Takes what a message of this many bytes needs.
    pub(crate) fn for_bytes(&mut self, bytes: usize) -> Result<(), Full> {
        self.bytes = self.bytes.max(bytes);
        self.take()
    }

    /// Takes what the values in it need, once they are counted.
    pub(crate) fn for_values(&mut self, values: usize) -> Result<(), Full> {
        self.values = self.values.max(values);
        self.take()
    }

    /// Kept by whoever keeps anything of the message.
    pub(crate) fn keep(self) -> Room {
        Room { _permit: self.permit.map(Arc::new) }
    }

    fn take(&mut self) -> Result<(), Full> {
        if self.bytes <= LARGE {
            return Ok(());
        }
        let needed = self.bytes.saturating_mul(COPIES).saturating_add(self.values.saturating_mul(VALUE));
        // One that needs more than there is goes alone.
        let needed = pieces(needed).min(self.rooms.all);
        let had = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = needed.saturating_sub(u32::try_from(had).unwrap_or(u32::MAX));
        if more == 0 {
            return Ok(());
        }
        let more = Arc::clone(&self.rooms.free).try_acquire_many_owned(more).map_err(|_| Full)?;
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            None => self.permit = Some(more),
        }
        Ok(())
    }
}

/// Room that is given back when nobody keeps it any more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Room {
    _permit: Option<Arc<OwnedSemaphorePermit>>,
}

fn pieces(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn free(rooms: &Rooms) -> usize {
        rooms.free.available_permits() * PIECE
    }

    #[test]
    fn room_is_taken_by_bytes_and_values_and_given_back() {
        let rooms = Rooms::new(100 * MIB);
        let mut small = rooms.none();
        small.for_bytes(LARGE).unwrap();
        small.for_values(LARGE / 2).unwrap();
        assert_eq!(free(&rooms), 100 * MIB);
        let mut taken = rooms.none();
        // It grows while it is read.
        for bytes in [LARGE, 2 * LARGE, MIB, 10 * MIB] {
            taken.for_bytes(bytes).unwrap();
        }
        assert_eq!(free(&rooms), 60 * MIB);
        taken.for_values(MIB / 4).unwrap();
        assert_eq!(free(&rooms), 40 * MIB);
        let mut second = rooms.none();
        assert!(second.for_bytes(11 * MIB).is_err());
        second.for_bytes(11 * MIB).unwrap_err();
        let kept = taken.keep();
        let other = kept.clone();
        drop(kept);
        assert_eq!(free(&rooms), 40 * MIB);
        drop(other);
        assert_eq!(free(&rooms), 100 * MIB);
    }

    #[test]
    fn one_that_needs_more_than_there_is_goes_alone() {
        let rooms = Rooms::new(MIB);
        let mut one = rooms.none();
        one.for_bytes(10 * MIB).unwrap();
        assert!(rooms.none().for_bytes(LARGE + 1).is_err());
        drop(one);
        assert!(rooms.none().for_bytes(LARGE + 1).is_ok());
    }
}
