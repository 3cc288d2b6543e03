//! The binary `pillarbox`: a demo of the outbox, and the operator's tool.

mod age;
mod command;
mod database;
mod dead;
mod demo;
mod exit;
mod figure;
mod migrate;
mod payload;
mod purge;
mod status;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let command = command::Pillarbox::parse();
    exit::code_of(command.run())
}
