use pillarbox::Event;

#[derive(Event)]
#[event(aggregate = "Order")]
struct OrderPlaced;

#[derive(Event)]
enum OrderChanged {
    Paid,
}

fn main() {}
