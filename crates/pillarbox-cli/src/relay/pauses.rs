//! Which routes of an outbox are paused, as its database says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pillarbox::store::{Administration, PausedRoute, StoreError};
use pillarbox::{Outbox, Routing};
use pillarbox_any::AnyStore;

/// How often the database is asked.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How many looks long a resumed route is recalled: what was under way when it was resumed, here or in a relay that saw it
/// later, is set aside after the first.
const LOOKS: u8 = 4;
/// How long an event of a paused route waits before it is looked at again, should it ever be missed by a recall.
pub(super) const SAFETY_NET: Duration = Duration::from_secs(15 * 60);

/// Has the routes of an outbox paused that its database says are.
pub(crate) struct Pauses {
    outbox: String,
    routing: Routing,
    /// Routes that were resumed, and for how many looks they are recalled.
    resumed: BTreeMap<String, u8>,
    /// The last look failed; it was said so.
    is_blind: bool,
}

impl Pauses {
    pub(crate) fn new(outbox: &str, routing: &Routing) -> Self {
        let (outbox, routing) = (outbox.to_owned(), routing.clone());
        Self { outbox, routing, resumed: BTreeMap::new(), is_blind: false }
    }

    /// Asks which routes are paused.
    pub(crate) async fn look(&mut self, store: &AnyStore) -> Result<(), StoreError> {
        let paused = store.paused_routes().await?;
        let before: BTreeSet<String> = self.routing.paused().into_iter().collect();
        // A route that is gone from the file is no longer paused: what waited for it goes another way.
        let routes = self.routing.route_names();
        let named = paused.into_iter().map(|route| route.name).filter(|name| routes.contains(name));
        let now: BTreeSet<String> = named.collect();
        for route in now.difference(&before) {
            tracing::info!(outbox = self.outbox, route, "the route is paused; its events wait");
            self.resumed.remove(route);
        }
        for route in before.difference(&now) {
            tracing::info!(outbox = self.outbox, route, "the route is no longer paused");
            self.resumed.insert(route.clone(), LOOKS);
        }
        self.routing.set_paused(now);
        Ok(())
    }

    /// Follows the database for as long as the outbox runs. A look that fails changes nothing, and is told once.
    pub(crate) async fn follow(mut self, outbox: Outbox<AnyStore>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let looked = match self.look(outbox.store()).await {
                Ok(()) => self.recall(&outbox).await,
                Err(error) => Err(error),
            };
            match looked {
                Ok(()) => self.is_blind = false,
                Err(error) if !self.is_blind => {
                    self.is_blind = true;
                    let outbox = &self.outbox;
                    tracing::warn!(outbox, %error, "paused routes cannot be read; they stay as they were");
                }
                Err(_) => {}
            }
        }
    }

    /// Lets go what waits for routes that were resumed.
    async fn recall(&mut self, outbox: &Outbox<AnyStore>) -> Result<(), StoreError> {
        let routes: Vec<String> = self.resumed.keys().cloned().collect();
        for route in routes {
            if PausedRoute::recall(outbox.store(), &route).await? > 0 || self.has_just_resumed(&route) {
                // It may wait for a share of the partitions, and is repeated without harm.
                let outbox = outbox.clone();
                tokio::spawn(async move { outbox.poll().await });
            }
            // Only now: what failed is tried again.
            self.resumed.retain(|resumed, looks| {
                *looks -= u8::from(*resumed == route);
                *looks > 0
            });
        }
        Ok(())
    }

    /// The command that resumed it has recalled its events; then there is nothing left to recall here.
    fn has_just_resumed(&self, route: &str) -> bool {
        self.resumed.get(route) == Some(&LOOKS)
    }
}
