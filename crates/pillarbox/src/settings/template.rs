//! A file with all options in it.

use std::fmt::Write;

use super::option::{Draft, OPTIONS};

/// The widest line of a comment.
const WIDTH: usize = 110;

const HEAD: &str = "\
# All options of an outbox. What is set here is the default; what has none is a comment.
# A variable is called like its option: PILLARBOX_RETRY_MAX_ATTEMPTS is max_attempts in [retry].
";

/// Every option with its default and what it means.
pub(super) fn print() -> String {
    let draft = Draft::default();
    let mut text = HEAD.to_owned();
    let mut table = "";
    for option in OPTIONS {
        let (of, name) = option.name.split_once('.').unwrap_or(("", option.name));
        if of != table {
            table = of;
            let _ = write!(text, "\n[{table}]");
        }
        text.push('\n');
        comment(&mut text, option.about);
        let _ = match (option.shown)(&draft) {
            Some(default) => writeln!(text, "{name} = {default}"),
            None => writeln!(text, "# {name} = {}", option.example),
        };
    }
    text
}

/// Adds a comment, broken into lines.
fn comment(text: &mut String, about: &str) {
    let mut line = String::from("#");
    for word in about.split(' ') {
        if line.len() + 1 + word.len() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
}
