//! The sixteen tools as pure functions: each reads the shop and answers with a text and the changes to make, or
//! with a refusal and none. Nothing here writes, so nothing can be left half done.

mod calculate;
mod items;
mod reading;
mod writing;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use calculate::*;
pub(crate) use items::*;
pub(crate) use reading::*;
pub(crate) use writing::*;

use crate::database::{Change, Shop};
use crate::json::wire;
use crate::records::{Account, Order};

/// A tool of the shop, implemented by the type of its parameters.
pub(crate) trait RetailTool:
    Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static
{
    const NAME: &'static str;
    const DESCRIPTION: &'static str;
    const ACCESS: Access;

    fn run(&self, shop: &dyn Shop) -> Answer;
}

/// Whether a tool may change records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Reads,
    Writes,
}

/// What a call comes to.
pub(crate) type Answer = Result<Done, Refusal>;

/// A call that went through.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Done {
    pub(crate) text: String,
    pub(crate) changes: Vec<Change>,
}

impl Done {
    fn text(text: impl Into<String>) -> Answer {
        Ok(Self { text: text.into(), changes: Vec::new() })
    }

    fn record(record: &impl Serialize) -> Answer {
        Self::text(wire(record)?)
    }

    /// Answers with the order as it has become, and changes it and its user's account where that changed too.
    fn order(order: Order, account: Option<Account>) -> Answer {
        let text = wire(&order)?;
        let changes = [Change::Order(order)].into_iter().chain(account.map(Change::Account)).collect();
        Ok(Self { text, changes })
    }
}

/// A call that was turned down; its text is the answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("Error: user not found")]
    UserNotFound,
    #[error("Error: order not found")]
    OrderNotFound,
    #[error("Error: product not found")]
    ProductNotFound,
    #[error("Error: payment method not found")]
    PaymentMethodNotFound,
    #[error("Error: some item not found")]
    SomeItemNotFound,
    #[error("Error: {0} not found")]
    ItemNotFound(String),
    #[error("Error: new item {0} not found or available")]
    NewItemNotAvailable(String),
    #[error("Error: the number of items to be exchanged should match")]
    UnequalItemCounts,
    #[error("Error: invalid reason")]
    InvalidReason,
    #[error("Error: non-pending order cannot be cancelled")]
    CannotCancel,
    #[error("Error: non-pending order cannot be modified")]
    CannotModify,
    #[error("Error: non-delivered order cannot be exchanged")]
    CannotExchange,
    #[error("Error: non-delivered order cannot be returned")]
    CannotReturn,
    #[error("Error: there should be exactly one payment for a pending order")]
    NotExactlyOnePayment,
    #[error("Error: the new payment method should be different from the current one")]
    SamePaymentMethod,
    #[error("Error: payment method should be either the original payment method or a gift card")]
    NotOriginalNorGiftCard,
    #[error("Error: insufficient gift card balance to pay for the order")]
    BalanceBelowOrder,
    #[error("Error: insufficient gift card balance to pay for the new item")]
    BalanceBelowNewItem,
    #[error("Error: insufficient gift card balance to pay for the price difference")]
    BalanceBelowDifference,
    /// An order that nobody paid for; the initial data has none.
    #[error("Error: list index out of range")]
    NoPayment,
    /// A record names another that does not exist; the initial data has no such case.
    #[error("Error: '{0}'")]
    Dangling(String),
    #[error("Error: {0}")]
    Expression(#[from] ExpressionError),
    #[error("Error: the record cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// Something to be done once for each of the sixteen types.
pub(crate) trait ToolVisitor: Sized {
    #[must_use]
    fn visit<T: RetailTool>(self) -> Self;
}

/// Shows every tool to `visitor`, by name.
pub(crate) fn visit_tools<V: ToolVisitor>(visitor: V) -> V {
    visitor
        .visit::<Calculate>()
        .visit::<CancelPendingOrder>()
        .visit::<ExchangeDeliveredOrderItems>()
        .visit::<FindUserIdByEmail>()
        .visit::<FindUserIdByNameZip>()
        .visit::<GetOrderDetails>()
        .visit::<GetProductDetails>()
        .visit::<GetUserDetails>()
        .visit::<ListAllProductTypes>()
        .visit::<ModifyPendingOrderAddress>()
        .visit::<ModifyPendingOrderItems>()
        .visit::<ModifyPendingOrderPayment>()
        .visit::<ModifyUserAddress>()
        .visit::<ReturnDeliveredOrderItems>()
        .visit::<Think>()
        .visit::<TransferToHumanAgents>()
}
