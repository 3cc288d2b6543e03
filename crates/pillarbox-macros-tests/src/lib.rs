//! The programs in the documentation of `#[derive(Event)]`, as tests.

#[cfg(doctest)]
#[doc = include_str!("../../pillarbox-macros/README.md")]
struct Crate;

#[cfg(doctest)]
#[doc = include_str!("../../pillarbox-macros/src/event.md")]
struct Derive;
