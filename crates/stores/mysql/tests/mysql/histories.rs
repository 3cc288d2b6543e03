//! Random histories end like on the memory store.

use pillarbox::MemoryStore;
use pillarbox_testkit::conformance::history::{Drawn, history, play};
use pillarbox_testkit::servers::Fresh;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sqlx::ConnectOptions;
use tokio::runtime::Handle;

use crate::stage::MySqlStage;

/// S3: whatever is written, taken, settled and operated, this store and the memory store show the same.
pub(crate) async fn random_histories_end_like_on_the_memory_store(stage: &MySqlStage) {
    let (url, runtime) = (stage.administrator().to_url_lossy().to_string(), Handle::current());
    let drawn = prop::collection::vec(any::<Drawn>(), 1..40);

    let compared = tokio::task::spawn_blocking(move || {
        let config =
            Config { cases: 30, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
        TestRunner::new(config).run(&drawn, |drawn| runtime.block_on(compare(&url, &drawn)))
    });

    compared.await.unwrap().unwrap();
}

async fn compare(url: &str, drawn: &[Drawn]) -> Result<(), TestCaseError> {
    let (steps, stage) = (history(drawn), MySqlStage::fresh(url).await);

    let (here, memory) = (play(&*stage.store, &steps).await, play(&MemoryStore::new(), &steps).await);
    stage.clean().await;

    for (here, memory) in here.iter().zip(&memory) {
        prop_assert_eq!(here, memory, "{:?}", steps);
    }
    prop_assert_eq!(here.len(), memory.len());
    Ok(())
}
