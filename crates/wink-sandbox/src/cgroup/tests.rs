use std::path::{Path, PathBuf};

use super::{Controller, Version, places};

const HYBRID: &str = "\
24 1 0:22 / /proc rw,relatime - proc proc rw
30 25 0:26 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
34 30 0:30 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 30 0:35 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";

fn found(mounts: &str, own: &str, controller: Controller) -> Vec<(Version, PathBuf)> {
    places(mounts, own, controller)
}

fn at(version: Version, path: &str) -> (Version, PathBuf) {
    (version, Path::new(path).to_owned())
}

#[test]
fn each_controller_of_the_first_version_has_its_own_place() {
    let own = "5:memory:/user/me\n3:cpu,cpuacct:/\n0::/init";
    assert_eq!(
        found(HYBRID, own, Controller::Memory),
        [
            at(Version::One, "/sys/fs/cgroup/memory/user/me"),
            at(Version::Two, "/sys/fs/cgroup/unified/init"),
            at(Version::Two, "/sys/fs/cgroup/unified"),
        ]
    );
    assert_eq!(found(HYBRID, own, Controller::Cpu)[0], at(Version::One, "/sys/fs/cgroup/cpu,cpuacct/"));
    // It is not mounted in the first version: only the second may have it.
    assert_eq!(found(HYBRID, own, Controller::Pids).len(), 2);
}

#[test]
fn in_the_second_version_there_is_one_place_and_the_one_beside_it() {
    let mounts = "31 30 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup rw,nsdelegate";
    let expected =
        [at(Version::Two, "/sys/fs/cgroup/user.slice/scope"), at(Version::Two, "/sys/fs/cgroup/user.slice")];
    assert_eq!(found(mounts, "0::/user.slice/scope", Controller::Pids), expected);
    assert_eq!(found(mounts, "0::/", Controller::Pids), [at(Version::Two, "/sys/fs/cgroup/")]);
}

#[test]
fn a_mount_may_show_a_part_only() {
    let mounts = "31 30 0:27 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
    let expected = [at(Version::One, "/sys/fs/cgroup/memory/below")];
    assert_eq!(found(mounts, "5:memory:/docker/abc/below", Controller::Memory), expected);
}

#[test]
fn nothing_is_found_where_nothing_is() {
    assert_eq!(found("", "", Controller::Memory), []);
    assert_eq!(found("nonsense\n - \n", "x\n1:memory\n", Controller::Memory), []);
}
