//! A place of its own on a broker, and the file of a relay that leads there.

use std::marker::PhantomData;

use pillarbox_testkit::servers::{Fresh, unique_name};

use crate::arrivals::SOURCE;
use crate::broker::{Arrival, Broker};
use crate::tools::client;

/// A topic, stream or queue on a broker that others use too.
pub(crate) struct Stage<B> {
    pub(crate) url: String,
    pub(crate) name: String,
    kind: PhantomData<B>,
}

impl<B: Broker> Stage<B> {
    /// A place on the broker at a URL.
    pub(crate) fn at(url: &str) -> Self {
        let name = unique_name();
        client("make", B::KIND, url, &name);
        Self { url: url.to_owned(), name, kind: PhantomData }
    }

    /// The file of a relay, without `[http]`, from this database to the broker at a URL: in order, with scaled pauses.
    pub(crate) fn file(&self, database: &str, url: &str) -> String {
        let (kind, options) = (B::KIND, B::options(url, &self.name));
        format!(
            "[outbox]\nordered = true\npoll_every = '500ms'\nsink_pause = '100ms'\nlongest_sink_pause = '1s'\n\
             [outbox.store]\nurl = '{database}'\n\
             [messages]\nsource = '{SOURCE}'\n\
             [sinks.broker]\ntype = '{kind}'\n{options}\n\
             [[routes]]\nname = 'all'\nto = 'broker'\n"
        )
    }

    pub(crate) fn read(&self) -> Vec<Arrival> {
        B::read(&self.url, &self.name)
    }

    pub(crate) fn remove(&self) {
        client("remove", B::KIND, &self.url, &self.name);
    }
}

impl<B: Broker> Fresh for Stage<B> {
    async fn fresh(url: &str) -> Self {
        Self::at(url)
    }

    async fn clean(self) {
        self.remove();
    }
}
