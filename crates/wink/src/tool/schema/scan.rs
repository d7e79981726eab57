//! Reading JSON text: one cursor, no allocation, exact about what JSON is.

use std::borrow::Cow;
use std::collections::HashSet;

use super::node::Property;

/// A cursor over JSON text.
#[derive(Debug)]
pub(super) struct Scanner<'t> {
    pub(super) text: &'t str,
    pub(super) pos: usize,
    depth_limit: usize,
    /// Why scanning cannot go on, once it cannot.
    pub(super) broken: Option<Broken>,
}

/// Why a text cannot be read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    Syntax { expected: &'static str, at: usize },
    TooDeep,
}

/// Scanning cannot go on; the reason is in [`Scanner::broken`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Halt;

/// A string as written, between its quotes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Str<'t> {
    pub(super) raw: &'t str,
    pub(super) escaped: bool,
}

impl<'t> Str<'t> {
    /// What the string says.
    pub(super) fn text(self) -> Cow<'t, str> {
        if self.escaped { Cow::Owned(unescape(self.raw)) } else { Cow::Borrowed(self.raw) }
    }
}

/// A number as written.
#[derive(Debug, Clone, Copy)]
pub(super) struct NumberToken<'t> {
    pub(super) text: &'t str,
    /// Written without fraction and exponent, and not as `-0`.
    pub(super) integer: bool,
    /// The value, when it is an integer of at most 18 digits.
    pub(super) small: Option<i64>,
}

impl<'t> Scanner<'t> {
    pub(super) fn new(text: &'t str, depth_limit: usize) -> Self {
        Self { text, pos: 0, depth_limit, broken: None }
    }

