//! The compiled form of a schema: a table of nodes that refer to each other by index.
//!
//! Everything a walk needs is decided here once: which types a node accepts, which property comes next, which
//! branch of a union a value belongs to.

use regex::Regex;
use serde_json::Value;

use super::number::{Num, Precision};
use super::problem::shorten;

/// An index into the table of nodes.
pub(super) type NodeId = u32;

/// The JSON types a node accepts. Integers and numbers with a fraction are told apart by how they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Types(u8);

impl Types {
    pub(super) const NONE: Self = Self(0);
    pub(super) const NULL: Self = Self(1);
    pub(super) const BOOLEAN: Self = Self(2);
    pub(super) const INTEGER: Self = Self(4);
    pub(super) const FRACTION: Self = Self(8);
    pub(super) const NUMBER: Self = Self(12);
    pub(super) const STRING: Self = Self(16);
    pub(super) const ARRAY: Self = Self(32);
    pub(super) const OBJECT: Self = Self(64);
    pub(super) const ALL: Self = Self(127);

    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self::NUMBER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => return None,
        })
    }

    /// The types a value that starts with `byte` can have.
    pub(super) fn starting_with(byte: u8) -> Self {
        match byte {
            b'{' => Self::OBJECT,
            b'[' => Self::ARRAY,
            b'"' => Self::STRING,
            b't' | b'f' => Self::BOOLEAN,
            b'n' => Self::NULL,
            _ => Self::NUMBER,
        }
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) const fn within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// `an integer or null`: how the types are told to a model.
    pub(super) fn describe(self) -> String {
        if self == Self::ALL {
            return "any value".to_owned();
        }
        let mut names = Vec::new();
        for (types, name) in [
            (Self::OBJECT, "an object"),
            (Self::ARRAY, "a list"),
            (Self::STRING, "a string"),
            (Self::FRACTION, "a number"),
            (Self::INTEGER, "an integer"),
            (Self::BOOLEAN, "true or false"),
            (Self::NULL, "null"),
        ] {
            let covered = types == Self::INTEGER && self.meets(Self::FRACTION);
            if self.meets(types) && !covered {
                names.push(name);
            }
        }
        match names.split_last() {
            None => "no value at all".to_owned(),
            Some((last, [])) => (*last).to_owned(),
            Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        }
    }
}

/// One schema of the document.
#[derive(Debug)]
pub(super) struct Node {
    /// What the keyword `type` allows.
    pub(super) types: Types,
    /// What can pass at all, combinators and lists of values considered.
    pub(super) reach: Types,
    /// How the type behind it holds numbers.
    pub(super) precision: Precision,
    /// The value must never be shown.
    pub(super) sensitive: bool,
    /// The value, or something inside it, must never be shown.
    pub(super) holds_sensitive: bool,
    pub(super) object: Option<Box<ObjectRules>>,
    pub(super) array: Option<Box<ArrayRules>>,
    pub(super) string: Option<Box<StringRules>>,
    pub(super) number: Option<Box<NumberRules>>,
    pub(super) allowed: Option<Box<Allowed>>,
    pub(super) combine: Option<Box<Combine>>,
    /// Nothing but one union: its branches do all the checking.
    pub(super) only_union: bool,
}

impl Node {
    pub(super) const fn of_types(types: Types) -> Self {
        Self {
            types,
            reach: types,
            precision: Precision::Json,
            sensitive: false,
            holds_sensitive: false,
            object: None,
            array: None,
            string: None,
            number: None,
            allowed: None,
            combine: None,
            only_union: false,
        }
    }

    /// Whether the node itself, without its combinators, lets every value pass.
    pub(super) fn is_bare(&self) -> bool {
        self.types == Types::ALL
            && self.object.is_none()
            && self.array.is_none()
            && self.string.is_none()
            && self.number.is_none()
            && self.allowed.is_none()
            && self.precision == Precision::Json
    }

