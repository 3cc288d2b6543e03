use pillarbox::Event;

#[derive(Event)]
#[event(type = "OrderPlaced", type = "OrderPaid", aggregate = "Order", key = self.order_id)]
#[event(header("source" = "web", "source" = "shop"), aggregate = "Shop", codec = pillarbox::Json)]
#[event(codec = pillarbox::Json, tenant = "shop-1")]
struct OrderPlaced {
    #[event(id, key)]
    order_id: u64,
    #[event(id, tenant)]
    customer: u64,
    #[event(header, context)]
    source: String,
    #[event(context = "source")]
    region: String,
}

#[derive(Event)]
#[event(type = "OrderPaid", no_key, no_key)]
struct OrderPaid;

fn main() {}
