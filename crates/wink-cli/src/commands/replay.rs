//! `wink replay`: a recorded run once more, without its model, on a copy of the workspace.
use crate::args::{Common, ReplayArgs};
use crate::frame::Done;

pub(super) async fn run(_: &Common, _: &ReplayArgs) -> Done { Ok(crate::frame::Exit::Success) }
