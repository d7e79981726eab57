//! The retail tools against the published traces, and against the rules that no trace touches.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "the lints exempt tests, not their helpers"
)]

#[path = "../tau_retail/database.rs"]
mod database;
#[path = "../tau_retail/domain/mod.rs"]
mod domain;
#[path = "../tau_retail/engine.rs"]
mod engine;
#[path = "../tau_retail/json.rs"]
mod json;
#[path = "../tau_retail/number.rs"]
mod number;
#[path = "../tau_retail/ordered.rs"]
mod ordered;
#[path = "../tau_retail/records.rs"]
mod records;
#[path = "../tau_retail/replay.rs"]
mod replay;
#[path = "../tau_retail/tools.rs"]
mod tools;
#[path = "../tau_retail/trace.rs"]
mod trace;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::database::Initial;
use crate::domain::{Access, RetailTool, ToolVisitor, visit_tools};
use crate::engine::WinkEngine;
use crate::number::{float_text, round2};
use crate::replay::{Engine, Fault, Faults, Reply, Report, replay};
use crate::tools::Writes;

const INITIAL_SHA256: &str = "ae10e8a7f23bedf88c90a528efa2d59d27cae24b5ce1f0d28768b39257bf9f0d";

static INITIAL: LazyLock<Arc<Initial>> = LazyLock::new(|| Arc::new(Initial::load(data()).unwrap()));

fn data() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../data/tau-retail"))
}

fn sha256(text: &str) -> String {
    json::hex(Sha256::digest(text))
}

/// The tools over a fresh database.
struct Shop(WinkEngine);

impl Shop {
    fn new() -> Self {
        Self(WinkEngine::new(Arc::clone(&INITIAL), Writes::InTheCall).unwrap())
    }

    /// A shop whose data was edited first.
    fn edited(edit: impl FnOnce(&mut Value)) -> Self {
        let text = fs::read_to_string(data().join("db-source-order.json")).unwrap();
        let mut database = serde_json::from_str(&text).unwrap();
        edit(&mut database);
        let initial = Initial::parse(&database.to_string()).unwrap();
        Self(WinkEngine::new(Arc::new(initial), Writes::InTheCall).unwrap())
    }

    fn call(&mut self, name: &str, args: Value) -> String {
        match self.0.call(name, &args, Fault::None).unwrap() {
            Reply::Answer(text) => text,
            Reply::Lost => panic!("{name} was to run without a fault"),
        }
    }

    fn json(&mut self, name: &str, args: Value) -> Value {
        serde_json::from_str(&self.call(name, args)).unwrap()
    }

    fn order(&mut self, order_id: &str) -> Value {
        self.json("get_order_details", json!({ "order_id": order_id }))
    }

    fn balance(&mut self, user_id: &str, payment_method_id: &str) -> Value {
        self.json("get_user_details", json!({ "user_id": user_id }))["payment_methods"][payment_method_id]["balance"]
            .clone()
    }

    fn sha256(&self) -> String {
        self.0.database_sha256().unwrap()
    }
}

/// All tasks, or one in seven where hashing the database for each takes long.
fn sampled<T>(tasks: impl IntoIterator<Item = T>) -> Vec<T> {
    tasks.into_iter().step_by(if cfg!(debug_assertions) { 7 } else { 1 }).collect()
}

#[test]
fn every_trace_gives_the_published_hashes() {
    let golden = fs::read_to_string(data().join("golden.jsonl")).unwrap();
    assert_eq!(golden.lines().count(), 635);
    let mut shop = Shop::new();
    for line in sampled(golden.lines()) {
        let task: Value = serde_json::from_str(line).unwrap();
        shop.0.start_task().unwrap();
        for step in task["steps"].as_array().unwrap() {
            let text = shop.call(step["name"].as_str().unwrap(), step["args"].clone());
            assert_eq!(sha256(&text), step["result_sha256"], "{} {}: {text}", task["split"], task["task"]);
            assert_eq!(text.starts_with("Error"), step["error"].as_bool().unwrap());
        }
        assert_eq!(shop.sha256(), task["final_db_sha256"], "{} {}", task["split"], task["task"]);
    }
}

