//! How far a backlog can be read without looking back.

use crate::mutant::mutant;
use crate::store::Numbers;

/// What the last read that began at what is passed could see, and how far reading has come since.
///
/// An event that was not there to be seen by that read is committed after it. So it need not be delivered before one
/// whose insertion had begun earlier, and those can be read on from where reading has come. Whatever is numbered later
/// may have to follow an event that has appeared behind, and waits for the next read from what is passed. Without this
/// every read of a long backlog would go past all that has been done of it since numbers were last closed.
#[derive(Debug, Default)]
pub(super) struct Horizon {
    /// The numbers that were known before that read.
    numbers: Numbers,
    /// Every fresh event up to this that it could have seen was read, and none of them went back.
    position: i64,
    /// Whether the latest read was another one, that went on from it.
    goes_on: bool,
    looks_back: bool,
}

impl Horizon {
    /// Where the next read begins, if so much is passed and these are the numbers now.
    pub(super) fn begin(&mut self, passed: i64, numbers: Numbers) -> i64 {
        let is_given = self.position < self.numbers.given || mutant!(ReadOnPastTheHorizon);
        let is_inside = passed < self.position && is_given;
        if is_inside && !self.looks_back {
            self.goes_on = true;
            return self.position;
        }
        *self = Self { numbers, position: passed, goes_on: false, looks_back: false };
        passed
    }

    /// The highest number of which the read that has begun can be used.
    pub(super) fn end(&self) -> i64 {
        if self.goes_on && !mutant!(ReadOnPastTheHorizon) { self.numbers.given } else { i64::MAX }
    }

    /// The closed number of which everything that has one was there to be seen.
    pub(super) fn closed(&self) -> i64 {
        self.numbers.closed
    }

    /// Everything up to this number has been read.
    pub(super) fn rise(&mut self, position: i64) {
        self.position =
            if mutant!(ReadOnPastTheHorizon) { position.min(self.numbers.given) } else { position };
    }

    /// Something above this number went back to the table.
    pub(super) fn fall(&mut self, position: i64) {
        self.position = self.position.min(position);
    }

    pub(super) fn goes_on(&self) -> bool {
        self.goes_on
    }

    pub(super) fn look_back(&mut self) {
        self.looks_back = true;
    }
}
