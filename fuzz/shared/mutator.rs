//! Changes JSON as JSON, so that most inputs get past the parser: a value is replaced by another of the same text or
//! by a literal, taken away, doubled, or moved under another name. One time in four bytes are changed as usual.

use libfuzzer_sys::fuzzer_mutate;
use serde_json::{Value, json};

pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut dice = Dice(u64::from(seed) | 1 << 40);
    if dice.roll(4) > 0
        && let Ok(mut whole) = serde_json::from_slice::<Value>(&data[..size])
    {
        for _ in 0..=dice.roll(3) {
            change(&mut whole, &mut dice);
        }
        let text = whole.to_string();
        if text.len() <= max_size {
            data[..text.len()].copy_from_slice(text.as_bytes());
            return text.len();
        }
    }
    fuzzer_mutate(data, size, max_size)
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }
}

fn change(whole: &mut Value, dice: &mut Dice) {
    let count = size(whole);
    let other = node(whole, &mut dice.roll(count)).map_or(Value::Null, |there| there.clone());
    let Some(there) = node(whole, &mut dice.roll(count)) else { return };
    match (dice.roll(6), there) {
        (0, there) => *there = literal(dice),
        (1, Value::Array(items)) if !items.is_empty() => {
            let at = dice.roll(items.len());
            items.remove(at);
        }
        (2, Value::Array(items)) => items.insert(dice.roll(items.len() + 1), other),
        (3, Value::Array(items)) if !items.is_empty() => {
            let (one, another) = (dice.roll(items.len()), dice.roll(items.len()));
            items.swap(one, another);
        }
        (1, Value::Object(fields)) => {
            let name = name(fields, dice);
            fields.shift_remove(&name);
        }
        (2, Value::Object(fields)) => {
            let name = name(fields, dice);
            fields.insert(name, other);
        }
        (3, Value::Object(fields)) => {
            let (from, to) = (name(fields, dice), NAMES[dice.roll(NAMES.len())].to_owned());
            if let Some(value) = fields.shift_remove(&from) {
                fields.insert(to, value);
            }
        }
        (_, there) => *there = other,
    }
}

const NAMES: [&str; 8] =
    ["note", "entry", "heard", "unnamed", "wink.calls", "wink.tool_invoked", "session_id", ""];

fn literal(dice: &mut Dice) -> Value {
    match dice.roll(10) {
        0 => Value::Null,
        1 => json!(dice.roll(3)),
        2 => json!(u64::MAX),
        3 => json!(-1.5e300),
        4 => json!(""),
        5 => json!("2023-11-14T22:13:20.5Z"),
        6 => json!("a/../b"),
        7 => json!([]),
        8 => json!({}),
        _ => json!(NAMES[dice.roll(NAMES.len())]),
    }
}

/// A name of the object's own, or another one.
fn name(fields: &serde_json::Map<String, Value>, dice: &mut Dice) -> String {
    let own = fields.keys().nth(dice.roll(fields.len() + 1));
    own.cloned().unwrap_or_else(|| NAMES[dice.roll(NAMES.len())].to_owned())
}

fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum::<usize>(),
        Value::Object(fields) => fields.values().map(size).sum(),
        _ => 0,
    }
}

/// The value that is met after `left` others.
fn node<'a>(value: &'a mut Value, left: &mut usize) -> Option<&'a mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| node(item, left)),
        Value::Object(fields) => fields.values_mut().find_map(|item| node(item, left)),
        _ => None,
    }
}
