//! Tool names as models write them: a name that nobody has gets one readable, bounded answer and one event, and
//! exactly the names of the documented form can be given to a tool.

use std::future::Future;
use std::pin::pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};

use wink::executor::{Executor, ToolCall};
use wink::prompt::{Prompt, PromptTemplate, Section};
use wink::session::{Ending, Session, ToolInvoked};
use wink::tool::{IntoTool, Tool};

/// The only tool there is.
const THERE: &str = "there";

fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("in memory nothing has to be waited for"),
    }
}

fn prompt() -> &'static Prompt {
    static PROMPT: OnceLock<Prompt> = OnceLock::new();
    PROMPT.get_or_init(|| {
        let tool = Tool::<(), ()>::without_handler(THERE, "Is listed, and cannot be called.");
        let section = Section::tools("tools", "Tools").tool(tool);
        PromptTemplate::builder("fuzz", "names").section(section).build().expect("it is sound").prompt()
    })
}

/// One input of the fuzzer, or of its corpus.
pub fn run(name: &str) {
    let session = Session::new();
    let executor = ready(Executor::open(prompt(), &session)).expect("it opens");
    let outcome = ready(executor.call(ToolCall::new("call", name, "{}")));
    assert_eq!(outcome.event.ending, Ending::Unavailable);
    assert!(!outcome.text().is_empty() && outcome.text().len() <= 64 * 1024);
    assert_eq!(session.slice::<ToolInvoked>().len(), 1);

    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_' || byte == b'-';
    let sound = (1..=64).contains(&name.len()) && name.bytes().all(fits);
    let made = Tool::<(), ()>::without_handler(name, "Does nothing.").into_tool();
    assert_eq!(made.is_ok(), sound, "{name:?}");
}
