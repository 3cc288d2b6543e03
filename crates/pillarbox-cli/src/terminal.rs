//! Where output goes: data to stdout, what happens meanwhile to stderr.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

/// Writes `value` to stdout as indented JSON.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    out.flush()?;
    Ok(())
}

/// Writes `text` to stdout.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes a line to stderr, for people who watch.
pub(crate) fn say(line: &str) {
    // Nobody is left to tell if this fails.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Whether people watch.
pub(crate) fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

/// A bar on stderr that shows nothing if nobody watches.
pub(crate) fn bar(length: u64, template: &str) -> ProgressBar {
    let target =
        if is_watched() { ProgressDrawTarget::stderr_with_hz(20) } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(length), target);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("━╸─"));
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
