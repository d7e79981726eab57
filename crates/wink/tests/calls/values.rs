//! Values of tools and items of slices that cannot be written as JSON, or not as what they are: they fail, and leave nothing.

#![allow(missing_docs, refining_impl_trait)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::ser::{Error as _, SerializeMap, SerializeSeq};
use serde::{Deserializer, Serializer};
use serde_json::{Value, json};
use wink::executor::{Executor, Outcome, ToolCall};
use wink::ledger::IdempotencyConfig;
use wink::prelude::*;
use wink::session::{DispatchResult, SliceType};
use wink::testing::ByteStore;
use wink::tool::Handler;

/// A value that may do anything when it is written.
#[derive(Debug, Clone)]
enum Odd {
    Json(Value),
    Double(f64),
    Single(f32),
    Wide(u128),
    Maybe(Option<Box<Odd>>),
    List(Vec<Odd>),
    Map(Vec<(Key, Odd)>),
    Fails,
    Panics,
}

#[derive(Debug, Clone)]
enum Key {
    Text(String),
    Number(i32),
    List,
    Nothing,
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Number(number) => number.serialize(serializer),
            Self::List => [1, 2].serialize(serializer),
            Self::Nothing => serializer.serialize_none(),
        }
    }
}

impl Serialize for Odd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Json(value) => value.serialize(serializer),
            Self::Double(number) => serializer.serialize_f64(*number),
            Self::Single(number) => serializer.serialize_f32(*number),
            Self::Wide(number) => serializer.serialize_u128(*number),
            Self::Maybe(value) => value.serialize(serializer),
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| list.serialize_element(item))?;
                list.end()
            }
            Self::Map(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                fields.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
                map.end()
            }
            Self::Fails => Err(S::Error::custom("this one is not written")),
            Self::Panics => panic!("this one is not written either"),
        }
    }
}

impl<'de> Deserialize<'de> for Odd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::Json)
    }
}

impl JsonSchema for Odd {
    fn schema_name() -> Cow<'static, str> {
        "Odd".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!(true)
    }
}

impl SliceType for Odd {
    const NAME: &'static str = "odd";
}

impl Odd {
    /// Whether all of it arrives when it is written and read again.
    fn is_whole(&self) -> bool {
        match self {
            Self::Json(_) => true,
            Self::Double(number) => number.is_finite(),
            Self::Single(number) => number.is_finite(),
            Self::Wide(number) => u64::try_from(*number).is_ok(),
            Self::Maybe(value) => value.as_ref().is_none_or(|value| value.is_whole()),
            Self::List(items) => items.iter().all(Self::is_whole),
            Self::Map(fields) => fields
                .iter()
                .all(|(key, value)| matches!(key, Key::Text(_) | Key::Number(_)) && value.is_whole()),
            Self::Fails | Self::Panics => false,
        }
    }
}

fn odd() -> impl Strategy<Value = Odd> {
    let key = prop_oneof![
        4 => "[a-c]{0,2}".prop_map(Key::Text),
        2 => any::<i32>().prop_map(Key::Number),
        1 => Just(Key::List),
        1 => Just(Key::Nothing),
    ];
    let leaf = prop_oneof![
        6 => any::<i64>().prop_map(|number| Odd::Json(number.into())),
        4 => ".{0,8}".prop_map(|text| Odd::Json(text.into())),
        2 => any::<f64>().prop_map(Odd::Double),
        1 => Just(Odd::Double(f64::NAN)),
        1 => Just(Odd::Double(f64::NEG_INFINITY)),
        2 => any::<f32>().prop_map(Odd::Single),
        2 => any::<u128>().prop_map(|wide| Odd::Wide(wide >> 64)),
        1 => any::<u128>().prop_map(Odd::Wide),
        1 => Just(Odd::Fails),
        1 => Just(Odd::Panics),
        1 => Just(Odd::Maybe(None)),
    ];
    leaf.prop_recursive(3, 12, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Odd::List),
            proptest::collection::vec((key.clone(), inner.clone()), 0..4).prop_map(Odd::Map),
            inner.prop_map(|value| Odd::Maybe(Some(Box::new(value)))),
        ]
    })
}

#[data]
#[derive(Clone, SliceType)]
#[slice(name = "note")]
struct Note {
    text: String,
}

/// How a tool's value is treated.
#[derive(Debug, Clone, Copy)]
enum Way {
    Plain,
    Hidden,
    Rendered,
    Keyed,
    Published,
}

const WAYS: [Way; 5] = [Way::Plain, Way::Hidden, Way::Rendered, Way::Keyed, Way::Published];

struct Returns(Way, Odd);

impl Handler<ToolContext, (), Odd> for Returns {
    async fn call<'a>(&'a self, (): (), cx: &'a mut ToolContext) -> Result<ToolResult<Odd>, ToolError> {
        let _ = cx.session().dispatch(Note { text: "before".to_owned() })?;
        let result = ToolResult::ok(self.1.clone(), "done");
        Ok(if matches!(self.0, Way::Hidden) { result.exclude_value_from_context() } else { result })
    }
}

