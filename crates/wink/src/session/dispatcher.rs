//! The dispatcher: subscribers by exact event type, in the order in which they subscribed.

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::ReducerFailure;
use super::ids::{InvocationId, SessionId};
use super::reducer::ByTypeId;
use crate::support::future::catch;

/// Where an event comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventSource {
    /// The session it was dispatched in.
    pub session: SessionId,
    /// The tool whose handler published it, if one did.
    pub tool: Option<Arc<str>>,
    /// That tool's invocation.
    pub invocation: Option<InvocationId>,
    /// When.
    pub time: Timestamp,
}

/// What came of handing an event to its subscribers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "a failing subscriber is only visible here"]
pub struct Delivery {
    /// How many subscribers got it.
    pub handled_count: usize,
    /// The failures, in subscription order.
    pub failures: Vec<String>,
}

impl Delivery {
    /// An error that lists every failure, if there was one.
    pub fn raise_if_errors(self) -> Result<(), DeliveryError> {
        if self.failures.is_empty() { Ok(()) } else { Err(DeliveryError { failures: self.failures }) }
    }
}

/// Subscribers failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} event subscriber(s) failed: {}", failures.len(), failures.join("; "))]
pub struct DeliveryError {
    /// One text per failing subscriber, in subscription order.
    pub failures: Vec<String>,
}

/// What came of a dispatch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "a failing reducer or subscriber is only visible here"]
pub struct DispatchResult {
    /// The reducers that failed; their slices are unchanged.
    pub failures: Vec<ReducerFailure>,
    /// What the subscribers said.
    pub delivery: Delivery,
}

impl DispatchResult {
    /// Whether every reducer and subscriber went through.
    pub fn is_ok(&self) -> bool {
        self.failures.is_empty() && self.delivery.failures.is_empty()
    }

    /// Adds what came of another one.
    pub(crate) fn add(&mut self, other: Self) {
        self.failures.extend(other.failures);
        self.delivery.handled_count += other.delivery.handled_count;
        self.delivery.failures.extend(other.delivery.failures);
    }
}

/// A subscription, to end it with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subscription {
    event: TypeId,
    id: u64,
}

type Deliver = dyn Fn(&dyn Any, &EventSource) -> Result<(), String> + Send + Sync;
type Table = HashMap<TypeId, Arc<[(u64, Arc<Deliver>)]>, ByTypeId>;

/// Hands events to subscribers on the caller's thread. A failing or panicking one never stops the next.
#[derive(Default)]
pub struct Dispatcher {
    /// Replaced whole, so a delivery in progress keeps the list it started with.
    table: ArcSwap<Table>,
}

/// One count for all dispatchers: a subscription never ends one of another's.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl Dispatcher {
    /// Calls `handler` for every event of exactly type `E` from now on.
    pub fn subscribe<E: Any + Send + Sync>(
        &self,
        handler: impl Fn(&E, &EventSource) -> Result<(), String> + Send + Sync + 'static,
    ) -> Subscription {
        let event = TypeId::of::<E>();
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let deliver: Arc<Deliver> =
            Arc::new(move |item: &dyn Any, source: &EventSource| match item.downcast_ref::<E>() {
                Some(item) => handler(item, source),
                None => Ok(()),
            });
        self.table.rcu(|table| {
            let mut table = Table::clone(table);
            let mut list = table.get(&event).map(|list| list.to_vec()).unwrap_or_default();
            list.push((id, Arc::clone(&deliver)));
            table.insert(event, list.into());
            table
        });
        Subscription { event, id }
    }

    /// Ends a subscription. True the first time.
    pub fn unsubscribe(&self, subscription: Subscription) -> bool {
        let before = self.table.rcu(|table| {
            let mut table = Table::clone(table);
            if let Some(list) = table.get(&subscription.event) {
                let kept: Vec<_> = list.iter().filter(|(id, _)| *id != subscription.id).cloned().collect();
                table.insert(subscription.event, kept.into());
            }
            table
        });
        before.get(&subscription.event).is_some_and(|list| list.iter().any(|(id, _)| *id == subscription.id))
    }

    /// Whether anybody listens to events of this type.
    pub fn has_subscribers<E: Any>(&self) -> bool {
        self.listens(TypeId::of::<E>())
    }

    /// Delivers one event.
    pub fn deliver<E: Any + Send + Sync>(&self, event: &E, source: &EventSource) -> Delivery {
        self.deliver_erased(event, source)
    }

    pub(crate) fn listens(&self, event: TypeId) -> bool {
        self.table.load().get(&event).is_some_and(|list| !list.is_empty())
    }

    pub(crate) fn deliver_erased(&self, event: &dyn Any, source: &EventSource) -> Delivery {
        self.deliver_from(event, || Cow::Borrowed(source))
    }

    /// Delivers one event, whose source is only asked for if somebody listens.
    pub(crate) fn deliver_from<'a>(
        &self,
        event: &dyn Any,
        source: impl FnOnce() -> Cow<'a, EventSource>,
    ) -> Delivery {
        let table = self.table.load();
        let Some(list) = table.get(&event.type_id()) else { return Delivery::default() };
        let mut delivery = Delivery { handled_count: list.len(), failures: Vec::new() };
        if list.is_empty() {
            return delivery;
        }
        let source = &*source();
        for (_, handler) in list.iter() {
            match catch(|| handler(event, source)) {
                Ok(Ok(())) => {}
                Ok(Err(reason)) => delivery.failures.push(reason),
                Err(panic) => delivery.failures.push(format!("a subscriber panicked: {panic}")),
            }
        }
        delivery
    }
}

impl std::fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatcher").field("event_types", &self.table.load().len()).finish()
    }
}
