//! Where it arrives.

use std::sync::Arc;

use pillarbox::Template;

use super::{PATIENCE, SinkStage, assert_all_acknowledged, binary, ids, order_placed, publish_to};

/// K1: where a route says where an event goes, it goes there; the others of the run go to the sink's own address.
pub async fn address_of_a_route_wins(stage: &impl SinkStage) {
    let sink = stage.sink(binary(), None).await;
    let events = ["here", "there"].map(|id| order_placed(id).build().unwrap());
    let elsewhere: Template = stage.elsewhere().parse().unwrap();

    let answers = publish_to(&sink, &events, vec![None, Some(Arc::new(elsewhere))], PATIENCE).await;

    assert_all_acknowledged(&answers);
    assert_eq!(ids(&stage.arrived().await), ["here"]);
    assert_eq!(ids(&stage.arrived_elsewhere().await), ["there"]);
}

/// K1: an event that lacks what its address asks for is refused, says why, and takes nobody along.
pub async fn event_that_cannot_fill_its_address_is_rejected_for_good(stage: &impl SinkStage) {
    let sink = stage.sink(binary(), None).await;
    let events = ["before", "lacking", "after"].map(|id| order_placed(id).key(id).build().unwrap());
    let of_tenant: Template = format!("{}{{tenant_id}}", stage.elsewhere()).parse().unwrap();

    let answers = publish_to(&sink, &events, vec![None, Some(Arc::new(of_tenant)), None], PATIENCE).await;

    assert_eq!((&answers[0], &answers[2]), (&Ok(()), &Ok(())));
    let error = answers[1].as_ref().unwrap_err();
    assert!(error.is_rejected() && error.is_final(), "{error:?}");
    assert!(error.to_string().contains("has no tenant"), "{error}");
}
