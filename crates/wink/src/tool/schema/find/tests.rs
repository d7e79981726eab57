#![allow(clippy::unwrap_used, reason = "tests panic when they fail")]

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::tool::schema::{CompiledSchema, ParseLimits};

fn schema() -> CompiledSchema {
    CompiledSchema::compile(&json!({ "type": "object" })).unwrap()
}

fn found(text: &str) -> Result<Vec<String>, String> {
    match schema().find(text, &ParseLimits::default()) {
        Ok(found) => Ok(found.into_iter().map(str::to_owned).collect()),
        Err(rejection) => {
            let [problem] = rejection.problems.as_slice() else { return Err(rejection.to_string()) };
            Err(format!("expected {}, got {}", problem.expected, problem.got))
        }
    }
}

fn is(text: &str, expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(|&one| one.to_owned()).collect();
    assert_eq!(found(text), Ok(expected), "{text}");
}

fn is_refused(text: &str, expected: &str) {
    assert_eq!(found(text), Err(expected.to_owned()), "{text}");
}

// case 208
#[test]
fn alone() {
    is(r#"{"a":1}"#, &[r#"{"a":1}"#]);
    is(" \n[1, 2]\n", &["[1, 2]"]);
    is(r#"{"a":"```json\n{}\n```"}"#, &[r#"{"a":"```json\n{}\n```"}"#]);
}

// case 208
#[test]
fn in_a_block() {
    is("```json\n{\"a\":1}\n```", &[r#"{"a":1}"#]);
    is("Here:\n\n  ```JSON\n  {\"a\":1}\n  ```\nDone, see [1].", &[r#"{"a":1}"#]);
    is("~~~~json\n{\"a\":\"~~~\"}\n~~~~", &[r#"{"a":"~~~"}"#]);
    is("```json {\"a\":1}\n```", &[r#"{"a":1}"#]);
    is("```json\n{\"a\":1}", &[r#"{"a":1}"#]);
    is("```json\n{\"a\":1}\n```\nor\n```json\n[2]\n```", &[r#"{"a":1}"#, "[2]"]);
    is("```\n{\"a\":1}\n```", &[r#"{"a":1}"#]);
    is("```\n{ let a = 1; }\n```\n{\"a\":1}", &[r#"{"a":1}"#]);
    is("```json\r\n{\"a\":1}\r\n```\r\n", &[r#"{"a":1}"#]);
}

// case 208
#[test]
fn a_block_that_cannot_be_read_is_an_error() {
    is_refused("```json\n{\"a\":1,}\n```", "expected a key in double quotes, got `}` at line 1 column 8");
    is_refused(
        "```json\n{\"a\":1\n```\n{\"a\":1}",
        "expected `,` or `}`, got the end of the text at line 1 column 7",
    );
    is_refused("```json\n```", "expected a JSON object or list, got the end of the text at line 1 column 1");
    is_refused("```json\n\"a\"\n```", "expected a JSON object or list, got `\"a\"` at line 1 column 1");
    is_refused(
        "```json\n{\"a\":1}\n```\nand\n```json\n{\"a\":1} {}\n```",
        "expected nothing after the JSON value, got `{}` at line 1 column 9",
    );
}

// case 208
#[test]
fn inside_prose() {
    is(r#"The answer is {"a":[1]}, as you see."#, &[r#"{"a":[1]}"#]);
    is(r#"By [him], {you} and [1]: ```{"a":1}```."#, &["[1]", r#"{"a":1}"#]);
    is("```python\nx = [1]\n```\nSo [2].", &["[2]"]);
    is("Nothing { here [", &[]);
    is("", &[]);
}

// case 208
#[test]
fn nothing_is_taken_out_of_a_broken_object() {
    is_refused(
        r#"Found: {"all": [{"a":1}, {"a":2}"#,
        "expected `,` or `]`, got the end of the text at line 1 column 33",
    );
    is_refused("So:\n{\"x\": oops, \"y\": {\"a\":1}}", "expected a value, got `oops,` at line 2 column 7");
    is_refused(r#"[[{"a":1}"#, "expected `,` or `]`, got the end of the text at line 1 column 10");
}

// case 208
#[test]
fn brackets_without_end_cost_little() {
    is(&"[".repeat(200_000), &[]);
    is(&"[1,".repeat(100_000), &[]);
    is(&"{\"".repeat(100_000), &[]);
    assert!(found(&"{\"a\":".repeat(100_000)).is_err());
    assert_eq!(found(&"[1] ".repeat(50_000)).unwrap().len(), 50_000);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[ -~`\n{}\\[\\]]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c`{\\[]{0,3}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    // case 208
    #[test]
    fn what_was_put_into_a_text_is_found(value in any_json(), before in "[a-z .,:\n]{0,20}", after in "[a-z .,\n]{0,20}", pretty: bool) {
        prop_assume!(value.is_object() || value.is_array());
        let json = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
        let texts = [
            format!("{before}{json}{after}"),
            format!("{before}\n```json\n{json}\n```\n{after}"),
            format!("{before}\n```\n{json}\n```\n{after}"),
            format!("\n{json}\n"),
        ];
        for text in texts {
            prop_assert_eq!(found(&text), Ok(vec![json.clone()]), "{}", text);
        }
    }

    // case 208
    #[test]
    fn whatever_is_found_is_json(text in "[a-c0-9`~\n {}\\[\\]\",:\\\\jso]{0,80}") {
        for json in found(&text).unwrap_or_default() {
            let value: Value = serde_json::from_str(&json).unwrap();
            prop_assert!(value.is_object() || value.is_array());
            prop_assert!(text.contains(&json));
        }
    }
}
