//! The demo's own tools: what somebody who builds an agent writes.
//!
//! `ship_order` changes session, files and a resource before it finds out whether it can be done at all. It has no
//! code that cleans up. `charge_card` has an effect outside, which nobody can undo, and changes files after it.

use std::sync::Arc;

use wink::filesystem::{Edit, WriteMode, WriteOptions};
use wink::ledger::IdempotencyConfig;
use wink::prelude::*;
use wink::resource::{Binding, Shared};

use super::bank::{Bank, Receipt};

/// What is left of the lamps. Tools get a copy of their own; a call that succeeds makes it the real one.
pub(super) type Lamps = Shared<u32>;

/// A parcel that is on its way. A slice of the session.
#[data]
#[derive(Debug, Clone, PartialEq, SliceType)]
#[slice(name = "demo.shipment")]
pub(super) struct Shipment {
    pub(super) order: u32,
    pub(super) carrier: Carrier,
}

/// Who carries a parcel.
#[data]
#[derive(Debug, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Carrier {
    Bike,
    Van,
}

/// What a lamp weighs, packed.
const PARCEL_KILOS: u32 = 9;

impl Carrier {
    fn name(self) -> &'static str {
        match self {
            Self::Bike => "bike",
            Self::Van => "van",
        }
    }

    fn takes_kilos(self) -> u32 {
        match self {
            Self::Bike => 5,
            Self::Van => 500,
        }
    }
}

/// What there is to see of an order, from inside a call or from outside.
#[data]
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sight {
    /// Shipments in the session.
    pub(super) shipments: usize,
    /// The order's file.
    pub(super) order_file: String,
    /// The label's file, if there is one.
    pub(super) label_file: Option<String>,
    /// What the resource says.
    pub(super) lamps: u32,
}

/// The file of an order.
pub(super) fn order_path(order: u32) -> String {
    format!("orders/{order}.txt")
}

/// The file of a parcel's label.
pub(super) fn label_path(order: u32) -> String {
    format!("labels/{order}.txt")
}

/// The file of an invoice.
pub(super) fn invoice_path(order: u32) -> String {
    format!("invoices/{order}.txt")
}

/// What was sold.
pub(super) const SALES: &str = "sales.txt";

/// Ships the lamp of an order.
#[tool]
async fn ship_order(
    /// The number of the order.
    order: u32,
    /// Who carries the parcel.
    carrier: Carrier,
    cx: &mut ToolContext,
) -> Result<ToolResult<Sight>, ToolError> {
    let name = carrier.name();

    // A resource, two files and a slice …
    cx.resource::<Lamps>().await?.update(|lamps| *lamps = lamps.saturating_sub(1));
    let files = cx.filesystem().await?;
    files.edit(&order_path(order), &Edit::once("open", "shipped")).await?;
    files.write_text(&label_path(order), &format!("by {name}")).await?;
    let _ = cx.session().dispatch(Shipment { order, carrier })?;

    // … and only now it turns out whether the carrier takes the parcel.
    let seen = Sight {
        shipments: cx.session().slice::<Shipment>()?.len(),
        order_file: files.read_text(&order_path(order)).await?,
        label_file: Some(files.read_text(&label_path(order)).await?),
        lamps: *cx.resource::<Lamps>().await?.read(),
    };
    let most = carrier.takes_kilos();
    let result = if PARCEL_KILOS > most {
        let text = format!("The {name} takes up to {most} kg; the parcel has {PARCEL_KILOS} kg.");
        ToolResult::failed(seen, text)
    } else {
        ToolResult::ok(seen, format!("Order {order} left by {name}."))
    };
    // What was seen is for the log; the model needs the message only.
    Ok(result.exclude_value_from_context())
}

/// Charges the customer of an order, and books the payment.
#[tool]
async fn charge_card(
    /// The number of the order.
    order: u32,
    /// How much, in cents.
    #[schemars(range(min = 1))]
    cents: u32,
    cx: &mut ToolContext,
) -> Result<ToolResult<Receipt>, ToolError> {
    let receipt = cx.resource::<Bank>().await?.charge(order, cents)?;
    book(&receipt, cx).await?;
    Ok(ToolResult::value(receipt))
}

/// Books a payment that was made.
#[tool]
async fn book_payment(
    /// What the bank gave for it.
    receipt: Receipt,
    cx: &mut ToolContext,
) -> Result<ToolResult<()>, ToolError> {
    book(&receipt, cx).await?;
    Ok(ToolResult::done(format!("Payment of order {} is booked.", receipt.order)))
}

/// Three files that belong together.
async fn book(receipt: &Receipt, cx: &mut ToolContext) -> Result<(), ToolError> {
    let (order, amount) = (receipt.order, receipt.amount());
    let files = cx.filesystem().await?;
    files.write_text(&invoice_path(order), &amount).await?;
    let append = WriteOptions::new(WriteMode::Append);
    files.write(&order_path(order), b", paid", append).await?;
    files.write(SALES, format!("{order}: {amount}\n").as_bytes(), append).await?;
    Ok(())
}

/// The tools, and the resource that takes part in transactions.
pub(super) fn shop(lamps: &Arc<Lamps>, bank: &Arc<Bank>) -> Section {
    Section::tools("shop", "The shop")
        .resource(Binding::instance(Arc::clone(lamps)).named("lamps").snapshotable())
        .resource(Binding::instance(Arc::clone(bank)).named("bank"))
        .tool(ship_order_tool())
        .tool(charge_card_tool().idempotency(IdempotencyConfig::auto()).rendered())
        .tool(book_payment_tool())
}
