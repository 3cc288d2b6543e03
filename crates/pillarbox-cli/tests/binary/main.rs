//! The binary `pillarbox`, run as a user runs it.

mod bench;
mod daemon;
mod dead;
mod demo;
mod doctor;
mod follower;
mod guide;
mod handlers;
mod keys;
mod looking;
mod misplaced;
mod mistakes;
mod operator;
mod pausing;
mod program;
mod relay;
mod reloading;
mod selection;
mod shop;
mod starting;
mod statistics;
mod tail;
mod terminal;
mod usage;
mod watch;
