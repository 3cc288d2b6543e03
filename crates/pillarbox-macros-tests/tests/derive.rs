//! What `#[derive(Event)]` makes of a type.

use std::fmt::{self, Display};

use pillarbox::{Codec, CodecError, DomainEvent, Event, EventError, GLOBAL, IntoEvent, Payload};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// An id of the user's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct OrderId(u64);

impl Display for OrderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "order-{}", self.0)
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize, Event)]
#[event(type = "OrderPlaced", aggregate = "Order")]
struct OrderPlaced {
    #[event(id)]
    order_id: OrderId,
    #[event(key, header = "customer")]
    customer: u64,
    #[event(tenant)]
    shop: Option<String>,
    #[event(header)]
    source: Box<str>,
    #[event(context, header = "from")]
    region: Option<String>,
    #[event(context = "language")]
    r#lang: char,
    #[event(context)]
    r#type: String,
}

fn placed() -> OrderPlaced {
    OrderPlaced {
        order_id: OrderId(17),
        customer: 3,
        shop: Some("shop-1".into()),
        source: "web".into(),
        region: Some("eu".into()),
        lang: 'd',
        r#type: "gift".into(),
    }
}

/// W10: fields say what they are in the event, and a header or context value is called like its field if nothing else
/// is said.
#[test]
fn fields_describe_the_event() {
    let event = placed().into_event().unwrap();

    assert_eq!((event.event_type(), event.aggregate_type()), ("OrderPlaced", "Order"));
    assert_eq!((event.aggregate_id(), event.key()), (Some("order-17"), Some("3")));
    assert_eq!(event.tenant_id(), Some("shop-1"));
    let headers: Vec<_> = event.headers().iter().collect();
    assert_eq!(headers, [("customer", "3"), ("from", "eu"), ("source", "web")]);
    let context: Vec<_> = event.context().iter().collect();
    assert_eq!(context, [("language", "d"), ("region", "eu"), ("type", "gift")]);
}

/// W10: what is `None` is not set.
#[test]
fn none_is_not_set() {
    let event = OrderPlaced { shop: None, region: None, ..placed() }.into_event().unwrap();

    assert_eq!((event.tenant_id(), event.context().get("region")), (None, None));
    assert_eq!(event.headers().get("from"), None);
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Customer {
    name: String,
    email: Option<String>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, Event)]
#[event(type = "OrderPaid", aggregate = "Order", id = self.order_id, key = self.key(), tenant = self.shop())]
#[event(header("source" = "web", "lines" = self.lines.len()), header("total" = self.total + 1))]
#[event(context("email" = self.customer.email, "first" = self.lines.first()))]
#[event(context("size" = if self.total > 100 { "large" } else { "small" }))]
struct OrderPaid {
    order_id: OrderId,
    customer: Customer,
    lines: Vec<String>,
    total: u64,
}

impl OrderPaid {
    fn key(&self) -> String {
        format!("customer-{}", self.customer.name)
    }

    fn shop(&self) -> &Option<String> {
        &self.customer.email
    }
}

fn paid(email: Option<&str>, lines: &[&str]) -> OrderPaid {
    OrderPaid {
        order_id: OrderId(17),
        customer: Customer { name: "ada".into(), email: email.map(str::to_owned) },
        lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        total: 200,
    }
}

/// W10: expressions on the type reach nested fields and methods, and may compute.
#[test]
fn expressions_describe_the_event() {
    let event = paid(Some("ada@example.org"), &["book", "pen"]).into_event().unwrap();

    assert_eq!((event.event_type(), event.aggregate_type()), ("OrderPaid", "Order"));
    assert_eq!((event.aggregate_id(), event.key()), (Some("order-17"), Some("customer-ada")));
    assert_eq!(event.tenant_id(), Some("ada@example.org"));
    let headers: Vec<_> = event.headers().iter().collect();
    assert_eq!(headers, [("lines", "2"), ("source", "web"), ("total", "201")]);
    let context: Vec<_> = event.context().iter().collect();
    assert_eq!(context, [("email", "ada@example.org"), ("first", "book"), ("size", "large")]);
}

