//! Integers that a model wrote with a fraction or an exponent.

/// Every integer up to here is a float of its own.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// JSON with its whole numbers written as integers; none if they all are.
pub(super) fn written_whole(json: &str) -> Option<String> {
    let (mut out, mut rest, mut is_changed) = (String::with_capacity(json.len()), json, false);
    while let Some(at) = rest.find(|letter: char| matches!(letter, '"' | '-' | '0'..='9')) {
        let (before, from) = rest.split_at(at);
        let (token, after) = from.split_at(end_of(from));
        out.push_str(before);
        match whole(token) {
            Some(number) => {
                is_changed = true;
                out.push_str(&number.to_string());
            }
            None => out.push_str(token),
        }
        rest = after;
    }
    out.push_str(rest);
    is_changed.then_some(out)
}

/// Where the text or number ends that this begins with.
fn end_of(text: &str) -> usize {
    if !text.starts_with('"') {
        let inside = |letter: char| matches!(letter, '0'..='9' | '-' | '+' | '.' | 'e' | 'E');
        return text.find(|letter| !inside(letter)).unwrap_or(text.len());
    }
    let mut is_escaped = false;
    let end = text.char_indices().skip(1).find(|(_, letter)| {
        let ends = *letter == '"' && !is_escaped;
        is_escaped = *letter == '\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// The integer that a number is, where it is not written as one.
fn whole(token: &str) -> Option<i64> {
    if token.starts_with('"') || !token.contains(['.', 'e', 'E']) {
        return None;
    }
    let number: f64 = token.parse().ok()?;
    (number.fract() == 0.0 && number.abs() < EXACT).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_written_as_integers_and_texts_are_left() {
        for (json, whole) in [
            (r#"{"a": 7.0, "b": [-1.50e1, 2E+2, -0.0]}"#, Some(r#"{"a": 7, "b": [-15, 200, 0]}"#)),
            (
                r#"{"a 7.0": "7.0 \\", "b": "\" 7.0", "c": 1.0}"#,
                Some(r#"{"a 7.0": "7.0 \\", "b": "\" 7.0", "c": 1}"#),
            ),
            (r#"{"a": 7.5, "b": 1e300, "c": 7, "d": true}"#, None),
            (r#""7.0"#, None),
        ] {
            assert_eq!(written_whole(json).as_deref(), whole, "{json}");
        }
    }
}