    /// The nodes that see the same value as this one.
    pub(super) fn same_value(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.combine.iter().flat_map(|combine| {
            let branches = combine.unions.iter().flat_map(|union| union.branches.iter().copied());
            combine.all.iter().copied().chain(branches).chain(combine.not)
        })
    }

    /// The nodes that see values inside this one's.
    pub(super) fn inner_values(&self) -> impl Iterator<Item = NodeId> + '_ {
        let object = self.object.iter().flat_map(|rules| {
            let properties =
                rules.properties.iter().filter(|property| property.declared).map(|property| property.node);
            let patterns = rules.patterns.iter().map(|(_, node)| *node);
            properties.chain(patterns).chain(rules.additional.node())
        });
        let array = self.array.iter().flat_map(|rules| rules.prefix.iter().copied().chain(rules.items));
        object.chain(array)
    }
}

#[derive(Debug)]
pub(super) struct ObjectRules {
    /// In the order of the schema, which is the order in which models write them.
    pub(super) properties: Vec<Property>,
    /// Positions in `properties`, sorted by name.
    pub(super) sorted: Vec<u32>,
    pub(super) required: usize,
    pub(super) patterns: Vec<(Pattern, NodeId)>,
    pub(super) additional: Additional,
    pub(super) names: Option<NodeId>,
    /// Nothing but its name decides how a declared property is checked.
    pub(super) by_name_only: bool,
    pub(super) size: Bounds,
}

impl ObjectRules {
    /// The position of the property `name`.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let name_of =
            |index: &u32| self.properties.get(*index as usize).map_or("", |property| property.name.as_str());
        let found = self.sorted.binary_search_by(|index| name_of(index).cmp(name)).ok()?;
        self.sorted.get(found).map(|index| *index as usize)
    }

    pub(super) fn declared(&self) -> impl Iterator<Item = &Property> {
        self.properties.iter().filter(|property| property.declared)
    }

    /// Whether a key can only be one of the declared ones.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.additional, Additional::Forbidden) && self.patterns.is_empty()
    }
}

#[derive(Debug)]
pub(super) struct Property {
    pub(super) name: String,
    /// The name with its quotes, when JSON writes it without escapes.
    pub(super) quoted: Option<String>,
    pub(super) node: NodeId,
    pub(super) required: bool,
    /// False for a name that is only required: its value falls under `additionalProperties`.
    pub(super) declared: bool,
    pub(super) omitted: Omitted,
}

/// What it means when a property is left out.
#[derive(Debug)]
pub(super) enum Omitted {
    /// The same as this default.
    Is(Box<Value>),
    /// Whatever the parameter type makes of it.
    AsTyped,
    /// Not to be told: the parameter type keeps it to itself.
    Unknown,
}