#[test]
fn retries_after_rolled_back_faults_change_nothing() {
    let tasks = sampled(trace::load(data()).unwrap());
    let results: Vec<_> = tasks.iter().flat_map(|task| &task.steps).map(|step| &step.result).collect();
    // A call that was refused had no effect, so there is nothing after it to be struck at.
    let refused = results.iter().filter(|result| result.starts_with("Error")).count();
    for share in [0.3, 1.0] {
        let mut engine = WinkEngine::new(Arc::clone(&INITIAL), Writes::InTheCall).unwrap();
        let report = replay(&tasks, &mut engine, Faults::new(share, 1), |task, _| {
            panic!("{} {}", task.split, task.task)
        })
        .unwrap();
        let faults = report.faults;
        let expected = Report {
            tasks: tasks.len() as u64,
            calls: results.len() as u64,
            faults,
            wrong_results: 0,
            wrong_databases: 0,
        };
        assert_eq!(report, expected);
        let most = (results.len() - refused) as u64;
        assert!(faults * 5 > most && (share < 1.0 || faults == most), "{faults} of {most}");
    }
}

#[test]
fn without_rollback_about_one_call_in_five_reports_a_wrong_result() {
    let tasks = sampled(trace::load(data()).unwrap());
    let mut engine = WinkEngine::new(Arc::clone(&INITIAL), Writes::Unprotected).unwrap();
    let mut heard = 0;
    let report = replay(&tasks, &mut engine, Faults::new(0.3, 1), |_, _| heard += 1).unwrap();
    assert!((6..=14).contains(&(report.calls / report.wrong_results.max(1) * 2)), "{report:?}");
    assert_eq!(heard, report.wrong_results + report.wrong_databases);
}

#[test]
fn the_small_vectors_of_the_data_hold() {
    assert_eq!(Shop::new().sha256(), INITIAL_SHA256);
    let mut shop = Shop::new();
    let texts = [
        shop.call("think", json!({"thought": "hm"})),
        shop.call(
            "find_user_id_by_name_zip",
            json!({"first_name": "YUSUF", "last_name": "rossi", "zip": "19122"}),
        ),
        shop.call("transfer_to_human_agents", json!({"summary": "lost"})),
        shop.call("get_order_details", json!({"order_id": "W2378156"})),
    ];
    assert_eq!(texts, ["", "yusuf_rossi_9620", "Transfer successful", "Error: order not found"]);
    assert_eq!(
        texts.map(|text| sha256(&text)),
        [
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "c382eb284225f3576e8654189d84ce6583475d033962c980ffda222d7062c8b2",
            "bccdc18e7b6ac085553ef044cadec50c310dffd4a86277e0c5c3940aa0e9ce04",
            "e3693f62b51b3e215042b4b08174fe077276c23ccae6fd076e1f50ba21988d27",
        ]
    );
}

