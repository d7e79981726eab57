//! The tools that look things up, and the two that do nothing at all.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Access, Answer, Done, Refusal, RetailTool};
use crate::database::Shop;

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct FindUserIdByEmail {
    /// The email of the user, such as 'something@example.com'.
    pub(crate) email: String,
}

impl RetailTool for FindUserIdByEmail {
    const NAME: &'static str = "find_user_id_by_email";
    const DESCRIPTION: &'static str = "Find a user id by email.";
    const ACCESS: Access = Access::Reads;

    fn run(&self, shop: &dyn Shop) -> Answer {
        let email = self.email.to_lowercase();
        let found = shop.accounts().find(|account| account.user.email.to_lowercase() == email);
        Done::text(found.ok_or(Refusal::UserNotFound)?.user_id.as_str())
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct FindUserIdByNameZip {
    /// The first name of the customer, such as 'John'.
    pub(crate) first_name: String,
    /// The last name of the customer, such as 'Doe'.
    pub(crate) last_name: String,
    /// The zip code of the customer, such as '12345'.
    pub(crate) zip: String,
}

impl RetailTool for FindUserIdByNameZip {
    const NAME: &'static str = "find_user_id_by_name_zip";
    const DESCRIPTION: &'static str = "Find a user id by first name, last name and zip code. Try the email first; \
        use this when the email finds nobody or the user cannot remember it.";
    const ACCESS: Access = Access::Reads;

    fn run(&self, shop: &dyn Shop) -> Answer {
        let first_name = self.first_name.to_lowercase();
        let last_name = self.last_name.to_lowercase();
        let found = shop.accounts().find(|account| {
            let user = &account.user;
            user.address.zip() == Some(self.zip.as_str())
                && user.name.first_name.to_lowercase() == first_name
                && user.name.last_name.to_lowercase() == last_name
        });
        Done::text(found.ok_or(Refusal::UserNotFound)?.user_id.as_str())
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct GetOrderDetails {
    /// The order id, such as '#W0000000', with the '#' at its beginning.
    pub(crate) order_id: String,
}

impl RetailTool for GetOrderDetails {
    const NAME: &'static str = "get_order_details";
    const DESCRIPTION: &'static str = "Get the status and details of an order.";
    const ACCESS: Access = Access::Reads;

    fn run(&self, shop: &dyn Shop) -> Answer {
        Done::record(&*shop.order(&self.order_id).ok_or(Refusal::OrderNotFound)?)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct GetProductDetails {
    /// The product id, such as '6086499569'. It is not the id of an item.
    pub(crate) product_id: String,
}

impl RetailTool for GetProductDetails {
    const NAME: &'static str = "get_product_details";
    const DESCRIPTION: &'static str = "Get the inventory details of a product.";
    const ACCESS: Access = Access::Reads;

    fn run(&self, shop: &dyn Shop) -> Answer {
        Done::record(&*shop.product(&self.product_id).ok_or(Refusal::ProductNotFound)?)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct GetUserDetails {
    /// The user id, such as 'sara_doe_496'.
    pub(crate) user_id: String,
}

impl RetailTool for GetUserDetails {
    const NAME: &'static str = "get_user_details";
    const DESCRIPTION: &'static str = "Get the details of a user, including their orders.";
    const ACCESS: Access = Access::Reads;

    fn run(&self, shop: &dyn Shop) -> Answer {
        Done::record(&shop.account(&self.user_id).ok_or(Refusal::UserNotFound)?.user)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ListAllProductTypes {}

impl RetailTool for ListAllProductTypes {
    const NAME: &'static str = "list_all_product_types";
    const DESCRIPTION: &'static str = "List the name and product id of all 50 product types. Each has a variety of \
        items with ids and options of their own.";
    const ACCESS: Access = Access::Reads;

    fn run(&self, shop: &dyn Shop) -> Answer {
        let products: Vec<_> = shop.products().collect();
        let types: BTreeMap<_, _> =
            products.iter().map(|product| (product.name.as_str(), product.product_id.as_str())).collect();
        Done::record(&types)
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Think {
    /// A thought to think about.
    pub(crate) thought: String,
}

impl RetailTool for Think {
    const NAME: &'static str = "think";
    const DESCRIPTION: &'static str = "Think about something. Obtains no new information and changes nothing; use it \
        when complex reasoning or a note to yourself is needed.";
    const ACCESS: Access = Access::Reads;

    fn run(&self, _shop: &dyn Shop) -> Answer {
        Done::text("")
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct TransferToHumanAgents {
    /// A summary of the user's issue.
    pub(crate) summary: String,
}

impl RetailTool for TransferToHumanAgents {
    const NAME: &'static str = "transfer_to_human_agents";
    const DESCRIPTION: &'static str = "Transfer the user to a human agent, with a summary of the issue. Only when the \
        user asks for one, or when the tools cannot resolve the issue.";
    const ACCESS: Access = Access::Reads;

    fn run(&self, _shop: &dyn Shop) -> Answer {
        Done::text("Transfer successful")
    }
}
