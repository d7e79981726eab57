//! The tools that change an order's payment or standing, and addresses.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Access, Answer, Done, Refusal, RetailTool};
use crate::database::{Change, Shop};
use crate::json::wire;
use crate::number::Number;
use crate::records::{Account, Address, Order, Payment, PaymentMethod, Status, Transaction, User};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CancelPendingOrder {
    /// The order id, such as '#W0000000', with the '#' at its beginning.
    pub(crate) order_id: String,
    // Not an enum: an unknown reason has an answer of its own, given only after the order was looked at.
    /// The reason for cancellation, either 'no longer needed' or 'ordered by mistake'.
    pub(crate) reason: String,
}

impl RetailTool for CancelPendingOrder {
    const NAME: &'static str = "cancel_pending_order";
    const DESCRIPTION: &'static str = "Cancel a pending order and refund it: at once to a gift card, else in 5-7 \
        business days. Explain and get the user's explicit yes first. Returns the order.";
    const ACCESS: Access = Access::Writes;

    fn run(&self, shop: &dyn Shop) -> Answer {
        let order = order_with(shop, &self.order_id, Status::Pending, Refusal::CannotCancel)?;
        if !matches!(self.reason.as_str(), "no longer needed" | "ordered by mistake") {
            return Err(Refusal::InvalidReason);
        }
        let mut order = Order::clone(&order);
        let mut account = None;
        let mut refunds = order.payment_history.clone();
        for refund in &mut refunds {
            refund.transaction_type = Transaction::Refund;
            if names_gift_card(&refund.payment_method_id) {
                let account = match &mut account {
                    Some(account) => account,
                    none => none.insert(owner(shop, &order)?),
                };
                change_balance(&mut account.user, &refund.payment_method_id, |balance| {
                    balance.plus(refund.amount)
                })?;
            }
        }
        order.status = Status::Cancelled;
        order.cancel_reason = Some(self.reason.clone());
        order.payment_history.append(&mut refunds);
        Done::order(order, account)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ModifyPendingOrderAddress {
    /// The order id, such as '#W0000000', with the '#' at its beginning.
    pub(crate) order_id: String,
    /// The first line of the address, such as '123 Main St'.
    pub(crate) address1: String,
    /// The second line of the address, such as 'Apt 1' or ''.
    pub(crate) address2: String,
    /// The city, such as 'San Francisco'.
    pub(crate) city: String,
    /// The state, such as 'CA'.
    pub(crate) state: String,
    /// The country, such as 'USA'.
    pub(crate) country: String,
    /// The zip code, such as '12345'.
    pub(crate) zip: String,
}

impl RetailTool for ModifyPendingOrderAddress {
    const NAME: &'static str = "modify_pending_order_address";
    const DESCRIPTION: &'static str = "Modify the shipping address of a pending order. Explain the change and get the \
        user's explicit yes first. Returns the order.";
    const ACCESS: Access = Access::Writes;

    fn run(&self, shop: &dyn Shop) -> Answer {
        let order = order_with(shop, &self.order_id, Status::Pending, Refusal::CannotModify)?;
        let mut order = Order::clone(&order);
        order.address =
            address([&self.address1, &self.address2, &self.city, &self.state, &self.country, &self.zip]);
        Done::order(order, None)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ModifyUserAddress {
    /// The user id, such as 'sara_doe_496'.
    pub(crate) user_id: String,
    /// The first line of the address, such as '123 Main St'.
    pub(crate) address1: String,
    /// The second line of the address, such as 'Apt 1' or ''.
    pub(crate) address2: String,
    /// The city, such as 'San Francisco'.
    pub(crate) city: String,
    /// The state, such as 'CA'.
    pub(crate) state: String,
    /// The country, such as 'USA'.
    pub(crate) country: String,
    /// The zip code, such as '12345'.
    pub(crate) zip: String,
}

impl RetailTool for ModifyUserAddress {
    const NAME: &'static str = "modify_user_address";
    const DESCRIPTION: &'static str = "Modify the default address of a user. Explain the change and get the user's \
        explicit yes first. Returns the user.";
    const ACCESS: Access = Access::Writes;

    fn run(&self, shop: &dyn Shop) -> Answer {
        let account = shop.account(&self.user_id).ok_or(Refusal::UserNotFound)?;
        let mut account = Account::clone(&account);
        account.user.address =
            address([&self.address1, &self.address2, &self.city, &self.state, &self.country, &self.zip]);
        Ok(Done { text: wire(&account.user)?, changes: vec![Change::Account(account)] })
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ModifyPendingOrderPayment {
    /// The order id, such as '#W0000000', with the '#' at its beginning.
    pub(crate) order_id: String,
    /// The payment method id to pay with instead, such as 'gift_card_0000000' or 'credit_card_0000000'; the user
    /// and order details have it.
    pub(crate) payment_method_id: String,
}

impl RetailTool for ModifyPendingOrderPayment {
    const NAME: &'static str = "modify_pending_order_payment";
    const DESCRIPTION: &'static str = "Modify the payment method of a pending order. Explain the change and get the \
        user's explicit yes first. Returns the order.";
    const ACCESS: Access = Access::Writes;

    fn run(&self, shop: &dyn Shop) -> Answer {
        let order = order_with(shop, &self.order_id, Status::Pending, Refusal::CannotModify)?;
        let mut account = owner(shop, &order)?;
        let new_id = &self.payment_method_id;
        let balance = gift_card_balance(&account.user, new_id)?;
        let paid = match order.payment_history.as_slice() {
            [] => return Err(Refusal::NoPayment),
            [paid] if paid.transaction_type == Transaction::Payment => paid,
            _ => return Err(Refusal::NotExactlyOnePayment),
        };
        let (old_id, amount) = (&paid.payment_method_id, paid.amount);
        if old_id == new_id {
            return Err(Refusal::SamePaymentMethod);
        }
        if balance.is_some_and(|balance| balance.is_below(amount)) {
            return Err(Refusal::BalanceBelowOrder);
        }

        let mut modified = Order::clone(&order);
        modified.payment_history.extend([
            Payment { transaction_type: Transaction::Payment, amount, payment_method_id: new_id.clone() },
            Payment { transaction_type: Transaction::Refund, amount, payment_method_id: old_id.clone() },
        ]);
        let refunds_gift_card = names_gift_card(old_id);
        if balance.is_some() {
            change_balance(&mut account.user, new_id, |balance| balance.minus(amount))?;
        }
        if refunds_gift_card {
            change_balance(&mut account.user, old_id, |balance| balance.plus(amount))?;
        }
        Done::order(modified, (balance.is_some() || refunds_gift_card).then_some(account))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ReturnDeliveredOrderItems {
    /// The order id, such as '#W0000000', with the '#' at its beginning.
    pub(crate) order_id: String,
    /// The item ids to be returned, each such as '1008292230'. There may be duplicates.
    pub(crate) item_ids: Vec<String>,
    /// The payment method id to receive the refund, such as 'gift_card_0000000' or 'credit_card_0000000'; the user
    /// and order details have it.
    pub(crate) payment_method_id: String,
}

impl RetailTool for ReturnDeliveredOrderItems {
    const NAME: &'static str = "return_delivered_order_items";
    const DESCRIPTION: &'static str = "Return items of a delivered order; its status becomes 'return requested' and an \
        email says how to send them. Explain and get the user's explicit yes first. Returns the order.";
    const ACCESS: Access = Access::Writes;

    fn run(&self, shop: &dyn Shop) -> Answer {
        let order = order_with(shop, &self.order_id, Status::Delivered, Refusal::CannotReturn)?;
        gift_card_balance(&owner(shop, &order)?.user, &self.payment_method_id)?;
        if !names_gift_card(&self.payment_method_id) {
            let original = order.payment_history.first().ok_or(Refusal::NoPayment)?;
            if original.payment_method_id != self.payment_method_id {
                return Err(Refusal::NotOriginalNorGiftCard);
            }
        }
        if first_surplus(&order, &self.item_ids).is_some() {
            return Err(Refusal::SomeItemNotFound);
        }
        let mut order = Order::clone(&order);
        order.status = Status::ReturnRequested;
        order.return_items = Some(sorted(&self.item_ids));
        order.return_payment_method_id = Some(self.payment_method_id.clone());
        Done::order(order, None)
    }
}

/// The order, if it has the status that the tool needs.
pub(super) fn order_with(
    shop: &dyn Shop,
    order_id: &str,
    status: Status,
    otherwise: Refusal,
) -> Result<Arc<Order>, Refusal> {
    let order = shop.order(order_id).ok_or(Refusal::OrderNotFound)?;
    if order.status == status { Ok(order) } else { Err(otherwise) }
}

/// A copy of the account of the order's user, to change.
pub(super) fn owner(shop: &dyn Shop, order: &Order) -> Result<Account, Refusal> {
    let account = shop.account(&order.user_id).ok_or_else(|| Refusal::Dangling(order.user_id.clone()))?;
    Ok(Account::clone(&account))
}

/// The balance if the user's payment method is a gift card by its source; an error if there is no such method.
pub(super) fn gift_card_balance(user: &User, payment_method_id: &str) -> Result<Option<Number>, Refusal> {
    match user.payment_methods.get(payment_method_id).ok_or(Refusal::PaymentMethodNotFound)? {
        PaymentMethod::GiftCard { balance, .. } => Ok(Some(*balance)),
        PaymentMethod::CreditCard { .. } | PaymentMethod::Paypal { .. } => Ok(None),
    }
}

/// Sets a gift card's balance to what `change` makes of it, rounded to cents.
pub(super) fn change_balance(
    user: &mut User,
    payment_method_id: &str,
    change: impl FnOnce(Number) -> Number,
) -> Result<(), Refusal> {
    match user.payment_methods.get_mut(payment_method_id) {
        Some(PaymentMethod::GiftCard { balance, .. }) => {
            *balance = change(*balance).round2();
            Ok(())
        }
        Some(_) => Err(Refusal::Dangling("balance".to_owned())),
        None => Err(Refusal::Dangling(payment_method_id.to_owned())),
    }
}

/// The first of `item_ids` that is listed more often than the order has it.
pub(super) fn first_surplus<'a>(order: &Order, item_ids: &'a [String]) -> Option<&'a String> {
    item_ids.iter().find(|id| {
        let listed = item_ids.iter().filter(|other| other == id).count();
        let held = order.items.iter().filter(|item| item.item_id == **id).count();
        listed > held
    })
}

pub(super) fn sorted(ids: &[String]) -> Vec<String> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids
}

/// The other test for a gift card: what its id says rather than its source.
fn names_gift_card(payment_method_id: &str) -> bool {
    payment_method_id.contains("gift_card")
}

fn address(values: [&String; 6]) -> Address {
    let keys = ["address1", "address2", "city", "state", "country", "zip"];
    Address(keys.map(str::to_owned).into_iter().zip(values.map(String::clone)).collect())
}
