use pillarbox::Event;

#[derive(Event)]
#[event(type = "OrderPlaced")]
union OrderPlaced {
    order_id: u64,
    number: i64,
}

fn main() {}
