//! `wink log`: what happened in a session, oldest first.

use anstyle::Style;
use wink::session::{LogEntry, LogEvent, LogPage, ToolInvoked, UnreadableEntry};

use super::open;
use super::progress::Waiting;
use super::row::{LogRow, ended};
use crate::args::Common;
use crate::frame::{self, Done, Exit, note, visible};
use crate::term::{BAD, DIM, GOOD, NAME, ODD, PLAIN, Screen, Span, span};

/// How many columns a message is worth having beside the rest.
const MESSAGE: usize = 8;

/// Which entries.
pub(super) struct Filter {
    pub(super) last: Option<usize>,
    pub(super) tool: Option<String>,
    pub(super) failed: bool,
}

pub(super) async fn run(common: &Common, filter: &Filter) -> Done {
    let past = open::past(common)?;
    let (mut chosen, mut is_empty) = (Vec::new(), true);
    if let Some(past) = &past {
        let waiting = Waiting::begin("reading the log");
        let log = past.log(common).await?;
        let most = filter.last.unwrap_or(usize::MAX);
        let LogPage { entries, unreadable } = log.readable(0, most, |event| filter.takes(event)).await?;
        is_empty = entries.is_empty()
            && unreadable.is_empty()
            && log.readable(0, 1, |_| true).await? == LogPage::default();
        chosen = entries;
        drop(waiting);
        for UnreadableEntry { seq, reason } in unreadable {
            note(&format!("entry {seq} cannot be read: {}", visible(&reason)));
        }
    }
    if common.json {
        let mut lines = Vec::new();
        for entry in &chosen {
            serde_json::to_writer(&mut lines, &LogRow::of(entry, &common.session))
                .map_err(frame::CliError::internal)?;
            lines.push(b'\n');
        }
        return frame::print_bytes(&lines);
    }
    if is_empty {
        let sessions = match &past {
            Some(past) => past.sessions().await?,
            None => Vec::new(),
        };
        let others: Vec<&str> = sessions
            .iter()
            .map(|name| name.as_str())
            .filter(|name| *name != common.session)
            .take(10)
            .collect();
        let others =
            if others.is_empty() { String::new() } else { format!("; others here: {}", others.join(", ")) };
        note(&format!("session '{}' has no calls yet{others}", common.session));
        return Ok(Exit::Success);
    }
    let rows = chosen.iter().map(row).collect();
    Screen::fitted().rows(&["SEQ", "TIME", "TOOL", "RESULT", "MESSAGE"], rows, MESSAGE)?;
    Ok(Exit::Success)
}

impl Filter {
    fn takes(&self, event: &LogEvent) -> bool {
        match event {
            LogEvent::Call(call) => {
                self.tool.as_ref().is_none_or(|tool| **tool == *call.tool) && !(self.failed && call.success)
            }
            LogEvent::Undone(_) => self.tool.is_none() && !self.failed,
        }
    }
}

fn row(entry: &LogEntry) -> Vec<Span> {
    let (time, tool, result, message) = match &entry.event {
        LogEvent::Call(event) => {
            let message = if event.message.is_empty() { &event.rendered } else { &event.message };
            let tool = span(visible(&event.tool), NAME);
            (event.time, tool, span(ended(event), style(event)), message.to_string())
        }
        LogEvent::Undone(undone) => (undone.time, span("(undo)", DIM), span("ok", GOOD), undone.to_string()),
    };
    let time = time.strftime("%Y-%m-%d %H:%M:%SZ").to_string();
    let message = span(visible(&message).into_owned(), PLAIN);
    vec![span(entry.seq.to_string(), PLAIN), span(time, DIM), tool, result, message]
}

/// In which colour an ending is told.
pub(super) fn style(event: &ToolInvoked) -> Style {
    use wink::session::Ending::{Cancelled, Denied, Expanded, InDoubt, Interrupted, NotRun};
    match event.ending {
        _ if event.success => GOOD,
        Denied | Cancelled | Expanded | InDoubt | Interrupted | NotRun => ODD,
        _ => BAD,
    }
}
