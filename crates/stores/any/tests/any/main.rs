//! A store from a URL, as far as no server is needed.

mod conformance {
    //! A store from a URL keeps the promises that every store keeps.

    use crate::stage::AnyStage;

    pillarbox_testkit::conformance!(AnyStage::in_a_file().await);
}
mod acceptance {
    //! An outbox on a store from a URL passes the acceptance tests.

    use crate::stage::AnyStage;

    pillarbox_testkit::acceptance!(AnyStage::in_a_file().await);
}
mod bad_input;
mod files;
#[expect(clippy::unwrap_used, reason = "what the tests stand on may fail as loudly as they do")]
mod stage;
