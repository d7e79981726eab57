//! How far a call is, as its client is told.

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;

use crate::running::Report;

/// Tells a client how far its call is, if it asked to be told.
pub(crate) struct Reports<'a> {
    peer: &'a Peer<RoleServer>,
    token: Option<ProgressToken>,
    last: Option<f64>,
}

impl<'a> Reports<'a> {
    pub(crate) fn to(peer: &'a Peer<RoleServer>, token: Option<ProgressToken>) -> Self {
        Self { peer, token, last: None }
    }

    pub(crate) async fn tell(&mut self, report: Report) {
        let Some(token) = &self.token else { return };
        // What is told only ever grows, whatever a handler says.
        if !report.done.is_finite() || self.last.is_some_and(|last| report.done <= last) {
            return;
        }
        self.last = Some(report.done);
        let mut told = ProgressNotificationParam::new(token.clone(), report.done);
        if let Some(total) = report.total.filter(|total| total.is_finite()) {
            told = told.with_total(total);
        }
        if !report.message.is_empty() {
            told = told.with_message(report.message);
        }
        // A client that is gone is told nothing; its call ends as it ends.
        let _ = self.peer.notify_progress(told).await;
    }
}

impl Report {
    /// In words.
    pub(crate) fn text(&self) -> String {
        match self.total {
            Some(total) => format!("{} ({} of {total})", self.message, self.done),
            None => self.message.clone(),
        }
    }
}