    #[inline]
    pub(super) fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.pos).copied()
    }

    /// The next byte that is not whitespace.
    #[inline]
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.byte() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.pos += 1,
                other => return other,
            }
        }
    }

    pub(super) fn fail<T>(&mut self, expected: &'static str) -> Result<T, Halt> {
        self.broken = Some(Broken::Syntax { expected, at: self.pos });
        Err(Halt)
    }

    /// Passes the opening bracket of a value that stands inside `depth` others. True: there is something in it.
    #[inline]
    pub(super) fn open(&mut self, depth: usize, close: u8) -> Result<bool, Halt> {
        if depth >= self.depth_limit {
            self.broken = Some(Broken::TooDeep);
            return Err(Halt);
        }
        self.pos += 1;
        if self.peek() == Some(close) {
            self.pos += 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// Passes what follows an item of an object or list. True: another one comes.
    #[inline]
    pub(super) fn more(&mut self, close: u8) -> Result<bool, Halt> {
        match self.peek() {
            Some(b',') => {
                self.pos += 1;
                Ok(true)
            }
            Some(byte) if byte == close => {
                self.pos += 1;
                Ok(false)
            }
            _ => self.fail(if close == b'}' { "`,` or `}`" } else { "`,` or `]`" }),
        }
    }

    /// Passes a key and its colon.
    #[inline]
    pub(super) fn key(&mut self) -> Result<Str<'t>, Halt> {
        if self.peek() != Some(b'"') {
            return self.fail("a key in double quotes");
        }
        let key = self.string()?;
        if self.peek() != Some(b':') {
            return self.fail("`:` after the key");
        }
        self.pos += 1;
        Ok(key)
    }

    /// Passes a key and its colon if it is exactly this one, written plainly, and the colon follows at once.
    #[inline]
    pub(super) fn plain_key(&mut self, property: &Property) -> bool {
        let Some(quoted) = &property.quoted else { return false };
        self.peek();
        let found =
            self.text.as_bytes().get(self.pos..).is_some_and(|rest| rest.starts_with(quoted.as_bytes()));
        if found {
            self.pos += quoted.len();
        }
        found
    }

    /// Passes a string; the cursor is at its opening quote.
    #[inline]
    pub(super) fn string(&mut self) -> Result<Str<'t>, Halt> {
        let start = self.pos + 1;
        let rest = self.text.as_bytes().get(start..).unwrap_or_default();
        let plain = plain_length(rest);
        self.pos = start + plain;
        if self.byte() == Some(b'"') {
            self.pos += 1;
            return Ok(Str { raw: self.slice(start, start + plain), escaped: false });
        }
        self.string_with_escapes(start)
    }

    /// Passes a string whose opening quote is next, and hands out what it says.
    #[inline]
    pub(super) fn text(&mut self) -> Result<Cow<'t, str>, Halt> {
        let start = self.pos + 1;
        let plain = plain_length(self.text.as_bytes().get(start..).unwrap_or_default());
        self.pos = start + plain;
        if self.byte() == Some(b'"') {
            self.pos += 1;
            return Ok(Cow::Borrowed(self.slice(start, start + plain)));
        }
        self.text_with_escapes(start).map(Cow::Owned)
    }

    fn text_with_escapes(&mut self, mut start: usize) -> Result<String, Halt> {
        let mut out = String::with_capacity(2 * (self.pos - start) + 16);
        loop {
            out.push_str(self.slice(start, self.pos));
            match self.byte() {
                Some(b'"') => {
                    self.pos += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    let simple = match self.text.as_bytes().get(self.pos + 1) {
                        Some(b'n') => "\n",
                        Some(b'"') => "\"",
                        Some(b'\\') => "\\",
                        Some(b't') => "\t",
                        Some(b'/') => "/",
                        Some(b'r') => "\r",
                        Some(b'b') => "\u{8}",
                        Some(b'f') => "\u{c}",
                        _ => "",
                    };
                    match simple {
                        "" => {
                            let escape = self.pos;
                            self.escape()?;
                            out.push_str(&unescape(self.slice(escape, self.pos)));
                        }
                        simple => {
                            out.push_str(simple);
                            self.pos += 2;
                        }
                    }
                    start = self.pos;
                    self.pos += plain_length(self.text.as_bytes().get(start..).unwrap_or_default());
                }
                Some(_) => {
                    return self.fail("control characters in strings to be written as escapes such as `\\n`");
                }
                None => return self.fail("`\"` to close the string"),
            }
        }
    }

    #[cold]
    fn string_with_escapes(&mut self, start: usize) -> Result<Str<'t>, Halt> {
        loop {
            match self.byte() {
                Some(b'"') => {
                    let raw = self.slice(start, self.pos);
                    self.pos += 1;
                    return Ok(Str { raw, escaped: true });
                }
                Some(b'\\') => self.escape()?,
                Some(byte) if byte < 0x20 => {
                    return self.fail("control characters in strings to be written as escapes such as `\\n`");
                }
                Some(_) => {
                    let rest = self.text.as_bytes().get(self.pos..).unwrap_or_default();
                    self.pos += plain_length(rest);
                }
                None => return self.fail("`\"` to close the string"),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Halt> {
        self.pos += 1;
        match self.byte() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.pos += 1;
                Ok(())
            }
            Some(b'u') => {
                self.pos += 1;
                match self.hex()? {
                    0xD800..=0xDBFF => {
                        if !self.text.as_bytes().get(self.pos..).unwrap_or_default().starts_with(b"\\u") {
                            return self.fail("the second half of a surrogate pair (`\\uDC00` to `\\uDFFF`)");
                        }
                        self.pos += 2;
                        match self.hex()? {
                            0xDC00..=0xDFFF => Ok(()),
                            _ => self.fail("the second half of a surrogate pair (`\\uDC00` to `\\uDFFF`)"),
                        }
                    }
                    0xDC00..=0xDFFF => self.fail("the first half of a surrogate pair before its second"),
                    _ => Ok(()),
                }
            }
            _ => self.fail("one of the escapes \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u0000"),
        }
    }

    fn hex(&mut self) -> Result<u32, Halt> {
        let digits =
            self.text.get(self.pos..self.pos + 4).filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
        match digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) {
            Some(code) => {
                self.pos += 4;
                Ok(code)
            }
            None => self.fail("four hexadecimal digits after `\\u`"),
        }
    }

    /// Passes a number.
    #[inline]
    pub(super) fn number(&mut self) -> Result<NumberToken<'t>, Halt> {
        let start = self.pos;
        let negative = self.byte() == Some(b'-');
        if negative {
            self.pos += 1;
        }
        let first = self.pos;
        let mut value: i64 = 0;
        while let Some(byte @ b'0'..=b'9') = self.byte() {
            value = value.wrapping_mul(10).wrapping_add(i64::from(byte - b'0'));
            self.pos += 1;
        }
        let digits = self.pos - first;
        if digits == 0 {
            return self.fail(if negative { "a digit after `-`" } else { "a value" });
        }
        if digits > 1 && self.text.as_bytes().get(first) == Some(&b'0') {
            self.pos = first;
            return self.fail("a number without leading zeros");
        }
        let mut plain = true;
        if self.byte() == Some(b'.') {
            plain = false;
            self.pos += 1;
            self.digits("a digit after the decimal point")?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            plain = false;
            self.pos += 1;
            if let Some(b'+' | b'-') = self.byte() {
                self.pos += 1;
            }
            self.digits("a digit in the exponent")?;
        }
        let text = self.slice(start, self.pos);
        let integer = plain && !(negative && value == 0 && digits == 1);
        let small = (integer && digits <= 18).then_some(if negative { value.wrapping_neg() } else { value });
        Ok(NumberToken { text, integer, small })
    }

    fn digits(&mut self, expected: &'static str) -> Result<(), Halt> {
        let start = self.pos;
        while let Some(b'0'..=b'9') = self.byte() {
            self.pos += 1;
        }
        if self.pos == start { self.fail(expected) } else { Ok(()) }
    }

    /// Passes `true`, `false` or `null`.
    #[inline]
    pub(super) fn literal(&mut self, word: &'static str) -> Result<(), Halt> {
        if self.text.as_bytes().get(self.pos..).unwrap_or_default().starts_with(word.as_bytes()) {
            self.pos += word.len();
            return Ok(());
        }
        self.fail("a value")
    }

    /// Passes one value of any kind inside `depth` others.
    pub(super) fn skip(&mut self, depth: usize) -> Result<(), Halt> {
        match self.peek() {
            Some(b'{') => {
                let mut more = self.open(depth, b'}')?;
                while more {
                    self.key()?;
                    self.skip(depth + 1)?;
                    more = self.more(b'}')?;
                }
                Ok(())
            }
            Some(b'[') => {
                let mut more = self.open(depth, b']')?;
                while more {
                    self.skip(depth + 1)?;
                    more = self.more(b']')?;
                }
                Ok(())
            }
            Some(b'"') => self.string().map(drop),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            Some(b'-' | b'0'..=b'9') => self.number().map(drop),
            _ => self.fail("a value"),
        }
    }

    pub(super) fn slice(&self, start: usize, end: usize) -> &'t str {
        self.text.get(start..end).unwrap_or_default()
    }
}

