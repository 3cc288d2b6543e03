use pillarbox::Event;

#[derive(Event)]
#[event(type = "OrderPlaced", aggregat = "Order", colour = "red", aggregate_id = self.order_id)]
struct OrderPlaced {
    #[event(tennant)]
    shop: String,
    #[event(event_type)]
    order_id: u64,
}

#[derive(Event)]
#[event(typ = "OrderPaid")]
struct OrderPaid;

fn main() {}
