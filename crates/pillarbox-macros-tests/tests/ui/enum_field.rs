use pillarbox::Event;

#[derive(Event)]
#[event(type = "OrderChanged")]
enum OrderChanged {
    Paid {
        #[event(id)]
        order_id: u64,
    },
    Shipped(#[event(id)] u64),
    #[event(no_key)]
    Cancelled,
}

fn main() {}