/// How many bytes there are before a quote, a backslash or a control character.
#[inline]
fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let mut length = 0;
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        // Eight bytes at a time: a byte of `hits` has its high bit set where a special byte stands. Borrows can
        // only flag bytes above a true hit, so the lowest flag is right.
        let word = u64::from_le_bytes(*chunk);
        let quote = word ^ (ONES * u64::from(b'"'));
        let slash = word ^ (ONES * u64::from(b'\\'));
        let hits = ((quote.wrapping_sub(ONES) & !quote)
            | (slash.wrapping_sub(ONES) & !slash)
            | (word.wrapping_sub(ONES * 0x20) & !word))
            & HIGHS;
        if hits != 0 {
            return length + (hits.trailing_zeros() / 8) as usize;
        }
        length += 8;
    }
    length + rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)).unwrap_or(rest.len())
}

/// Resolves the escapes of a string that was scanned before.
fn unescape(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    // Between its quotes a scanned string has nothing special but escapes.
    while let Some((plain, escape)) = rest.split_at_checked(plain_length(rest.as_bytes()))
        && let Some(escape) = escape.strip_prefix('\\')
    {
        out.push_str(plain);
        let mut chars = escape.chars();
        match chars.next() {
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('u') => {
                let unit = |text: &str, at: usize| {
                    u16::from_str_radix(text.get(at..at + 4).unwrap_or("0"), 16).unwrap_or(0)
                };
                let high = unit(escape, 1);
                let pair = [high, unit(escape, 7)];
                let units = if (0xD800..0xDC00).contains(&high) { &pair[..] } else { &pair[..1] };
                out.extend(
                    char::decode_utf16(units.iter().copied())
                        .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)),
                );
                rest = escape.get(if units.len() == 2 { 11 } else { 5 }..).unwrap_or_default();
                continue;
            }
            Some(other) => out.push(other),
            None => {}
        }
        rest = chars.as_str();
    }
    out.push_str(rest);
    out
}

/// Keys of one object, for finding the one that comes twice.
#[derive(Debug, Default)]
pub(super) struct KeySet<'t> {
    few: Vec<Cow<'t, str>>,
    many: Option<HashSet<Cow<'t, str>>>,
}

impl<'t> KeySet<'t> {
    const FEW: usize = 12;

    /// False: it was there already.
    pub(super) fn insert(&mut self, key: Cow<'t, str>) -> bool {
        if self.many.is_none() {
            if self.few.contains(&key) {
                return false;
            }
            if self.few.len() < Self::FEW {
                self.few.push(key);
                return true;
            }
        }
        let few = self.few.drain(..);
        self.many.get_or_insert_with(|| few.collect()).insert(key)
    }
}
