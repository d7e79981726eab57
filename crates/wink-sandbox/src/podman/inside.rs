//! What a container sees of its own limits. Podman leaves some out without a word where it cannot set them.

use std::collections::HashMap;

use crate::error::SandboxError;
use crate::limits::Limits;

/// Tells the limits of the container that it is run in, for both versions of cgroups.
pub(super) const LOOK: &str = "cd /sys/fs/cgroup; \
    for file in memory/memory.limit_in_bytes memory.max pids/pids.max pids.max cpu/cpu.cfs_quota_us cpu/cpu.cfs_period_us cpu.max; do \
    test -r $file && echo $file $(cat $file); done; exit 0";

/// Refuses a limit that was asked for and is not what [`LOOK`] told.
pub(super) fn check(told: &str, limits: &Limits) -> Result<(), SandboxError> {
    let found: HashMap<&str, &str> = told.lines().filter_map(|line| line.split_once(' ')).collect();
    let one_of =
        |names: [&str; 2]| names.iter().find_map(|name| found.get(name)).map(|value| (*value).to_owned());
    let cpu = found.get("cpu.max").map(|max| (*max).to_owned()).or_else(|| {
        Some(format!("{} {}", found.get("cpu/cpu.cfs_quota_us")?, found.get("cpu/cpu.cfs_period_us")?))
    });
    let memory = one_of(["memory/memory.limit_in_bytes", "memory.max"]);
    let processes = one_of(["pids/pids.max", "pids.max"]);
    let is = |value: u64| move |found: &str| found.parse() == Ok(value);
    limits.memory.map_or(Ok(()), |bytes| {
        // Counted in pages.
        compare("memory", memory, &bytes.to_string(), is(bytes / 4096 * 4096))
    })?;
    limits
        .processes
        .map_or(Ok(()), |most| compare("processes", processes, &most.to_string(), is(u64::from(most))))?;
    limits.cpu.map_or(Ok(()), |cpu_asked| {
        compare("cpu", cpu, &format!("{cpu_asked} processors"), |found| {
            let Some((quota, period)) = found.split_once(' ') else { return false };
            let (Ok(quota), Ok(period)) = (quota.parse::<f64>(), period.parse::<f64>()) else { return false };
            // The quota is a whole number of microseconds.
            (quota - cpu_asked * period).abs() <= 1.0
        })
    })
}

fn compare(
    limit: &'static str,
    found: Option<String>,
    asked: &str,
    is_that: impl Fn(&str) -> bool,
) -> Result<(), SandboxError> {
    if found.as_deref().is_some_and(is_that) {
        return Ok(());
    }
    let found = found.map_or("none".to_owned(), |found| format!("{found:?}"));
    Err(SandboxError::Unenforceable {
        limit,
        reason: format!("a container that was to have {asked} had {found}"),
        advice: "lift this limit (`None` in Rust, `unlimited` in an agent file), or run with cgroups that podman can use",
    })
}

#[cfg(test)]
mod tests;
