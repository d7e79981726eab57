//! Keys never come out: not in errors, not in `Debug`, not in logs, not by a redirect, not to a proxy.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use wink::limits::SystemClock;
use wink::prelude::*;
use wink::session::SnapshotScope;
use wink::testing::ByteStore;
use wink_fake::{Fake, Script};
use wink_models::providers::{Endpoint, SetupError, openai};
use wink_models::recording::{Recorder, Scrubber};
use wink_models::{Adapter, Evaluation, ModelAdapter, ModelErrorKind as Kind};

use crate::provider_support::{KEY, WAYS, Way, ask, request, user};

const HEADER: &str = "planted-header-value";

#[tokio::test]
async fn errors_and_debug_have_no_keys() {
    for (way, streaming) in WAYS {
        let fake = Fake::start(Script::parse(r#"{"fault": "unauthorized"}"#).unwrap()).await.unwrap();
        let endpoint = way.endpoint(&fake).streaming(streaming).header("x-gateway", HEADER.to_owned());
        let mut printed = format!("{endpoint:?} {endpoint:#?}");
        let provider = way.at(endpoint);
        let error = ask(&provider, &request([user("Hi")])).await.unwrap_err();
        assert_eq!(error.kind, Kind::Unauthorized);
        assert_eq!(error.message, "401: Incorrect API key provided: ***");
        printed += &format!("{provider:?} {error} {error:?}");
        assert!(!printed.contains(KEY) && !printed.contains(HEADER), "{printed}");
    }
}

/// Everything that anybody says to diagnostics, the HTTP client too.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<String>>);

impl Visit for Heard {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        writeln!(self.0.lock().unwrap(), "{field}={value:?}").unwrap();
    }
}

impl Subscriber for Heard {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.clone());
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl std::io::Write for Heard {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// All that a store holds, as text: it writes records as lists of their bytes.
fn stored(store: &ByteStore) -> String {
    let bytes = store.bytes();
    let text = String::from_utf8_lossy(&bytes);
    let numbers = text.split(|letter: char| !letter.is_ascii_digit());
    let bytes: Vec<u8> = numbers.filter_map(|number| number.parse().ok()).collect();
    format!("{text}\n{}", String::from_utf8_lossy(&bytes))
}

#[tokio::test]
async fn logs_recordings_and_stores_have_no_keys() {
    /// All that a tool can find out, and what it found somewhere else.
    async fn tell(_: (), cx: &mut ToolContext) -> ToolResult<String> {
        ToolResult::ok(format!("{} {:?} found: {KEY}", cx.to_json(), cx.adapter()), HEADER)
    }
    let section = Section::tools("tools", "Tools").tool(Tool::new("tell", "Tells all.", tell));
    let prompt = PromptTemplate::builder("tests", "secrets").section(section).build().unwrap().prompt();
    let lines = r#"{"tool_calls": [{"id": "1", "name": "tell", "arguments": {}}]}
{"fault": "unauthorized"}"#;
    // While there is only one subscriber, `tracing` asks that of the thread that reaches an event first whether anybody wants it, and
    // other tests have none.
    let _another = tracing::Dispatch::new(Heard::default());
    for (way, streaming) in WAYS {
        let (heard, recorded, store) = (Heard::default(), Heard::default(), Arc::new(ByteStore::new()));
        let diagnostics = tracing::subscriber::set_default(heard.clone());
        let fake = Fake::start(Script::parse(lines).unwrap()).await.unwrap();
        let endpoint = way.endpoint(&fake).streaming(streaming).header("x-gateway", HEADER.to_owned());
        let model = Arc::new(way.at(endpoint));
        let recorder = Recorder::start(recorded.clone(), model, Arc::new(SystemClock), Scrubber::new());
        let session = recorder.session(Session::builder().store(store.clone())).open().await.unwrap();
        let adapter = ModelAdapter::new(recorder.model()).random(recorder.random());
        let evaluation = recorder.evaluation(Evaluation::new().task(format!("Go with {KEY}.")));
        let stopped = adapter.evaluate(&prompt, &session, evaluation).await.unwrap_err();
        recorder.finish().unwrap();
        session.flush().await.unwrap();
        drop(diagnostics);
        assert_eq!((stopped.reason.name(), stopped.stats.turns), ("request_failed", 1), "{stopped:?}");
        let snapshot = session.snapshot_of(SnapshotScope::IncludeAll).to_json().unwrap();
        let (heard, recorded) = (heard.0.lock().unwrap().clone(), recorded.0.lock().unwrap().clone());
        assert!(heard.contains("a request failed") && recorded.contains("unauthorized"));
        assert_eq!(session.calls("tell").map(|calls| calls.count), Some(1));
        let stored = stored(&store);
        assert!(stored.contains("Go with ***.") && stored.contains("found: ***"), "it is there: {stored}");
        for said in [heard, recorded, stored, snapshot.to_string(), format!("{stopped} {stopped:?}")] {
            assert!(!said.contains(KEY) && !said.contains(HEADER), "{way:?} {streaming:?}: {said}");
        }
    }
}

#[tokio::test]
async fn a_provider_that_repeats_the_key_does_not_have_it_written_down() {
    async fn repeat(_: Repeat, _: &mut ToolContext) -> ToolResult<String> {
        ToolResult::value("done".to_owned())
    }
    let section = Section::tools("tools", "Tools").tool(Tool::new("repeat", "Repeats.", repeat));
    let prompt = PromptTemplate::builder("tests", "secrets").section(section).build().unwrap().prompt();
    // As it is, and with a letter that is spelled out.
    let spelled = format!("\\u{:04x}{}", u32::from(KEY.chars().next().unwrap()), &KEY[1..]);
    let lines = format!(
        r#"{{"text": "Your key is {KEY}.", "tool_calls": [{{"id": "1", "name": "repeat", "arguments": {{"what": "{spelled} {HEADER}"}}}}]}}
{{"text": "It was {KEY}"}}"#
    );
    for (way, streaming) in WAYS {
        let store = Arc::new(ByteStore::new());
        let fake = Fake::start(Script::parse(&lines).unwrap()).await.unwrap();
        let endpoint = way.endpoint(&fake).streaming(streaming).header("x-gateway", HEADER.to_owned());
        let session = Session::builder().store(store.clone()).open().await.unwrap();
        let adapter = ModelAdapter::new(Arc::new(way.at(endpoint)));
        let done = adapter.evaluate(&prompt, &session, Evaluation::new().task("Go.")).await.unwrap();
        session.flush().await.unwrap();
        assert_eq!(&*done.text, "It was ***");
        let stored = stored(&store);
        assert!(stored.contains("*** ***"), "what it called with is there: {stored}");
        assert!(!stored.contains(KEY) && !stored.contains(HEADER), "{way:?} {streaming:?}: {stored}");
    }
}

#[data]
struct Repeat {
    #[allow(dead_code, reason = "only the log is looked at")]
    what: String,
}

#[tokio::test]
async fn what_a_provider_says_is_masked_before_it_is_cut() {
    // The key begins before where the words are cut, and ends after.
    for before in [985, 995, 999, 1000] {
        let body = format!("{}{KEY}", "x".repeat(before));
        let answer =
            format!("HTTP/1.1 500 Oh\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        let url = answering(answer).await;
        let provider = openai::Chat::new("a-model").at(Endpoint::new(url).key(KEY.to_owned())).unwrap();
        let error = ask(&provider, &request([user("Hi")])).await.unwrap_err();
        assert!(!error.message.contains(&KEY[..3]), "{}", error.message);
        assert!(error.message.chars().count() <= 1_001);
    }
}

#[tokio::test]
async fn a_url_with_a_password_is_refused_without_saying_it() {
    let refused = |url: &str| openai::Chat::new("a-model").at(Endpoint::new(url)).unwrap_err();
    let error = refused("https://user:hunter2secret@example.com/v1");
    assert_eq!(
        error,
        SetupError::Url {
            url: "https://***@example.com/v1".to_owned(),
            reason: "it has a key in it; give that as the key".to_owned(),
        }
    );
    let endpoint = Endpoint::new("https://user:hunter2secret@example.com/v1");
    assert!(!format!("{endpoint:?}").contains("hunter2secret"));
    assert!(matches!(refused("ftp://example.com"), SetupError::Url { .. }));
    assert!(matches!(refused("no url"), SetupError::Url { .. }));
    let key = Endpoint::new("http://127.0.0.1:1/v1").key("line\nbreak".to_owned());
    let error = openai::Chat::new("a-model").at(key).unwrap_err();
    assert_eq!(error, SetupError::Header { name: "authorization".to_owned() });
}

/// A server that answers every connection with this.
async fn answering(answer: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let fake = Fake::start(Script::parse(r#"{"text": "stolen"}"#).unwrap()).await.unwrap();
    let head = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: {}/v1/chat/completions\r\ncontent-length: 0\r\n\r\n",
        fake.url()
    );
    let url = answering(head).await;
    let provider = openai::Chat::new("a-model").at(Endpoint::new(url).key(KEY.to_owned())).unwrap();
    let error = ask(&provider, &request([user("Hi")])).await.unwrap_err();
    assert_eq!((error.kind, &*error.message), (Kind::Rejected, "307: no reason was given"));
    assert_eq!(fake.seen().len(), 0);
}

#[tokio::test]
async fn an_answer_without_end_is_given_up() {
    let endless =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ".to_owned() + &"x".repeat(17 << 20);
    let url = answering(endless).await;
    let provider = openai::Chat::new("a-model").at(Endpoint::new(url)).unwrap();
    let error = ask(&provider, &request([user("Hi")])).await.unwrap_err();
    assert_eq!((error.kind, error.retry_safe), (Kind::Malformed, true), "{error}");
}

#[tokio::test]
async fn nobody_there_is_a_connection_that_failed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = ask(&Way::Chat.at(Endpoint::new(url)), &request([user("Hi")])).await.unwrap_err();
    assert_eq!((error.kind, error.retry_safe), (Kind::Connection, true), "{error}");
}

/// Run again by the test below, in an environment that has a proxy.
#[tokio::test]
async fn loopback_needs_no_proxy() {
    let fake = Fake::start(Script::parse(r#"{"text": "direct"}"#).unwrap()).await.unwrap();
    let answered = ask(&Way::Chat.at(Way::Chat.endpoint(&fake)), &request([user("Hi")])).await.unwrap();
    assert_eq!(&*answered.text, "direct");
}

#[test]
fn proxies_of_the_environment_are_not_asked_for_loopback() {
    let nobody = "http://127.0.0.1:1";
    let ended = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "provider_secrets::loopback_needs_no_proxy"])
        .envs(
            ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"].map(|name| (name, nobody)),
        )
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
}
