//! What the cases of owned partitions need of a database besides, and the same work by hand.

use anyhow::Result;
use pillarbox::store::{DoneRows, Mode};

use crate::database::{Address, Claimed, Connection, Database};

/// A database whose partitions can be owned, by us and by hand.
pub(crate) trait Owned: Database {
    /// Gives an outbox this mode, and its indexes.
    fn migrate_to(store: &Self::Store, mode: Mode) -> impl Future<Output = Result<()>> + Send;

    /// Makes the loop by hand the owner of all partitions for an hour, in epoch 1.
    fn own(connection: &mut Connection<Self>) -> impl Future<Output = Result<()>> + Send;

    /// Reads up to `limit` fresh events of a partition, above its floor and in the order of their numbers.
    fn read_run(
        connection: &mut Connection<Self>,
        partition: u8,
        floor: i64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Claimed>>> + Send;

    /// Marks events of a partition as done, or deletes them, in one statement that checks owner and epoch, and says how
    /// many that were.
    fn finish(
        connection: &mut Connection<Self>,
        partition: u8,
        run: &[Claimed],
        done: DoneRows,
    ) -> impl Future<Output = Result<u64>> + Send;

    /// How many partitions each owner has, of those who have any.
    fn shares(address: &Address) -> impl Future<Output = Result<Vec<u64>>> + Send;

    /// How many events are pending and not aside.
    fn fresh(address: &Address) -> impl Future<Output = Result<u64>> + Send;

    /// How many events are done.
    fn done(address: &Address) -> impl Future<Output = Result<u64>> + Send;
}

/// Makes an empty outbox of the mode `ownership` that nobody has owned yet.
pub(crate) async fn create<D: Owned>(place: &D, name: &str) -> Result<Address> {
    let address = place.create(name).await?;
    let store = D::store(&address).await?;
    // Leaving the mode ends all that was held in it: floors would be too high for numbers that begin anew.
    for mode in [Mode::Claims, Mode::Ownership] {
        D::migrate_to(&store, mode).await?;
    }
    D::close(&store).await;
    Ok(address)
}
