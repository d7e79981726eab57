//! The boot of the machine: what was written without being synced is there for as long as it lasts.

use std::sync::LazyLock;

/// The id of the present boot; nothing where the system has none that can be read.
///
/// An id that cannot be read equals no other, so `None` must never be compared with `None`.
pub fn boot_id() -> Option<&'static str> {
    static BOOT: LazyLock<Option<String>> = LazyLock::new(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        // A masked file is empty or has something else in it.
        let id = uuid::Uuid::parse_str(text.trim()).ok().filter(|id| !id.is_nil())?;
        Some(id.to_string())
    });
    BOOT.as_deref()
}
