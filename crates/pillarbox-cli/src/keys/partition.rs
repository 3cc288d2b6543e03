//! `pillarbox keys partition`: which partition a key belongs to.

use clap::Args;
use pillarbox::partition_of;
use serde::Serialize;

use crate::{command, terminal};

const EXAMPLES: &str = "\
Examples:
  pillarbox keys partition order-17
  pillarbox keys partition order-17 --json
";

/// Print the partition of a key
///
/// The same for every program and language: the low byte of MurmurHash3 x86_32, seed 0, of the key's UTF-8. No database
/// is asked.
#[derive(Args, Debug)]
#[command(after_help = command::help(EXAMPLES))]
pub(super) struct Partition {
    /// The key, as it was written
    key: String,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line {
    key: String,
    partition: u8,
}

impl Partition {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let partition = partition_of(&self.key);
        if self.json {
            return terminal::json(&Line { key: self.key, partition });
        }
        terminal::print(&format!("{partition}\n"))
    }
}