#[test]
fn the_tools_are_the_published_ones() {
    #[derive(Default)]
    struct Listed(BTreeMap<&'static str, (Value, Access)>);
    impl ToolVisitor for Listed {
        fn visit<T: RetailTool>(mut self) -> Self {
            assert!((1..=200).contains(&T::DESCRIPTION.chars().count()), "{}: {}", T::NAME, T::DESCRIPTION);
            let schema = schemars::schema_for!(T).to_value();
            let properties = schema["properties"].as_object().cloned().unwrap_or_default();
            let types: BTreeMap<_, _> =
                properties.iter().map(|(name, property)| (name.clone(), property["type"].clone())).collect();
            assert!(properties.values().all(|property| property["description"].is_string()), "{schema}");
            let required = schema.get("required").cloned().unwrap_or(json!([]));
            let shape = json!({ "types": types, "required": required });
            assert_eq!(self.0.insert(T::NAME, (shape, T::ACCESS)), None);
            self
        }
    }
    let listed = visit_tools(Listed::default());

    let published: Value =
        serde_json::from_str(&fs::read_to_string(data().join("tools.json")).unwrap()).unwrap();
    let published: BTreeMap<_, _> = published
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            let parameters = &tool["function"]["parameters"];
            let properties = parameters["properties"].as_object().unwrap();
            let types: BTreeMap<_, _> =
                properties.iter().map(|(name, property)| (name, property["type"].clone())).collect();
            let name = tool["function"]["name"].as_str().unwrap();
            let writes = ["cancel", "exchange", "modify", "return"].iter().any(|verb| name.starts_with(verb));
            let access = if writes { Access::Writes } else { Access::Reads };
            (name, (json!({ "types": types, "required": parameters["required"] }), access))
        })
        .collect();
    assert_eq!(listed.0, published);
}

#[test]
fn the_two_forms_of_json_differ_as_described() {
    let value = json!({"b": [], "a": {"\u{7f}é😀\n\"\\/\u{1}": [46.0, 17, -0.0, 1e16, 1e-5]}});
    assert_eq!(
        json::wire(&value).unwrap(),
        r#"{"b": [], "a": {"\u007f\u00e9\ud83d\ude00\n\"\\/\u0001": [46.0, 17, -0.0, 1e+16, 1e-05]}}"#
    );
    assert_eq!(
        json::canonical(&value).unwrap(),
        "{\"a\":{\"\u{7f}é😀\\n\\\"\\\\/\\u0001\":[46.0,17,-0.0,1e+16,1e-05]},\"b\":[]}"
    );
    let written = [5.684341886080802e-14, 71.96000000000001, 0.0001, 1e15].map(float_text);
    assert_eq!(written, ["5.684341886080802e-14", "71.96000000000001", "0.0001", "1000000000000000.0"]);
    assert_eq!([36.125, 2.675, 0.375, 46.0].map(round2), [36.12, 2.67, 0.38, 46.0]);
    assert_eq!(round2(-0.001).to_bits(), (-0.0_f64).to_bits());
}

#[test]
fn searches_ignore_case_but_not_spaces_and_see_the_current_zip() {
    let mut shop = Shop::new();
    let email = |email| json!({ "email": email });
    assert_eq!(shop.call("find_user_id_by_email", email("NOAH.brown7922@EXAMPLE.com")), "noah_brown_6181");
    assert_eq!(
        shop.call("find_user_id_by_email", email(" noah.brown7922@example.com")),
        "Error: user not found"
    );
    let named = |zip| json!({"first_name": "noah", "last_name": "BROWN", "zip": zip});
    assert_eq!(shop.call("find_user_id_by_name_zip", named("80279")), "noah_brown_6181");
    let user = shop.call(
        "modify_user_address",
        json!({"zip": "1", "country": "C", "state": "S", "city": "T", "address2": "", "address1": "A",
               "user_id": "noah_brown_6181"}),
    );
    let address = r#""address": {"address1": "A", "address2": "", "city": "T", "state": "S", "country": "C", "zip": "1"}"#;
    assert!(user.contains(address), "{user}");
    assert_eq!(shop.call("find_user_id_by_name_zip", named("80279")), "Error: user not found");
    assert_eq!(shop.call("find_user_id_by_name_zip", named("1")), "noah_brown_6181");
}

