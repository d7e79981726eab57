//! The ledger: keys, how long they count, and what can be done with entries.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use wink::executor::{Executor, Outcome, ToolCall};
use wink::ledger::{EffectLedger, IdempotencyConfig, KeyStrategy, LedgerScope, ToolEffect};
use wink::prelude::*;
use wink::resource::{Binding, ResourceRegistry};
use wink::store::{MemoryStore, SharedStore};
use wink::testing::{ByteStore, FakeClock};
use wink::tool::IntoTool;
use wink::tool::secret::Secret;

#[derive(Serialize, Deserialize, JsonSchema)]
struct Order {
    item: String,
    count: u32,
    #[serde(default)]
    note: Option<String>,
}

async fn order(order: Order, cx: &mut ToolContext) -> Result<ToolResult<Value>, ToolError> {
    let runs = cx.resource::<AtomicUsize>().await?.fetch_add(1, Ordering::SeqCst) + 1;
    let key = cx.idempotency_key().map(str::to_owned);
    Ok(ToolResult::ok(json!({ "run": runs, "key": key, "item": order.item }), "ordered"))
}

struct Shop {
    clock: FakeClock,
    store: SharedStore,
    runs: Arc<AtomicUsize>,
    executor: Executor,
}

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn stores() -> [SharedStore; 2] {
    [Arc::new(MemoryStore::new()), Arc::new(ByteStore::new())]
}

impl Shop {
    async fn new(store: &SharedStore, config: impl Into<Option<IdempotencyConfig>>) -> Self {
        let mut tool = Tool::new("order", "Order.", order);
        if let Some(config) = config.into() {
            tool = tool.idempotency(config);
        }
        let section = Section::tools("shop", "Shop").tool(tool);
        let prompt = PromptTemplate::builder("tests", "shop").section(section).build().unwrap().prompt();
        let clock = FakeClock::new(start());
        let session = Session::builder()
            .id("s")
            .store(Arc::clone(store))
            .clock(Arc::new(clock.clone()))
            .open()
            .await
            .unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        let resources = ResourceRegistry::of((Binding::instance(Arc::clone(&runs)),)).unwrap();
        let executor = Executor::builder(&prompt, &session).resources(resources).open().await.unwrap();
        Self { clock, store: Arc::clone(store), runs, executor }
    }

    async fn order(&self, arguments: &str) -> Outcome {
        self.executor.call(ToolCall::new("1", "order", arguments)).await
    }

    /// Orders, and says whether the handler ran.
    async fn runs(&self, arguments: &str) -> bool {
        let before = self.runs.load(Ordering::SeqCst);
        let outcome = self.order(arguments).await;
        assert!(outcome.is_success(), "{}", outcome.text());
        let ran = self.runs.load(Ordering::SeqCst) > before;
        assert_eq!(outcome.event.replayed, !ran);
        ran
    }

    fn ledger(&self) -> EffectLedger {
        EffectLedger::new(Arc::clone(&self.store), Arc::new(self.clock.clone()))
    }
}

const ONE: &str = r#"{"item":"bolt","count":1}"#;
const TWO: &str = r#"{"item":"bolt","count":2}"#;

