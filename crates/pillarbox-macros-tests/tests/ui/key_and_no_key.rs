use pillarbox::Event;

#[derive(Event)]
#[event(type = "OrderPlaced", no_key)]
struct OrderPlaced {
    #[event(key)]
    order_id: u64,
}

#[derive(Event)]
#[event(type = "OrderPaid", key = "order-17", no_key)]
struct OrderPaid;

fn main() {}
