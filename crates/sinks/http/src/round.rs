//! One run: events of a key one after the other, others at the same time.

use std::collections::HashMap;
use std::sync::OnceLock;

use futures_util::{StreamExt, stream};
use pillarbox::{Run, SinkError};
use reqwest::Response;
use tokio::time::Instant;

use crate::HttpSink;
use crate::request::Draft;
use crate::verdict::{Refusal, Verdict, unanswered};

/// How much of an answer is read: more of success, so that the connection can be used again.
const MAX_SUCCESS: usize = 65_536;
const MAX_REFUSAL: usize = 4_096;

/// A run under way.
pub(crate) struct Round<'a> {
    sink: &'a HttpSink,
    run: &'a Run,
    /// When no request is started any more.
    end: Instant,
    /// Why the receiver takes nothing now, once that is known: the rest is not sent to it.
    down: OnceLock<SinkError>,
}

impl<'a> Round<'a> {
    pub(crate) fn new(sink: &'a HttpSink, run: &'a Run) -> Self {
        Self { sink, run, end: Instant::now() + sink.options.send_for, down: OnceLock::new() }
    }

    /// Sends until every event is answered.
    pub(crate) async fn go(self) {
        let lanes = stream::iter(lanes(self.run));
        lanes.for_each_concurrent(self.sink.options.concurrency, |lane| self.follow(lane)).await;
    }

    /// Sends the events of one key. Those that follow one that failed wait for it: sent now, they would overtake it.
    async fn follow(&self, lane: Vec<usize>) {
        let mut lane = lane.into_iter();
        for index in lane.by_ref() {
            if let Err(error) = self.send(index).await {
                if error.is_unavailable() {
                    let _ = self.down.set(error.clone());
                }
                self.run.answer(index, Err(error));
                break;
            }
        }
        for index in lane {
            let behind = || SinkError::not_sent("an earlier event of its key was not published");
            self.run.answer(index, Err(self.down.get().cloned().unwrap_or_else(behind)));
        }
    }

    /// Sends one event, and answers it if it was accepted.
    async fn send(&self, index: usize) -> Result<(), SinkError> {
        let HttpSink { address, messages, options, client, slots } = self.sink;
        let event = self.run.deliveries()[index].event();
        let draft = Draft::of(event, self.run.address(index), (address, messages, options))?;
        // Nobody closes it.
        let _slot = slots.acquire().await;
        if let Some(down) = self.down.get() {
            return Err(down.clone());
        }
        if Instant::now() >= self.end {
            return Err(SinkError::not_sent(format!(
                "the run took longer than {:?} (`send_for`); the receiver is slow",
                options.send_for
            )));
        }
        let (url, sent) = (draft.url().clone(), draft.size());
        let request = draft.signed(options)?;
        let mut response = client
            .execute(request)
            .await
            .map_err(|error| unanswered(&error, address.origin(), options.request_timeout))?;
        if Verdict::of(response.status()) == Verdict::Accepted {
            self.run.answer(index, Ok(()));
            beginning(&mut response, MAX_SUCCESS).await;
            return Ok(());
        }
        let body = beginning(&mut response, MAX_REFUSAL).await;
        let refusal = Refusal {
            origin: address.origin(),
            url: &url,
            status: response.status(),
            headers: response.headers(),
            sent,
            body: &body,
            secrets: &options.headers,
            now: (options.clock)(),
        };
        Err(refusal.into_error())
    }
}

/// What the answer's body begins with. The status has said everything: if the rest does not come, it does not matter.
async fn beginning(response: &mut Response, limit: usize) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend_from_slice(&chunk[..chunk.len().min(limit - body.len())]);
        if body.len() >= limit {
            break;
        }
    }
    body
}

/// The events of each key, and each event without a key for itself, in the order of the run.
fn lanes(run: &Run) -> Vec<Vec<usize>> {
    let (mut lanes, mut of_key) = (Vec::<Vec<usize>>::new(), HashMap::new());
    for (index, delivery) in run.deliveries().iter().enumerate() {
        let next = lanes.len();
        let lane = delivery.event().key().map_or(next, |key| *of_key.entry(key).or_insert(next));
        match lanes.get_mut(lane) {
            Some(lane) => lane.push(index),
            None => lanes.push(vec![index]),
        }
    }
    lanes
}