impl Property {
    pub(super) fn new(name: &str, node: NodeId) -> Self {
        let quoted = format!("\"{name}\":");
        let plain = !name.chars().any(|c| matches!(c, '"' | '\\' | '\0'..'\x20'));
        Self {
            name: name.to_owned(),
            quoted: plain.then_some(quoted),
            node,
            required: false,
            declared: true,
            omitted: Omitted::AsTyped,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Additional {
    Allowed,
    Forbidden,
    Checked(NodeId),
}

impl Additional {
    pub(super) fn node(self) -> Option<NodeId> {
        match self {
            Self::Checked(node) => Some(node),
            Self::Allowed | Self::Forbidden => None,
        }
    }
}

/// How many characters, items or keys there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Bounds {
    pub(super) const ANY: Self = Self { min: 0, max: u64::MAX };

    pub(super) fn admits(self, count: usize) -> bool {
        let count = count as u64;
        self.min <= count && count <= self.max
    }

    /// `1 to 3 items`, for a message.
    pub(super) fn describe(self, one: &str, many: &str) -> String {
        let noun = |count: u64| if count == 1 { one } else { many };
        match (self.min, self.max) {
            (min, max) if min == max => format!("exactly {min} {}", noun(min)),
            (0, max) => format!("at most {max} {}", noun(max)),
            (min, u64::MAX) => format!("at least {min} {}", noun(min)),
            (min, max) => format!("{min} to {max} {many}"),
        }
    }
}

#[derive(Debug)]
pub(super) struct ArrayRules {
    pub(super) prefix: Vec<NodeId>,
    pub(super) items: Option<NodeId>,
    pub(super) size: Bounds,
    pub(super) unique: bool,
}

#[derive(Debug)]
pub(super) struct StringRules {
    pub(super) length: Bounds,
    pub(super) pattern: Option<Pattern>,
}

/// A regular expression with the text it was made from.
#[derive(Debug)]
pub(super) struct Pattern {
    pub(super) source: String,
    pub(super) regex: Regex,
}

#[derive(Debug, Default)]
pub(super) struct NumberRules {
    pub(super) min: Option<Num>,
    pub(super) max: Option<Num>,
    pub(super) above: Option<Num>,
    pub(super) below: Option<Num>,
    pub(super) step: Option<Num>,
}

impl NumberRules {
    pub(super) fn admits(&self, number: Num) -> bool {
        self.min.is_none_or(|min| number >= min)
            && self.max.is_none_or(|max| number <= max)
            && self.above.is_none_or(|above| number > above)
            && self.below.is_none_or(|below| number < below)
            && self.step.is_none_or(|step| number.is_multiple_of(step))
    }

    /// `a number from 1 to 10`, for a message.
    pub(super) fn describe(&self) -> String {
        let mut parts = Vec::new();
        match (self.min, self.max) {
            (Some(min), Some(max)) => parts.push(format!("from {min} to {max}")),
            (Some(min), None) => parts.push(format!("of at least {min}")),
            (None, Some(max)) => parts.push(format!("of at most {max}")),
            (None, None) => {}
        }
        parts.extend(self.above.map(|above| format!("above {above}")));
        parts.extend(self.below.map(|below| format!("below {below}")));
        parts.extend(self.step.map(|step| format!("that is a multiple of {step}")));
        format!("a number {}", parts.join(" and "))
    }
}

/// The values of `enum` or `const`.
#[derive(Debug)]
pub(super) struct Allowed {
    pub(super) strings: Vec<String>,
    /// Values that are no strings, in their canonical text.
    pub(super) others: Vec<String>,
}

impl Allowed {
    /// `"a", "b" or null`, for a message.
    pub(super) fn describe(&self) -> String {
        let quoted = self.strings.iter().map(|text| format!("\"{}\"", shorten(text)));
        let mut names: Vec<String> = quoted.chain(self.others.iter().map(|text| shorten(text))).collect();
        if names.len() > Self::SHOWN {
            let rest = names.split_off(Self::SHOWN).len();
            return format!("one of {} (and {rest} others)", names.join(", "));
        }
        match names.pop() {
            Some(last) if names.is_empty() => last,
            Some(last) => format!("one of {} or {last}", names.join(", ")),
            None => "no value at all".to_owned(),
        }
    }

    const SHOWN: usize = 20;
}

/// Keywords that look at the same value again.
#[derive(Debug, Default)]
pub(super) struct Combine {
    /// `allOf`, and a `$ref` with siblings.
    pub(super) all: Vec<NodeId>,
    pub(super) unions: Vec<Union>,
    pub(super) not: Option<NodeId>,
}

/// `anyOf` or `oneOf`.
#[derive(Debug)]
pub(super) struct Union {
    pub(super) exactly_one: bool,
    pub(super) branches: Vec<NodeId>,
    /// How an object says which branch it belongs to, when it does.
    pub(super) dispatch: Option<Dispatch>,
}

/// What decides between the object branches of a union. In either form at most one branch can match.
#[derive(Debug)]
pub(super) enum Dispatch {
    /// A property that is a different constant in each branch.
    Tag { name: String, values: Vec<(String, NodeId)> },
    /// A required key that only one branch knows.
    Key(Vec<(String, NodeId)>),
}
