use pillarbox::Event;

#[derive(Event)]
#[event(aggregat = "Order", key = self.order_id)]
struct OrderPlaced<'a> {
    #[event(idd, key, codec = Json)]
    order_id: &'a str,
}

fn main() {}
