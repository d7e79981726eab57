//! Snapshots that are taken and restored explicitly. Going back is one transaction like any other: files change by a
//! journal, and the batch that has the session's records decides about both.

use std::fmt;

use super::RestoreFailedError;
use super::snapshot::{CompositeSnapshot, ResourcePart};
use crate::resource::{MergeUndo, ResourceContext, ResourceError, ResourceSnapshot};
use crate::session::{Closing, Fork, Session};
use crate::support::background::{MustFinish, off_this_thread};

/// What [`restore_snapshot`] did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoreOutcome {
    /// The resources of the snapshot that are not there any more.
    pub skipped: Vec<String>,
}

/// Marks the present state of the session and of every snapshotable resource that exists.
///
/// # Errors
/// When a resource cannot be snapshotted.
pub async fn create_snapshot(
    session: &Session,
    resources: &ResourceContext,
    tag: impl Into<String>,
) -> Result<CompositeSnapshot, ResourceError> {
    // Not between the two halves of somebody's commit, of this session or of another with the same resources.
    let _one_at_a_time = (session.committing().await, resources.merging().await);
    let parts = resources.snapshot_all()?;
    Ok(CompositeSnapshot::new(session.snapshot(), parts, session.clock().now(), tag.into()))
}

/// Goes back to `snapshot`: STATE slices and every resource that it has, or nothing at all, also if the process dies
/// meanwhile. LOG stays, and so do resources that are not snapshotable. A resource that is missing here is skipped, and
/// reported. Once it is on its way it is finished, even if nobody waits for it any more.
///
/// # Errors
/// When something cannot be restored, or the store does not take it. What was restored before is put back; if that
/// fails as well, the error says so.
pub async fn restore_snapshot(
    session: &Session,
    resources: &ResourceContext,
    snapshot: &CompositeSnapshot,
) -> Result<RestoreOutcome, RestoreFailedError> {
    let (session, resources, snapshot) = (session.clone(), resources.clone(), snapshot.clone());
    MustFinish::new(async move { restore(&session, &resources, &snapshot).await }).await
}

async fn restore(
    session: &Session,
    resources: &ResourceContext,
    snapshot: &CompositeSnapshot,
) -> Result<RestoreOutcome, RestoreFailedError> {
    let (committing, _merging) = (session.committing().await, resources.merging().await);
    let (parts, mut skipped) = readable_parts(resources, snapshot)?;
    let (restoring, missing) = resources.restoring(&parts).map_err(failed)?;
    skipped.extend(missing);
    let merged = match restoring.blocks() {
        false => restoring.merge(),
        true => off_this_thread(move || restoring.merge()).await,
    };
    let merged = merged.map_err(failed)?;
    let before = session.remember();
    if let Err(error) = session.restore(&snapshot.session) {
        return Err(put_back(merged, error).await);
    }
    // Whatever else is in memory goes with it, as with every commit.
    let closing = Closing { journals: merged.journals(), ..Closing::default() };
    match session.commit(&committing, Fork::default(), closing).await {
        Ok(()) => {
            match merged.blocks() {
                false => merged.keep(),
                true => off_this_thread(move || merged.keep()).await,
            }
            Ok(RestoreOutcome { skipped })
        }
        Err(error) => {
            // What the store refused is not in memory either.
            session.put_back(before, &committing);
            Err(put_back(merged, error).await)
        }
    }
}

/// Snapshots by the names of their resources.
type Resources = Vec<(String, ResourceSnapshot)>;

/// The parts in the types of the resources here, and the names of those that are not here.
fn readable_parts(
    resources: &ResourceContext,
    snapshot: &CompositeSnapshot,
) -> Result<(Resources, Vec<String>), RestoreFailedError> {
    let (mut parts, mut missing) = (Vec::new(), Vec::new());
    for (name, part) in &snapshot.resources {
        let part = match part {
            ResourcePart::Ready(part) => Some(part.clone()),
            ResourcePart::Unread(json) => resources.decode_snapshot(name, json).map_err(failed)?,
        };
        match part {
            Some(part) => parts.push((name.clone(), part)),
            None => missing.push(name.clone()),
        }
    }
    Ok((parts, missing))
}

async fn put_back(merged: MergeUndo, cause: impl fmt::Display) -> RestoreFailedError {
    let undone = match merged.blocks() {
        false => merged.undo(),
        true => off_this_thread(move || merged.undo()).await,
    };
    let reason = match undone {
        Ok(()) => cause.to_string(),
        Err(error) => format!("{cause}; putting the resources back failed as well: {error}"),
    };
    RestoreFailedError { reason }
}

fn failed(error: ResourceError) -> RestoreFailedError {
    RestoreFailedError { reason: error.to_string() }
}
