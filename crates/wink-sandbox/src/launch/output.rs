//! What a command said: kept up to a bound, counted beyond it.

/// One stream of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    kept: Vec<u8>,
    total: u64,
}

impl Output {
    /// Takes in a piece, keeping no more than `most` bytes altogether.
    pub(crate) fn take(&mut self, piece: &[u8], most: usize) {
        self.total = self.total.saturating_add(piece.len() as u64);
        let room = most.saturating_sub(self.kept.len()).min(piece.len());
        self.kept.extend_from_slice(piece.get(..room).unwrap_or_default());
    }

    /// The bytes that were kept: the first ones.
    pub fn bytes(&self) -> &[u8] {
        &self.kept
    }

    /// How many bytes there were.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The text, no more than `most` characters of it, and whether there was more. What is not UTF-8 is shown as `�`; a cut
    /// is on the boundary of a character, and marked.
    pub fn text(&self, most: usize) -> (String, bool) {
        let whole = self.total == self.kept.len() as u64;
        // A character that the bound cut in two is not an invalid one.
        let kept = if whole { &self.kept[..] } else { without_half_a_character(&self.kept) };
        let text = String::from_utf8_lossy(kept);
        let end = text.char_indices().nth(most).map(|(end, _)| end);
        if whole && end.is_none() {
            return (text.into_owned(), false);
        }
        let shown = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
        (format!("{shown}\n[cut: this is the beginning of {} bytes]", self.total), true)
    }
}

fn without_half_a_character(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => bytes.get(..error.valid_up_to()).unwrap_or_default(),
        // What is invalid earlier hides how the end is; it is at most three bytes.
        Err(_) => {
            let last = bytes.utf8_chunks().last();
            let half = last.map_or(&[][..], |chunk| chunk.invalid());
            bytes.get(..bytes.len().saturating_sub(half.len())).unwrap_or_default()
        }
        Ok(_) => bytes,
    }
}

#[cfg(test)]
mod tests;
