//! Sensitive parameters: seen by the handler, and by nobody else.

#![allow(missing_docs, dead_code)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use wink::tool::schema::{
    CompiledSchema, ParseLimits, SchemaError, advertised_schema, mark_sensitive, tighten,
};
use wink::tool::secret::Secret;

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Login {
    user: String,
    #[schemars(length(min = 4))]
    password: Secret<String>,
    pin: Option<Secret<u16>>,
    #[serde(default)]
    auth: Option<Auth>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Auth {
    tokens: Vec<Secret<String>>,
    note: Option<String>,
}

fn compiled<P: JsonSchema>() -> CompiledSchema {
    CompiledSchema::compile(&advertised_schema::<P>().unwrap()).unwrap()
}

#[test]
fn a_secret_prints_as_its_mask() {
    let login: Login =
        serde_json::from_str(r#"{"user":"u","password":"hunter2","auth":{"tokens":["t"]}}"#).unwrap();
    assert_eq!(login.password.expose(), "hunter2");
    assert_eq!(
        format!("{login:?}"),
        "Login { user: \"u\", password: ***, pin: None, auth: Some(Auth { tokens: [***], note: None }) }"
    );
    let masked = r#"{"user":"u","password":"***","pin":null,"auth":{"tokens":["***"],"note":null}}"#;
    assert_eq!(serde_json::to_string(&login).unwrap(), masked);
}

#[test]
fn the_schema_marks_secrets() {
    let schema = advertised_schema::<Login>().unwrap();
    assert_eq!(
        schema["properties"]["password"],
        json!({ "type": "string", "writeOnly": true, "x-wink-sensitive": true, "minLength": 4 })
    );
    assert!(compiled::<Login>().has_sensitive());
    assert!(!compiled::<()>().has_sensitive());
}

#[test]
fn masking_leaves_no_secret_whatever_was_sent() {
    let schema = compiled::<Login>();
    for (text, masked) in [
        (r#"{"user":"u","password":"hunter2"}"#, r#"{"user":"u","password":"***"}"#),
        (r#"{ "password" : "hun\"ter2" , "user":"u" }"#, r#"{ "password" : "***" , "user":"u" }"#),
        (r#"{"pin":1234,"password":["hunter2"]}"#, r#"{"pin":"***","password":"***"}"#),
        (r#"{"auth":{"tokens":["a","b"],"note":"n"}}"#, r#"{"auth":{"tokens":["***","***"],"note":"n"}}"#),
        // Wrong shapes and misspelt names must not leak.
        (r#"{"auth":"hunter2"}"#, r#"{"auth":"***"}"#),
        (r#"{"auth":{"tokens":"hunter2"}}"#, r#"{"auth":{"tokens":"***"}}"#),
        (r#"{"pasword":"hunter2","user":"u"}"#, r#"{"pasword":"***","user":"u"}"#),
        (r#"{"Password_":"hunter2"}"#, r#"{"Password_":"***"}"#),
        (r#"{"login":{"user":"u","password":"hunter2"}}"#, r#"{"login":{"user":"u","password":"***"}}"#),
        (r#""hunter2""#, r#""***""#),
        ("", ""),
        ("{\"password\":\"hunter2", "[withheld: unreadable arguments of a tool with sensitive parameters]"),
        ("password=hunter2", "[withheld: unreadable arguments of a tool with sensitive parameters]"),
    ] {
        assert_eq!(schema.mask(text), masked, "{text}");
    }
    let deep = format!("{}\"hunter2\"{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    assert!(!schema.mask(&deep).contains("hunter2"));
    let open = compiled::<()>();
    assert_eq!(open.mask("not json"), "not json");
}

#[test]
fn problems_never_quote_secrets() {
    let schema = compiled::<Login>();
    let limits = ParseLimits::default();
    for (text, expected) in [
        (
            r#"{"user":"u","password":"hun"}"#,
            "Invalid arguments: `password`: expected at least 4 characters, got 3",
        ),
        (
            r#"{"user":"u","password":"hunter2","pin":70000}"#,
            "Invalid arguments: `pin`: expected a number from 0 to 65535, got a hidden value",
        ),
        (
            r#"{"user":"u","password":hunter2}"#,
            "The arguments are not valid JSON: expected a value, got something else at line 1 column 24.",
        ),
    ] {
        assert_eq!(schema.check(text, &limits).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_field_can_be_marked_by_its_path() {
    let base = tighten(json!({
        "type": "object",
        "properties": {
            "name": { "type": "string" },
            "auth": { "anyOf": [{ "$ref": "#/$defs/Auth" }, { "type": "null" }] },
            "list": { "type": "array", "items": { "$ref": "#/$defs/Auth" } },
        },
        "$defs": { "Auth": { "type": "object", "properties": { "token": { "enum": ["a", "b"] } } } },
    }))
    .unwrap();
    let text = r#"{"name":"n","auth":{"token":"c"},"list":[{"token":"d"}]}"#;
    for (path, masked) in [
        ("name", r#"{"name":"***","auth":{"token":"c"},"list":[{"token":"d"}]}"#),
        ("auth", r#"{"name":"n","auth":"***","list":[{"token":"d"}]}"#),
        ("auth.token", r#"{"name":"n","auth":{"token":"***"},"list":[{"token":"***"}]}"#),
        ("list.token", r#"{"name":"n","auth":{"token":"***"},"list":[{"token":"***"}]}"#),
    ] {
        let mut schema = base.clone();
        mark_sensitive(&mut schema, path).unwrap();
        let schema = CompiledSchema::compile(&schema).unwrap();
        assert_eq!(schema.mask(text), masked, "{path}");
        let rejection = schema.check(text, &ParseLimits::default()).unwrap_err();
        assert_eq!(rejection.to_string().contains("\"c\""), path == "name", "{rejection}");
    }
    let unknown = mark_sensitive(&mut base.clone(), "auth.tokn").unwrap_err();
    assert_eq!(
        unknown,
        SchemaError::NoSuchField { field: "auth.tokn".to_owned(), suggestion: Some("token".to_owned()) }
    );
    assert_eq!(unknown.to_string(), "the parameters have no field `auth.tokn`; did you mean `token`?");
}
