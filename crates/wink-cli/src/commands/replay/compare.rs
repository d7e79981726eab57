//! Whether the calls of two runs are the same: as the log has them, but for when they were and how long they took.

use serde_json::Value;
use wink::session::LogEvent;
use wink_models::recording::Recording;
use wink_store::Workspace;

use crate::frame::CliError;

/// The event of a call.
pub(super) struct Event {
    tool: String,
    fields: serde_json::Map<String, Value>,
}

/// The events of the recorded run's calls in a workspace, of those after entry number `after`; oldest first.
pub(super) async fn events(
    workspace: &Workspace,
    recording: &Recording,
    after: u64,
) -> Result<Vec<Event>, CliError> {
    let log = workspace.logbook(recording.session_name()).await?;
    let of_run = |event: &LogEvent| matches!(event, LogEvent::Call(call) if call.run.run_id.as_deref() == Some(recording.run_id()));
    let entries = log.newest(after, usize::MAX, of_run).await?;
    let event = |event: &LogEvent| match event {
        LogEvent::Call(call) => {
            let Ok(Value::Object(mut fields)) = serde_json::to_value(&**call) else { return None };
            // What waits for a program reads the clock as often as it takes.
            for time in ["time", "duration"] {
                fields.remove(time);
            }
            Some(Event { tool: call.tool.to_string(), fields })
        }
        LogEvent::Undone(_) => None,
    };
    Ok(entries.iter().filter_map(|entry| event(&entry.event)).collect())
}

/// Where the calls differ, if those of the recorded run are known.
pub(super) fn difference(recorded: &[Event], repeated: &[Event]) -> Option<String> {
    if recorded.is_empty() {
        return None;
    }
    for (at, (one, other)) in recorded.iter().zip(repeated).enumerate() {
        let differs = |(name, value): &(&String, &Value)| other.fields.get(*name) != Some(*value);
        if let Some((name, value)) = one.fields.iter().find(differs) {
            let now = other.fields.get(name).unwrap_or(&Value::Null);
            let (number, tool) = (at + 1, &one.tool);
            return Some(format!("call {number} ({tool}) differs: its {name} was {value}, and is {now}"));
        }
    }
    let (then, now) = (recorded.len(), repeated.len());
    (then != now).then(|| format!("the run made {then} calls, and now {now}"))
}
