//! The orders of the demo: what each one is and what becomes of it follows from the seed and its number.

use std::time::Duration;

use pillarbox::{Event, EventError, IntoEvent};
use serde::{Deserialize, Serialize};

const ITEMS: [&str; 6] = ["teapot", "umbrella", "pillar box", "stamp album", "bicycle bell", "letter opener"];

/// One order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) number: u64,
    pub(super) item: &'static str,
    pub(super) cents: i64,
    pub(super) ending: Ending,
    pub(super) task: Task,
}

/// How the transaction of an order ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Commit,
    /// By the call.
    RollBack,
    /// By losing the handle, as an early return does.
    Drop,
}

/// What the order's event asks for, each served by a listener of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// The warehouse takes it at once.
    Pack,
    /// The payment gateway declines this often before it accepts.
    Charge { declines: u32 },
    /// The printer takes its time.
    Print { millis: u64 },
    /// The address does not exist, and never will.
    Mail,
}

impl Task {
    pub(super) const fn event_type(self) -> &'static str {
        match self {
            Self::Pack => "OrderPlaced",
            Self::Charge { .. } => "PaymentRequested",
            Self::Print { .. } => "InvoiceRequested",
            Self::Mail => "ReceiptRequested",
        }
    }
}

impl Order {
    /// Order `number` of the demo with this seed.
    pub(super) fn nth(seed: u64, number: u64) -> Self {
        let mut dice = Dice(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self {
            number,
            item: ITEMS[dice.below(ITEMS.len() as u64) as usize],
            cents: 199 + dice.below(20_000) as i64,
            ending: match dice.below(100) {
                0..92 => Ending::Commit,
                92..96 => Ending::RollBack,
                _ => Ending::Drop,
            },
            task: match dice.below(1_000) {
                0..900 => Task::Pack,
                900..980 => Task::Charge { declines: 1 + dice.below(2) as u32 },
                980..992 => Task::Print { millis: 10 + dice.below(20) },
                _ => Task::Mail,
            },
        }
    }
}

/// What listeners are told about an order.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Details {
    order: String,
    item: String,
    cents: i64,
    /// How often the payment gateway will decline.
    #[serde(default)]
    pub(super) declines: u32,
    /// How long the printer will take.
    #[serde(default)]
    pub(super) millis: u64,
}

impl Details {
    pub(super) fn printing_time(&self) -> Duration {
        Duration::from_millis(self.millis)
    }
}

impl IntoEvent for &Order {
    fn into_event(self) -> Result<Event, EventError> {
        let order = format!("order-{}", self.number);
        let (declines, millis) = match self.task {
            Task::Charge { declines } => (declines, 0),
            Task::Print { millis } => (0, millis),
            Task::Pack | Task::Mail => (0, 0),
        };
        let details =
            Details { order: order.clone(), item: self.item.to_owned(), cents: self.cents, declines, millis };
        Event::builder(self.task.event_type()).aggregate("Order", order).json(&details).build()
    }
}

/// Random numbers that can be repeated (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_orders() {
        let orders = |seed| -> Vec<Order> { (1..=500).map(|number| Order::nth(seed, number)).collect() };

        assert_eq!(orders(7), orders(7));
        assert_ne!(orders(7), orders(8));
    }

    #[test]
    fn the_default_demo_has_every_kind_of_order() {
        let orders: Vec<Order> = (1..=2_000).map(|number| Order::nth(1, number)).collect();
        let count = |wanted: &dyn Fn(&Order) -> bool| orders.iter().filter(|order| wanted(order)).count();

        assert!(count(&|order| order.ending == Ending::RollBack) > 40);
        assert!(count(&|order| order.ending == Ending::Drop) > 40);
        for event_type in ["OrderPlaced", "PaymentRequested", "InvoiceRequested", "ReceiptRequested"] {
            let committed = |order: &Order| order.ending == Ending::Commit;
            let found = count(&|order| committed(order) && order.task.event_type() == event_type);
            assert!(found >= 5, "{event_type}: {found}");
        }
    }
}
