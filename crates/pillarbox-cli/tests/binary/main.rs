//! The binary `pillarbox`, run as a user runs it.

mod dead;
mod demo;
mod handlers;
mod keys;
mod operator;
mod program;
mod shop;
mod statistics;
mod terminal;
mod usage;
