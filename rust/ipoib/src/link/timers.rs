//! The moments at which a link acts by itself.

use crate::backoff::{Backoff, Jitter};
use crate::time::Instant;

/// What a link waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// To ask a port that is not usable again.
    Poll,
    /// To ask the SA again.
    Sa,
    /// To make or build queue pairs again.
    Build,
    /// To give up a request to the SA.
    GiveUp,
    /// To join the broadcast group again, though nothing speaks against the membership.
    Verify,
    /// To renew what a changed SM may have forgotten.
    Renew,
}

/// When each of them is due.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timers([Option<Instant>; 6]);

impl Timers {
    pub(super) fn set(&mut self, timer: Timer, at: Instant) {
        self.0[timer as usize] = Some(at);
    }

    /// Unless it is set already.
    pub(super) fn set_once(&mut self, timer: Timer, at: Instant) {
        self.0[timer as usize].get_or_insert(at);
    }

    pub(super) fn clear(&mut self, timer: Timer) {
        self.0[timer as usize] = None;
    }

    pub(super) fn is_set(&self, timer: Timer) -> bool {
        self.0[timer as usize].is_some()
    }

    /// Whether it was due; it is not set any more then.
    pub(super) fn fire(&mut self, timer: Timer, now: Instant) -> bool {
        self.0[timer as usize].take_if(|at| *at <= now).is_some()
    }

    /// The first that is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.iter().flatten().min().copied()
    }
}

/// Pauses that grow with each failure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    timer: Timer,
    backoff: Backoff,
    failures: u32,
    /// Failures that are followed by the first pause before it grows.
    pub(super) quick: u32,
}

impl Retry {
    pub(super) const fn new(timer: Timer, backoff: Backoff) -> Self {
        Self { timer, backoff, failures: 0, quick: 0 }
    }

    pub(super) fn reset(&mut self, timers: &mut Timers) {
        self.failures = 0;
        timers.clear(self.timer);
    }

    pub(super) fn failed(&mut self, now: Instant, timers: &mut Timers, jitter: &mut Jitter) {
        self.failures = self.failures.saturating_add(1);
        let grown = self.failures.saturating_sub(self.quick).max(1);
        timers.set(self.timer, now + self.backoff.delay(grown, jitter));
    }

    /// As [`Retry::failed`], but there is no pause after the first failure.
    pub(super) fn failed_again(&mut self, now: Instant, timers: &mut Timers, jitter: &mut Jitter) {
        match self.failures {
            0 => self.failures = 1,
            _ => self.failed(now, timers, jitter),
        }
    }
}
