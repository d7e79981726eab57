//! Integers that a model wrote with a fraction or an exponent.

use crate::tool::schema::whole_number;

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
    whole_number(token)
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
            ("[1.00000000000000000001, 9007199254740993.0, 1e-400]", None),
            ("[9007199254740992.0, 1e18]", Some("[9007199254740992, 1000000000000000000]")),
            (r#""7.0"#, None),
        ] {
            assert_eq!(written_whole(json).as_deref(), whole, "{json}");
        }
    }
}
