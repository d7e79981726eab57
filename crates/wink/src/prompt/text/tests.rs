use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Part, StrayDollar, Text, dedent};

fn values(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[test]
fn takes_a_template_apart_once() {
    let text = Text::compile("a ${b} $c_1. $$d ${e-f}$g").unwrap();
    let literal = |text: &str| Part::Literal(text.to_owned());
    let field = |name: &str| Part::Field(name.to_owned());
    assert_eq!(
        text.parts,
        [literal("a "), field("b"), literal(" "), field("c_1"), literal(". $d "), field("e-f"), field("g"),]
    );
}

// case 214
#[test]
fn strays_are_found_wherever_they_are() {
    for (source, near) in [
        ("costs $5 only", "$5 only"),
        ("ends in $", "$"),
        ("${", "${"),
        ("${}", "${}"),
        ("${a b}", "${a b}"),
        ("${a$b}", "${a$b}"),
        ("$$$", "$"),
        ("$é and more of it", "$é and more o"),
    ] {
        assert_eq!(Text::compile(source).unwrap_err(), StrayDollar { near: near.to_owned() }, "{source}");
    }
}

#[test]
fn values_are_shown_by_their_kind() {
    let text = Text::compile("$s|$n|$f|$b|$z|$o|$a|$missing|").unwrap();
    let values = values(json!({
        "s": "é \"quoted\"", "n": 7, "f": 1.5, "b": true, "z": null, "o": {"k": "v"}, "a": [1, "x"]
    }));
    assert_eq!(text.fill(Some(&values)), "é \"quoted\"|7|1.5|true||{\"k\":\"v\"}|[1,\"x\"]||");
}

#[test]
fn indentation_that_all_lines_share_goes() {
    assert_eq!(dedent("\n    one\n      two\n\n    three\n  "), "one\n  two\n\nthree");
    assert_eq!(dedent("one\n    two"), "one\n    two");
    assert_eq!(dedent("\t\tone\n\t two"), "one\n two");
    assert_eq!(dedent("  \n \t\n"), "");
}

proptest! {
    #[test]
    fn values_are_never_expanded_again(
        before in "[a-z ]{0,8}",
        first in "[$a-z{} \\n]{0,24}",
        second in "[$a-z{} \\n]{0,24}",
    ) {
        let text = Text::compile(&format!(">{before}${{first}}|$second$$|$first<")).unwrap();
        let values = values(json!({ "first": first, "second": second }));
        prop_assert_eq!(text.fill(Some(&values)), format!(">{before}{first}|{second}$|{first}<"));
    }

    #[test]
    fn any_text_compiles_or_names_its_stray(raw in "(\\$|\\{|\\}|[a-z_ \\n\\t]|é){0,40}") {
        match Text::compile(&raw) {
            Ok(text) => {
                prop_assert_eq!(text.source(), dedent(&raw));
                prop_assert_eq!(text.source().contains('$'), text.placeholders().count() > 0 || text.source().contains("$$"));
            }
            Err(stray) => prop_assert!(raw.contains('$') && stray.near.starts_with('$')),
        }
    }

    #[test]
    fn dollars_doubled_come_out_as_they_were(raw in "\\PC{0,40}") {
        let text = Text::compile(&raw.replace('$', "$$")).unwrap();
        prop_assert_eq!(text.fill(None), raw.trim());
    }
}
