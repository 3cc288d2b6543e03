use pillarbox::Event;

#[derive(Event)]
#[event(type = OrderPlaced, aggregate, id, key = , tenant(self.shop), no_key = true)]
#[event(header = "source", context("region", "lang" = ), codec = 1)]
struct OrderPlaced {
    #[event(key = self.shop, header("shop"))]
    shop: String,
}

#[derive(Event)]
#[event]
struct OrderPaid {
    #[event = "id"]
    order_id: u64,
}

#[derive(Event)]
#[event(type = "OrderShipped" aggregate = "Order", no_key true)]
struct OrderShipped;

fn main() {}