async fn called(way: Way, value: Odd, session: &Session) -> Outcome {
    let tool = Tool::new("odd", "Returns something.", Returns(way, value));
    let tool = match way {
        Way::Plain | Way::Hidden => tool,
        Way::Rendered => tool.render_with(|_| Ok("shown".to_owned())),
        Way::Keyed => tool.idempotency(IdempotencyConfig::auto()),
        Way::Published => tool.publishes(),
    };
    let section = Section::tools("t", "T").tool(tool);
    let prompt = PromptTemplate::builder("tests", "values").section(section).build().unwrap().prompt();
    prompt.prepare(session).unwrap();
    let executor = Executor::open(&prompt, session).await.unwrap();
    executor.call(ToolCall::new("1", "odd", "")).await
}

async fn sessions() -> [Session; 2] {
    let durable = Session::builder().store(Arc::new(ByteStore::new())).open().await.unwrap();
    [Session::new(), durable]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(300), failure_persistence: None, ..ProptestConfig::default() })]

    // case 257
    #[test]
    fn a_value_is_recorded_as_it_is_or_fails_its_call(value in odd()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for way in WAYS {
                for session in sessions().await {
                    let outcome = called(way, value.clone(), &session).await;
                    prop_assert_eq!(outcome.is_success(), value.is_whole(), "{:?}: {}", way, outcome.text());
                    if outcome.is_success() {
                        prop_assert_eq!(outcome.event.value.to_json(), serde_json::to_value(&value).unwrap());
                        prop_assert_eq!(session.slice::<Note>().len(), 1);
                    } else {
                        prop_assert!(outcome.text().contains("odd was not committed: "), "{}", outcome.text());
                        prop_assert_eq!(session.slice::<Note>().len(), 0);
                    }
                }
            }
            Ok(())
        })?;
    }
}

// case 257
#[tokio::test]
async fn a_failure_says_what_cannot_be_written() {
    for (value, reason) in [
        (Odd::Fails, "this one is not written"),
        (Odd::Panics, "this one is not written either"),
        (Odd::Double(f64::NAN), "JSON has no NaN and no infinite numbers"),
        (Odd::Maybe(Some(Box::new(Odd::Double(f64::INFINITY)))), "JSON has no NaN and no infinite numbers"),
        (Odd::Wide(u128::MAX), "an integer has more than 64 bits"),
        (Odd::Map(vec![(Key::List, Odd::Json(json!(1)))]), "a key of a map is not a text"),
    ] {
        let session = Session::new();
        let outcome = called(Way::Plain, value, &session).await;
        let expected = format!(
            "odd was not committed: its value cannot be written as JSON ({reason}); nothing was changed"
        );
        assert_eq!(outcome.text(), expected);
        assert!(session.slice::<Note>().is_empty());
    }
}

// case 257
#[tokio::test]
async fn an_item_that_cannot_be_written_is_not_dispatched_in_a_durable_session() {
    for value in [Odd::Fails, Odd::Panics, Odd::Double(f64::NAN)] {
        let [_, durable] = sessions().await;
        let dispatched: DispatchResult = durable.dispatch(value);
        assert!(!dispatched.is_ok());
        assert_eq!(durable.slice::<Odd>().len(), 0);
    }
}

/// A number that its maker can change later.
#[derive(Clone, Default)]
struct Counting(Arc<AtomicUsize>);

impl Serialize for Counting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0.load(Ordering::SeqCst) as u64)
    }
}

impl<'de> Deserialize<'de> for Counting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let count = usize::deserialize(deserializer)?;
        Ok(Self(Arc::new(AtomicUsize::new(count))))
    }
}

impl JsonSchema for Counting {
    fn schema_name() -> Cow<'static, str> {
        "Counting".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer" })
    }
}

struct Counts(Counting);

impl Handler<ToolContext, (), Counting> for Counts {
    async fn call<'a>(&'a self, (): (), _: &'a mut ToolContext) -> ToolResult<Counting> {
        ToolResult::value(self.0.clone())
    }
}

#[tokio::test]
async fn what_a_durable_session_recorded_does_not_change_with_the_value() {
    let kept = Counting::default();
    let tool = Tool::new("count", "Counts.", Counts(kept.clone())).idempotency(IdempotencyConfig::auto());
    let section = Section::tools("t", "T").tool(tool);
    let prompt = PromptTemplate::builder("tests", "counting").section(section).build().unwrap().prompt();
    let [_, durable] = sessions().await;
    let executor = Executor::open(&prompt, &durable).await.unwrap();
    kept.0.store(1, Ordering::SeqCst);
    let first = executor.call(ToolCall::new("1", "count", "")).await;
    kept.0.store(2, Ordering::SeqCst);
    assert_eq!(first.event.value.to_json(), json!(1));
    let replayed = executor.call(ToolCall::new("2", "count", "")).await;
    assert!(replayed.event.replayed);
    assert_eq!((replayed.event.value.to_json(), replayed.text()), (json!(1), "1"));
    for event in durable.slice::<wink::session::ToolInvoked>().all() {
        assert_eq!(event.value.to_json(), json!(1));
    }
}
