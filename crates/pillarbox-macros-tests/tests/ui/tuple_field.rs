use pillarbox::Event;

#[derive(Event)]
#[event(type = "OrderPlaced")]
struct OrderPlaced(#[event(header)] String, #[event(context)] String);

fn main() {}
