//! The binary `pillarbox`: a demo of the outbox, and the operator's tool.

mod age;
mod command;
mod database;
mod dead;
mod demo;
mod exit;
mod figure;
mod handlers;
mod keys;
mod migrate;
mod payload;
mod purge;
mod status;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    match command::Pillarbox::read() {
        Ok(command) => exit::code_of(command.run()),
        Err(code) => code,
    }
}
