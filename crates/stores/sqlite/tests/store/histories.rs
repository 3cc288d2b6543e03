//! Random histories end like on the memory store.

use pillarbox_testkit::conformance::history::{Step, play, random_histories_agree};

use crate::orders::Orders;

/// S3: whatever is written, taken, settled and operated, this store and the memory store show the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_histories_end_like_on_the_memory_store() {
    random_histories_agree(async |steps: &[Step]| {
        let orders = Orders::new();
        let store = orders.store().await;
        let notes = play(&store, steps).await;
        store.close().await;
        notes
    })
    .await;
}
