//! Sessions that nobody uses are let go, and are as they were when somebody comes again.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use wink::BoxFuture;
use wink::executor::Executor;
use wink::filesystem::MemoryFilesystem;
use wink::prelude::*;
use wink::resource::{Binding, ResourceRegistry};
use wink::session::SessionId;
use wink::testing::{ByteStore, FakeClock};
use wink_mcp::{HttpOptions, OpenError, ServedSession, ServerOptions, Sessions};

use crate::support::{Http, Shared, call_params, stateless, template, text_of};

/// Sessions of one store.
struct Stored {
    store: Arc<ByteStore>,
    shared: Arc<Shared>,
    clock: FakeClock,
    opened: Mutex<Vec<String>>,
    gone: Mutex<Vec<String>>,
    one_gone: Notify,
}

impl Stored {
    fn new() -> Arc<Self> {
        Self::of(ByteStore::new())
    }

    /// As somebody finds them who comes after a process that was killed just now.
    fn after_a_kill(&self) -> Arc<Self> {
        Self::of(self.store.reopen().unwrap())
    }

    fn of(store: ByteStore) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::new(store),
            shared: Arc::default(),
            clock: FakeClock::new("2026-11-01T00:00:00Z".parse().unwrap()),
            opened: Mutex::default(),
            gone: Mutex::default(),
            one_gone: Notify::new(),
        })
    }

    async fn http(self: &Arc<Self>, most: usize) -> Http {
        let change = |mut options: HttpOptions| {
            options.max_sessions = most;
            options.server.clock = Arc::new(self.clock.clone());
            options
        };
        Http::of(Arc::clone(self) as _, change).await
    }

    fn opened(&self) -> Vec<String> {
        std::mem::take(&mut *self.opened.lock().unwrap())
    }

    fn gone(&self) -> Vec<String> {
        std::mem::take(&mut *self.gone.lock().unwrap())
    }

    /// Waits until one was let go, while time passes.
    async fn wait(&self) {
        let gone = self.one_gone.notified();
        let mut gone = std::pin::pin!(gone);
        loop {
            tokio::select! {
                biased;
                () = &mut gone => return,
                () = tokio::task::yield_now() => self.clock.advance(Duration::from_secs(60)),
            }
        }
    }
}

impl Sessions for Stored {
    fn open<'a>(&'a self, name: &'a SessionId) -> BoxFuture<'a, Result<Arc<ServedSession>, OpenError>> {
        self.opened.lock().unwrap().push(name.to_string());
        Box::pin(async move {
            let prompt = template().prompt();
            let builder = Session::builder().id(name.as_str()).clock(Arc::new(self.clock.clone()));
            let session = builder.store(self.store.clone()).open().await.unwrap();
            let files = Binding::filesystem(Arc::new(MemoryFilesystem::new()));
            let resources =
                ResourceRegistry::of((files, Binding::instance(Arc::clone(&self.shared)))).unwrap();
            let executor = Executor::builder(&prompt, &session).resources(resources).open().await.unwrap();
            let mut options = ServerOptions::default();
            options.clock = Arc::new(self.clock.clone());
            Ok(Arc::new(ServedSession::new(prompt, executor, options)))
        })
    }

    fn let_go(&self, session: Arc<ServedSession>) -> BoxFuture<'_, ()> {
        // Nobody has it any more.
        assert_eq!(Arc::strong_count(&session), 1);
        self.gone.lock().unwrap().push(session.name().to_string());
        self.one_gone.notify_one();
        Box::pin(std::future::ready(()))
    }
}

async fn add(http: &Http, session: &str) {
    let sum = http.call(session, "add", json!({ "a": 20, "b": 22 })).await;
    assert_eq!(sum["result"]["structuredContent"], json!({ "result": 42 }), "{sum}");
}

async fn release(http: &Http, session: &str) -> Value {
    http.call(session, "release", json!({ "environment": "x" })).await
}

#[tokio::test]
async fn there_is_room_for_one_more_and_the_one_that_went_comes_back_as_it_was() {
    let sessions = Stored::new();
    let http = sessions.http(3).await;
    for number in 0..7 {
        add(&http, &format!("s{number}")).await;
        sessions.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(sessions.opened().len(), 7);
    assert_eq!(sessions.gone(), ["s0", "s1", "s2", "s3"]);
    // What was added is known, and what was not is not.
    assert_eq!(release(&http, "s0").await["result"]["structuredContent"], json!({ "result": "x 1" }));
    let refused = release(&http, "new").await;
    assert!(text_of(&refused["result"]).contains("missing required tools: add"), "{refused}");
    assert_eq!(
        (sessions.opened(), sessions.gone()),
        (vec!["s0".into(), "new".into()], vec!["s4".into(), "s5".into()])
    );
    http.close().await;
}

#[tokio::test]
async fn what_is_used_is_not_let_go() {
    let sessions = Stored::new();
    let http = Arc::new(sessions.http(2).await);
    // A call on its way, and a client that has shaken hands.
    let waiting = tokio::spawn({
        let http = Arc::clone(&http);
        async move { http.call("busy", "wait", json!({})).await }
    });
    sessions.shared.waiting.notified().await;
    let initialize = json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } },
    });
    let mut headers = http.headers("met", "initialize", None);
    headers.retain(|(name, _)| !name.starts_with('M'));
    assert_eq!(http.post("/mcp/met", &headers, &initialize.to_string()).await.status, 200);
    let params = call_params("add", json!({ "a": 1, "b": 2 }), json!({}));
    let refused = http.request("more", "tools/call", params).await;
    assert_eq!((refused.status, refused.body.as_str()), (503, "there are too many open sessions"));
    sessions.shared.go.notify_one();
    assert_eq!(text_of(&waiting.await.unwrap()["result"]), "waited");
    add(&http, "more").await;
    assert_eq!(sessions.gone(), ["busy"]);
    Arc::into_inner(http).unwrap().close().await;
}

