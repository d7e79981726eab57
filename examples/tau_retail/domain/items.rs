//! The two tools that swap items of an order for other variants of the same product.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::writing::{change_balance, first_surplus, gift_card_balance, order_with, owner, sorted};
use super::{Access, Answer, Done, Refusal, RetailTool};
use crate::database::Shop;
use crate::number::Number;
use crate::records::{Order, Payment, Status, Transaction, Variant};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ModifyPendingOrderItems {
    /// The order id, such as '#W0000000', with the '#' at its beginning.
    pub(crate) order_id: String,
    /// The item ids to be modified, each such as '1008292230'. There may be duplicates.
    pub(crate) item_ids: Vec<String>,
    /// The item ids to modify them to, each of the same product as the item id in the same position. There may be
    /// duplicates.
    pub(crate) new_item_ids: Vec<String>,
    /// The payment method id to pay or receive the price difference, such as 'gift_card_0000000' or
    /// 'credit_card_0000000'; the user and order details have it.
    pub(crate) payment_method_id: String,
}

impl RetailTool for ModifyPendingOrderItems {
    const NAME: &'static str = "modify_pending_order_items";
    const DESCRIPTION: &'static str = "Modify items of a pending order to others of the same product; possible once \
        per order. Explain the change and get the user's explicit yes first. Returns the order.";
    const ACCESS: Access = Access::Writes;

    fn run(&self, shop: &dyn Shop) -> Answer {
        let order = order_with(shop, &self.order_id, Status::Pending, Refusal::CannotModify)?;
        let (swaps, difference) = swaps(shop, &order, &self.item_ids, &self.new_item_ids)?;
        let mut account = owner(shop, &order)?;
        let balance = gift_card_balance(&account.user, &self.payment_method_id)?;
        if balance.is_some_and(|balance| balance.is_below(difference)) {
            return Err(Refusal::BalanceBelowNewItem);
        }

        let mut order = Order::clone(&order);
        order.payment_history.push(Payment {
            transaction_type: if Number::ZERO.is_below(difference) {
                Transaction::Payment
            } else {
                Transaction::Refund
            },
            amount: difference.abs(),
            payment_method_id: self.payment_method_id.clone(),
        });
        if balance.is_some() {
            change_balance(&mut account.user, &self.payment_method_id, |balance| balance.minus(difference))?;
        }
        for Swap { old_id, variant, .. } in swaps {
            // Looked up afresh: an earlier swap may have changed an item to this id or away from it.
            let item = order.items.iter_mut().find(|item| item.item_id == old_id);
            let item = item.ok_or_else(|| Refusal::ItemNotFound(old_id.to_owned()))?;
            item.item_id = variant.item_id;
            item.price = variant.price;
            item.options = variant.options;
        }
        order.status = Status::PendingItemModified;
        Done::order(order, balance.is_some().then_some(account))
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ExchangeDeliveredOrderItems {
    /// The order id, such as '#W0000000', with the '#' at its beginning.
    pub(crate) order_id: String,
    /// The item ids to be exchanged, each such as '1008292230'. There may be duplicates.
    pub(crate) item_ids: Vec<String>,
    /// The item ids to exchange them for, each of the same product as the item id in the same position. There may
    /// be duplicates.
    pub(crate) new_item_ids: Vec<String>,
    /// The payment method id to pay or receive the price difference, such as 'gift_card_0000000' or
    /// 'credit_card_0000000'; the user and order details have it.
    pub(crate) payment_method_id: String,
}

impl RetailTool for ExchangeDeliveredOrderItems {
    const NAME: &'static str = "exchange_delivered_order_items";
    const DESCRIPTION: &'static str = "Exchange items of a delivered order for others of the same product; an order can \
        be exchanged or returned once. Explain and get the user's explicit yes first. Returns the order.";
    const ACCESS: Access = Access::Writes;

    fn run(&self, shop: &dyn Shop) -> Answer {
        let order = order_with(shop, &self.order_id, Status::Delivered, Refusal::CannotExchange)?;
        let (_, difference) = swaps(shop, &order, &self.item_ids, &self.new_item_ids)?;
        let difference = difference.round2();
        let balance = gift_card_balance(&owner(shop, &order)?.user, &self.payment_method_id)?;
        if balance.is_some_and(|balance| balance.is_below(difference)) {
            return Err(Refusal::BalanceBelowDifference);
        }
        let mut order = Order::clone(&order);
        order.status = Status::ExchangeRequested;
        order.exchange_items = Some(sorted(&self.item_ids));
        order.exchange_new_items = Some(sorted(&self.new_item_ids));
        order.exchange_payment_method_id = Some(self.payment_method_id.clone());
        order.exchange_price_difference = Some(difference);
        Done::order(order, None)
    }
}

/// An item to be replaced and what replaces it.
struct Swap<'a> {
    old_id: &'a str,
    variant: Variant,
    difference: Number,
}

/// The swaps asked for, once all of them are known to be possible, and the difference in price that they make.
fn swaps<'a>(
    shop: &dyn Shop,
    order: &Order,
    item_ids: &'a [String],
    new_item_ids: &[String],
) -> Result<(Vec<Swap<'a>>, Number), Refusal> {
    if let Some(id) = first_surplus(order, item_ids) {
        return Err(Refusal::ItemNotFound(id.clone()));
    }
    if item_ids.len() != new_item_ids.len() {
        return Err(Refusal::UnequalItemCounts);
    }
    let pairs = item_ids.iter().zip(new_item_ids);
    let swaps =
        pairs.map(|(old_id, new_id)| swap(shop, order, old_id, new_id)).collect::<Result<Vec<_>, _>>()?;
    let difference = swaps.iter().fold(Number::ZERO, |sum, swap| sum.plus(swap.difference));
    Ok((swaps, difference))
}

fn swap<'a>(shop: &dyn Shop, order: &Order, old_id: &'a str, new_id: &str) -> Result<Swap<'a>, Refusal> {
    let item = order.items.iter().find(|item| item.item_id == old_id);
    let item = item.ok_or_else(|| Refusal::ItemNotFound(old_id.to_owned()))?;
    let product = shop.product(&item.product_id);
    let product = product.ok_or_else(|| Refusal::Dangling(item.product_id.clone()))?;
    let variant = product.variants.get(new_id).filter(|variant| variant.available);
    let variant = variant.ok_or_else(|| Refusal::NewItemNotAvailable(new_id.to_owned()))?.clone();
    Ok(Swap { old_id, difference: variant.price.minus(item.price), variant })
}
