//! Numbers that would be rounded on their way to a command: refused by name, on every way to it, and logged as they were sent.

use serde_json::{Value, json};

use crate::serve::Pipes;
use crate::support::{Place, has_commands, one_command};

const SENT: &str = r#"{"wei": 20000000000000000001}"#;
const REFUSED: &str = "Invalid arguments: `wei`: `20000000000000000001` would be rounded; expected an integer from \
                       -9223372036854775808 to 18446744073709551615, or a string if the field takes one";

fn place() -> Place {
    let agent = one_command("pay")
        + "params = { type = \"object\", required = [\"wei\"], properties = { wei = { type = \"integer\" } } }\n\
           idempotency = { strategy = \"params\", fields = [\"wei\"] }\n";
    let place = Place::with_agent(&agent);
    place.put_script("pay", &format!("cat >> {}", place.outside("paid").display()));
    place
}

/// The command was not run, and the log has what was sent.
fn is_refused(place: &Place) {
    assert!(!place.outside("paid").exists());
    let rows = place.rows(&["log"]);
    let told: Vec<(&Value, &Value)> = rows.iter().map(|row| (&row["arguments"], &row["success"])).collect();
    assert_eq!(told, [(&json!(SENT), &json!(false))]);
    assert_eq!(place.json(&["show", "last"])["arguments"], json!(SENT));
    let shown = place.wink(&["show", "last"]).ok();
    assert!(shown.contains(&format!("arguments\n  {SENT}\n")), "{shown}");
}

// case 253
#[test]
fn a_number_that_would_be_rounded_reaches_no_command() {
    if !has_commands() {
        return;
    }
    let place = place();
    let said = place.wink(&["call", "pay", SENT]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.out.contains(REFUSED), "{said:?}");
    is_refused(&place);
}

// case 253
#[test]
fn a_number_that_would_be_rounded_reaches_no_command_of_a_server() {
    if !has_commands() {
        return;
    }
    let place = place();
    let mut client = Pipes::start(&place);
    client.send_line(
        format!(
            r#"{{"jsonrpc":"2.0","id":"n","method":"tools/call","params":{{"name":"pay","arguments":{SENT}}}}}"#
        )
        .as_bytes(),
    );
    let answer = loop {
        let message = client.receive();
        if message["id"] == "n" {
            break message;
        }
    };
    assert_eq!(answer["result"]["isError"], true, "{answer:#}");
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains(REFUSED), "{answer:#}");
    assert_eq!(client.leave(), Some(0));
    is_refused(&place);
}

#[test]
fn other_rejected_arguments_are_logged_as_json() {
    if !has_commands() {
        return;
    }
    let place = place();
    let _ = place.wink(&["call", "pay", r#"{"wei": "one"}"#]);
    assert_eq!(place.json(&["show", "last"])["arguments"], json!({ "wei": "one" }));
}
