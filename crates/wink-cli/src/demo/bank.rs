//! The other side of a payment: a bank that keeps its own books. Nothing that happens here can be rolled back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use wink::prelude::*;
use wink::resource::Shared;

/// A charge that went through.
#[data]
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Receipt {
    pub(super) number: usize,
    pub(super) order: u32,
    pub(super) cents: u32,
}

impl Render for Receipt {
    fn render(&self) -> Result<String, RenderError> {
        let Self { number, order, cents } = self;
        Ok(format!("Receipt {number}: {}.{:02} EUR for order {order}.", cents / 100, cents % 100))
    }
}

/// A bank at the other end of a line.
pub(super) struct Bank {
    charges: Shared<Vec<Receipt>>,
    line_is_cut: AtomicBool,
    nobody_hears: Notify,
}

impl Bank {
    /// A bank that has charged nobody yet.
    pub(super) fn open() -> Self {
        Self {
            charges: Shared::new(Vec::new()),
            line_is_cut: AtomicBool::new(false),
            nobody_hears: Notify::new(),
        }
    }

    /// Takes the money, then says so. When the line is cut, the money is taken all the same.
    pub(super) async fn charge(&self, order: u32, cents: u32) -> Receipt {
        let receipt = self.charges.update(|charges| {
            let receipt = Receipt { number: charges.len() + 1, order, cents };
            charges.push(receipt.clone());
            receipt
        });
        if self.line_is_cut.load(Ordering::Relaxed) {
            self.nobody_hears.notify_one();
            std::future::pending::<()>().await;
        }
        receipt
    }

    /// The bank's own books.
    pub(super) fn charges(&self) -> Arc<Vec<Receipt>> {
        self.charges.read()
    }

    /// From now on, answers do not arrive.
    pub(super) fn cut_line(&self) {
        self.line_is_cut.store(true, Ordering::Relaxed);
    }

    /// Answers arrive again.
    pub(super) fn mend_line(&self) {
        self.line_is_cut.store(false, Ordering::Relaxed);
    }

    /// Ends when money was taken and the answer got lost.
    pub(super) async fn answer_lost(&self) {
        self.nobody_hears.notified().await;
    }
}
