use serde_json::json;

use super::Passing;
use super::arguments::{Input, is_ours, variable};

#[test]
fn variables_have_names_that_shells_know() {
    let cases = [
        ("environment", "WINK_ARG_ENVIRONMENT"),
        ("dry-run", "WINK_ARG_DRY_RUN"),
        ("a.b c=d", "WINK_ARG_A_B_C_D"),
        ("straße", "WINK_ARG_STRA_E"),
        ("ı", "WINK_ARG__"),
        ("", "WINK_ARG_"),
        ("x\0y\n", "WINK_ARG_X_Y_"),
    ];
    for (name, expected) in cases {
        assert_eq!(variable(name), expected, "{name:?}");
    }
}

#[test]
fn variables_of_an_outer_call_are_not_those_of_an_inner_one() {
    let ours = ["WINK_ARG_X", "WINK_ARG_", "WINK_TOOL", "WINK_INVOCATION_ID", "WINK_IDEMPOTENCY_KEY"];
    assert!(ours.iter().all(|name| is_ours(name.as_bytes())));
    let others = ["PATH", "WINK_ARGS", "WINK_TOOLS", "XWINK_ARG_X", ""];
    assert!(others.iter().all(|name| !is_ours(name.as_bytes())));
}

#[test]
fn strings_are_as_they_are_and_other_values_json() {
    let arguments = json!({ "a": "x \"y\"", "b": 1.5, "c": null, "d": { "e": ["f"] }, "g": "" });
    let input = Input::new(&arguments, Passing::Both).unwrap();
    let variables: Vec<_> =
        input.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(
        variables,
        [
            ("WINK_ARG_A", "x \"y\""),
            ("WINK_ARG_B", "1.5"),
            ("WINK_ARG_C", "null"),
            ("WINK_ARG_D", "{\"e\":[\"f\"]}"),
            ("WINK_ARG_G", ""),
        ]
    );
    assert_eq!(input.stdin, arguments.to_string().into_bytes());
    let quiet = Input::new(&arguments, Passing::Stdin).unwrap();
    assert_eq!((quiet.stdin, quiet.variables.len()), (input.stdin, 0));
}
