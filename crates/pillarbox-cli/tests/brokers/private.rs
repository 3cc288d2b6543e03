//! A broker of the trial's own, which it stops and kills.

use pillarbox_testkit::servers::{Fresh, PrivateServer};

use crate::broker::Broker;
use crate::stage::Stage;

/// A broker that nobody else uses.
pub(crate) struct Private<B> {
    pub(crate) server: PrivateServer,
    pub(crate) stage: Stage<B>,
}

impl<B: Broker> Fresh for Private<B> {
    async fn fresh(url: &str) -> Self {
        let server = PrivateServer::fresh(url).await;
        let stage = Stage::at(server.url());
        Self { server, stage }
    }

    async fn clean(self) {}
}
