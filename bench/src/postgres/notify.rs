//! `write/notify-on`, `write/notify-off`: what telling other processes costs a business transaction.

use anyhow::Result;
use pillarbox_postgres::PostgresStore;

use super::PostgresServer;
use crate::cases::write::{TRANSACTIONS, Writer, medians};
use crate::database::{Address, Database};
use crate::measure::Scale;
use crate::report::Line;

pub(crate) async fn measure(place: &PostgresServer, scale: Scale) -> Result<Vec<Line>> {
    let writers = [
        Writer::<PostgresServer>::ours(store(&place.create("notify-on").await?, true).await?)?,
        Writer::ours(store(&place.create("notify-off").await?, false).await?)?,
        Writer::by_hand(&place.create("notify-by-hand").await?).await?,
    ];
    let [on, off, by_hand] = medians(&writers, scale.of(TRANSACTIONS), 1).await?;
    Ok(vec![
        Line::new(PostgresServer::NAME, "write/notify-on", on, "µs", by_hand),
        Line::new(PostgresServer::NAME, "write/notify-off", off, "µs", by_hand),
    ])
}

async fn store(address: &Address, wake_up: bool) -> Result<PostgresStore> {
    Ok(PostgresStore::options(address.as_str()).wake_up(wake_up).connect().await?)
}
