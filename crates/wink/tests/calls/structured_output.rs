//! Structured output: what the model's answer must be, how it is read, and what the model is told when it does not fit.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic when they fail")]

use std::sync::Arc;

use wink::prelude::*;
use wink::prompt::{Container, Output, OutputContract, OutputError, OutputErrorKind, ParsedOutput};
use wink::serde_json::{Value, json};
use wink::tool::secret::Secret;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Finding {
    file: String,
    line: u32,
}

impl SliceType for Finding {
    const NAME: &'static str = "tests.finding";
}

fn template<Out>(output: Output<Out>) -> PromptTemplate<Out> {
    let task = Section::markdown("task", "Task").body("Look for bugs.");
    PromptTemplate::builder("tests", "output").section(task).output(output).build().unwrap()
}

fn contract<Out>(output: Output<Out>) -> OutputContract {
    template(output).output_contract().unwrap().clone()
}

fn finding(file: &str, line: u32) -> Finding {
    Finding { file: file.into(), line }
}

fn object(text: &str) -> Result<ParsedOutput, OutputError> {
    contract(Output::object::<Finding>()).parse(text)
}

fn list(text: &str) -> Result<ParsedOutput, OutputError> {
    contract(Output::list::<Finding>()).parse(text)
}

fn refused(parsed: Result<ParsedOutput, OutputError>) -> (OutputErrorKind, String) {
    let error = parsed.unwrap_err();
    let text = error.to_string();
    (error.kind, text)
}

const ONE: &str = r#"{"file":"a.rs","line":7}"#;

// cases 207, 208
#[test]
fn an_answer_is_found_alone_in_a_block_or_in_prose() {
    let texts = [
        ONE.to_owned(),
        format!("\n {ONE}\n"),
        format!("Here you are:\n\n```json\n{ONE}\n```\n\nAnything else?"),
        format!("```\n{ONE}\n```"),
        format!("There is one bug, {ONE}, in line [7]."),
    ];
    for text in texts {
        let parsed = object(&text).unwrap();
        assert_eq!(parsed.value::<Finding>(), Some(Arc::new(finding("a.rs", 7))), "{text}");
        assert_eq!(parsed.json(), &json!({ "file": "a.rs", "line": 7 }));
        assert_eq!(parsed.text(), text);
        assert_eq!(template(Output::object::<Finding>()).output(&parsed), Some(Arc::new(finding("a.rs", 7))));
        assert_eq!(parsed.value::<Vec<Finding>>(), None);
    }
}

// case 208
#[test]
fn a_list_is_found_as_it_is_or_in_an_object() {
    for text in
        [format!("[{ONE}]"), format!("Found:\n```json\n[{ONE}]\n```"), format!("{{\"items\":[{ONE}]}}")]
    {
        let parsed = list(&text).unwrap();
        assert_eq!(parsed.value::<Vec<Finding>>(), Some(Arc::new(vec![finding("a.rs", 7)])), "{text}");
        assert_eq!(parsed.json(), &json!([{ "file": "a.rs", "line": 7 }]));
    }
    assert_eq!(list("[]").unwrap().json(), &json!([]));
}

// case 208
#[test]
fn a_block_that_is_no_json_is_an_error_whatever_else_there_is() {
    let text = format!("{ONE}\n```json\n{{\"file\": \"a.rs\",}}\n```");
    let (kind, told) = refused(object(&text));
    assert!(matches!(kind, OutputErrorKind::Unreadable(_)), "{kind:?}");
    assert_eq!(
        told,
        "The JSON of the answer cannot be read: expected a key in double quotes, got `}` at line 1 column 17. \
         Answer again with one JSON object that fits the schema `Finding`, in a block marked `json`."
    );
    assert_eq!(object(&text).unwrap_err().text, text.into());
}

// case 208
#[test]
fn the_wrong_container_is_an_error() {
    assert_eq!(
        refused(object(&format!("[{ONE}]"))),
        (
            OutputErrorKind::WrongContainer { found: Container::List },
            "The JSON of the answer is a list. Answer again with one JSON object that fits the schema `Finding`, in a block \
             marked `json`."
                .to_owned()
        )
    );
    assert_eq!(
        refused(list(ONE)),
        (
            OutputErrorKind::WrongContainer { found: Container::Object },
            "The JSON of the answer is an object. Answer again with one JSON list that fits the schema `Finding_list`, in a \
             block marked `json`."
                .to_owned()
        )
    );
}

