//! What can be known about a compiled schema before any argument comes: whether checking ends, which types a
//! node can accept, where secrets are, and how a union tells its branches apart.

use super::error::SchemaError;
use super::node::{Dispatch, Node, NodeId, Types, Union};

/// How many schemas may look at one value through each other (bounds recursion).
const MAX_CHAIN: usize = 16;
/// How many looks at one value the combinators may add up to (bounds work).
const MAX_LOOKS: usize = 2048;

/// Fills in what the walk relies on.
pub(super) fn analyse(nodes: &mut [Node]) -> Result<(), SchemaError> {
    let order = inside_out(nodes)?;
    for id in &order {
        let reach = reach(nodes, *id);
        let sensitive = get(nodes, *id).is_some_and(|node| {
            node.sensitive
                || node.same_value().any(|child| get(nodes, child).is_some_and(|child| child.sensitive))
        });
        if let Some(node) = nodes.get_mut(*id as usize) {
            node.reach = reach;
            node.sensitive = sensitive;
        }
    }
    spread_sensitive(nodes);
    for id in &order {
        let Some(combine) = get(nodes, *id).and_then(|node| node.combine.as_ref()) else { continue };
        let found: Vec<_> = combine.unions.iter().map(|union| dispatch(nodes, union)).collect();
        if let Some(combine) = nodes.get_mut(*id as usize).and_then(|node| node.combine.as_mut()) {
            for (union, dispatch) in combine.unions.iter_mut().zip(found) {
                union.dispatch = dispatch;
            }
        }
    }
    Ok(())
}

fn get(nodes: &[Node], id: NodeId) -> Option<&Node> {
    nodes.get(id as usize)
}

/// All nodes, those that see the same value before the one that combines them.
fn inside_out(nodes: &[Node]) -> Result<Vec<NodeId>, SchemaError> {
    #[derive(Clone, Copy)]
    enum State {
        New,
        Open,
        Done { chain: usize, looks: usize },
    }
    let mut states = vec![State::New; nodes.len()];
    let mut order = Vec::with_capacity(nodes.len());
    for root in 0..nodes.len() as NodeId {
        let mut stack = vec![(root, false)];
        while let Some((id, leaving)) = stack.pop() {
            let (Some(node), Some(state)) = (get(nodes, id), states.get(id as usize).copied()) else {
                continue;
            };
            match (state, leaving) {
                (State::Done { .. }, _) => {}
                (_, true) => {
                    let (mut chain, mut looks) = (1, 1_usize);
                    for child in node.same_value() {
                        if let Some(State::Done { chain: below, looks: more }) = states.get(child as usize) {
                            chain = chain.max(below + 1);
                            looks = looks.saturating_add(*more);
                        }
                    }
                    let limit = |what, limit| SchemaError::TooComplex { what, limit, path: "#".to_owned() };
                    if chain > MAX_CHAIN {
                        return Err(limit("combinators and references around one value", MAX_CHAIN));
                    }
                    if looks > MAX_LOOKS {
                        return Err(limit("alternatives for one value", MAX_LOOKS));
                    }
                    if let Some(state) = states.get_mut(id as usize) {
                        *state = State::Done { chain, looks };
                    }
                    order.push(id);
                }
                (State::Open, false) => return Err(SchemaError::Cycle { path: "#".to_owned() }),
                (State::New, false) => {
                    if let Some(state) = states.get_mut(id as usize) {
                        *state = State::Open;
                    }
                    stack.push((id, true));
                    // A child that is open but not yet left can only be an ancestor: anything else on the
                    // stack is new.
                    stack.extend(node.same_value().map(|child| (child, false)));
                }
            }
        }
    }
    Ok(order)
}

/// The types of values that can pass the node.
fn reach(nodes: &[Node], id: NodeId) -> Types {
    let Some(node) = get(nodes, id) else { return Types::ALL };
    let of = |id: &NodeId| get(nodes, *id).map_or(Types::ALL, |node| node.reach);
    let mut reach = node.types;
    if let Some(allowed) = &node.allowed {
        let strings = if allowed.strings.is_empty() { Types::NONE } else { Types::STRING };
        let others = allowed.others.iter().filter_map(|text| text.bytes().next()).map(Types::starting_with);
        reach = reach.and(others.fold(strings, Types::or));
    }
    if let Some(combine) = &node.combine {
        reach = combine.all.iter().map(of).fold(reach, Types::and);
        for union in &combine.unions {
            reach = reach.and(union.branches.iter().map(of).fold(Types::NONE, Types::or));
        }
    }
    reach
}

/// Marks every node that has a sensitive one at or below it.
fn spread_sensitive(nodes: &mut [Node]) {
    let mut parents: Vec<Vec<NodeId>> = vec![Vec::new(); nodes.len()];
    for (id, node) in nodes.iter().enumerate() {
        for child in node.same_value().chain(node.inner_values()) {
            if let Some(list) = parents.get_mut(child as usize) {
                list.push(id as NodeId);
            }
        }
    }
    let sensitive = nodes.iter().enumerate().filter(|(_, node)| node.sensitive);
    let mut queue: Vec<NodeId> = sensitive.map(|(id, _)| id as NodeId).collect();
    while let Some(id) = queue.pop() {
        if let Some(node) = nodes.get_mut(id as usize)
            && !std::mem::replace(&mut node.holds_sensitive, true)
        {
            queue.extend(parents.get(id as usize).into_iter().flatten());
        }
    }
}

/// How objects say which branch they belong to, if they do.
fn dispatch(nodes: &[Node], union: &Union) -> Option<Dispatch> {
    let objects: Vec<(NodeId, &Node)> = union
        .branches
        .iter()
        .filter_map(|id| Some((*id, get(nodes, *id)?)))
        .filter(|(_, node)| node.reach.meets(Types::OBJECT))
        .collect();
    by_tag(nodes, &objects).or_else(|| by_key(&objects))
}

fn by_tag(nodes: &[Node], objects: &[(NodeId, &Node)]) -> Option<Dispatch> {
    let (_, first) = objects.first()?;
    let names = first.object.as_ref()?.declared().filter(|property| property.required);
    names.map(|property| &property.name).find_map(|name| {
        let mut values: Vec<(String, NodeId)> = Vec::new();
        for (id, node) in objects {
            let rules = node.object.as_ref()?;
            let property = rules.declared().find(|property| property.required && property.name == *name)?;
            let tag = get(nodes, property.node)?;
            let allowed = tag.allowed.as_ref().filter(|allowed| allowed.others.is_empty())?;
            for value in &allowed.strings {
                if values.iter().any(|(known, _)| known == value) {
                    return None;
                }
                values.push((value.clone(), *id));
            }
        }
        Some(Dispatch::Tag { name: name.clone(), values })
    })
}

fn by_key(objects: &[(NodeId, &Node)]) -> Option<Dispatch> {
    let mut keys = Vec::new();
    for (id, node) in objects {
        let rules = node.object.as_ref().filter(|rules| rules.is_closed())?;
        let own = rules.declared().filter(|property| property.required).find(|property| {
            objects.iter().filter(|(other, _)| other != id).all(|(_, other)| {
                other.object.as_ref().is_some_and(|rules| rules.find(&property.name).is_none())
            })
        })?;
        keys.push((own.name.clone(), *id));
    }
    Some(Dispatch::Key(keys))
}
