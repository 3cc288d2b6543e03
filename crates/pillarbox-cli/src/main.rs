//! The binary `pillarbox`: a demo of the outbox, the relay, and the operator's tool.

mod age;
mod bench;
mod command;
mod config;
mod database;
mod dead;
mod demo;
mod doctor;
mod exit;
mod figure;
mod handlers;
mod interrupt;
mod keys;
mod migrate;
mod moment;
mod pace;
mod pause;
mod payload;
mod purge;
mod relay;
mod routes;
mod status;
mod tail;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    match command::Pillarbox::read() {
        Ok(command) => exit::code_of(command.run()),
        Err(code) => code,
    }
}
