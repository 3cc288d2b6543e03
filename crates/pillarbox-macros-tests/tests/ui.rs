//! What the compiler says to mistakes.
//!
//! After a change on purpose `TRYBUILD=overwrite cargo test -p pillarbox-macros-tests --test ui` writes the answers anew.

/// W10, V5: every mistake is answered where it was made, with what to do.
#[test]
fn mistakes_are_answered() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
