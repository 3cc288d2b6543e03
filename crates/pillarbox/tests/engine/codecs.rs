//! Payloads in other formats than JSON, from a write to a handler.

use pillarbox::store::Status;
use pillarbox::{Codec, CodecError, Event, Handlers, ListenerError, Payload};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::stage::{Notes, Stage, write};

struct MessagePack;

impl<T: Serialize + DeserializeOwned> Codec<T> for MessagePack {
    fn encode(value: &T) -> Result<Payload, CodecError> {
        Ok(Payload::Bytes(rmp_serde::to_vec_named(value)?))
    }

    fn decode(payload: &Payload) -> Result<T, CodecError> {
        Ok(rmp_serde::from_slice(payload.as_bytes())?)
    }
}

struct Protobuf;

impl<T: prost::Message + Default> Codec<T> for Protobuf {
    fn encode(value: &T) -> Result<Payload, CodecError> {
        Ok(Payload::Bytes(value.encode_to_vec()))
    }

    fn decode(payload: &Payload) -> Result<T, CodecError> {
        Ok(T::decode(payload.as_bytes())?)
    }
}

#[derive(Serialize, Deserialize, Event)]
#[event(type = "OrderPlaced", codec = MessagePack)]
struct OrderPlaced {
    #[event(id)]
    order: String,
    items: Vec<u32>,
}

#[derive(Clone, PartialEq, prost::Message, Event)]
#[event(type = "OrderShipped", codec = Protobuf)]
struct OrderShipped {
    #[prost(string, tag = "1")]
    #[event(id)]
    order: String,
    #[prost(uint32, repeated, tag = "2")]
    parcels: Vec<u32>,
}

/// The handlers of both types, and what they get.
fn noting(notes: &Notes) -> Handlers {
    let (placed, shipped) = (notes.clone(), notes.clone());
    Handlers::new()
        .on("billing", move |event: OrderPlaced| {
            placed.note(format!("{} {:?}", event.order, event.items));
            std::future::ready(Ok::<(), ListenerError>(()))
        })
        .on("tracking", move |event: OrderShipped| {
            shipped.note(format!("{} {:?}", event.order, event.parcels));
            std::future::ready(Ok::<(), ListenerError>(()))
        })
}

/// X3: payloads of binary codecs are stored as bytes, and handlers get what was written.
#[tokio::test(start_paused = true)]
async fn binary_payloads_come_back() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let outbox = stage.outbox().handlers(noting(&notes)).start().unwrap();

    let packed = write(&outbox, OrderPlaced { order: "order-1".into(), items: vec![17, 4] }).await;
    write(&outbox, OrderShipped { order: "order-2".into(), parcels: vec![3] }).await;
    stage.quiet().await;

    let mut seen = notes.all();
    seen.sort();
    assert_eq!(seen, ["order-1 [17, 4]", "order-2 [3]"]);
    let event = stage.row(&packed).await.event.unwrap();
    assert!(matches!(event.payload(), Payload::Bytes(_)));
}

/// X3: bytes that are no payload of their type are dead at the first attempt, with the type and what is wrong.
#[tokio::test(start_paused = true)]
async fn bytes_that_cannot_be_decoded_are_dead_at_once() {
    let (stage, notes) = (Stage::set(), Notes::<String>::new());
    let outbox = stage.outbox().handlers(noting(&notes)).start().unwrap();

    let packed = write(&outbox, Event::builder("OrderPlaced").bytes([0xc1])).await;
    let proto = write(&outbox, Event::builder("OrderShipped").bytes([0x0a, 0xff])).await;
    stage.quiet().await;

    for (id, said) in
        [(packed, "the payload is no `OrderPlaced`: "), (proto, "the payload is no `OrderShipped`: ")]
    {
        let row = stage.row(&id).await;
        assert_eq!((row.status, row.attempts), (Ok(Status::Dead), 1));
        let error = row.last_error.unwrap();
        assert!(error.contains(said) && !error.ends_with(": "), "{error}");
    }
    assert_eq!(notes.len(), 0);
}