// cases 226, 233
#[tokio::test]
async fn the_same_parameters_run_once() {
    for store in stores() {
        let shop = Shop::new(&store, IdempotencyConfig::auto()).await;
        assert!(shop.runs(ONE).await);
        assert!(!shop.runs(ONE).await);
        assert!(!shop.runs(r#"{ "count": 1, "item": "bolt" }"#).await, "the order of keys does not matter");
        assert!(
            !shop.runs(r#"{"count":1,"item":"bolt","note":null}"#).await,
            "nor whether a default is written"
        );
        assert!(shop.runs(TWO).await, "another value does");
        let (first, again) = (shop.order(ONE).await, shop.order(ONE).await);
        assert_eq!(first.value::<Value>(), again.value::<Value>());
    }
}

// case 228
#[tokio::test]
async fn only_the_named_parameters_count() {
    for store in stores() {
        let shop = Shop::new(&store, IdempotencyConfig::params(["item"])).await;
        assert!(shop.runs(ONE).await);
        assert!(!shop.runs(TWO).await);
        assert!(shop.runs(r#"{"item":"nut","count":1}"#).await);
    }
    let wrong =
        Tool::new("order", "Order.", order).idempotency(IdempotencyConfig::params(["item", "colour"]));
    let error = wrong.into_tool().unwrap_err().to_string();
    assert!(error.contains("order") && error.contains("colour"), "{error}");
}

// case 229
/// That a function cannot be missing is a matter of types: `ui/ledger_custom_without_function.rs`.
#[tokio::test]
async fn a_key_of_ones_own() {
    for store in stores() {
        let config = IdempotencyConfig::custom(|params| {
            let item = params["item"].as_str().ok_or("no item")?;
            if item == "?" { Err("no such item".to_owned()) } else { Ok(format!("item/{item}")) }
        });
        let shop = Shop::new(&store, config.clone()).await;
        let outcome = shop.order(ONE).await;
        assert_eq!(outcome.value::<Value>().unwrap()["key"], "session:s:order:item/bolt");
        assert!(!shop.runs(TWO).await);
        let outcome = shop.order(r#"{"item":"?","count":1}"#).await;
        assert!(!outcome.is_success() && outcome.text().contains("no such item"), "{}", outcome.text());
        let shop = Shop::new(&store, config.clone().scope(LedgerScope::Global)).await;
        assert_eq!(shop.order(ONE).await.value::<Value>().unwrap()["key"], "global:order:item/bolt");
        let shop = Shop::new(&store, config.scope(LedgerScope::Named("team".into()))).await;
        assert_eq!(shop.order(ONE).await.value::<Value>().unwrap()["key"], "team:order:item/bolt");
    }
}

// case 230
/// That there is a ledger is a matter of types: `ui/session_without_ledger.rs`.
#[tokio::test]
async fn without_a_key_it_always_runs() {
    for store in stores() {
        for config in [None, Some(IdempotencyConfig::new(KeyStrategy::None))] {
            let shop = Shop::new(&store, config).await;
            assert!(shop.runs(ONE).await);
            assert!(shop.runs(ONE).await);
            assert_eq!(shop.order(ONE).await.value::<Value>().unwrap()["key"], Value::Null);
            assert_eq!(shop.ledger().clear().await.unwrap(), 0);
        }
    }
}

// case 231
#[tokio::test]
async fn an_entry_counts_until_its_time_and_not_at_it() {
    for store in stores() {
        let ttl = Duration::from_secs(60);
        let shop = Shop::new(&store, IdempotencyConfig::auto().ttl(Some(ttl))).await;
        let key = shop.order(ONE).await.value::<Value>().unwrap()["key"].as_str().unwrap().to_owned();
        shop.clock.advance(ttl - Duration::from_nanos(1));
        assert!(!shop.runs(ONE).await);
        assert_eq!(shop.ledger().prune_expired().await.unwrap(), 0);
        shop.clock.advance(Duration::from_nanos(1));
        assert_eq!(shop.ledger().lookup(&key).await.unwrap(), None);
        assert!(!shop.ledger().invalidate(&key).await.unwrap(), "looking removed it");
        assert!(shop.runs(ONE).await);
        assert!(shop.runs(TWO).await);
        shop.clock.advance(ttl);
        assert_eq!(shop.ledger().prune_expired().await.unwrap(), 2);
        assert_eq!(shop.ledger().prune_expired().await.unwrap(), 0);
        // Expired and not yet removed: it does not count either.
        assert!(shop.runs(ONE).await);
        shop.clock.advance(ttl);
        assert!(shop.runs(ONE).await);
    }
    for store in stores() {
        let day = Duration::from_secs(24 * 60 * 60);
        let shop = Shop::new(&store, IdempotencyConfig::auto()).await;
        assert!(shop.runs(ONE).await);
        shop.clock.advance(day - Duration::from_nanos(1));
        assert!(!shop.runs(ONE).await, "24 hours unless told otherwise");
        shop.clock.advance(Duration::from_nanos(1));
        assert!(shop.runs(ONE).await);
    }
    for store in stores() {
        let shop = Shop::new(&store, IdempotencyConfig::auto().ttl(None)).await;
        assert!(shop.runs(ONE).await);
        shop.clock.advance(Duration::from_secs(60 * 60 * 24 * 365 * 50));
        assert_eq!(shop.ledger().prune_expired().await.unwrap(), 0);
        assert!(!shop.runs(ONE).await, "forever");
    }
}

// case 232
#[tokio::test]
async fn entries_can_be_looked_up_recorded_and_forgotten() {
    for store in stores() {
        let shop = Shop::new(&store, IdempotencyConfig::auto()).await;
        let key = shop.order(ONE).await.value::<Value>().unwrap()["key"].as_str().unwrap().to_owned();
        let ledger = shop.ledger();
        let effect = ledger.lookup(&key).await.unwrap().unwrap();
        let expected = ToolEffect {
            idempotency_key: key.clone(),
            tool_name: "order".into(),
            params_hash: key.rsplit(':').next().unwrap().to_owned(),
            message: "ordered".into(),
            value: Some(json!({ "run": 1, "key": key, "item": "bolt" })),
            success: true,
            exclude_value_from_context: false,
            created_at: start(),
            expires_at: Some("2026-01-02T00:00:00Z".parse().unwrap()),
            session: Some("s".into()),
            effect_id: effect.effect_id.clone(),
        };
        assert_eq!(effect, expected);
        assert!(ledger.invalidate(&key).await.unwrap());
        assert!(!ledger.invalidate(&key).await.unwrap());
        assert_eq!(ledger.lookup(&key).await.unwrap(), None);
        assert!(shop.runs(ONE).await);

        ledger.invalidate(&key).await.unwrap();
        ledger.record(ToolEffect { message: "by hand".into(), ..effect.clone() }).await.unwrap();
        let outcome = shop.order(ONE).await;
        assert!(outcome.event.replayed && outcome.text().starts_with("by hand"), "{}", outcome.text());

        assert!(shop.runs(TWO).await);
        let other = ToolEffect { idempotency_key: "other".into(), tool_name: "sell".into(), ..effect };
        ledger.record(other).await.unwrap();
        assert_eq!(ledger.invalidate_by_tool("order").await.unwrap(), 2);
        assert_eq!(ledger.invalidate_by_tool("order").await.unwrap(), 0);
        assert_eq!(ledger.clear().await.unwrap(), 1);
        assert_eq!(ledger.clear().await.unwrap(), 0);
        assert!(shop.runs(ONE).await);
    }
}

#[tokio::test]
async fn a_secret_is_part_of_the_key_and_not_in_it() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Login {
        password: Secret<String>,
    }
    async fn login(_: Login, cx: &mut ToolContext) -> ToolResult<String> {
        ToolResult::value(cx.idempotency_key().unwrap_or_default().to_owned())
    }
    let tool = Tool::new("login", "Log in.", login).idempotency(IdempotencyConfig::auto());
    let section = Section::tools("door", "Door").tool(tool);
    let prompt = PromptTemplate::builder("tests", "door").section(section).build().unwrap().prompt();
    let executor = Executor::open(&prompt, &Session::new()).await.unwrap();
    let mut keys = Vec::new();
    for password in ["one", "two", "one"] {
        let arguments = json!({ "password": password }).to_string();
        let outcome = executor.call(ToolCall::new("1", "login", arguments)).await;
        assert!(outcome.is_success() && !outcome.text().contains(password), "{}", outcome.text());
        keys.push((outcome.text().to_owned(), outcome.event.replayed));
    }
    assert_ne!(keys[0].0, keys[1].0);
    assert_eq!((keys[0].0 == keys[2].0, keys[2].1), (true, true));
}
