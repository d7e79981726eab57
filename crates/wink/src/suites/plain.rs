//! Plain text for the model: short lines without surprises, numbers that can be read.

/// One line of harmless characters: what is in a workspace does not get to lay out the prompt.
pub(super) fn plain(text: &str, max_chars: usize) -> String {
    let text = text.trim();
    let clean = |c: char| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { '\u{fffd}' } else { c };
    let mut out: String = text.chars().take(max_chars).map(clean).collect();
    if text.chars().nth(max_chars).is_some() {
        out.push('…');
    }
    out
}

/// `1 byte`, `1,024 bytes`.
pub(super) fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{} {what}s", grouped(count)) }
}

/// The digits in groups of three.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
