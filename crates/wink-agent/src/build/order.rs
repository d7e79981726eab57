//! Tools that wait for each other, so that none of them could ever run.

use std::collections::{BTreeMap, BTreeSet};

use crate::file::{At, File, PolicyTable, SectionTable};
use crate::problem::Problems;

/// What has to come before each tool.
type Needs<'f> = BTreeMap<&'f str, Vec<&'f At<String>>>;

/// Reports every circle of tools, once, where it is first closed.
pub(super) fn check(file: &File, problems: &mut Problems) {
    let mut policies: Vec<&At<PolicyTable>> = file.policy.iter().collect();
    file.section.iter().for_each(|section| of_section(section, &mut policies));
    let mut needs: Needs<'_> = BTreeMap::new();
    policies.into_iter().for_each(|policy| needed(policy, &mut needs));

    let mut told: BTreeSet<BTreeSet<&str>> = BTreeSet::new();
    for (tool, first) in &needs {
        for name in first.iter().filter(|name| name.value != **tool) {
            let Some(way) = way(&needs, &name.value, tool) else { continue };
            if told.insert(way.iter().copied().collect()) {
                let way: Vec<String> = way.iter().map(|name| format!("`{name}`")).collect();
                let message =
                    format!("`{tool}` would wait for itself: it needs {}", way.join(", which needs "));
                problems.hint(&name.span, message, "take one of them out");
            }
        }
    }
}

fn of_section<'f>(section: &'f SectionTable, policies: &mut Vec<&'f At<PolicyTable>>) {
    policies.extend(&section.policy);
    section.section.iter().for_each(|section| of_section(section, policies));
}

/// What has to come first whatever else is allowed: not what is one of several ways.
fn needed<'f>(policy: &'f PolicyTable, needs: &mut Needs<'f>) {
    for (tool, first) in policy.sequential.iter().flat_map(|order| order.iter()) {
        needs.entry(&tool.value).or_default().extend(first.iter());
    }
    for part in policy.all_of.iter().flat_map(|parts| parts.iter()) {
        needed(part, needs);
    }
}

/// The tools on a way from one to another, both included, if there is one.
fn way<'n>(needs: &Needs<'n>, from: &'n str, to: &str) -> Option<Vec<&'n str>> {
    let mut before: BTreeMap<&str, &str> = BTreeMap::new();
    let mut waiting = vec![from];
    let mut at = loop {
        let here = waiting.pop()?;
        if here == to {
            break here;
        }
        for next in needs.get(here).into_iter().flatten().map(|next| next.value.as_str()) {
            if next != from && !before.contains_key(next) {
                before.insert(next, here);
                waiting.push(next);
            }
        }
    };
    let mut way = vec![at];
    while let Some(earlier) = before.get(at) {
        at = earlier;
        way.push(at);
    }
    way.reverse();
    Some(way)
}
