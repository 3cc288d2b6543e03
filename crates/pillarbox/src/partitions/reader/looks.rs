//! Looking whether somebody waits behind a key that has too many events.

use std::time::Duration;

use super::super::Answer;
use super::reads::safely;
use super::{PAUSE, Reader};
use crate::lanes::{Read, Step};
use crate::store::{Fetched, StoreError};

impl Reader {
    /// Looks behind a crowd, one stretch of one partition.
    pub(super) fn begin_look(&mut self, now: Duration) -> bool {
        let crowds = self.wanted.crowds_at(now);
        if crowds.is_empty() || self.lanes.room() < self.parts.config.worthwhile_room() {
            return false;
        }
        if self.begin_numbers(now) {
            return true;
        }
        let numbers = self.known.numbers;
        let read = crowds.into_iter().find_map(|partition| self.lanes.behind(partition, numbers));
        let Some(read) = read else { return false };
        self.ask("behind", move |store| {
            Box::pin(async move {
                let came = safely(store.fetch(read.visits(), read.limit())).await;
                Answer::Behind(read, came)
            })
        });
        true
    }

    /// A stretch was looked at. If others were in it they pass with the next read of what is fresh.
    pub(super) fn behind_came(&mut self, read: Read, came: Result<Vec<Fetched>, StoreError>) -> Vec<Step> {
        let partitions: Vec<u8> = read.visits().iter().map(|visit| visit.partition).collect();
        let (steps, has_failed) = match came {
            Ok(events) => (self.lanes.answer(read, events), false),
            Err(error) => (self.failed(read, &error), true),
        };
        let now = self.parts.runtime.clock.now();
        for partition in partitions {
            // Whoever waits behind a crowd waits no longer than for a hint that was lost.
            let pause = match self.lanes.is_looking(partition) {
                _ if has_failed => PAUSE,
                true => Duration::ZERO,
                false => self.parts.config.poll_every,
            };
            self.wanted.note_look(partition, self.lanes.is_crowded(partition), now + pause);
        }
        steps
    }
}