/// W10: an expression that is `None` sets nothing either, be it a field, a reference or an answer.
#[test]
fn expression_that_is_none_is_not_set() {
    let event = paid(None, &[]).into_event().unwrap();

    assert_eq!(event.tenant_id(), None);
    assert_eq!(event.context().iter().collect::<Vec<_>>(), [("size", "large")]);
}

#[derive(Serialize, Deserialize, Event)]
#[event(type = "StockTaken")]
struct StockTaken {
    #[event(id)]
    article: Option<String>,
    #[event(key)]
    shelf: Option<String>,
}

/// W10: where no key is set the aggregate id is the key, and what is not said has its default.
#[test]
fn what_is_not_said_has_its_default() {
    let taken = StockTaken { article: Some("article-4".into()), shelf: None }.into_event().unwrap();
    assert_eq!((taken.aggregate_type(), taken.key()), (GLOBAL, Some("article-4")));

    let nothing = StockTaken { article: None, shelf: None }.into_event().unwrap();
    assert_eq!((nothing.aggregate_id(), nothing.key()), (None, None));
}

#[derive(Serialize, Deserialize, Event)]
#[event(type = "PageViewed", no_key)]
struct PageViewed(#[event(id)] u64, #[event(header = "agent", context = "browser")] String);

/// W10: fields of a tuple struct describe it too, and with `no_key` the aggregate id is not the key.
#[test]
fn tuple_struct_describes_its_event() {
    let event = PageViewed(7, "firefox".into()).into_event().unwrap();

    assert_eq!((event.aggregate_id(), event.key()), (Some("7"), None));
    assert_eq!(
        (event.headers().get("agent"), event.context().get("browser")),
        (Some("firefox"), Some("firefox"))
    );
    assert_eq!(event.payload().as_json(), Some(r#"[7,"firefox"]"#));
}

#[derive(Debug, PartialEq, Serialize, Deserialize, Event)]
#[event(type = "DayClosed")]
struct DayClosed;

/// W10: a type that has nothing to say but its name is an event.
#[test]
fn unit_struct_is_an_event() {
    let event = DayClosed.into_event().unwrap();

    assert_eq!((event.event_type(), event.key()), ("DayClosed", None));
    assert_eq!(event.decode(), Ok(DayClosed));
}

#[derive(Debug, PartialEq, Serialize, Deserialize, Event)]
#[event(type = "OrderChanged", aggregate = "Order", id = self.order_id())]
#[event(header("parcel" = match self { Self::Shipped { parcel, .. } => Some(parcel), Self::Cancelled(_) => None }))]
enum OrderChanged {
    Shipped { order_id: OrderId, parcel: String },
    Cancelled(OrderId),
}

impl OrderChanged {
    fn order_id(&self) -> &OrderId {
        match self {
            Self::Shipped { order_id, .. } | Self::Cancelled(order_id) => order_id,
        }
    }
}

/// W10: an enum describes its event with expressions that see the variant.
#[test]
fn enum_describes_its_event() {
    let shipped = OrderChanged::Shipped { order_id: OrderId(17), parcel: "parcel-2".into() };
    let cancelled = OrderChanged::Cancelled(OrderId(18)).into_event().unwrap();

    let event = Event::of(&shipped).build().unwrap();

    assert_eq!((event.aggregate_id(), event.headers().get("parcel")), (Some("order-17"), Some("parcel-2")));
    assert_eq!((cancelled.aggregate_id(), cancelled.headers().get("parcel")), (Some("order-18"), None));
    assert_eq!(event.decode(), Ok(shipped));
}

#[derive(Debug, PartialEq, Serialize, Deserialize, Event)]
#[serde(bound = "")]
#[event(type = "PriceChanged", aggregate = "Article")]
struct PriceChanged<T, const N: usize>
where
    T: Display + Serialize + DeserializeOwned + Send + 'static,
{
    #[event(id)]
    article: T,
    #[event(context)]
    before: Option<T>,
    prices: Vec<u64>,
}

/// W10: type parameters are passed on.
#[test]
fn generic_type_is_an_event() {
    let changed = PriceChanged::<String, 2> { article: "article-4".into(), before: None, prices: vec![1, 2] };

    let event = Event::of(&changed).build().unwrap();

    assert_eq!((event.aggregate_id(), event.context().get("before")), (Some("article-4"), None));
    assert_eq!(event.decode(), Ok(changed));
}

/// Numbers as decimal text, which is not JSON to Pillarbox.
struct Decimal;

impl Codec<CounterRead> for Decimal {
    fn encode(value: &CounterRead) -> Result<Payload, CodecError> {
        Ok(Payload::Bytes(value.0.to_string().into_bytes()))
    }

    fn decode(payload: &Payload) -> Result<CounterRead, CodecError> {
        Ok(CounterRead(std::str::from_utf8(payload.as_bytes())?.parse()?))
    }
}

#[derive(Debug, PartialEq, Event)]
#[event(type = "CounterRead", codec = self::Decimal)]
struct CounterRead(u64);

/// X3: the codec that a type names encodes its payload, and serde is not asked.
#[test]
fn codec_of_the_type_encodes_the_payload() {
    let event = CounterRead(42).into_event().unwrap();

    assert_eq!(event.payload(), &Payload::Bytes(b"42".to_vec()));
    assert_eq!(event.decode(), Ok(CounterRead(42)));
}

/// W10, X1: what is given by hand wins over what the type says, and the rest stays.
#[test]
fn by_hand_wins_over_the_type() {
    let event = Event::of(&placed()).key("key-1").context("region", "us").build().unwrap();

    assert_eq!((event.key(), event.context().get("region")), (Some("key-1"), Some("us")));
    assert_eq!((event.aggregate_id(), event.headers().get("from")), (Some("order-17"), Some("eu")));
}

/// W10: a value that is longer than its column, or empty, is found when the event is built.
#[test]
fn limits_are_checked_when_the_event_is_built() {
    let taken = |article: &str| StockTaken { article: Some(article.into()), shelf: None }.into_event();

    let too_long = EventError::TooLong { field: "aggregate_id", length: 129, limit: 128 };
    assert_eq!(taken(&"a".repeat(129)), Err(too_long));
    assert_eq!(taken(""), Err(EventError::Empty { field: "aggregate_id" }));
}

/// V5: the type is the one that was given, wherever the code is and whatever it is called there.
#[test]
fn type_is_no_rust_name() {
    mod warehouse {
        #[derive(serde::Serialize, serde::Deserialize, pillarbox::Event)]
        #[event(type = "stock.moved/v2", aggregate = "Stock")]
        pub(super) struct Moved;
    }

    assert_eq!(warehouse::Moved::EVENT_TYPE, "stock.moved/v2");
    assert_eq!(warehouse::Moved::AGGREGATE_TYPE, "Stock");
}

/// W10: names of the user's own do not get in the way of the generated code, nor the other way round, and no lint has
/// anything to say.
#[test]
fn generated_code_keeps_to_itself() {
    #[deny(warnings, clippy::pedantic, unused_qualifications, reason = "a user may")]
    #[allow(non_upper_case_globals, dead_code, reason = "what it is about")]
    mod shop {
        mod pillarbox {}
        struct Option;
        struct String;
        const event: &str = "eu";
        const text: u64 = 1;

        #[derive(serde::Serialize, serde::Deserialize, ::pillarbox::Event)]
        #[event(type = "SaleOpened", id = event, key = (text + 1), header("text" = text), context("event" = event))]
        pub(super) struct SaleOpened;
    }

    let opened = shop::SaleOpened.into_event().unwrap();

    assert_eq!((opened.aggregate_id(), opened.key()), (Some("eu"), Some("2")));
    assert_eq!((opened.headers().get("text"), opened.context().get("event")), (Some("1"), Some("eu")));
}
