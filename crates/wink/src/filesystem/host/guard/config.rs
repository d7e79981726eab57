//! A reader of git's configuration files, as strict as git itself.
//!
//! It gives the entries in the order in which git sees them, and follows no includes: an include is an entry like any other. A
//! text that git would refuse is refused here, and so is one with a NUL byte, which git reads as the end of a value.

/// One variable: `section.name` or `section.subsection.name`, with the section and the name in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConfigEntry {
    pub(super) key: Vec<u8>,
    /// None for a name without `=`, which stands for true.
    pub(super) value: Option<Vec<u8>>,
}

impl ConfigEntry {
    /// Section, subsection and name. A key without a section has an empty one.
    pub(super) fn parts(&self) -> (&[u8], Option<&[u8]>, &[u8]) {
        let first = self.key.iter().position(|byte| *byte == b'.');
        let last = self.key.iter().rposition(|byte| *byte == b'.');
        let (Some(first), Some(last)) = (first, last) else { return (b"", None, &self.key) };
        let part = |from: usize, to: usize| self.key.get(from..to).unwrap_or_default();
        let sub = (first < last).then(|| part(first + 1, last));
        (part(0, first), sub, part(last + 1, self.key.len()))
    }
}

/// The entries of a configuration file; none if git would not read it.
pub(super) fn parse(text: &[u8]) -> Option<Vec<ConfigEntry>> {
    if text.contains(&0) {
        return None;
    }
    const BOM: &[u8] = b"\xEF\xBB\xBF";
    let mut reader = Reader { rest: text.strip_prefix(BOM).unwrap_or(text) };
    let (mut entries, mut section) = (Vec::new(), Vec::new());
    loop {
        match reader.next() {
            None => return Some(entries),
            Some(byte) if is_space(byte) => {}
            Some(b'#' | b';') => while !matches!(reader.next(), None | Some(b'\n')) {},
            Some(b'[') => {
                section = reader.section()?;
                section.push(b'.');
            }
            Some(byte) if byte.is_ascii_alphabetic() => {
                let (name, value) = reader.variable(byte)?;
                let key = [section.as_slice(), &name].concat();
                entries.push(ConfigEntry { key, value });
            }
            Some(_) => return None,
        }
    }
}

struct Reader<'t> {
    rest: &'t [u8],
}

impl Reader<'_> {
    /// The next byte; a carriage return before a newline is left out.
    fn next(&mut self) -> Option<u8> {
        let (byte, rest) = match self.rest {
            [b'\r', b'\n', rest @ ..] => (b'\n', rest),
            [byte, rest @ ..] => (*byte, rest),
            [] => return None,
        };
        self.rest = rest;
        Some(byte)
    }

    /// The next byte; the end of the text ends a line.
    fn next_in_line(&mut self) -> u8 {
        self.next().unwrap_or(b'\n')
    }

    /// What is between brackets.
    fn section(&mut self) -> Option<Vec<u8>> {
        let mut section = Vec::new();
        loop {
            match self.next()? {
                b']' => return (!section.is_empty()).then_some(section),
                byte if is_space(byte) => return self.subsection(section, byte),
                byte if is_key(byte) || byte == b'.' => section.push(byte.to_ascii_lowercase()),
                _ => return None,
            }
        }
    }

    /// A quoted name in a section's brackets, after some space.
    fn subsection(&mut self, mut section: Vec<u8>, space: u8) -> Option<Vec<u8>> {
        let mut byte = space;
        while is_space(byte) {
            if byte == b'\n' {
                return None;
            }
            byte = self.next_in_line();
        }
        if byte != b'"' {
            return None;
        }
        section.push(b'.');
        loop {
            match self.next_in_line() {
                b'\n' => return None,
                b'"' => break,
                b'\\' => match self.next_in_line() {
                    b'\n' => return None,
                    byte => section.push(byte),
                },
                byte => section.push(byte),
            }
        }
        (self.next() == Some(b']')).then_some(section)
    }

    fn variable(&mut self, first: u8) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let mut name = vec![first.to_ascii_lowercase()];
        let mut byte = self.next_in_line();
        while is_key(byte) {
            name.push(byte.to_ascii_lowercase());
            byte = self.next_in_line();
        }
        while matches!(byte, b' ' | b'\t') {
            byte = self.next_in_line();
        }
        match byte {
            b'\n' => Some((name, None)),
            b'=' => Some((name, Some(self.value()?))),
            _ => None,
        }
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        // Space outside of quotes counts only if something follows it.
        let (mut is_quoted, mut end) = (false, 0);
        loop {
            let byte = self.next_in_line();
            if byte == b'\n' {
                value.truncate(end);
                return (!is_quoted).then_some(value);
            }
            if !is_quoted && is_space(byte) {
                if end > 0 || !value.is_empty() {
                    value.push(byte);
                }
                continue;
            }
            if !is_quoted && matches!(byte, b'#' | b';') {
                while self.next_in_line() != b'\n' {}
                value.truncate(end);
                return Some(value);
            }
            match byte {
                b'"' => is_quoted = !is_quoted,
                b'\\' => match self.next_in_line() {
                    // The line goes on, and what space there was before counts.
                    b'\n' => {}
                    b't' => value.push(b'\t'),
                    b'b' => value.push(8),
                    b'n' => value.push(b'\n'),
                    byte @ (b'\\' | b'"') => value.push(byte),
                    _ => return None,
                },
                byte => value.push(byte),
            }
            end = value.len();
        }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}
