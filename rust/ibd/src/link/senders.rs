//! Queue pairs that only send: one that fails is replaced alone, while the link and the others go on.
//!
//! The first queue pair has the link's address and is in the groups; when that fails the link is built anew ([`ipoib::link`]), and
//! so it is when a sender fails again soon after it was replaced, or cannot be: the link's pauses are for that.

use ipoib::Instant;
use ipoib::link::STEADY;

use super::rings::MOST_TRANSMIT_RINGS;

/// What is wrong with a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// The adapter says so.
    Failed,
    /// It takes sends and does not complete them.
    Stalled,
}

/// What has to be built again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing: what failed is gone already.
    Nothing,
    /// That sender.
    Sender,
    /// The whole link.
    Link,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sender {
    /// Of the queue pair that stands; `None` while none does.
    serial: Option<u64>,
    /// To be replaced.
    wanted: Option<Why>,
    /// Somebody is at it: a queue pair that nobody knows yet may fail meanwhile.
    underway: bool,
    /// When it was replaced last, since the link was built.
    replaced: Option<Instant>,
}

/// Those of a link, by ring; the first one's place is never used.
#[derive(Debug, Default)]
pub(crate) struct Senders([Sender; MOST_TRANSMIT_RINGS]);

impl Senders {
    /// All of them stand now, as one build.
    pub(crate) fn all_stand(&mut self, serial: u64) {
        self.0.fill(Sender { serial: Some(serial), ..Sender::default() });
    }

    /// The link is taken down.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The queue pair with this serial has failed.
    pub(crate) fn failed(&mut self, now: Instant, ring: usize, serial: u64, why: Why) -> Verdict {
        let Some(sender) = self.0.get_mut(ring).filter(|sender| sender.serial == Some(serial)) else {
            return Verdict::Nothing;
        };
        sender.serial = None;
        if sender.replaced.is_some_and(|at| now - at < STEADY) {
            return Verdict::Link;
        }
        sender.wanted = Some(why);
        Verdict::Sender
    }

    /// The same, by whoever does not know which one stood there.
    pub(crate) fn failed_as_it_is(&mut self, now: Instant, ring: usize) -> Verdict {
        match self.0.get(ring).and_then(|sender| sender.serial) {
            Some(serial) => self.failed(now, ring, serial, Why::Failed),
            None => Verdict::Nothing,
        }
    }

    /// The next one to replace.
    pub(crate) fn next(&mut self) -> Option<(usize, Why)> {
        let wanted = |(ring, sender): (usize, &mut Sender)| {
            let why = sender.wanted.take()?;
            sender.underway = true;
            Some((ring, why))
        };
        self.0.iter_mut().enumerate().find_map(wanted)
    }

    /// Whether one is being replaced.
    pub(crate) fn is_replacing(&self) -> bool {
        self.0.iter().any(|sender| sender.underway)
    }

    /// It is not replaced after all.
    pub(crate) fn given_up(&mut self, ring: usize) {
        if let Some(sender) = self.0.get_mut(ring) {
            sender.underway = false;
        }
    }

    /// It is replaced, by a queue pair with this serial.
    pub(crate) fn replaced(&mut self, now: Instant, ring: usize, serial: u64) {
        if let Some(sender) = self.0.get_mut(ring) {
            *sender = Sender { serial: Some(serial), replaced: Some(now), ..Sender::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn sender_that_fails_is_replaced_once_and_another_failure_soon_after_is_the_link_s() {
        let mut senders = Senders::default();
        senders.all_stand(7);
        assert_eq!(senders.failed(at(0), 2, 7, Why::Failed), Verdict::Sender);
        assert_eq!(senders.failed(at(0), 2, 7, Why::Stalled), Verdict::Nothing, "known");
        assert_eq!(senders.failed_as_it_is(at(0), 2), Verdict::Nothing);
        assert!(!senders.is_replacing());
        assert_eq!(senders.next(), Some((2, Why::Failed)));
        assert_eq!((senders.next(), senders.is_replacing()), (None, true));
        senders.replaced(at(1), 2, 8);
        assert!(!senders.is_replacing());
        assert_eq!(senders.failed(at(2), 2, 7, Why::Failed), Verdict::Nothing, "of the one before");
        assert_eq!(senders.failed(at(2), 3, 7, Why::Stalled), Verdict::Sender, "another one");
        assert_eq!(senders.failed(at(10), 2, 8, Why::Failed), Verdict::Link);
        senders.clear();
        assert_eq!(senders.next(), None);
        senders.all_stand(9);
        assert_eq!(senders.failed_as_it_is(at(11), 2), Verdict::Sender);
    }

    #[test]
    fn sender_that_has_stood_for_a_while_is_replaced_alone_again() {
        let mut senders = Senders::default();
        senders.all_stand(1);
        for round in 1..4 {
            assert_eq!(senders.failed(at(20 * round), 1, round, Why::Stalled), Verdict::Sender);
            assert_eq!(senders.next(), Some((1, Why::Stalled)));
            senders.replaced(at(20 * round), 1, round + 1);
        }
    }
}
