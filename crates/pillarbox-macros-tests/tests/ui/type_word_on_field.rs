use pillarbox::Event;

#[derive(Event)]
#[event(type = "OrderPlaced")]
struct OrderPlaced {
    #[event(aggregate = "Order", no_key)]
    order_id: u64,
}

fn main() {}
