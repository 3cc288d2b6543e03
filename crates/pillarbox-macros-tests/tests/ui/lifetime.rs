use pillarbox::Event;

#[derive(Event)]
#[event(type = "OrderPlaced")]
struct OrderPlaced<'a> {
    #[event(id)]
    order_id: &'a str,
}

fn main() {}
