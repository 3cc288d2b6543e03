//! The program `simulate`, run as a user runs it.

use std::process::{Command, Output};

fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_simulate")).args(arguments).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it says text")
}

/// Wrong usage is answered with what is right.
#[track_caller]
fn refuses(arguments: &[&str], answer: &str) {
    let output = simulate(arguments);

    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(answer), "{said}");
}

#[test]
fn wrong_usage_is_answered_with_what_is_right() {
    refuses(&["--seedz", "17"], "there is no option `--seedz`");
    refuses(&["--seeds"], "`--seeds` needs a value");
    refuses(&["--seed", "seventeen"], "`--seed` is `seventeen`: it must be a number");
    refuses(&["--mode", "owners"], "use `claims` or `ownership`");
    refuses(&["--limits", "key=1"], "there is no limit `key`; there are: instances, ");
    refuses(&["--mode", "claims", "--limits", "keys=1"], "`--limits` needs `--mode ownership`");
    refuses(&["--panic", "nobody"], "`nobody` does not panic; use `task` or `simulation`");
    refuses(&["--handlers", "--routes"], "`--handlers` and `--routes` exclude each other");
}

#[cfg(not(pillarbox_mutant))]
#[test]
fn build_without_deliberate_bugs_says_how_to_get_them() {
    refuses(&["--mutant", "NoEpochCheck"], "build with RUSTFLAGS='--cfg pillarbox_mutant'");
}

#[cfg(pillarbox_mutant)]
#[test]
fn unknown_deliberate_bug_is_answered_with_all_there_are() {
    refuses(
        &["--mutant", "NoEpoch"],
        "there is no deliberate bug `NoEpoch`; there are: HandOverWithoutDrain, ",
    );
}

#[test]
fn help_names_every_option() {
    let output = simulate(&["--help"]);

    let said = text(&output.stdout);
    assert!(output.status.success());
    for option in [
        "--seeds",
        "--from",
        "--seed ",
        "--mode",
        "--limits",
        "--handlers",
        "--routes",
        "--mutant",
        "--panic",
        "--keep-going",
        "--coverage",
    ] {
        assert!(said.contains(option), "{option} is not in\n{said}");
    }
}

/// What runs from a seed on is counted; nothing failed.
#[test]
fn seeds_run_from_where_they_are_asked_to() {
    let output = simulate(&["--from", "40", "--seeds", "3", "--coverage"]);

    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.starts_with("3 seeds in ") && said.contains("0 failed"), "{said}");
    assert!(said.contains("closes"), "{said}");
}

/// One seed prints what it decided, within the limits, and all that happens in it.
#[test]
fn one_seed_prints_all_that_happens() {
    let output = simulate(&["--seed", "17", "--limits", "keys=1,freezes=0"]);

    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("process 1 starts"), "{said}");
    assert!(said.contains("seed 17: Options {") && said.contains("keys: 1, has_freezes: false"), "{said}");
}

/// A failing seed prints one command that repeats it, and another that repeats a smaller run; both fail.
#[cfg(pillarbox_mutant)]
#[test]
fn failing_seed_prints_the_commands_that_repeat_it() {
    let output = simulate(&["--seeds", "1000", "--mutant", "NoEpochCheck"]);

    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let commands: Vec<&str> =
        said.lines().filter_map(|line| Some(line.split_once("--bin simulate -- ")?.1)).collect();
    let smallest = commands.last().unwrap();
    assert!(commands.len() >= 2 && smallest.contains(" --limits "), "{said}");
    for command in commands {
        let repeated = simulate(&command.split(' ').collect::<Vec<_>>());
        assert_eq!(repeated.status.code(), Some(1), "{command}");
        assert!(text(&repeated.stdout).contains("VIOLATION: "), "{command}");
    }
}

/// A panic ends the program, fails the seed, and is told with what the seed decided and the command that repeats it.
#[track_caller]
fn tells_of_panic(arguments: &[&str], violation: &str, options: &str) {
    let output = simulate(arguments);

    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("seed 7: Options {") && said.contains(violation), "{said}");
    assert!(said.contains(&format!("--bin simulate -- --seed 7 {options}\n")), "{said}");
}

#[test]
fn panic_of_a_task_fails_its_seed() {
    let violation = " panicked: this panic was asked for";
    let seeds = ["--from", "7", "--seeds", "1", "--panic", "task"];

    tells_of_panic(&seeds, violation, "--mode ownership --panic task");
    tells_of_panic(&[&seeds[..], &["--mode", "claims"]].concat(), violation, "--mode claims --panic task");
}

#[test]
fn panic_of_the_simulation_fails_its_seed() {
    let violation = "VIOLATION: the simulation panicked: this panic was asked for";
    let seeds = ["--from", "7", "--seeds", "1", "--panic", "simulation", "--routes"];

    tells_of_panic(&seeds, violation, "--mode ownership --routes --panic simulation");
    tells_of_panic(
        &[&seeds[..], &["--mode", "claims"]].concat(),
        violation,
        "--mode claims --routes --panic simulation",
    );
}
