//! Numbers as a model wrote them: integers with a fraction or an exponent, and integers that JSON values cannot hold.

/// Every integer up to here is a float of its own.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// JSON with its whole numbers written as integers; none if they all are.
pub(super) fn written_whole(json: &str) -> Option<String> {
    let (mut out, mut is_changed) = (String::with_capacity(json.len()), false);
    for token in tokens(json) {
        match whole(token) {
            Some(number) => {
                is_changed = true;
                out.push_str(&number.to_string());
            }
            None => out.push_str(token),
        }
    }
    is_changed.then_some(out)
}

/// Whether there is an integer that no 64 bits hold.
pub(super) fn has_wide(json: &str) -> bool {
    let is_integer = |token: &str| token.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
    // A shorter one fits, whatever it is.
    let is_wide =
        |token: &str| token.len() > 18 && token.parse::<i64>().is_err() && token.parse::<u64>().is_err();
    tokens(json).any(|token| is_integer(token) && is_wide(token))
}

/// Texts, numbers, and what is between them.
fn tokens(json: &str) -> impl Iterator<Item = &str> {
    let begins = |letter: char| matches!(letter, '"' | '-' | '0'..='9');
    let mut rest = json;
    std::iter::from_fn(move || {
        let end = match rest.find(begins) {
            _ if rest.is_empty() => return None,
            Some(0) => end_of(rest),
            Some(between) => between,
            None => rest.len(),
        };
        let (token, after) = rest.split_at(end);
        rest = after;
        Some(token)
    })
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
    if !token.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'])
        || !token.contains(['.', 'e', 'E'])
    {
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
    #[test]
    fn wide_integers_are_found_outside_of_texts() {
        let wide = "99999999999999999999999";
        for (json, is_wide) in [
            (format!("[{wide}]"), true),
            (format!("[-{wide}]"), true),
            (format!("[\"{wide}\", {wide}.0, 18446744073709551615, -9223372036854775808]"), false),
            ("[18446744073709551616]".to_owned(), true),
        ] {
            assert_eq!(has_wide(&json), is_wide, "{json}");
        }
    }
}
