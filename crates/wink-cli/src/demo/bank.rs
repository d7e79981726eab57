//! The other side of a payment: a bank that keeps its own books, outside the workspace. Nothing that happens here can be
//! rolled back, and it is there whichever process asks.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use wink::prelude::*;
use wink::serde_json;

/// A charge that went through.
#[data]
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Receipt {
    pub(super) number: usize,
    pub(super) order: u32,
    pub(super) cents: u32,
}

impl Receipt {
    /// How much, for a person.
    pub(super) fn amount(&self) -> String {
        format!("{}.{:02} EUR", self.cents / 100, self.cents % 100)
    }
}

impl Render for Receipt {
    fn render(&self) -> Result<String, RenderError> {
        Ok(format!("Receipt {}: {} for order {}.", self.number, self.amount(), self.order))
    }
}

/// A bank, which is a file that only grows.
pub(super) struct Bank {
    books: PathBuf,
}

impl Bank {
    /// The bank with these books.
    pub(super) fn with_books(books: PathBuf) -> Self {
        Self { books }
    }

    /// Takes the money, and says so.
    pub(super) fn charge(&self, order: u32, cents: u32) -> io::Result<Receipt> {
        let receipt = Receipt { number: self.charges()?.len() + 1, order, cents };
        let mut books = File::options().append(true).create(true).open(&self.books)?;
        writeln!(books, "{}", serde_json::to_string(&receipt)?)?;
        books.sync_all()?;
        Ok(receipt)
    }

    /// The bank's own books.
    pub(super) fn charges(&self) -> io::Result<Vec<Receipt>> {
        let text = match std::fs::read_to_string(&self.books) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }
}
