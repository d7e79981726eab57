use super::*;

#[test]
fn an_overlay_that_could_not_be_mounted_is_tried_again() {
    let able = Capabilities::detect();
    let Some(kind) = able.overlay else {
        return wink::testing::leave_out("overlays", &able.why_no_overlay);
    };
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let dirs = OverlayDirs {
        lower: at("lower"),
        upper: at("upper"),
        work: at("work"),
        state_name: wink::filesystem::STATE,
        user_xattr: kind == crate::overlay::OverlayKind::User,
    };
    std::fs::create_dir(&dirs.lower).unwrap();
    let refused = can_mount(&dirs).unwrap_err();
    assert!(refused.contains("cannot be overlaid"), "{refused}");
    std::fs::create_dir(&dirs.upper).unwrap();
    std::fs::create_dir(&dirs.work).unwrap();
    assert_eq!(can_mount(&dirs), Ok(()));
    // What has worked is not tried again.
    std::fs::remove_dir(&dirs.upper).unwrap();
    assert_eq!(can_mount(&dirs), Ok(()));
}