#[tokio::test]
async fn a_question_keeps_its_session() {
    let sessions = Stored::new();
    let http = sessions.http(1).await;
    let params =
        call_params("deploy", json!({ "environment": "x" }), json!({ "elicitation": { "form": {} } }));
    let asked = http.request("asked", "tools/call", params).await.answer();
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let other = call_params("add", json!({ "a": 1, "b": 2 }), json!({}));
    assert_eq!(http.request("other", "tools/call", other.clone()).await.status, 503);
    // Until its time is up.
    sessions.clock.advance(Duration::from_secs(11 * 60));
    while http.request("other", "tools/call", other.clone()).await.status == 503 {
        tokio::task::yield_now().await;
    }
    assert_eq!(sessions.gone(), ["asked"]);
    http.close().await;
}

#[tokio::test]
async fn time_lets_go_of_a_session_that_nobody_uses() {
    let sessions = Stored::new();
    let http = sessions.http(8).await;
    add(&http, "main").await;
    sessions.wait().await;
    assert_eq!((sessions.opened(), sessions.gone()), (vec!["main".into()], vec!["main".into()]));
    assert_eq!(release(&http, "main").await["result"]["structuredContent"], json!({ "result": "x 1" }));
    assert_eq!(sessions.opened(), ["main"]);
    http.close().await;
}

fn knowing() -> Value {
    json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } })
}

async fn about(http: &Http, session: &str, method: &str, task: &Value) -> Value {
    let params = json!({ "taskId": task, "_meta": stateless(knowing()) });
    http.request(session, method, params).await.answer()
}

/// A call that has become a task: what the client knows it as.
async fn task(sessions: &Arc<Stored>, http: &Arc<Http>, session: &'static str) -> Value {
    let asked = tokio::spawn({
        let http = Arc::clone(http);
        async move {
            http.request(session, "tools/call", call_params("wait", json!({}), knowing())).await.answer()
        }
    });
    sessions.shared.waiting.notified().await;
    sessions.clock.advance(Duration::from_secs(11));
    let told = asked.await.unwrap()["result"].clone();
    assert_eq!(
        (&told["resultType"], &told["ttlMs"]),
        (&json!("task"), &json!(24 * 60 * 60 * 1000)),
        "{told}"
    );
    told["taskId"].clone()
}

#[tokio::test]
async fn what_came_of_a_task_is_known_when_its_session_was_let_go_and_when_the_server_was_killed() {
    let sessions = Stored::new();
    let http = Arc::new(sessions.http(1).await);
    let id = task(&sessions, &http, "long").await;
    // Killed in the middle: the call is rolled back, and the client finds out.
    let later = sessions.after_a_kill();
    let next = later.http(1).await;
    let state = about(&next, "long", "tasks/get", &id).await;
    let state = state.get("result").unwrap_or_else(|| panic!("{state}"));
    assert_eq!(
        (&state["status"], &state["result"]["isError"]),
        (&json!("completed"), &json!(true)),
        "{state}"
    );
    assert!(text_of(&state["result"]).contains("interrupted"), "{state}");
    // Cancelling what is over is nothing, and what never was is unknown.
    assert!(about(&next, "long", "tasks/cancel", &id).await.get("result").is_some());
    assert_eq!(about(&next, "long", "tasks/get", &json!("x")).await["error"]["code"], -32602);
    assert_eq!(about(&next, "other", "tasks/get", &id).await["error"]["code"], -32602);
    next.close().await;

    sessions.shared.go.notify_one();
    let ended = loop {
        let state = about(&http, "long", "tasks/get", &id).await["result"].clone();
        if state["status"] != "working" {
            break state;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((&ended["status"], text_of(&ended["result"])), (&json!("completed"), "waited"), "{ended}");
    // Another session takes its place; the log has it.
    add(&http, "other").await;
    assert_eq!(sessions.gone(), ["long"]);
    let again = about(&http, "long", "tasks/get", &id).await["result"].clone();
    assert_eq!((&again["status"], &again["result"]), (&ended["status"], &ended["result"]), "{again}");
    // Not for ever.
    sessions.clock.advance(Duration::from_secs(49 * 60 * 60));
    assert_eq!(about(&http, "long", "tasks/get", &id).await["error"]["code"], -32602);
    Arc::into_inner(http).unwrap().close().await;
}
