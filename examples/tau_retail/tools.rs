//! The sixteen tools on wink: each reads the shop through the session's slices and changes it by dispatching the
//! records as they have become. What a call dispatched stands or falls with the call.

use std::sync::Arc;

use wink::prelude::*;
use wink::session::{DispatchResult, SliceView};
use wink::transaction::AccessError;

use crate::database::{Change, Shop};
use crate::domain::{Access, Answer, RetailTool, ToolVisitor, visit_tools};
use crate::records::{Account, Order, Product};

/// The shop as a session has it.
pub(crate) struct Slices {
    orders: SliceView<Order>,
    products: SliceView<Product>,
    accounts: SliceView<Account>,
}

impl Slices {
    /// As one call sees it, with what that call did already.
    fn in_call(cx: &ReadContext) -> Result<Self, AccessError> {
        let session = cx.session();
        Ok(Self { orders: session.slice()?, products: session.slice()?, accounts: session.slice()? })
    }

    /// As everybody sees it between calls.
    pub(crate) fn committed(session: &Session) -> Self {
        Self { orders: session.slice(), products: session.slice(), accounts: session.slice() }
    }
}

impl Shop for Slices {
    fn order(&self, order_id: &str) -> Option<Arc<Order>> {
        self.orders.get(order_id)
    }

    fn product(&self, product_id: &str) -> Option<Arc<Product>> {
        self.products.get(product_id)
    }

    fn account(&self, user_id: &str) -> Option<Arc<Account>> {
        self.accounts.get(user_id)
    }

    fn products(&self) -> Box<dyn Iterator<Item = Arc<Product>> + '_> {
        Box::new(self.products.iter())
    }

    fn accounts(&self) -> Box<dyn Iterator<Item = Arc<Account>> + '_> {
        Box::new(self.accounts.iter())
    }
}

/// The handler of a tool that only looks: its context offers no change.
async fn look<T: RetailTool>(params: T, cx: &mut ReadContext) -> Result<ToolResult<String>, ToolError> {
    let answer = params.run(&Slices::in_call(cx)?);
    answered(answer, |_| Ok(()))
}

/// The handler of a tool that changes records.
async fn change<T: RetailTool>(params: T, cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
    let answer = params.run(&Slices::in_call(cx)?);
    let session = cx.session();
    answered(answer, |change| {
        applied(match change {
            Change::Order(order) => session.dispatch(order)?,
            Change::Account(account) => session.dispatch(account)?,
        })
    })
}

/// How not to do it: the handler works on the session itself, behind the back of its call. What it did stays done
/// whatever becomes of the call.
async fn change_unprotected<T: RetailTool>(
    params: T,
    cx: &mut ToolContext,
) -> Result<ToolResult<String>, ToolError> {
    let session = cx.resource::<Session>().await?;
    let answer = params.run(&Slices::committed(&session));
    answered(answer, |change| {
        applied(match change {
            Change::Order(order) => session.dispatch(order),
            Change::Account(account) => session.dispatch(account),
        })
    })
}

/// What a handler returns: the text once every change is made, or the refusal, word for word.
fn answered(
    answer: Answer,
    apply: impl FnMut(Change) -> Result<(), ToolError>,
) -> Result<ToolResult<String>, ToolError> {
    match answer {
        Ok(done) => {
            done.changes.into_iter().try_for_each(apply)?;
            Ok(ToolResult::value(done.text))
        }
        Err(refusal) => Ok(ToolResult::error(refusal.to_string())),
    }
}

/// A reducer that failed fails the call.
fn applied(dispatched: DispatchResult) -> Result<(), ToolError> {
    match dispatched.failures.into_iter().next() {
        None => Ok(()),
        Some(failure) => Err(failure.into()),
    }
}

/// Where the tools that write make their changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writes {
    /// In their call's transaction.
    InTheCall,
    /// On the session, which is bound as a resource, whatever becomes of the call.
    Unprotected,
}

/// The shop's tools, as a part of a prompt.
pub(crate) fn section(writes: Writes) -> Section {
    visit_tools(Listing { section: Section::tools("retail", "Retail"), writes }).section
}

struct Listing {
    section: Section,
    writes: Writes,
}

impl ToolVisitor for Listing {
    fn visit<T: RetailTool>(self) -> Self {
        let read = || Footprint::nothing().read_slice::<Product>();
        let tool = match (T::ACCESS, self.writes) {
            // Declared footprints are enforced, and let calls that only look run side by side.
            (Access::Reads, _) => Tool::new(T::NAME, T::DESCRIPTION, look::<T>)
                .footprint(move |_| read().read_slice::<Order>().read_slice::<Account>()),
            (Access::Writes, Writes::InTheCall) => Tool::new(T::NAME, T::DESCRIPTION, change::<T>)
                .footprint(move |_| read().write_slice::<Order>().write_slice::<Account>()),
            (Access::Writes, Writes::Unprotected) => {
                Tool::new(T::NAME, T::DESCRIPTION, change_unprotected::<T>)
            }
        };
        Self { section: self.section.tool(tool), ..self }
    }
}
