//! Keeping keys out of what providers say.

use wink::tool::secret::MASK;

use crate::recording::Scrubber;

/// What is shorter is no part of a key.
const SHORTEST: usize = 4;
/// What the keys of the usual providers begin with.
const PREFIX: &str = "sk-";

/// The text without the known secrets, and without anything that looks like a key: providers quote parts of those.
pub(super) fn mask(text: &str, known: &Scrubber) -> String {
    let masked = known.text(text);
    let mut rest = masked.as_str();
    let mut kept = String::with_capacity(rest.len());
    while let Some((before, after)) = rest.split_once(PREFIX) {
        kept.push_str(before);
        let inside = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '*' | '.');
        let end = after.find(|letter| !inside(letter)).unwrap_or(after.len());
        // "risk-free" is not a key.
        let (key, after) = after.split_at(end);
        let starts_word = !kept.ends_with(|letter: char| letter.is_ascii_alphanumeric());
        match starts_word && key.len() >= SHORTEST {
            true => kept.push_str(MASK),
            false => {
                kept.push_str(PREFIX);
                kept.push_str(key);
            }
        }
        rest = after;
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use wink::tool::secret::Secret;

    use super::*;

    #[test]
    fn keys_are_masked_wherever_they_stand_and_words_are_not() {
        let known = Scrubber::new().knowing(&Secret::new("hunter22".to_owned())).unwrap();
        assert_eq!(
            mask("wrong key hunter22: sk-proj-12**34. risk-free sk-it, hunter22hunter22", &known),
            "wrong key ***: *** risk-free sk-it, ******"
        );
    }
}
