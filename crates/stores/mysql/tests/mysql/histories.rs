//! Random histories end like on the memory store.

use pillarbox_testkit::conformance::history::{Step, play, random_histories_agree};
use pillarbox_testkit::servers::Fresh;
use sqlx::ConnectOptions;

use crate::stage::MySqlStage;

/// S3: whatever is written, taken, settled and operated, this store and the memory store show the same.
pub(crate) async fn random_histories_end_like_on_the_memory_store(stage: &MySqlStage) {
    let url = stage.administrator().to_url_lossy().to_string();

    random_histories_agree(async move |steps: &[Step]| {
        let stage = MySqlStage::fresh(&url).await;
        let notes = play(&*stage.store, steps).await;
        stage.clean().await;
        notes
    })
    .await;
}
