//! The database: what the tools read and change, and the records that every task starts from.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::json::{canonical, hex};
use crate::ordered::Ordered;
use crate::records::{Account, Order, Product, User};

/// What the tools read: the records as they are now. Users and products come in stored order.
pub(crate) trait Shop {
    fn order(&self, order_id: &str) -> Option<Arc<Order>>;
    fn product(&self, product_id: &str) -> Option<Arc<Product>>;
    fn account(&self, user_id: &str) -> Option<Arc<Account>>;
    fn products(&self) -> Box<dyn Iterator<Item = Arc<Product>> + '_>;
    fn accounts(&self) -> Box<dyn Iterator<Item = Arc<Account>> + '_>;
}

/// What a tool did: the record as it is afterwards, to be put in the place of the one with the same id.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    Order(Order),
    Account(Account),
}

/// The database every task starts from.
pub(crate) struct Initial {
    pub(crate) orders: Table<Order>,
    pub(crate) products: Table<Product>,
    pub(crate) accounts: Table<Account>,
}

/// Records in stored order, found by id.
pub(crate) struct Table<T> {
    records: Vec<Arc<T>>,
    /// Sorted as the canonical form lists them.
    rows: BTreeMap<String, Row<T>>,
}

struct Row<T> {
    record: Arc<T>,
    /// `"id":{…}`. Kept because a task changes a handful of the 1,550 records and hashes them all.
    canonical: String,
}

/// A data file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("cannot read {}: {cause}; point --data at the folder with the retail data", path.display())]
    Read { path: PathBuf, cause: std::io::Error },
    #[error("{} line {line} is not the expected JSON: {cause}", path.display())]
    Parse { path: PathBuf, line: usize, cause: serde_json::Error },
}

impl Initial {
    /// Reads `db-source-order.json` of the data folder: the other database file has lost the order of its keys.
    pub(crate) fn load(data: &Path) -> Result<Self, LoadError> {
        let path = data.join("db-source-order.json");
        match fs::read_to_string(&path) {
            Ok(text) => {
                Self::parse(&text).map_err(|cause| LoadError::Parse { line: cause.line(), path, cause })
            }
            Err(cause) => Err(LoadError::Read { path, cause }),
        }
    }

    /// Reads the text of a database.
    pub(crate) fn parse(text: &str) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct File {
            orders: Ordered<Order>,
            products: Ordered<Product>,
            users: Ordered<User>,
        }
        let file: File = serde_json::from_str(text)?;
        Ok(Self {
            orders: Table::new(file.orders, |_, order| order, canonical)?,
            products: Table::new(file.products, |_, product| product, canonical)?,
            accounts: Table::new(
                file.users,
                |user_id, user| Account { user_id, user },
                |account| canonical(&account.user),
            )?,
        })
    }

    /// The hash of the whole database as `shop` has it now, which must hold the initial set of records.
    pub(crate) fn sha256(&self, shop: &dyn Shop) -> serde_json::Result<String> {
        let mut hash = Sha256::new();
        hash.update("{\"orders\":{");
        self.orders.hash(&mut hash, |id| shop.order(id), canonical)?;
        hash.update("},\"products\":{");
        self.products.hash(&mut hash, |id| shop.product(id), canonical)?;
        hash.update("},\"users\":{");
        self.accounts.hash(&mut hash, |id| shop.account(id), |account| canonical(&account.user))?;
        hash.update("}}");
        Ok(hex(hash.finalize()))
    }
}

impl<T: PartialEq> Table<T> {
    fn new<R>(
        stored: Ordered<R>,
        record: impl Fn(String, R) -> T,
        text: impl Fn(&T) -> serde_json::Result<String>,
    ) -> serde_json::Result<Self> {
        let mut table = Self { records: Vec::new(), rows: BTreeMap::new() };
        for (id, raw) in stored {
            let record = Arc::new(record(id.clone(), raw));
            let canonical = row_text(&id, &text(&record)?)?;
            table.records.push(Arc::clone(&record));
            table.rows.insert(id, Row { record, canonical });
        }
        Ok(table)
    }

    /// The records, in stored order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.records.iter().map(Arc::as_ref)
    }

    fn hash(
        &self,
        hash: &mut Sha256,
        current: impl Fn(&str) -> Option<Arc<T>>,
        text: impl Fn(&T) -> serde_json::Result<String>,
    ) -> serde_json::Result<()> {
        let mut separator = "";
        for (id, row) in &self.rows {
            // A record that is gone leaves no trace in the text, so the hash differs from the expected one.
            let Some(record) = current(id) else { continue };
            hash.update(separator);
            separator = ",";
            if Arc::ptr_eq(&record, &row.record) || record == row.record {
                hash.update(&row.canonical);
            } else {
                hash.update(row_text(id, &text(&record)?)?);
            }
        }
        Ok(())
    }
}

fn row_text(id: &str, record: &str) -> serde_json::Result<String> {
    Ok(format!("{}:{record}", canonical(&id)?))
}