#[test]
fn paying_by_gift_card_rounds_and_cancelling_then_refunds_all_three_entries() {
    let (order, card) = (json!("#W1080318"), "gift_card_3749819");
    let mut shop = Shop::new();
    let user_id = shop.order("#W1080318")["user_id"].as_str().unwrap().to_owned();
    assert_eq!(shop.balance(&user_id, card), json!(91));

    let pay = |method: &str| json!({ "order_id": order, "payment_method_id": method });
    let modified = shop.json("modify_pending_order_payment", pay(card));
    let entry =
        |kind, method| json!({"transaction_type": kind, "amount": 53.43, "payment_method_id": method});
    let mut history = vec![
        entry("payment", "credit_card_3577130"),
        entry("payment", card),
        entry("refund", "credit_card_3577130"),
    ];
    assert_eq!(modified["payment_history"], json!(history));
    assert_eq!(modified["status"], "pending");
    // 91 - 53.43 is 37.57 only once rounded.
    assert_eq!(shop.balance(&user_id, card), json!(37.57));
    assert_eq!(
        shop.call("modify_pending_order_payment", pay("credit_card_3577130")),
        "Error: there should be exactly one payment for a pending order"
    );

    let cancel = |reason| json!({ "order_id": order, "reason": reason });
    assert_eq!(shop.call("cancel_pending_order", cancel("changed my mind")), "Error: invalid reason");
    let cancelled = shop.call("cancel_pending_order", cancel("no longer needed"));
    assert!(cancelled.ends_with(r#", "cancel_reason": "no longer needed"}"#), "{cancelled}");
    history.extend([
        entry("refund", "credit_card_3577130"),
        entry("refund", card),
        entry("refund", "credit_card_3577130"),
    ]);
    let cancelled: Value = serde_json::from_str(&cancelled).unwrap();
    assert_eq!(cancelled["payment_history"], json!(history));
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(shop.balance(&user_id, card), json!(91.0));
    assert_eq!(
        shop.call("cancel_pending_order", cancel("no longer needed")),
        "Error: non-pending order cannot be cancelled"
    );
}

#[test]
fn changing_the_payment_checks_method_sameness_and_balance_in_that_order() {
    let mut shop = Shop::new();
    let mut pay = |order: &str, method: &str| {
        shop.call("modify_pending_order_payment", json!({ "order_id": order, "payment_method_id": method }))
    };
    assert_eq!(pay("#W0", "x"), "Error: order not found");
    assert_eq!(pay("#W1840144", "x"), "Error: non-pending order cannot be modified");
    assert_eq!(pay("#W6779827", "x"), "Error: payment method not found");
    assert_eq!(
        pay("#W6779827", "gift_card_7219486"),
        "Error: the new payment method should be different from the current one"
    );
    // Paid by gift card, moved to the credit card: the card gets its money back.
    let order: Value = serde_json::from_str(&pay("#W6779827", "credit_card_9789590")).unwrap();
    assert_eq!(shop.balance(order["user_id"].as_str().unwrap(), "gift_card_7219486"), json!(4128.45));

    let mut poor = Shop::edited(|database| {
        let user = database["orders"]["#W1080318"]["user_id"].as_str().unwrap().to_owned();
        database["users"][user]["payment_methods"]["gift_card_3749819"]["balance"] = json!(53);
    });
    assert_eq!(
        poor.call(
            "modify_pending_order_payment",
            json!({"order_id": "#W1080318", "payment_method_id": "gift_card_3749819"})
        ),
        "Error: insufficient gift card balance to pay for the order"
    );
}

#[test]
fn item_swaps_keep_unrounded_amounts_and_follow_repeated_ids() {
    let mut shop = Shop::new();
    let order = shop.json(
        "modify_pending_order_items",
        json!({"order_id": "#W3376947", "item_ids": ["4329558751", "4168944673"],
               "new_item_ids": ["4245201809", "3704016729"], "payment_method_id": "credit_card_6513839"}),
    );
    assert_eq!(
        order["payment_history"].as_array().unwrap().last(),
        Some(&json!({"transaction_type": "payment", "amount": 5.684341886080802e-14,
                     "payment_method_id": "credit_card_6513839"}))
    );
    assert_eq!(order["status"], "pending (item modified)");

    // The order has two of 5753502325; a third is one too many, and the first bad id is named.
    let swap = |old: &[&str], new: &[&str]| {
        json!({"order_id": "#W7208030", "item_ids": old, "new_item_ids": new,
               "payment_method_id": "credit_card_5809636"})
    };
    let same = "5753502325";
    assert_eq!(
        shop.call("modify_pending_order_items", swap(&[same, same, same], &[])),
        "Error: 5753502325 not found"
    );
    assert_eq!(
        shop.call("modify_pending_order_items", swap(&[same, same], &[same])),
        "Error: the number of items to be exchanged should match"
    );
    assert_eq!(
        shop.call("modify_pending_order_items", swap(&[same], &["7"])),
        "Error: new item 7 not found or available"
    );
    let before = shop.order("#W7208030");
    let product = shop.json("get_product_details", json!({"product_id": before["items"][0]["product_id"]}));
    let variants: Vec<_> = product["variants"].as_object().unwrap().values().collect();
    let other =
        variants.iter().find(|variant| variant["available"] == true && variant["item_id"] != same).unwrap();
    let other_id = other["item_id"].as_str().unwrap();
    let after = shop.json("modify_pending_order_items", swap(&[same, same], &[other_id, other_id]));
    for (before, after) in before["items"].as_array().unwrap().iter().zip(after["items"].as_array().unwrap())
    {
        assert_eq!(
            *after,
            json!({"name": before["name"], "product_id": before["product_id"], "item_id": other_id,
                   "price": other["price"], "options": other["options"]})
        );
    }
}

#[test]
fn empty_lists_pass_with_an_integer_zero() {
    let mut shop = Shop::new();
    let args = |order: &str, method: &str| json!({"order_id": order, "item_ids": [], "new_item_ids": [], "payment_method_id": method});
    let order = shop.call("modify_pending_order_items", args("#W1080318", "gift_card_3749819"));
    let last = r#"{"transaction_type": "refund", "amount": 0, "payment_method_id": "gift_card_3749819"}]}"#;
    assert!(order.ends_with(last), "{order}");
    let user_id = shop.order("#W1080318")["user_id"].as_str().unwrap().to_owned();
    assert_eq!(shop.balance(&user_id, "gift_card_3749819"), json!(91));

    let order = shop.call("exchange_delivered_order_items", args("#W1840144", "paypal_2306935"));
    let last = r#""exchange_items": [], "exchange_new_items": [], "exchange_payment_method_id": "paypal_2306935", "exchange_price_difference": 0}"#;
    assert!(order.ends_with(last), "{order}");
}

#[test]
fn an_exchange_sorts_each_list_by_itself_and_keeps_the_sign_of_zero() {
    let mut shop = Shop::new();
    let args = json!({"order_id": "#W2809253", "item_ids": ["5946177616", "1596993217"],
                      "new_item_ids": ["4404981319", "1719127154"], "payment_method_id": "paypal_6053880"});
    let order = shop.call("exchange_delivered_order_items", args.clone());
    assert!(order.contains(r#""status": "exchange requested""#), "{order}");
    let last = r#""exchange_items": ["1596993217", "5946177616"], "exchange_new_items": ["1719127154", "4404981319"], "exchange_payment_method_id": "paypal_6053880", "exchange_price_difference": -0.0}"#;
    assert!(order.ends_with(last), "{order}");
    assert_eq!(
        shop.call("exchange_delivered_order_items", args),
        "Error: non-delivered order cannot be exchanged"
    );
}

#[test]
fn a_return_checks_payment_before_items() {
    let mut shop = Shop::new();
    let mut give_back = |order: &str, items: &[&str], method: &str| {
        let args = json!({"order_id": order, "item_ids": items, "payment_method_id": method});
        shop.call("return_delivered_order_items", args)
    };
    assert_eq!(give_back("#W0", &["7"], "x"), "Error: order not found");
    assert_eq!(give_back("#W1080318", &["7"], "x"), "Error: non-delivered order cannot be returned");
    assert_eq!(give_back("#W1840144", &["7"], "x"), "Error: payment method not found");
    assert_eq!(
        give_back("#W1840144", &["7"], "credit_card_3240550"),
        "Error: payment method should be either the original payment method or a gift card"
    );
    assert_eq!(give_back("#W1840144", &["7"], "paypal_2306935"), "Error: some item not found");
    let order = give_back("#W1840144", &["8590708195", "6017636844", "8590708195"], "paypal_2306935");
    let last = r#""return_items": ["6017636844", "8590708195", "8590708195"], "return_payment_method_id": "paypal_2306935"}"#;
    assert!(order.ends_with(last), "{order}");
}

#[test]
fn gift_cards_must_cover_the_difference() {
    let dear = |order: &str, status: &str, text: &str, tool: &str| {
        let mut shop = Shop::edited(|database| {
            database["orders"][order]["status"] = json!(status);
            let item = &mut database["orders"][order]["items"][0];
            item["price"] = json!(-1000.0);
        });
        let before = shop.sha256();
        let item = shop.order(order)["items"][0].clone();
        let product = shop.json("get_product_details", json!({"product_id": item["product_id"]}));
        let variants: Vec<_> = product["variants"].as_object().unwrap().values().collect();
        let new = variants.iter().find(|variant| variant["available"] == true).unwrap();
        let args = json!({"order_id": order, "item_ids": [item["item_id"]], "new_item_ids": [new["item_id"]],
                          "payment_method_id": "gift_card_3749819"});
        assert_eq!(shop.call(tool, args), text);
        assert_eq!(shop.sha256(), before);
    };
    dear(
        "#W1080318",
        "pending",
        "Error: insufficient gift card balance to pay for the new item",
        "modify_pending_order_items",
    );
    dear(
        "#W1080318",
        "delivered",
        "Error: insufficient gift card balance to pay for the price difference",
        "exchange_delivered_order_items",
    );
}

/// Where the source would stop half way and keep what it had done, nothing is changed here.
#[test]
fn a_missing_gift_card_or_payment_changes_nothing() {
    let mut shop = Shop::edited(|database| {
        let user = database["orders"]["#W6779827"]["user_id"].as_str().unwrap().to_owned();
        database["users"][user]["payment_methods"].as_object_mut().unwrap().shift_remove("gift_card_7219486");
        database["orders"]["#W1080318"]["payment_history"] = json!([]);
    });
    let before = shop.sha256();
    assert_eq!(
        shop.call("cancel_pending_order", json!({"order_id": "#W6779827", "reason": "ordered by mistake"})),
        "Error: 'gift_card_7219486'"
    );
    assert_eq!(
        shop.call(
            "modify_pending_order_payment",
            json!({"order_id": "#W6779827", "payment_method_id": "credit_card_9789590"})
        ),
        "Error: 'gift_card_7219486'"
    );
    assert_eq!(
        shop.call(
            "modify_pending_order_payment",
            json!({"order_id": "#W1080318", "payment_method_id": "credit_card_3577130"})
        ),
        "Error: list index out of range"
    );
    assert_eq!(shop.sha256(), before);
}

#[test]
fn records_survive_being_written_and_read_again() {
    let mut shop = Shop::new();
    for order_id in ["#W1080318", "#W1840144", "#W2809253"] {
        let text = shop.call("get_order_details", json!({ "order_id": order_id }));
        let order: records::Order = serde_json::from_str(&text).unwrap();
        assert_eq!(json::wire(&order).unwrap(), text);
    }
    let text = shop.call("get_user_details", json!({"user_id": "noah_brown_6181"}));
    let user: records::User = serde_json::from_str(&text).unwrap();
    assert_eq!(json::wire(&user).unwrap(), text);
}
