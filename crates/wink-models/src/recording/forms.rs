//! How a secret may look in what is written: as it is, inside of JSON, and in the usual encodings.

use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD, Encoding, HEXLOWER, HEXUPPER};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// What is not percent-encoded beside letters and digits.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// All of them; some may be equal.
pub(super) fn of(secret: &str) -> Vec<String> {
    let mut forms = Vec::new();
    // Texts are found in JSON in texts in JSON: arguments, and what tools show of them.
    let mut form = secret.to_owned();
    for _ in 0..3 {
        forms.push(form.clone());
        form = escaped(&form);
    }
    forms.push(utf8_percent_encode(secret, ENCODED).to_string());
    forms.push(HEXLOWER.encode(secret.as_bytes()));
    forms.push(HEXUPPER.encode(secret.as_bytes()));
    for encoding in [&BASE64_NOPAD, &BASE64URL_NOPAD] {
        forms.extend((0..3).map(|before| in_base64(secret, before, encoding)));
    }
    forms
}

/// As it looks in the base64 of something in which so many bytes are before it, counted by threes: without the characters that it
/// shares with what is around it.
fn in_base64(secret: &str, before: usize, encoding: &Encoding) -> String {
    let bytes: Vec<u8> = [0].repeat(before).into_iter().chain(secret.bytes()).collect();
    let whole = bytes.len() * 8 / 6;
    let shared = (before * 8).div_ceil(6);
    encoding.encode(&bytes).get(shared..whole).unwrap_or_default().to_owned()
}

/// As it looks inside of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_found_in_every_encoding_wherever_it_is_in_it() {
        let secret = "sk-key+with/odd=\"signs\"-17";
        let forms = of(secret);
        let is_found = |text: &str| forms.iter().any(|form| text.contains(form.as_str()));
        for before in ["", "a", "ab", "abc", "abcd"] {
            for after in ["", "z", "zy", "zyx"] {
                let text = format!("{before}{secret}{after}");
                let bytes = text.as_bytes();
                for encoding in [&BASE64_NOPAD, &BASE64URL_NOPAD, &HEXLOWER, &HEXUPPER] {
                    assert!(is_found(&encoding.encode(bytes)), "{text}");
                }
                assert!(is_found(&text) && is_found(&utf8_percent_encode(&text, ENCODED).to_string()));
                assert!(is_found(&Value::from(Value::from(text.as_str()).to_string()).to_string()));
            }
        }
        assert!(!is_found("sk-key") && forms.iter().all(|form| form.len() > 24), "{forms:?}");
    }
}
