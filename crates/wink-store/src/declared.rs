//! Values as their columns declare them: what is damaged may be of another type, or text that is not UTF-8.

use rusqlite::Connection;
use rusqlite::types::{Value, ValueRef};

/// The tables, in the order in which a repair copies them.
pub(crate) const TABLES: [&str; 9] =
    ["sessions", "records", "calls", "ledger", "journals", "identity", "summaries", "tail", "losses"];

/// A column, as its table declares it.
#[derive(PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    declared: String,
    is_nullable: bool,
}

/// The columns of a table, in order.
pub(crate) fn columns(conn: &Connection, table: &str) -> rusqlite::Result<Vec<Column>> {
    conn.prepare(&format!("PRAGMA table_info({table})"))?
        .query_map([], |row| {
            Ok(Column { name: row.get(1)?, declared: row.get(2)?, is_nullable: !row.get::<_, bool>(3)? })
        })?
        .collect()
}

impl Column {
    /// Whether a store may have written the value.
    pub(crate) fn takes(&self, found: ValueRef<'_>) -> bool {
        match found {
            ValueRef::Null => self.is_nullable,
            ValueRef::Integer(_) => self.declared == "INTEGER",
            ValueRef::Real(_) => false,
            ValueRef::Text(bytes) => self.declared == "TEXT" && std::str::from_utf8(bytes).is_ok(),
            ValueRef::Blob(_) => self.declared == "BLOB",
        }
    }

    /// The value; one that the column does not [take](Self::takes) becomes the nearest that it does.
    pub(crate) fn nearest(&self, found: ValueRef<'_>) -> Value {
        match (self.declared.as_str(), found) {
            (_, ValueRef::Null) if self.is_nullable => Value::Null,
            ("INTEGER", found) => Value::Integer(found.as_i64().unwrap_or_default()),
            ("BLOB", ValueRef::Blob(bytes) | ValueRef::Text(bytes)) => Value::Blob(bytes.to_vec()),
            ("BLOB", _) => Value::Blob(Vec::new()),
            (_, found) => Value::Text(lossy(found)),
        }
    }
}

/// A text, as far as it is one.
pub(crate) fn lossy(found: ValueRef<'_>) -> String {
    match found {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => String::new(),
    }
}
