//! `owned-ordered`: draining in the order of 200 keys, against draining the same events in no order.

use anyhow::Result;
use pillarbox::store::Mode;

use super::drain;
use super::owned_drain::{EVENTS, EVENTS_QUICK};
use crate::database::Fill;
use crate::measure::{Scale, typical_round};
use crate::owned::{self, Owned};
use crate::report::{Goal, Line, grouped};

const KEYS: usize = 200;
const ROUNDS: usize = 5;

pub(crate) async fn measure<D: Owned>(place: &D, scale: Scale) -> Result<Vec<Line>> {
    let events = scale.pick(EVENTS, EVENTS_QUICK);
    eprintln!("owned-ordered: {} pending, {KEYS} keys, {ROUNDS} rounds", grouped(events as u64));
    let (mut ordered, mut unordered) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        for is_ordered in [round.is_multiple_of(2), !round.is_multiple_of(2)] {
            let address = owned::create(place, "owned-ordered").await?;
            D::fill(&address, events, Fill::Keys(KEYS)).await?;
            let took = drain::by_us_with::<D>(&address, events, |drainer| {
                if is_ordered { drainer.ordered() } else { drainer.mode(Mode::Ownership) }
            });
            let rates = if is_ordered { &mut ordered } else { &mut unordered };
            rates.push(events as f64 / took.await?.as_secs_f64());
        }
    }
    let (ordered, unordered) = typical_round(&ordered, &unordered);
    Ok(vec![Line::new(D::NAME, "owned-ordered", ordered, "events/s", unordered).goal(Goal::AtLeast(0.7))])
}
