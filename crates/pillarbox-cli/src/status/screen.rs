//! A page of text on a terminal that is drawn over again and again.

use std::io::{IsTerminal, stdout};

use rustix::termios::tcgetwinsize;

use crate::terminal;

/// Another page than that of the shell, no cursor, long lines cut off.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Lines of a terminal that does not say how many it has.
const ROWS: usize = 24;

/// The page; when it is dropped the terminal is as it was.
pub(super) struct Screen(());

impl Screen {
    /// Takes the terminal, if stdout is one that can be drawn on.
    pub(super) fn open() -> anyhow::Result<Option<Self>> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|kind| kind == "dumb" || kind.is_empty());
        if is_dumb || !stdout().is_terminal() {
            return Ok(None);
        }
        terminal::print(ENTER)?;
        Ok(Some(Self(())))
    }

    /// Draws a text over what is there, in one go, so that nothing flickers.
    pub(super) fn draw(&self, text: &str) -> anyhow::Result<()> {
        let rows = tcgetwinsize(stdout()).map_or(ROWS, |size| usize::from(size.ws_row));
        terminal::print(&frame(text, if rows == 0 { ROWS } else { rows }))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nobody is left to tell if this fails.
        let _ = terminal::print(LEAVE);
    }
}

/// The first `rows` lines of a text, each over what was there, and nothing below them.
fn frame(text: &str, rows: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let hidden = lines.len().saturating_sub(rows);
    let shown = if hidden > 0 { rows.saturating_sub(1) } else { lines.len() };
    let mut frame: Vec<String> = lines[..shown].iter().map(|line| format!("{line}\x1b[K")).collect();
    if hidden > 0 {
        frame.push(format!("… {} more lines; make the window higher\x1b[K", lines.len() - shown));
    }
    format!("\x1b[H{}\x1b[J", frame.join("\r\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_drawn_over_the_one_before() {
        assert_eq!(frame("a\nb\n", 3), "\x1b[Ha\x1b[K\r\nb\x1b[K\x1b[J");
    }

    #[test]
    fn a_frame_is_no_higher_than_the_window() {
        let drawn = frame("a\nb\nc\nd\n", 3);

        assert_eq!(drawn.matches("\r\n").count(), 2);
        assert!(drawn.contains("b\x1b[K\r\n… 2 more lines"), "{drawn:?}");
    }
}
