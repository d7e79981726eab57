use std::io;

use super::*;

#[tokio::test]
async fn a_check_that_fails_says_what_was_expected_and_found() {
    let mut stage = Stage::open(Screen::over(io::sink())).await.unwrap();
    stage.scene("3", "A scene", "About something.").unwrap();
    stage.check("one is one", 1, 1).unwrap();
    let error = stage.check("one is two", 1, 2).unwrap_err();
    assert_eq!(error.to_string(), "scene 3: not so: one is two\n  expected: 2\n  found:    1");
    assert_eq!(stage.checks(), 1);
}
