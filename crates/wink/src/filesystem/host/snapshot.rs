//! Snapshots.
use serde_json::Value;

use super::Shared;
use crate::filesystem::{FsError, FsResult, FsSnapshot};

impl Shared {
    pub(super) fn snapshot(&self) -> FsResult<FsSnapshot> {
        Err(FsError::Unsupported { operation: "snapshot" })
    }
    pub(super) fn restore(&self, _: &FsSnapshot) -> FsResult<()> {
        Err(FsError::Unsupported { operation: "snapshot" })
    }
    pub(super) fn decode_snapshot(&self, _: &Value) -> FsResult<FsSnapshot> {
        Err(FsError::Unsupported { operation: "snapshot" })
    }
}
