use std::io;

use super::*;
use crate::demo::scenes;

async fn stage(dir: &tempfile::TempDir) -> Stage {
    let screen = Screen::over(io::sink());
    let commands = Commands::none("there is no kernel");
    Stage::open(screen, Place::at(dir.path().to_owned()), commands).await.unwrap()
}

#[tokio::test]
async fn a_check_that_fails_says_what_was_expected_and_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = stage(&dir).await;
    stage.scene("3", "A scene", "About something.").unwrap();
    stage.check("one is one", 1, 1).unwrap();
    let error = stage.check("one is two", 1, 2).unwrap_err();
    assert_eq!(error.to_string(), "scene 3: not so: one is two\n  expected: 2\n  found:    1");
    assert_eq!(stage.checks(), 1);
}

#[tokio::test]
async fn where_no_command_can_be_run_the_demo_says_so_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let mut stage = stage(&dir).await;
    scenes::command(&mut stage).await.unwrap();
    assert_eq!((stage.checks(), stage.calls()), (0, 0));
}
