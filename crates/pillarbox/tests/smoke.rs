//! smoke
use pillarbox::{Delivery, ListenerError, MemoryStore, Outbox, Source};
use std::time::Duration;
use tokio::sync::mpsc;

#[tokio::test]
async fn commits_arrive() {
    let (tx_, mut rx) = mpsc::unbounded_channel::<Delivery>();
    let outbox = Outbox::builder(MemoryStore::new())
        .on("OrderPlaced", move |d: Delivery| {
            let t = tx_.clone();
            async move { t.send(d).map_err(ListenerError::from) }
        })
        .start()
        .unwrap();
    let mut tx = outbox.begin().await.unwrap();
    let id = outbox.write_json(&mut tx, "OrderPlaced", "{}").await.unwrap();
    tx.commit().await.unwrap();
    let d = tokio::time::timeout(Duration::from_secs(2), rx.recv()).await.unwrap().unwrap();
    assert_eq!(d.id(), id);
    assert_eq!(d.source(), Source::Hot);
    let mut tx = outbox.begin().await.unwrap();
    outbox.write_json(&mut tx, "OrderPlaced", "{}").await.unwrap();
    drop(tx);
    let r = outbox
        .transaction(async { outbox.write_current(pillarbox::Event::of_json("OrderPlaced", "{}")?).await })
        .await
        .unwrap();
    let d = tokio::time::timeout(Duration::from_secs(2), rx.recv()).await.unwrap().unwrap();
    assert_eq!(d.id(), r);
    outbox.close().await;
    println!("{:?}", outbox.counts());
    assert_eq!(outbox.counts().done, 2);
}
