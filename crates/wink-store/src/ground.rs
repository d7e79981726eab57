//! What the database stands on.

use std::path::Path;

/// Why this is no good place for a database, if it is not one.
#[cfg(target_os = "linux")]
pub(crate) fn doubts(dir: &Path) -> Option<String> {
    let found = rustix::fs::statfs(dir).ok()?;
    let kind = network(found.f_type as u64 & 0xffff_ffff)?;
    Some(format!(
        "{} is on {kind}: locks and memory shared between machines cannot be relied on there, and the database may be \
         damaged when two of them use it. Keep it on a local disk",
        dir.display()
    ))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn doubts(_: &Path) -> Option<String> {
    None
}

/// Filesystems whose files are, or may be, elsewhere, by the number that the kernel gives them.
#[cfg(target_os = "linux")]
fn network(magic: u64) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x0102_1997 => "9p",
        0x6573_5546 => "FUSE",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x00c3_6400 => "Ceph",
        0x7375_7245 => "Coda",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        0x0bd0_0bd0 => "Lustre",
        0x564c => "NCP",
        0x786f_4256 => "a folder shared by VirtualBox",
        0xbacb_acbc => "a folder shared by VMware",
        _ => return None,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::network;

    #[test]
    fn filesystems_on_the_network_are_known() {
        assert_eq!((network(0x6969), network(0xfe53_4d42)), (Some("NFS"), Some("SMB")));
        assert_eq!((network(0xef53), network(0x0102_1994)), (None, None), "ext4 and tmpfs");
    }
}
