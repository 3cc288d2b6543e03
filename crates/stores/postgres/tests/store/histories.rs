//! Random histories end like on the memory store.

use pillarbox_testkit::conformance::history::{Step, play, random_histories_agree};
use pillarbox_testkit::servers::Fresh;

use crate::stage::PostgresStage;

/// S3: whatever is written, taken, settled and operated, this store and the memory store show the same.
pub(crate) async fn random_histories_end_like_on_the_memory_store(stage: &PostgresStage) {
    let url = stage.url.clone();

    random_histories_agree(async move |steps: &[Step]| {
        let stage = PostgresStage::fresh(&url).await;
        let notes = play(&*stage.store, steps).await;
        stage.clean().await;
        notes
    })
    .await;
}
