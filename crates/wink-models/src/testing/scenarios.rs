//! The scenarios: what the model says, what happens meanwhile, and what is to come of it.

use std::time::Duration;

use serde_json::{Value, json};
use wink::session::Ending;

use super::scenario::{Ends, Meanwhile, Scenario};
use super::script::says;
use super::world::Wants;
use super::{Line, Script};
use crate::conversation::RetryPolicy;
use crate::{Called, ModelResponse, Stop, Terms};

/// Every scenario.
pub fn scenarios() -> Vec<Scenario> {
    use Ending::{Cancelled, Denied, Exhausted, Expanded, Failed, Rejected, Succeeded, Unavailable};
    let open = r#"{"section_keys":["manual"],"reason":"to know"}"#;
    let long = "Ein längerer Text, \"wörtlich\", Zeile\nfür Zeile: 長い文 🎻. ".repeat(20);
    let seconds = |seconds| Line::Throttled { retry_after: Duration::from_secs(seconds) };
    let twice =
        Terms { retry: RetryPolicy { max_attempts: 2, ..RetryPolicy::default() }, ..Terms::default() };
    vec![
        Scenario::new("basic").says("All is done: ünï ✓.").comes_to("All is done: ünï ✓."),
        Scenario::new("tools")
            .calls(&[("note", text("a"))])
            .calls(&[("note", r#"{"text":"b","times":3}"#)])
            .calls(&[("write", text("hello"))])
            .calls(&[("pay", text("rent"))])
            .says("ok")
            .comes_to("ok")
            .leaves(&["a", "bbb"], &[("file.txt", "hello")], &["rent"])
            .ends(&[("note", Succeeded), ("note", Succeeded), ("write", Succeeded), ("pay", Succeeded)]),
        Scenario::new("parallel calls")
            .line(Line::Says(ModelResponse {
                text: "Three at once.".into(),
                ..calls(0, &[("note", text("a")), ("write", text("b")), ("note", text("c"))])
            }))
            .says("ok")
            .comes_to("ok")
            .leaves(&["a", "c"], &[("file.txt", "b")], &[])
            .ends(&[("note", Succeeded), ("write", Succeeded), ("note", Succeeded)]),
        Scenario::new("a failing tool")
            .calls(&[("note", text("a")), ("fail", text("on purpose")), ("note", text("b"))])
            .says("It failed.")
            .comes_to("It failed.")
            .leaves(&["a", "b"], &[], &[])
            .ends(&[("note", Succeeded), ("fail", Failed), ("note", Succeeded)]),
        Scenario::new("a denied tool")
            .calls(&[("deploy", text("now"))])
            .calls(&[("note", text("later"))])
            .says("ok")
            .comes_to("ok")
            .leaves(&["later"], &[], &[])
            .ends(&[("deploy", Denied), ("note", Succeeded)]),
        Scenario::new("an unknown tool")
            .calls(&[("notes", text("a"))])
            .calls(&[("turn", text("closed"))])
            .says("ok")
            .comes_to("ok")
            .ends(&[("notes", Unavailable), ("turn", Unavailable)]),
        Scenario::new("arguments that do not fit")
            .calls(&[("note", r#"{"text":7,"time":1}"#.to_owned())])
            .calls(&[("note", r#"{"text":"a","times":-1}"#.to_owned())])
            .calls(&[("note", "{}".to_owned())])
            .says("ok")
            .comes_to("ok")
            .ends(&[("note", Rejected), ("note", Rejected), ("note", Rejected)]),
        Scenario::new("expansion")
            .calls(&[("open_sections", open.to_owned())])
            .calls(&[("turn", text("round"))])
            .says("turned")
            .comes_to("turned")
            .leaves(&["round"], &[], &[])
            .ends(&[("open_sections", Expanded), ("turn", Succeeded)]),
        Scenario::new("streaming")
            .line(Line::Says(ModelResponse {
                text: long.clone().into(),
                ..calls(0, &[("note", text(&long)), ("note", text("b"))])
            }))
            .says(&long)
            .comes_to(&long)
            .leaves(&[&long, "b"], &[], &[])
            .ends(&[("note", Succeeded), ("note", Succeeded)]),
        Scenario::new("a typed result")
            .wants(Wants::Object)
            .calls(&[("note", text("a"))])
            .says(r#"{"answer":42,"note":"all of it"}"#)
            .comes_to(r#"{"answer":42,"note":"all of it"}"#)
            .reads(json!({ "answer": 42, "note": "all of it" }))
            .leaves(&["a"], &[], &[])
            .ends(&[("note", Succeeded)]),
        Scenario::new("a typed result at the second try")
            .wants(Wants::Object)
            .says(r#"{"answer":"many"}"#)
            .says(r#"{"answer":-7,"note":null}"#)
            .comes_to(r#"{"answer":-7,"note":null}"#)
            .reads(json!({ "answer": -7, "note": null })),
        Scenario::new("no typed result")
            .terms(Terms { max_reminders: 1, ..Terms::default() })
            .wants(Wants::Object)
            .says(r#"{"answer":"many"}"#)
            .says(r#"{"answer":7,"more":1}"#)
            .stops("output"),
        Scenario::new("a list of typed results")
            .wants(Wants::List)
            .says(r#"{"items":[{"answer":1},{"answer":2,"note":"b"}]}"#)
            .comes_to(r#"{"items":[{"answer":1},{"answer":2,"note":"b"}]}"#)
            .reads(json!([{ "answer": 1 }, { "answer": 2, "note": "b" }])),
        Scenario::new("a model that is reminded")
            .wants(Wants::Notes)
            .says("I am done.")
            .calls(&[("note", text("a"))])
            .says("Now I am.")
            .comes_to("Now I am.")
            .leaves(&["a"], &[], &[])
            .ends(&[("note", Succeeded)]),
        Scenario::new("throttling")
            .line(seconds(3))
            .line(seconds(7))
            .calls(&[("note", text("a"))])
            .line(Line::Overloaded)
            .line(Line::Gone)
            .says("at last")
            .meanwhile(Meanwhile::TimePasses)
            .comes_to("at last")
            .leaves(&["a"], &[], &[])
            .ends(&[("note", Succeeded)]),
        Scenario::new("throttled for too long")
            .terms(twice.clone())
            .line(seconds(3))
            .line(seconds(3))
            .meanwhile(Meanwhile::TimePasses)
            .stops("retry_attempts"),
        Scenario::new("a wrong key").line(Line::Unauthorized).stops("request_failed"),
        Scenario::new("a conversation that is too long")
            .calls(&[("note", text("a"))])
            .line(Line::TooLong)
            .stops("request_failed")
            .leaves(&["a"], &[], &[])
            .ends(&[("note", Succeeded)]),
        Scenario::new("a call that is cut off")
            .line(Line::Says(ModelResponse {
                stop: Stop::Truncated,
                ..calls(0, &[("note", text("a")), ("note", r#"{"text":"b"#.to_owned())])
            }))
            .calls(&[("note", text("c"))])
            .says("ok")
            .comes_to("ok")
            .leaves(&["a", "c"], &[], &[])
            .ends(&[("note", Succeeded), ("note", Succeeded)]),
        Scenario::new("a text that is cut off")
            .line(Line::Says(ModelResponse { stop: Stop::Truncated, ..says("The answer \"i") }))
            .stops("truncated"),
        Scenario::new("a refusal")
            .calls(&[("note", text("a"))])
            .line(Line::Says(ModelResponse { stop: Stop::Refused, ..says("I will not.") }))
            .stops("refused")
            .leaves(&["a"], &[], &[])
            .ends(&[("note", Succeeded)]),
        Scenario::new("a model that never ends")
            .terms(Terms { max_turns: 2, ..Terms::default() })
            .calls(&[("note", text("a"))])
            .calls(&[("note", text("b"))])
            .stops("turn_cap")
            .leaves(&["a", "b"], &[], &[])
            .ends(&[("note", Succeeded), ("note", Succeeded)]),
        Scenario::new("a budget")
            .calls(&[("note", text("a"))])
            .calls(&[("note", text("b"))])
            .meanwhile(Meanwhile::Budget(239))
            .stops("budget")
            .leaves(&["a"], &[], &[])
            .ends(&[("note", Succeeded)]),
        Scenario::new("a deadline in a request")
            .calls(&[("note", text("a"))])
            .line(Line::Silent)
            .meanwhile(Meanwhile::DeadlineAfterCalls)
            .stops("deadline")
            .leaves(&["a"], &[], &[])
            .ends(&[("note", Succeeded)]),
        Scenario::new("a deadline in a call")
            .calls(&[("note", text("a"))])
            .calls(&[("wait", text("b"))])
            .meanwhile(Meanwhile::DeadlineInCall)
            .stops("deadline")
            .leaves(&["a"], &[], &[])
            .ends(&[("note", Succeeded), ("wait", Exhausted)]),
        Scenario::new("cancelled in a request")
            .calls(&[("note", text("a"))])
            .line(Line::Silent)
            .meanwhile(Meanwhile::CancelAfterCalls)
            .stops("cancelled")
            .leaves(&["a"], &[], &[])
            .ends(&[("note", Succeeded)]),
        Scenario::new("cancelled in a call")
            .calls(&[("note", text("a"))])
            .calls(&[("wait", text("b"))])
            .meanwhile(Meanwhile::CancelInCall)
            .stops("cancelled")
            .leaves(&["a"], &[], &[])
            .ends(&[("note", Succeeded), ("wait", Cancelled)]),
        Scenario::new("resume")
            .calls(&[("note", text("a"))])
            .calls(&[("pay", text("rent"))])
            .calls(&[("wait", text("b"))])
            .calls(&[("note", text("c"))])
            .says("done")
            .meanwhile(Meanwhile::ResumeInCall)
            .stops("cancelled")
            .comes_to("done")
            .leaves(&["a", "c"], &[("waited.txt", "b")], &["rent"])
            .ends(&[
                ("note", Succeeded),
                ("pay", Succeeded),
                ("wait", Cancelled),
                ("wait", Succeeded),
                ("note", Succeeded),
            ]),
    ]
}

fn text(text: &str) -> String {
    json!({ "text": text }).to_string()
}

/// Calls, with ids that no other line has.
fn calls(line: usize, calls: &[(&str, impl AsRef<str>)]) -> ModelResponse {
    let call = |(at, (name, arguments)): (usize, &(&str, _))| Called {
        id: format!("call_{line}_{at}").into(),
        name: (*name).into(),
        arguments: AsRef::<str>::as_ref(arguments).into(),
    };
    ModelResponse { calls: calls.iter().enumerate().map(call).collect(), ..says("") }
}

impl Scenario {
    fn new(name: &'static str) -> Self {
        let (came, outputs, notes, files, outside, calls) = Default::default();
        Self {
            name,
            script: Script::default(),
            terms: Terms::default(),
            wants: Wants::Nothing,
            meanwhile: Meanwhile::Nothing,
            ends: Ends { came, outputs, notes, files, outside, calls },
        }
    }

    fn line(mut self, line: Line) -> Self {
        self.script.lines.push(line);
        self
    }

    fn says(self, text: &str) -> Self {
        self.line(Line::Says(says(text)))
    }

    fn calls(self, made: &[(&str, impl AsRef<str>)]) -> Self {
        let line = Line::Says(calls(self.script.lines.len(), made));
        self.line(line)
    }

    fn terms(mut self, terms: Terms) -> Self {
        self.terms = terms;
        self
    }

    fn wants(mut self, wants: Wants) -> Self {
        self.wants = wants;
        self
    }

    fn meanwhile(mut self, meanwhile: Meanwhile) -> Self {
        self.meanwhile = meanwhile;
        self
    }

    fn comes_to(mut self, text: &str) -> Self {
        self.ends.came.push(Ok(text.to_owned()));
        self
    }

    fn reads(mut self, output: Value) -> Self {
        self.ends.outputs.push(output);
        self
    }

    fn stops(mut self, reason: &'static str) -> Self {
        self.ends.came.push(Err(reason));
        self
    }

    fn leaves(mut self, notes: &[&str], files: &[(&str, &str)], outside: &[&str]) -> Self {
        let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect();
        self.ends.notes = owned(notes);
        self.ends.files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        self.ends.outside = owned(outside);
        self
    }

    fn ends(mut self, calls: &[(&str, Ending)]) -> Self {
        self.ends.calls = calls.iter().map(|(name, ending)| ((*name).to_owned(), *ending)).collect();
        self
    }
}
