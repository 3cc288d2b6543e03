//! The broker comes and goes while events are written.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use pillarbox_testkit::proxy::{Proxy, Traffic};

use crate::arrivals::judge;
use crate::broker::{Broker, PORT};
use crate::database::{Database, Kind};
use crate::load::Load;
use crate::private::Private;
use crate::relay::Relay;

/// Events that are delivered before anything goes wrong, by which the rate is known and memory has been used.
const BEFORE: usize = 20_000;
/// Events of the load that are delivered before the broker goes away.
const UNDER_LOAD: usize = 500;
/// How much more memory there may be at the end, in MB.
const MORE_MEMORY: f64 = 20.0;

/// T5, guarantees 2 to 5: a broker that is stopped for a while costs nothing but time.
pub(crate) async fn nothing_is_lost_while_the_broker_is_stopped<B: Broker>(broker: &Private<B>) {
    let run = Run::begin(broker, &broker.stage.url).await;

    broker.server.stop().await;
    run.is_noticed().await;
    run.lasts(outage()).await;
    broker.server.up().await;

    run.end(&format!("stopped for {:?}", outage())).await;
}

/// T5, guarantees 2 to 5: the same if it is killed.
pub(crate) async fn nothing_is_lost_when_the_broker_is_killed<B: Broker>(broker: &Private<B>) {
    let run = Run::begin(broker, &broker.stage.url).await;

    broker.server.kill().await;
    run.is_noticed().await;
    broker.server.up().await;

    run.end("killed").await;
}

/// T5, guarantees 2 to 5: the same if what it answers is lost on the way.
pub(crate) async fn nothing_is_lost_when_answers_are<B: Broker>(broker: &Private<B>) {
    let way = B::proxied(&broker.stage.url);
    let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let proxy = Proxy::between(at(way.listen), at(way.to)).await.unwrap();
    let run = Run::begin(broker, &way.url.replace(PORT, &proxy.address().port().to_string())).await;

    proxy.set(Traffic::LosesAnswers);
    run.is_noticed().await;
    // What was lost is missed in the middle of these connections.
    proxy.set(Traffic::Refused);
    proxy.set(Traffic::Flows);

    run.end("answers lost").await;
}

/// How long a broker is stopped: 10 s, unless `PILLARBOX_TEST_OUTAGE` says otherwise, in seconds as in `60s`.
fn outage() -> Duration {
    let given = std::env::var("PILLARBOX_TEST_OUTAGE").unwrap_or_else(|_| "10s".to_owned());
    Duration::from_secs(given.trim_end_matches('s').parse().unwrap())
}

/// A relay that delivers what is being written.
struct Run<'a, B> {
    broker: &'a Private<B>,
    database: Database,
    relay: Relay,
    load: Load,
    /// What it used when nothing had gone wrong, in MB.
    resident: f64,
    /// What it delivered then, in events per second.
    rate: f64,
}

impl<'a, B: Broker> Run<'a, B> {
    /// Starts a relay to the broker at `url`, drains a backlog, and goes on under load.
    async fn begin(broker: &'a Private<B>, url: &str) -> Self {
        let database = Database::new(Kind::Postgres);
        let relay = Relay::start(&broker.stage.file(&database.url, url));
        database.write(0..BEFORE);
        let begun = Instant::now();
        relay.delivers(BEFORE).await;
        let rate = BEFORE as f64 / begun.elapsed().as_secs_f64();
        let load = Load::begin(Kind::Postgres, &database.url, BEFORE);
        relay.delivers_more_than(BEFORE + UNDER_LOAD).await;
        let resident = relay.resident();
        Self { broker, database, relay, load, resident, rate }
    }

    /// Waits until the relay knows that the broker is away.
    async fn is_noticed(&self) {
        self.relay.until("the outage is not noticed", |state| state["sinks"][0]["state"] != "well").await;
    }

    /// Lets the outage last, while the application goes on writing.
    async fn lasts(&self, time: Duration) {
        let before = self.load.written();
        tokio::time::sleep(time).await;
        let (written, delivered) = (self.load.written(), self.relay.count("delivered"));
        assert!(written > before, "the application does not stop for a broker");
        assert!(delivered < written, "there is nobody to deliver to");
    }

    /// The broker is there again: waits until everything is delivered, and judges.
    async fn end(self, what: &str) {
        let waiting = self.relay.count("delivered");
        self.relay.delivers_more_than(waiting).await;
        let (begun, first) = (Instant::now(), self.relay.count("delivered"));
        // From here on nothing but the backlog is delivered: before the outage its rate was measured alone, too.
        let written = self.load.end();
        let backlog = written - first;
        self.relay.delivers(written).await;
        let rate = backlog as f64 / begun.elapsed().as_secs_f64();
        self.relay.until("it does not recover", |state| state["sinks"][0]["state"] == "well").await;

        let unanswered = self.relay.count("unanswered");
        let resident = self.relay.resident();
        let duplicates = judge::<B>(&self.broker.stage.read(), written);
        eprintln!(
            "{}, {what}: {written} events, {duplicates} came again ({unanswered} times there was no answer), {:.0} events \
             a second before and {rate:.0} after, with {backlog} waiting; {:.1} MB before, {resident:.1} MB after",
            B::KIND,
            self.rate,
            self.resident
        );
        assert_eq!((self.database.unfinished(), self.database.spent()), (0, 0), "{}", self.relay.said("err"));
        assert_eq!(self.relay.count("dead") + self.relay.count("failed"), 0);
        assert!(duplicates <= unanswered, "{duplicates} came again, of {unanswered} that were not answered");
        assert!(resident <= self.resident + MORE_MEMORY, "{} MB before, {resident} MB after", self.resident);
        let answer = self.relay.stop();
        assert_eq!(answer.code, Some(0), "{}", answer.err);
    }
}
