//! What the README shows is what runs.

use std::path::Path;
use std::process::Command;

const PROGRAM: &str = include_str!("../src/bin/example-readme.rs");
const README: &str = include_str!("../../../README.md");

#[test]
fn readme_shows_the_program_that_is_tested() {
    let shown = &PROGRAM[PROGRAM.find("use pillarbox").unwrap()..];

    assert!(README.contains(shown), "README.md and src/bin/example-readme.rs differ");
}

/// The first program that a user writes is about twenty lines, and a few that only close a brace.
#[test]
fn program_of_the_readme_is_short() {
    let shown = PROGRAM[PROGRAM.find("use pillarbox").unwrap()..].lines();

    let lines = shown.filter(|line| line.chars().any(char::is_alphanumeric)).count();

    assert!(lines <= 22, "{lines} lines");
}

/// Started twice, the program places two orders and sends two invoices.
#[test]
fn program_of_the_readme_delivers_its_event() {
    let directory = tempfile::tempdir().unwrap();

    let first = run_in(directory.path());
    let second = run_in(directory.path());

    assert_eq!(first, "invoice for order 1\n");
    assert_eq!(second, "invoice for order 2\n");
}

fn run_in(directory: &Path) -> String {
    let run = Command::new(env!("CARGO_BIN_EXE_example-readme"))
        .current_dir(directory)
        .output()
        .expect("the program runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).expect("the output is text")
}
