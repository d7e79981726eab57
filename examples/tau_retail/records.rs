//! The records of the shop, field by field in the order in which the data writes them. Orders, products and accounts
//! are kept in a slice each, found by their key.

use serde::{Deserialize, Serialize};
use wink::session::SliceType;

use crate::number::Number;
use crate::ordered::Ordered;

/// An order. The last seven fields appear when a tool first writes them; a status change that writes one group
/// bars the tools that would write another, so they need no order among the groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, SliceType)]
#[slice(name = "order", key = "order_id")]
pub(crate) struct Order {
    pub(crate) order_id: String,
    pub(crate) user_id: String,
    pub(crate) address: Address,
    pub(crate) items: Vec<Item>,
    pub(crate) fulfillments: Vec<Fulfillment>,
    pub(crate) status: Status,
    pub(crate) payment_history: Vec<Payment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cancel_reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exchange_items: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exchange_new_items: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exchange_payment_method_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) exchange_price_difference: Option<Number>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) return_items: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) return_payment_method_id: Option<String>,
}

/// Where an order stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Status {
    #[serde(rename = "pending")]
    Pending,
    #[serde(rename = "pending (item modified)")]
    PendingItemModified,
    #[serde(rename = "processed")]
    Processed,
    #[serde(rename = "delivered")]
    Delivered,
    #[serde(rename = "cancelled")]
    Cancelled,
    #[serde(rename = "exchange requested")]
    ExchangeRequested,
    #[serde(rename = "return requested")]
    ReturnRequested,
}

/// One thing in an order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) product_id: String,
    pub(crate) item_id: String,
    pub(crate) price: Number,
    pub(crate) options: Ordered<String>,
}

/// A parcel of an order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Fulfillment {
    pub(crate) tracking_id: Vec<String>,
    pub(crate) item_ids: Vec<String>,
}

/// An entry of an order's payment history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Payment {
    pub(crate) transaction_type: Transaction,
    pub(crate) amount: Number,
    pub(crate) payment_method_id: String,
}

/// Which way the money went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Transaction {
    Payment,
    Refund,
}

/// An address. A map and not a struct: addresses written by a tool list `state` before `country`, those of the
/// initial data after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Address(pub(crate) Ordered<String>);

impl Address {
    pub(crate) fn zip(&self) -> Option<&str> {
        self.0.get("zip").map(String::as_str)
    }
}

/// A kind of thing for sale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, SliceType)]
#[slice(name = "product", key = "product_id")]
pub(crate) struct Product {
    pub(crate) name: String,
    pub(crate) product_id: String,
    pub(crate) variants: Ordered<Variant>,
}

/// One of the forms a product comes in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Variant {
    pub(crate) item_id: String,
    pub(crate) options: Ordered<String>,
    pub(crate) available: bool,
    pub(crate) price: Number,
}

/// A user with the id it is stored under, which the record itself does not hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, SliceType)]
#[slice(name = "account", key = "user_id")]
pub(crate) struct Account {
    pub(crate) user_id: String,
    pub(crate) user: User,
}

/// A customer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct User {
    pub(crate) name: Name,
    pub(crate) address: Address,
    pub(crate) email: String,
    pub(crate) payment_methods: Ordered<PaymentMethod>,
    pub(crate) orders: Vec<String>,
}

/// A customer's name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Name {
    pub(crate) first_name: String,
    pub(crate) last_name: String,
}

/// A way to pay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "snake_case")]
pub(crate) enum PaymentMethod {
    GiftCard { balance: Number, id: String },
    CreditCard { brand: String, last_four: String, id: String },
    Paypal { id: String },
}