// case 208
#[test]
fn extra_keys_are_an_error_unless_they_are_allowed() {
    let text = r#"{"file":"a.rs","line":7,"severity":"high"}"#;
    assert_eq!(
        refused(object(text)).1,
        "The JSON of the answer does not fit: `severity`: unknown field; nearest known field is `file` (known: `file`, `line`)\n\
         Answer again with one JSON object that fits the schema `Finding`, in a block marked `json`."
    );
    let parsed = contract(Output::object::<Finding>().allow_extra_keys()).parse(text).unwrap();
    assert_eq!(parsed.value::<Finding>(), Some(Arc::new(finding("a.rs", 7))));
    assert_eq!(parsed.json(), &json!({ "file": "a.rs", "line": 7, "severity": "high" }));
    let all = format!("[{text}]");
    assert!(list(&all).is_err());
    assert!(contract(Output::list::<Finding>().allow_extra_keys()).parse(&all).is_ok());
}

// case 208
#[test]
fn everything_that_is_wrong_is_told_with_its_place() {
    assert_eq!(
        refused(list(r#"[{"file":"a.rs","line":7},{"file":8,"lime":"9"}]"#)).1,
        "The JSON of the answer does not fit, 3 problems:\n\
         - `[1].file`: expected a string, got an integer\n\
         - `[1].lime`: unknown field; nearest known field is `line` (known: `file`, `line`)\n\
         - `[1].line`: missing; expected an integer\n\
         Answer again with one JSON list that fits the schema `Finding_list`, in a block marked `json`."
    );
    let duplicate = refused(object(r#"{"file":"a.rs","file":"b.rs","line":7}"#)).1;
    assert!(duplicate.contains("`file`: the key occurs twice; send it once"), "{duplicate}");
}

// case 208
#[test]
fn no_answer_at_all_is_an_error() {
    assert_eq!(
        refused(object("I could not find any.")),
        (
            OutputErrorKind::NoJson,
            "There is no JSON in the answer. Answer again with one JSON object that fits the schema `Finding`, in a block \
             marked `json`."
                .to_owned()
        )
    );
    assert!(matches!(refused(object("")).0, OutputErrorKind::NoJson));
    let cut = r#"{"all":[{"file":"a.rs","line":7},{"file":"b.rs","#;
    assert!(matches!(refused(object(cut)).0, OutputErrorKind::Unreadable(_)));
    assert!(matches!(refused(object(&"x".repeat(9 << 20))).0, OutputErrorKind::Unreadable(_)));
}

// case 208
#[test]
fn of_several_the_one_that_fits_is_meant() {
    let parsed = object(&format!("Not {{\"file\":\"b.rs\"}} but {ONE}, as I said: {ONE}.")).unwrap();
    assert_eq!(parsed.value::<Finding>(), Some(Arc::new(finding("a.rs", 7))));
    let two = format!("{ONE} or {{\"file\":\"b.rs\",\"line\":8}}");
    assert_eq!(refused(object(&two)).0, OutputErrorKind::Ambiguous { count: 2 });
    let (kind, told) = refused(object(r#"{"file":1} or {"file":"b.rs"}"#));
    assert!(matches!(kind, OutputErrorKind::Rejected(_)));
    assert!(told.starts_with("The JSON of the answer does not fit: `line`: missing"), "{told}");
}

// case 207
#[test]
fn the_model_is_told_what_to_answer_and_the_rest_can_be_had_alone() {
    let prompt = template(Output::object::<Finding>()).prompt();
    let rendered = prompt.render(&Session::new()).unwrap();
    let schema = contract(Output::object::<Finding>()).schema().to_string();
    assert_eq!(
        rendered.text(),
        format!(
            "## 1. Task\n\nLook for bugs.\n\n## 2. Response format\n\nWhen you are done, answer with one JSON object in a \
             block marked `json`, and with no other JSON. It must fit this schema, `Finding`:\n\n```\n{schema}\n```"
        )
    );
    assert_eq!(rendered.text_without_output(), "## 1. Task\n\nLook for bugs.");
    assert_eq!(rendered.output().unwrap().name(), prompt.output().unwrap().name());

    let plain = PromptTemplate::builder("tests", "plain").build().unwrap();
    let rendered = plain.prompt().render(&Session::new()).unwrap();
    assert!(rendered.output().is_none() && plain.output_contract().is_none());
    assert_eq!(rendered.text(), rendered.text_without_output());
}

// case 207
#[test]
fn values_go_to_their_slices() {
    let prompt = template(Output::list::<Finding>().publishes_each()).prompt();
    let session = Session::new();
    prompt.prepare(&session).unwrap();
    let parsed =
        prompt.output().unwrap().parse(&format!("[{ONE},{{\"file\":\"b.rs\",\"line\":8}}]")).unwrap();
    assert!(parsed.dispatch(&session).is_ok());
    let all: Vec<Finding> = session.slice::<Finding>().all().iter().map(|one| Finding::clone(one)).collect();
    assert_eq!(all, [finding("a.rs", 7), finding("b.rs", 8)]);

    let prompt = template(Output::object::<Finding>().publishes()).prompt();
    let session = Session::new();
    prompt.prepare(&session).unwrap();
    assert!(prompt.output().unwrap().parse(ONE).unwrap().dispatch(&session).is_ok());
    assert_eq!(session.slice::<Finding>().latest().as_deref(), Some(&finding("a.rs", 7)));

    // A session that does not know the type is left alone, and one that does needs no asking.
    let parsed = object(ONE).unwrap();
    let session = Session::new();
    assert!(parsed.dispatch(&session).is_ok());
    assert_eq!(session.slice::<Finding>().len(), 0);
    session.know::<Finding>().unwrap();
    assert!(parsed.dispatch(&session).is_ok());
    assert_eq!(session.slice::<Finding>().len(), 1);
}

// case 208
#[test]
fn a_schema_of_run_time_is_held_to_as_well() {
    let schema = json!({
        "type": "array",
        "items": { "$ref": "#/$defs/finding" },
        "minItems": 1,
        "$defs": { "finding": { "type": "object", "properties": { "file": { "type": "string" } } } },
    });
    let contract = contract(Output::dynamic("findings", schema));
    assert_eq!(contract.container(), Container::List);
    let parsed = contract.parse(r#"[{"file":"a.rs"}]"#).unwrap();
    assert_eq!(parsed.json(), &json!([{ "file": "a.rs" }]));
    assert_eq!(parsed.value::<Value>(), Some(Arc::new(json!([{ "file": "a.rs" }]))));
    assert!(contract.parse("[]").is_err());
    assert!(contract.parse(r#"[{"line":1}]"#).is_err());
}

#[test]
fn secrets_are_not_shown_in_errors() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Login {
        user: String,
        password: Secret<String>,
    }
    let contract = contract(Output::object::<Login>());
    for text in [
        r#"{"user":"me","password":{"hunter2":1}}"#,
        r#"{"user":"me","password":"hunter2" hunter2}"#,
        r#"{"user":"me","password":"hunter2","pasword":"hunter2"}"#,
    ] {
        let told = contract.parse(text).unwrap_err().to_string();
        assert!(!told.contains("hunter2"), "{told}");
    }
}

#[test]
fn a_decoder_that_panics_is_an_error() {
    #[derive(Debug, Serialize, JsonSchema)]
    struct Odd {
        number: i32,
    }
    impl<'de> Deserialize<'de> for Odd {
        fn deserialize<D: wink::serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            panic!("odd")
        }
    }
    assert!(contract(Output::object::<Odd>()).parse(r#"{"number":1}"#).is_err());
}

#[test]
fn an_output_that_cannot_be_told_is_a_construction_error() {
    let error =
        PromptTemplate::builder("tests", "output").output(Output::object::<String>()).build().unwrap_err();
    assert_eq!(error.section, "");
    assert!(
        error.reason.starts_with("the output string is a string; an output is an object or a list"),
        "{error}"
    );
}
