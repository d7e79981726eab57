//! What a resource is called: in messages by the short form of its type, in snapshots by its full name.

use std::fmt;
use std::sync::Arc;

/// The name of a resource: its type's, unless the binding gives it another.
///
/// It is shown without module paths (`dyn Filesystem`); [`ResourceName::full`] has the whole text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ResourceName(Text);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Text {
    Type(&'static str),
    Given(Arc<str>),
}

impl ResourceName {
    /// The name of the type `T`.
    #[must_use]
    pub fn of<T: ?Sized>() -> Self {
        Self(Text::Type(std::any::type_name::<T>()))
    }

    pub(crate) fn given(name: &str) -> Self {
        Self(Text::Given(name.into()))
    }

    /// The whole name, with module paths where it is a type's.
    #[must_use]
    pub fn full(&self) -> &str {
        match &self.0 {
            Text::Type(text) => text,
            Text::Given(text) => text,
        }
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = match &self.0 {
            Text::Type(text) => *text,
            Text::Given(text) => return f.write_str(text),
        };
        // `a::b::C<d::E>` is shown as `C<E>`: of each run of path characters, what follows the last `::`.
        while !rest.is_empty() {
            let path = rest.find(|c: char| !in_path(c)).unwrap_or(rest.len());
            let (head, tail) = rest.split_at(path);
            f.write_str(head.rsplit("::").next().unwrap_or(head))?;
            let between = tail.find(in_path).unwrap_or(tail.len());
            let (separators, next) = tail.split_at(between);
            f.write_str(separators)?;
            rest = next;
        }
        Ok(())
    }
}

impl fmt::Debug for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.full())
    }
}

/// Whether a path can go on with it; `a::{{closure}}::C` is one, too.
fn in_path(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | ':' | '{' | '}' | '#')
}
