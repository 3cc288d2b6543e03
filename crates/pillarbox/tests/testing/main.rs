//! `pillarbox::testing`: what an application's tests can rely on.
//!
//! Those with `start_paused` are about the patience, which goes by tokio's clock: it is over as soon as every task waits.

#![expect(clippy::unwrap_used, reason = "tests panic when something is wrong")]
#![expect(clippy::disallowed_methods, reason = "what the listeners of an application await is real")]

mod asserting;
mod draining;
mod flavours;
mod hanging;
mod moving;
mod observing;
mod ordering;
mod shop;
