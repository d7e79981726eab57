//! The example programs run, and print what they are meant to print.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::process::Command;

fn printed(example: &str) -> String {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "wink-examples", "--example", example])
        .output()
        .expect("cargo can be started");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example} failed:\n{errors}");
    String::from_utf8(output.stdout).expect("programs print text")
}

/// The first block of this language after a line.
fn block<'a>(document: &'a str, line: &str, language: &str) -> &'a str {
    let after = document.split_once(&format!("\n{line}\n")).expect("the line is there").1;
    let opened = after.split_once(&format!("```{language}\n")).expect("a block follows").1;
    opened.split_once("```").expect("the block ends").0
}

#[test]
fn the_first_tool_is_the_one_of_the_readme() {
    let readme = include_str!("../../README.md");
    let program = include_str!("../first_tool.rs");
    let (_, program) = program.split_once("\n\n").expect("the program begins with what it is");
    assert_eq!(block(readme, "<!-- outside: main.rs -->", "rust"), program);
    assert_eq!(block(readme, "<!-- outside: output -->", "text"), printed("first_tool"));
}

#[test]
fn the_deployment_is_kept_in_order() {
    let printed = printed("deployment");
    let answers: Vec<&str> =
        printed.lines().filter(|line| line.starts_with("ok ") || line.starts_with("no ")).collect();
    assert_eq!(
        answers,
        [
            "no      Cannot call 'deploy' - missing required tools: test, build",
            "ok      214 tests passed.",
            "ok      Built:",
            "no      Invalid arguments: `environment`: expected one of \"staging\" or \"production\", got \
             \"prod\"; did you mean \"production\"?",
            "no      There is no build of latest. Deploy what `build` returned.",
            "ok      2.1.0 runs in Staging.",
            "ok      2.1.0 runs in Production.",
            "no      Cannot call 'deploy' - its quota for this session is used up: 2 of 2 calls",
        ]
    );
    assert!(printed.contains("approved by ada\n"), "{printed}");
    assert!(
        printed.ends_with("Deployed in the end:\n- 2.1.0 in Staging\n- 2.1.0 in Production\n"),
        "{printed}"
    );
}

#[test]
fn the_agent_comes_to_its_result() {
    let expected = "read_file   done\nedit_file   failed, and nothing of it is left\nedit_file   done\n\n\
                    def gross(net):\n    return net * 1.19  # 19 % tax\n\n\
                    The tax was 91 % instead of 19 %.\nChanged: price.py\n4 turns, 3 calls, 960 tokens\n";
    assert_eq!(printed("agent"), expected);
}

#[test]
fn what_fails_in_a_real_directory_was_never_there() {
    let printed = printed("workspace");
    let (one, other) = ("price.sh: echo $(( $1 * 119 / 100 ))\n", "price.sh: echo $(( $1 * 107 / 100 ))\n");
    let shown: Vec<bool> = printed
        .split_inclusive('\n')
        .filter(|line| [one, other].contains(line))
        .map(|line| line == one)
        .collect();
    assert_eq!(shown, [false, true, true], "edited, undone, and still there in the end: {printed}");
    assert!(
        printed.contains("no      shipping.sh must not be changed; 1 files were, and are undone.\n"),
        "{printed}"
    );
    let log = "In the log of the session:\n- read_file succeeded\n- edit_file succeeded\n- shell_execute ";
    assert!(printed.contains(log) && printed.ends_with("- replace_everywhere failed\n"), "{printed}");
    if !printed.contains("(There are no commands here: ") {
        assert!(printed.contains("ok      exit code 1\n"), "{printed}");
        assert!(
            printed
                .contains("no      The command exited with 1. What it changed in the workspace is undone.\n"),
            "{printed}"
        );
    }
}

#[test]
fn no_fault_leaves_anything_in_between() {
    let printed = printed("testing_your_tool");
    assert!(printed.contains("130 faults injected"), "{printed}");
    assert!(printed.contains("0 times it was anything in between"), "{printed}");
}
