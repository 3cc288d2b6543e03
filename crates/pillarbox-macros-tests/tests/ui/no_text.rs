use pillarbox::Event;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event(type = "OrderPlaced", key = self.lines)]
struct OrderPlaced {
    #[event(id)]
    parts: Vec<u8>,
    lines: Vec<String>,
}

fn main() {}
