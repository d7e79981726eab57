use super::super::Refusal;
use super::{evaluate, float_text};

fn calculate(expression: &str) -> String {
    match evaluate(expression) {
        Ok(value) => float_text(value),
        Err(error) => Refusal::from(error).to_string(),
    }
}

#[test]
fn precedence_and_kinds_follow_the_rules() {
    for (expression, expected) in [
        ("2 + 2", "4.0"),
        ("1 - 10.89 + 19.78", "9.89"),
        ("-2**2", "-4.0"),
        ("2**-1", "0.5"),
        ("2**3**2", "512.0"),
        ("2 - 3 - 4", "-5.0"),
        ("2 * 3 // 4", "1.0"),
        ("-7 // 2", "-4.0"),
        ("7. // -2", "-4.0"),
        (".5 + 5.", "5.5"),
        ("- - + 3", "3.0"),
        ("(1 + 2) * (3 - 4) / 8", "-0.38"),
        ("36.125", "36.12"),
        ("0 / -5", "-0.0"),
        ("-0.001", "-0.0"),
        ("-0.0 - 0", "-0.0"),
        ("10**16", "1e+16"),
        ("00", "0.0"),
        ("007.5", "7.5"),
        // Exact as integers; as floats the difference would be 0.
        ("9007199254740993 - 9007199254740992", "1.0"),
        // Rounded once: half way between two floats, so to the even one.
        ("(2**100 + 1) / 2**47 - 2**53", "0.0"),
        ("9007199254740995 * 3 / 3", "9007199254740996.0"),
        ("(-1)**99999999999", "-1.0"),
        // As near to .3 as to .2: the even digit is printed.
        ("647167462307082.25", "647167462307082.2"),
    ] {
        assert_eq!(calculate(expression), expected, "{expression}");
    }
    for (expression, expected) in [
        ("2 + x", "Error: invalid characters in expression"),
        ("1\n", "Error: invalid characters in expression"),
        ("1 / (2 - 2)", "Error: division by zero"),
        ("1 / 0.0", "Error: float division by zero"),
        ("1.0 / 0", "Error: float division by zero"),
    ] {
        assert_eq!(calculate(expression), expected, "{expression}");
    }
}

#[test]
fn what_has_no_value_is_refused() {
    let deep = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    let powers = format!("1{}", "**1".repeat(100_000));
    let digits = "9".repeat(400);
    for expression in [
        "",
        " ",
        "(",
        "1 2",
        "1 +",
        "* 2",
        "2 * * 3",
        "2***3",
        "007",
        "1..2",
        ".",
        "()",
        "2(3)",
        "(1",
        "1)",
        "1 // 0",
        "1 // 0.0",
        "0 ** -1",
        "(-8) ** .5",
        "10.0 ** 400",
        "99 ** 999",
        &digits,
        &deep,
        &powers,
    ] {
        let answer = calculate(expression);
        assert!(answer.starts_with("Error: "), "{expression}: {answer}");
    }
    // Signs do not nest.
    assert_eq!(calculate(&format!("{}1", "-".repeat(100_000))), "1.0");
}
