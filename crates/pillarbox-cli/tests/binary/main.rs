//! The binary `pillarbox`, run as a user runs it.

mod dead;
mod demo;
mod operator;
mod program;
mod shop;
mod terminal;
mod usage;
